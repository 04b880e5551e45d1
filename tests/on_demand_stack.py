"""A stack on OCI whose nodes Slurm starts, for tests of the program: its settings, and what its Commands print."""

from __future__ import annotations

import json
from typing import Any

from conftest import Engine, run_program
from dev_stack import LINES

FACTS = {
    "lacks": [],
    "controls": True,
    "version": "22.05.9",
    "hostname": "busbar-login",
    "uid": 0,
    "slurm_uid": 401,
    "root": True,
    "cores": [1, 2, 1],
    "memory_mib": 16000,
    "devices": [],
    "cgroups": 1,
    "first_line": None,
    "running": {},
}
IDENTITY = json.dumps({"public_key": "ssh-ed25519 AAAA busbar-controller", "region": "us-rehearsed-1", "facts": FACTS})
WAITS = "no test job has run yet; on the login node: cd /home/.busbar && sbatch nccl-test.sh"
NONE = json.dumps({"run_id": "x", "failed": WAITS, "kind": "job", "schema": 2})
POOL = {"nodes": 0, "dynamic": 4, "image": "ocid1.image.oc1..rehearsed-ol9-gpu", "imageFamily": "ol9"}
LOGIN = {"image": "ocid1.image.oc1..rehearsed-ol9", "imageFamily": "ol9", "shape": "VM.Standard.E5.Flex"}
OCI = {"pools": [POOL], "login": LOGIN, "storage": {"home": {}}, "slurm": {}, "tenancy": "ocid1.tenancy.oc1..a"}


def program(result: str = NONE, **oci: Any) -> Engine:
    return run_program(LINES | {"cluster-slurm-identity": IDENTITY, "acceptance-job-result": result}, oci={**OCI, **oci})
