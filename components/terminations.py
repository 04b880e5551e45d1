"""Reports the machines that an update would terminate, and refuses to replace more machines than the stack file allows.

Both clouds use this module for the machines that Slurm started. For nodes that updates created, only AWS uses it: OCI has two
rules instead, `machines-end` and `machines-ending` (config/oci/rules_pools.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from catalogue.prices import PRICES


@dataclass(frozen=True)
class Ending:
    """Machines of one pool that an update would terminate.

    Attributes:
        pool: the pool's name.
        shape: the machines' shape, or what a message calls them if their shapes are not known.
        machines: id and address of each machine, such as `i-0123 (10.1.0.4)`.
        asked: whether the user wants the termination: the stack file now requests fewer machines.
    """

    pool: str
    shape: str
    machines: tuple[str, ...]
    asked: bool

    @property
    def summary(self) -> str:
        """Number, shape, pool, price and machines, for a message."""
        price = PRICES.get(self.shape)
        cost = f"{len(self.machines) * price.usd_per_node_hour:g} USD an hour by list price" if price else "price unknown"
        return f"{len(self.machines)} x {self.shape} of {self.pool}, {cost}: {', '.join(self.machines)}"


#: Why machines are replaced, if the caller gives no reason.
CHANGED = "their image, shape or launch settings changed"


def judge(path: str, allowed: int, endings: Sequence[Ending], why: str = CHANGED) -> None:
    """Warn about the machines that the update terminates; refuse the update if it would replace more than `allowed` machines.

    Args:
        path: the key that allows replacements, as users type it.
        allowed: the value of that key.
        endings: the machines that the update would terminate; an entry without machines is ignored.
        why: why machines are replaced.

    Raises:
        pulumi.RunError: more machines would be replaced than are allowed.
    """
    found = [one for one in endings if one.machines]
    for one in found:
        if one.asked:
            # The engine deletes resources after all other changes, and only if none of those changes failed
            # (pulumi 3.259.0: pkg/resource/deploy/deployment_executor.go, performPostSteps).
            pulumi.log.warn(
                f"this update terminates {one.summary}. The stack file requests fewer machines; all other machines stay. "
                "Machines are terminated at the end of an update: if the update fails before that, for example because the "
                "verdict is short, these machines keep running and are billed until an update passes."
            )
    replaced = [one for one in found if not one.asked]
    number = sum(len(one.machines) for one in replaced)
    if not number:
        return
    which = "; ".join(one.summary for one in replaced)
    if number > allowed:
        refused = f"{path} is {allowed}, and {number} running machines would be terminated by this update ({which})"
        raise pulumi.RunError(
            f"{refused}: {why}, and the capacity may not be available again. Set {path} to {number} to allow this, or "
            "undo the change."
        )
    pulumi.log.warn(f"this update terminates {number} machines, as {path} allows: {which}.")
