"""Helpers for the tests of a stack of target kubernetes on a rehearsed cluster; kubectl runs as the cluster's administrator."""

from __future__ import annotations

import json
from typing import Any

from conftest import ROOT

from rehearsal.kubernetes import cluster
from rehearsal.world.world import World
from tools.stack_changes import merged
from tools.stage import Finished, Stage

SITE = ROOT / "rehearsal" / "entry" / "sites" / "kubernetes.json"
#: Checks that may be skipped: `spread` and `looks`, which a short plan leaves out; `transport`, because Intel's driver shows no
#: byte counters of its ports; and `proofs`, because no program can use a rehearsed device. The largest message is 8 MiB,
#: because at scale 100 the gate applies to the busbw at this size.
ALLOWED = {
    "measure": {"sizes": {"from": "1M", "to": "8M"}},
    "accept": {"allowSkipped": ["spread", "looks", "transport", "proofs"]},
}


def kubectl(stage: Stage, line: str, given: str = "") -> str:
    """Run kubectl with the words of `line` as the cluster's administrator; return what it prints."""
    return cluster.kubectl(World.at(stage.world, stage.scale), "sitejump", *line.split(), given=given)


def again(stage: Stage, **changes: Any) -> Finished:
    """Measure again, as `make measure` does, with `changes` that apply to this update only."""
    run = stage.passed.get("measure", {}).get("run", 1) + 10
    stage.passed = merged(stage.passed, {"measure": {"run": run}})
    return stage.up(**merged(stage.passed, changes))


def ours(stage: Stage) -> list[dict[str, Any]]:
    """Return the stack's pods, except those that are being deleted."""
    found = json.loads(kubectl(stage, "--namespace busbar get pods --output json"))["items"]
    return [one for one in found if "deletionTimestamp" not in one["metadata"]]


def pods(stage: Stage) -> dict[str, str]:
    """Return the uid of the pod on each node; pods that are not on a node yet are left out."""
    return {one["spec"]["nodeName"]: one["metadata"]["uid"] for one in ours(stage) if "nodeName" in one["spec"]}


def inside(stage: Stage, node: str, command: str) -> str:
    """Return the output of a command in the pod of a node."""
    (name,) = [one["metadata"]["name"] for one in ours(stage) if one["spec"]["nodeName"] == node]
    return kubectl(stage, f"--namespace busbar exec {name} -- {command}")
