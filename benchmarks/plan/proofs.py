"""Selects the rails to try by themselves before the collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.launch.protocol import Proofs

if TYPE_CHECKING:
    from benchmarks.plan.asked import Asked

#: How long (s) ib_write_bw sends on each rail; it does not count its first and last two seconds (perftest, --margin).
_SECONDS = 6


def proofs(asked: Asked) -> Proofs | None:
    """Return what to try of each rail; None if it was not requested, or if no rail is between nodes."""
    if not asked.plan.prove_rails or asked.nodes == 1:
        return None
    devices = asked.shape.rdma.hca if asked.shape.rdma else ()
    return Proofs(list(devices or asked.interfaces), bool(devices), _SECONDS)
