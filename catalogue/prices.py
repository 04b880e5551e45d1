"""List prices of machines, USD for a node and hour on demand, each with its source and date; few on purpose.

It deliberately holds no price that two sources do not agree on: a stack may state its own, and most contracts differ anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

_LIST = "OCI pay-as-you-go list price for a GPU and hour x GPUs, as published 2026-04"


@dataclass(frozen=True)
class Price:
    """What one node costs for an hour on demand, USD, and where that was read."""

    usd_per_node_hour: float
    source: str


#: By shape.
PRICES: dict[str, Price] = {
    "BM.GPU.A100-v2.8": Price(32.0, _LIST),
    "BM.GPU.H100.8": Price(80.0, _LIST),
}
