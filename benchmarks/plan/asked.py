"""What is requested of one measurement: the plan, the machines and the limits."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalogue import Shape
    from config.accept import Limit
    from config.measure import Measure
    from config.stack import Stack


@dataclass(frozen=True)
class Asked:
    """What is requested.

    Attributes:
        plan: what is to run.
        shape: the kind of machines.
        nodes: how many machines.
        minimum_gb_s: the user's own limit at the gate's size (GB/s, real hardware); it replaces the rule.
        limits: the user's limits on single collectives and sizes.
        fabric: interfaces that must carry the bytes if there is no RDMA; empty allows any interface.
        allow_skipped: names of checks that may be skipped.
        past: a limit from earlier runs of the same kind: (GB/s as measured, where it comes from).
        pool: name of the node set.
        names: host names of the nodes in ring order, once they exist.
        past_unread: why earlier runs could not be read; empty if they were read, or if none are kept.
    """

    plan: Measure
    shape: Shape
    nodes: int
    minimum_gb_s: float | None = None
    limits: tuple[Limit, ...] = ()
    fabric: tuple[str, ...] = ()
    allow_skipped: frozenset[str] = frozenset()
    past: tuple[float, str] | None = None
    past_unread: str = ""
    pool: str = ""
    names: tuple[str, ...] = ()

    def digest(self) -> str:
        """Return a hash of the plan, the machines and the limits."""
        said = {
            "plan": self.plan.digest(),
            "shape": self.shape.name,
            "nodes": self.nodes,
            "minimum_gb_s": self.minimum_gb_s,
            "limits": [asdict(limit) for limit in self.limits],
            "fabric": self.fabric,
            "allow_skipped": sorted(self.allow_skipped),
        }
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]

    def name(self, index: int) -> str:
        """Return the host name of node `index`, or `node` and its index before it has a name."""
        return self.names[index] if index < len(self.names) else f"node {index}"

    @classmethod
    def of(cls, stack: Stack, shape: Shape, nodes: int) -> Asked:
        """Return what `stack` requests for `nodes` nodes of `shape`."""
        measure, accept = stack.measure, stack.accept
        skipped = frozenset[str](accept.allow_skipped)
        return cls(measure, shape, nodes, accept.gate_gb_s, accept.own_limits, measure.fabric, skipped, pool=stack.pool)

    @property
    def ranks(self) -> int:
        """Return how many ranks take part: one for each GPU."""
        return self.nodes * self.shape.gpus

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Return the interfaces that NCCL is told to use for sockets; empty lets NCCL choose."""
        return self.fabric or tuple(name for name in self.shape.front.split(",") if name)
