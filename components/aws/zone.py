"""Chooses a zone if the stack file names none: the zone of the stack's subnets, else the first zone that offers all types.

The zones that offer a type may change, and a move to another zone would replace every machine. So a stack with subnets keeps
its zone, unless `aws.name` changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pulumi
from pulumi_aws import ec2

from catalogue.aws.permissions import LOOKUPS
from components.aws.account_lookups import there
from components.aws.launch_inputs import STACK_TAG, stack_tags
from components.report_findings import reason, refuse
from config.aws.facts import Facts
from config.aws.model import Aws, is_local
from config.aws.rules import RULES

_T = TypeVar("_T")


def chosen(wanted: Aws) -> Aws:
    """Return the stack file's values, `wanted`, with a zone.

    Raises:
        pulumi.RunError: the stack file sets no zone, although its other values need one; or no zone offers all types; or a
            look-up failed.
    """
    if wanted.zone is not None:
        return wanted
    refuse(RULES["zone-missing"].findings(wanted, Facts()))
    return wanted.model_copy(update={"zone": _present(wanted) or _offering(wanted)})


def _present(wanted: Aws) -> str | None:
    """Return the zone of the subnet that the stack file names or that this stack created; None if there is none yet."""
    own = wanted.network.existing
    if own:
        return _asked(f"subnet {own.private_subnet}", "getSubnet", lambda: _zone(ec2.get_subnet(id=own.private_subnet)))
    tags = stack_tags(wanted, "private")
    mine = {name: tags[name] for name in ("Name", "busbar:cluster", STACK_TAG)}
    return there(lambda: _asked("the subnet of this stack", "getSubnet", lambda: _zone(ec2.get_subnet(tags=mine))))


def _zone(subnet: ec2.GetSubnetResult) -> str:
    return str(subnet.availability_zone)


def _offering(wanted: Aws) -> str:
    """Return the first zone that offers every type, and log it; a local zone lacks services, so it is never chosen."""
    kinds = dict.fromkeys((wanted.login.type, *(one.type for _, _, one in wanted.located)))
    offered = {kind: _offers(kind) for kind in kinds}
    both = sorted(set.intersection(*map(set, offered.values())))
    if not both:
        found = ", ".join(f"{kind} is in {', '.join(zones) or 'no zone'}" for kind, zones in offered.items())
        raise pulumi.RunError(f"aws.zone is not set, and no zone of the region offers all types of the stack: {found}.")
    pulumi.log.info(f"aws.zone is not set: the stack uses {both[0]}, the first zone that offers {' and '.join(kinds)}.")
    return both[0]


def _offers(kind: str) -> list[str]:
    named = ec2.GetInstanceTypeOfferingsFilterArgs(name="instance-type", values=[kind])
    found = _asked(
        f"the zones that offer {kind}",
        "getInstanceTypeOfferings",
        lambda: ec2.get_instance_type_offerings(filters=[named], location_type="availability-zone"),
    )
    return sorted(zone for zone in found.locations if not is_local(zone))


def _asked(what: str, noun: str, question: Callable[[], _T]) -> _T:
    """Return what the look-up `question` returns; `preflight: false` does not skip the look-up."""
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - the SDK raises no narrower class
        rights = " and ".join(LOOKUPS[f"ec2/{noun}:{noun}"])
        raise pulumi.RunError(
            f"aws.zone is not set, and {what} could not be looked up: {reason(error)}. The look-up needs the "
            f"permission {rights}; if you set aws.zone, this look-up is not needed."
        ) from None
