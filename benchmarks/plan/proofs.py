"""Selects the rails that are tested individually before the collectives run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.launch.protocol import Proofs

if TYPE_CHECKING:
    from benchmarks.plan.asked import Asked

#: How long (s) ib_write_bw sends on each rail; it ignores the first two and the last two seconds (perftest, --margin).
_SECONDS = 6


def proofs(asked: Asked) -> Proofs | None:
    """Return which rails to test and how; None if the test was not requested, or if there is only one node."""
    if not asked.plan.prove_rails or asked.nodes == 1:
        return None
    devices = asked.shape.rdma.hca if asked.shape.rdma else ()
    return Proofs(list(devices or asked.interfaces), bool(devices), _SECONDS)
