"""Machines that an update would end: named, counted and priced, and refused unless the stack file allows as many.

A cloud's component finds out which machines those are; how it is said and refused is the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from catalogue.prices import PRICES


@dataclass(frozen=True)
class Ending:
    """Machines of one pool that would end.

    Attributes:
        pool: its name.
        shape: their shape.
        machines: as people know them, such as `i-0123 (10.1.0.4)`.
        asked: the stack file asks for fewer machines, so that their end is what the user said.
    """

    pool: str
    shape: str
    machines: tuple[str, ...]
    asked: bool

    @property
    def words(self) -> str:
        """Number, shape, price, and names."""
        price = PRICES.get(self.shape)
        known = f"{len(self.machines) * price.usd_per_node_hour:g} USD an hour by list price" if price else ""
        costs = known or "price not known"
        return f"{len(self.machines)} x {self.shape} of {self.pool}, {costs}: {', '.join(self.machines)}"


#: Why machines are made anew where nothing else is said.
CHANGED = "what they are made of has changed"


def judge(path: str, allowed: int, endings: Sequence[Ending], why: str = CHANGED) -> None:
    """Say which machines end; refuse if more of them than `allowed` would be made anew. `path` is the key as typed.

    Raises:
        pulumi.RunError: with one sentence.
    """
    found = [one for one in endings if one.machines]
    for one in found:
        if one.asked:
            # The engine deletes after everything else, and only where nothing failed
            # (pulumi 3.259.0: pkg/resource/deploy/deployment_executor.go, performPostSteps).
            pulumi.log.warn(
                f"this update ends {one.words}. The stack file asks for fewer machines; the others stay. They end last: if the "
                "update fails before that, for a short fabric too, they go on running and are billed until one passes."
            )
    anew = [one for one in found if not one.asked]
    number = sum(len(one.machines) for one in anew)
    if not number:
        return
    which = "; ".join(one.words for one in anew)
    if number > allowed:
        ends = f"{path} is {allowed}, and {number} machines that run would end with this update ({which})"
        raise pulumi.RunError(
            f"{ends}: {why}, and the capacity may not be had again. Set {path} to {number} to let them end and be made anew, "
            "or take the change back."
        )
    pulumi.log.warn(f"this update ends {number} machines and makes them anew, as {path} allows: {which}.")
