"""Computes the network interfaces with which an instance type is launched: card, device index and kind of each interface.

The rule is the vendor's (aws-parallelcluster PR 7262 and PR 7210; EC2 user guide, "Maximize network bandwidth on EC2 instances
with multiple network cards").
"""

from __future__ import annotations

from dataclasses import dataclass

from catalogue.aws.instances import Instance

#: Kinds of interfaces: plain ENA; EFA combined with ENA, which uses an IP address; EFA without ENA, which uses no address.
PLAIN, BOTH, EFA_ONLY = "interface", "efa", "efa-only"


@dataclass(frozen=True)
class Nic:
    """One interface: index of its network card, device index on that card, and kind (`interface`, `efa`, `efa-only`)."""

    card: int
    device: int
    kind: str


def layout(instance: Instance, *, efa: bool = True, legacy: bool = False) -> tuple[Nic, ...]:
    """Return the interfaces of `instance`, card by card.

    By the current rule, one ENA interface carries IP traffic and all other interfaces are `efa-only`, so that a node with 32
    rails uses one address. `legacy` selects the combined `efa` interfaces of older templates, each of which uses an address.
    Without `efa`, there is only the ENA interface.

    Raises:
        ValueError: the type has no EFA, or the rule does not fit the type.
    """
    if not efa:
        return (Nic(0, 0, PLAIN),)
    if not instance.efa:
        msg = f"{instance.name} has no EFA device"
        raise ValueError(msg)
    return checked(instance, (*_front(instance, legacy=legacy), *_others(instance, legacy=legacy)))


def _front(instance: Instance, *, legacy: bool) -> tuple[Nic, ...]:
    if instance.front_card_is_plain:
        return (Nic(0, 0, PLAIN),)
    if legacy or instance.cards[0] == 1:  # if card 0 takes only one interface, this interface is the combined kind
        return (Nic(0, 0, BOTH),)
    return (Nic(0, 0, PLAIN), Nic(0, 1, EFA_ONLY))


def _others(instance: Instance, *, legacy: bool) -> tuple[Nic, ...]:
    """Return the interfaces of all cards but the first: device 1, or device 0 if the card takes only one interface.

    If the cards of a type differ, a card that takes only one interface always gets an `efa-only` interface (p6e-gb200).
    """
    uneven = len(set(instance.cards)) > 1
    return tuple(
        Nic(index, min(most, 2) - 1, BOTH if legacy and not (uneven and most == 1) else EFA_ONLY)
        for index, most in enumerate(instance.cards)
        if index
    )


def checked(instance: Instance, nics: tuple[Nic, ...]) -> tuple[Nic, ...]:
    """Return `nics` if an instance of this type may have them, in the order given.

    Raises:
        ValueError: AWS would refuse to launch the instance; the message names the interface and the reason.
    """
    places = [(nic.card, nic.device) for nic in nics]
    wrong = ""
    if places.count((0, 0)) != 1 or any(nic.kind == EFA_ONLY for nic in nics if (nic.card, nic.device) == (0, 0)):
        wrong = "exactly one interface must be card 0, device 0; this interface carries IP traffic, so it must not be efa-only"
    elif len(set(places)) != len(places):
        wrong = "two interfaces have the same card and device index"
    for nic in nics:
        if nic.card >= len(instance.cards):
            wrong = wrong or f"card {nic.card} does not exist; the type has {len(instance.cards)} cards"
        elif nic.device >= instance.cards[nic.card]:
            wrong = (
                wrong or f"device index {nic.device} exceeds what card {nic.card} takes: {instance.cards[nic.card]} interfaces"
            )
        elif nic.kind != PLAIN and nic.card == 0 and instance.front_card_is_plain:
            wrong = wrong or "card 0 of this type is ENA only"
    rails = [nic.card for nic in nics if nic.kind != PLAIN]
    if len(set(rails)) != len(rails) or len(rails) > instance.efa:
        wrong = (
            wrong
            or f"{len(rails)} of them are EFA interfaces; a card takes at most one, and the type takes at most {instance.efa}"
        )
    if wrong:
        msg = f"an {instance.name} cannot be launched with these interfaces: {wrong}"
        raise ValueError(msg)
    return nics


def addresses(nics: tuple[Nic, ...]) -> int:
    """Return how many addresses of the subnet a machine with these interfaces uses."""
    return sum(nic.kind != EFA_ONLY for nic in nics)
