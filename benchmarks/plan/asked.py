"""What is requested of one measurement: the plan, the machines and the limits."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from config.accept import Accept

if TYPE_CHECKING:
    from catalogue import Shape
    from config.measure import Measure
    from config.stack import Stack


@dataclass(frozen=True)
class Asked:
    """What is requested.

    Attributes:
        plan: what is to run.
        shape: the kind of machines.
        nodes: how many machines.
        accept: the user's own limits, and the checks that may be skipped.
        past: the limit that earlier comparable runs set (GB/s as measured), and the source of this limit.
        past_since: what changed since the earlier runs, such as a version; empty if nothing changed.
        pool: name of the node set.
        names: host names of the nodes in ring order, once they exist.
        past_unread: why earlier runs could not be read; empty if they were read, or if none are kept.
    """

    plan: Measure
    shape: Shape
    nodes: int
    accept: Accept = field(default_factory=Accept)
    past: tuple[float, str] | None = None
    past_since: str = ""
    past_unread: str = ""
    pool: str = ""
    names: tuple[str, ...] = ()

    def digest(self) -> str:
        """Return a hash of the plan, the machines and the limits."""
        parts = {
            "plan": self.plan.digest(),
            "shape": self.shape.name,
            "nodes": self.nodes,
            "minimum_gb_s": self.accept.gate_gb_s,
            "limits": [asdict(limit) for limit in self.accept.own_limits],
            "fabric": self.plan.fabric,
            "allow_skipped": sorted(self.accept.allow_skipped),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def name(self, index: int) -> str:
        """Return the host name of node `index`, or, before the node has a name, `node` and the index."""
        return self.names[index] if index < len(self.names) else f"node {index}"

    @classmethod
    def of(cls, stack: Stack, shape: Shape, nodes: int) -> Asked:
        """Return what `stack` requests for `nodes` nodes of `shape`."""
        return cls(stack.measure, shape, nodes, stack.accept, pool=stack.pool)

    @property
    def ranks(self) -> int:
        """Return the number of ranks: one for each GPU."""
        return self.nodes * self.shape.gpus

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Return the interfaces that NCCL must use for sockets; if the result is empty, NCCL chooses."""
        return self.plan.fabric or tuple(name for name in self.shape.front.split(",") if name)
