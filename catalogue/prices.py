"""List prices of machines, USD for a node and hour on demand, with source and date.

There are few, because most contracts differ: a price is here only if two sources agree, and a stack may state its own.
"""

from __future__ import annotations

from dataclasses import dataclass

_LIST = "OCI pay-as-you-go list price for a GPU and hour x GPUs, as published 2026-04"
_EC2 = "EC2 on-demand list price in us-east-1 from June 2025 on, as instances.vantage.sh showed it on 2025-12-21"


@dataclass(frozen=True)
class Price:
    """What one node costs for an hour on demand, USD, and the source."""

    usd_per_node_hour: float
    source: str


#: FSx for Lustre, PERSISTENT_2 on SSD, us-east-1: USD for a GB and month by the throughput of each TiB in MB/s. Both c3x.dev
#: and awsnegotiations.com have the first one (read 2026-11-23); of the others no two sources were found.
LUSTRE_USD_PER_GB_MONTH: dict[int, float] = {125: 0.145}
#: What costs by the hour whatever goes through it, by the engine's type; us-east-1. The gateway: zacfukuda.com (prices of
#: 2026-06-01) and zeonedge.com (2026-04-10). The address, in use or not: doit.com and vishalvyas.com (from 2024-02-01 on; both
#: read 2026-11-25).
HOURLY_USD: dict[str, float] = {"aws:ec2/natGateway:NatGateway": 0.045, "aws:ec2/eip:Eip": 0.005}
#: As AWS counts a month's price (cost estimates of its calculator).
HOURS_PER_MONTH = 730

#: By shape.
PRICES: dict[str, Price] = {
    "BM.GPU.A100-v2.8": Price(32.0, _LIST),
    "BM.GPU.H100.8": Price(80.0, _LIST),
    "p4d.24xlarge": Price(21.957642, _EC2),
    "p5.48xlarge": Price(55.04, _EC2),
}
