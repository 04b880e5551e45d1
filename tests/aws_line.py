"""The line that the runner prints after a healthy measurement on EFA."""

from __future__ import annotations

import json

from aws_preview import parsed
from measurement_line import document

from benchmarks.plan.asked import Asked
from catalogue.aws.instances import INSTANCES


def asked() -> Asked:
    return Asked.of(parsed(), INSTANCES["p5.48xlarge"].shape(), 2)


def measured(**said: dict[str, int]) -> str:
    """Return the line of a healthy measurement on EFA; `said` replaces parts of what NCCL's log reported."""
    line = document(asked())
    line["transport"]["said"] = {
        "networks": {"AWS Libfabric": 16},
        "devices": {"Selected provider is efa, fabric is efa-direct (found 32 nics)": 16},
        "channels": {"NET/AWS Libfabric/3": 16},
        "gpudirect": {"GDRDMA": 16},
    } | said
    return json.dumps(line)
