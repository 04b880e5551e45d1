"""Every resource that costs a lot or holds data has a hook that runs before its creation; other tests call these hooks."""

from __future__ import annotations

import pulumi
from aws_program import bought, program, storage
from conftest import options, run_program
from dev_stack import LINES

from tools.stack_changes import merged

#: A new login node would terminate the machines that Slurm's controller on the old login node started.
LOGIN = ["cluster-login-instance-new-controller", "cluster-login-instance-never-twice"]
OCI_FILES = {"home": {"mount": "/fss"}, "lustre": {}}


def hooks(registered: dict[str, pulumi.ResourceOptions]) -> dict[str, list[str]]:
    """Return the names of the hooks that run before the creation of each resource that has such hooks."""
    bound = {name: one.hooks.before_create for name, one in registered.items() if one.hooks}
    return {name: [hook.name for hook in its] for name, its in bound.items() if its}


def test_on_oci_machines_and_file_systems_have_hooks(monkeypatch):
    registered = options(monkeypatch)
    run_program(LINES, oci={"pools": [{"imageFamily": "ol8"}], "storage": OCI_FILES})
    assert hooks(registered) == {
        "cluster-pool-gpu-nodes": ["cluster-pool-gpu-nodes-never-twice"],
        "cluster-login-instance": LOGIN,
        "cluster-storage-files": ["cluster-storage-files-data"],
        "cluster-storage-lustre": ["cluster-storage-lustre-data"],
    }


def test_on_aws_machines_and_capacity_blocks_and_file_systems_have_hooks(monkeypatch):
    registered = options(monkeypatch)
    kept = storage(lustre={"onDestroy": "delete"}, home={"onDestroy": "delete"})
    program(merged(kept, bought("capacity-block", offering="cb-1", confirm="cb-1")))
    nodes = [f"cluster-pool-gpu-p5-{number}" for number in range(2)]
    assert hooks(registered) == {
        "cluster-login-instance": LOGIN,
        **{name: [f"{name}-never-twice"] for name in (*nodes, "cluster-pool-gpu-p5-block")},
        **{name: [f"{name}-data"] for name in ("cluster-storage-bucket", "cluster-storage-lustre", "cluster-storage-home")},
    }
