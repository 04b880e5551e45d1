"""List prices of machines, USD per node and hour on demand, with source and date.

Few prices are listed, because each needs two sources that agree. Most contracts have other prices anyway, so a stack may set
its own price.
"""

from __future__ import annotations

from dataclasses import dataclass

_LIST = "OCI pay-as-you-go list price per GPU and hour, times the number of GPUs, as published 2026-04"
_EC2 = "EC2 on-demand list price in us-east-1 from June 2025 on, as instances.vantage.sh showed it on 2025-12-21"


@dataclass(frozen=True)
class Price:
    """The on-demand price of one node, USD per hour, and its source."""

    usd_per_node_hour: float
    source: str


#: FSx for Lustre, PERSISTENT_2 on SSD, us-east-1: USD per GB and month, by the throughput per TiB in MB/s. A price is listed
#: only if two sources have it: for 125 MB/s, these are c3x.dev and awsnegotiations.com (read 2026-11-23).
LUSTRE_USD_PER_GB_MONTH: dict[int, float] = {125: 0.145}
#: Prices per hour in us-east-1 that do not depend on the traffic, by Pulumi's resource type. Sources for the NAT gateway:
#: zacfukuda.com (prices of 2026-06-01) and zeonedge.com (2026-04-10). Sources for the public address, which costs the same
#: whether or not it is in use: doit.com and vishalvyas.com (since 2024-02-01; both read 2026-11-25).
HOURLY_USD: dict[str, float] = {"aws:ec2/natGateway:NatGateway": 0.045, "aws:ec2/eip:Eip": 0.005}
#: Hours per month in AWS's cost estimates (its pricing calculator).
HOURS_PER_MONTH = 730

#: List prices by shape.
PRICES: dict[str, Price] = {
    "BM.GPU.A100-v2.8": Price(32.0, _LIST),
    "BM.GPU.H100.8": Price(80.0, _LIST),
    "p4d.24xlarge": Price(21.957642, _EC2),
    "p5.48xlarge": Price(55.04, _EC2),
}
