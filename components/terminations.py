"""Machines that an update would terminate: named, counted and priced, and refused unless the stack file allows as many.

Each cloud's component finds these machines; the message and the refusal are the same for all clouds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from catalogue.prices import PRICES


@dataclass(frozen=True)
class Ending:
    """Machines of one pool that would terminate.

    Attributes:
        pool: its name.
        shape: their shape.
        machines: as people know them, such as `i-0123 (10.1.0.4)`.
        asked: the stack file requests fewer machines, so the user wants them to terminate.
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
        costs = known or "price unknown"
        return f"{len(self.machines)} x {self.shape} of {self.pool}, {costs}: {', '.join(self.machines)}"


#: Why machines are replaced, if the caller gives no reason.
CHANGED = "their image, shape or launch settings changed"


def judge(path: str, allowed: int, endings: Sequence[Ending], why: str = CHANGED) -> None:
    """Warn which machines terminate; refuse if more than `allowed` of them would be replaced. `path` is the key as typed.

    Raises:
        pulumi.RunError: with one sentence.
    """
    found = [one for one in endings if one.machines]
    for one in found:
        if one.asked:
            # The engine deletes after everything else, and only where nothing failed
            # (pulumi 3.259.0: pkg/resource/deploy/deployment_executor.go, performPostSteps).
            pulumi.log.warn(
                f"this update terminates {one.words}. The stack file requests fewer machines; the others stay. They terminate "
                "last: if the update fails before that, also because of a short fabric, they keep running and are billed until "
                "an update passes."
            )
    replaced = [one for one in found if not one.asked]
    number = sum(len(one.machines) for one in replaced)
    if not number:
        return
    which = "; ".join(one.words for one in replaced)
    if number > allowed:
        ends = f"{path} is {allowed}, and {number} running machines would be terminated by this update ({which})"
        raise pulumi.RunError(
            f"{ends}: {why}, and the capacity may not be available again. Set {path} to {number} to let them be replaced, "
            "or undo the change."
        )
    pulumi.log.warn(f"this update replaces {number} machines, as {path} allows: {which}.")
