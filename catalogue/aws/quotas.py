"""Names of EC2's quotas that are counted in vCPUs.

Source: Service Quotas console, "Amazon EC2"; EC2 user guide, "On-Demand Instance quotas" and "Spot Instance quotas".
"""

from __future__ import annotations

from catalogue.aws.instances import SPOT, family

#: Names of quotas, by the letters with which an instance type begins.
_ON_DEMAND = {
    "p": "Running On-Demand P instances",
    "g": "Running On-Demand G and VT instances",
    "trn": "Running On-Demand Trn instances",
    "hpc": "Running On-Demand HPC instances",
    "m": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
}
_SPOT = {
    "p": "All P4, P3 and P2 Spot Instance Requests",
    "g": "All G and VT Spot Instance Requests",
    "trn": "All Trn Spot Instance Requests",
    "m": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
}
_SPOT_P5 = "All P5 Spot Instance Requests"


def quota_name(kind: str, option: str) -> str | None:
    """Return the name of the quota for instances of type `kind` that are bought as `option`; None if the name is unknown."""
    if option != SPOT:
        return _ON_DEMAND.get(family(kind))
    # Both sources are silent about the Spot quota of P6, so its name is unknown.
    return _SPOT_P5 if kind.startswith("p5") else None if kind.startswith("p6") else _SPOT.get(family(kind))
