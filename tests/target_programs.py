"""Runs the program for each target with stand-ins, and records what the program's cluster passes to acceptance."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aws_preview
from conftest import BUILD_LINE, HOST_KEY, SERVER_FACTS, ready_line, run_program

from components.acceptance import acceptance
from components.inventory import Cluster, Inventory
from components.reach import Head
from tools.stack_changes import DEFAULT, merged, settled

LINES = {
    "acceptance-ready-contact": ready_line(),
    "acceptance-build": BUILD_LINE,
    "acceptance-measure": "{}",
    "acceptance-search": json.dumps({"schema": 1, "kind": "search", "needed": False}),
}


@dataclass
class Seen:
    """What a run of the program made: its cluster, the cluster's values, the result of acceptance, and the commands' names."""

    cluster: Cluster | None = None
    inventory: Inventory | None = None
    shell: str = ""
    known_hosts: str = ""
    measured: dict[str, Any] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)


def oci(monkeypatch, tmp_path, **changes: Any) -> Seen:  # noqa: ARG001 - every target is run alike
    return watched(monkeypatch, lambda: run_program(LINES, **changes).resources)


def hosts(monkeypatch, tmp_path, **changes: Any) -> Seen:
    known = tmp_path / "known_hosts"
    known.write_text("".join(f"{address} {HOST_KEY}\n" for address in ("10.0.0.1", "10.0.0.2", "203.0.113.9")))
    line = json.loads(ready_line()) | {"fronts": ["bond0"], "networks": ["10.0.0.0/16"]}
    contact = {"acceptance-ready-contact": json.dumps(line | {"groups": [{"facts": SERVER_FACTS, "nodes": ["a", "b"]}]})}
    given = {"nodes": {"a": "10.0.0.1", "b": "10.0.0.2"}, "user": "ubuntu", "jump": "admin@203.0.113.9"}
    group = given | {"knownHosts": str(known)}
    return watched(
        monkeypatch, lambda: run_program(LINES | contact, target="hosts", oci=DEFAULT, hosts=group, **changes).resources
    )


def aws(monkeypatch, tmp_path, **changes: Any) -> Seen:  # noqa: ARG001 - every target is run alike
    return watched(monkeypatch, lambda: aws_preview.run(monkeypatch, LINES, preview=False, **changes).cloud.made)


def kubernetes(monkeypatch, tmp_path, own: Any = None, **changes: Any) -> Seen:
    known = tmp_path / "known_hosts"
    known.write_text("".join(f"{address} {HOST_KEY}\n" for address in ("10.138.61.49", "203.0.113.9")))
    facts = SERVER_FACTS | {"hca": [["irdma0", 25, "net1", True, "ice"]], "gpus": 1, "front": "eth0"}
    line = json.loads(ready_line()) | {"fronts": ["eth0"], "networks": ["10.244.0.0/24", "10.244.1.0/24"]}
    pods = [{"name": f"p{at}", "node": f"gpu{at}", "address": f"10.244.{at}.7", "uid": f"u{at}", "rails": []} for at in (0, 1)]
    said = {
        "cluster-objects": json.dumps({"schema": 1, "kind": "pods", "pods": pods}),
        "acceptance-ready-contact": json.dumps(line | {"groups": [{"facts": facts, "nodes": ["gpu0", "gpu1"]}]}),
    }
    group = {
        "controlPlane": "root@10.138.61.49",
        "jump": "admin@203.0.113.9",
        "knownHosts": str(known),
        "nodes": ["gpu0", "gpu1"],
        "gpus": 1,
        "rails": [{"interface": "ens192", "device": "irdma0", "range": "10.100.100.0/30"}],
        "image": "registry.example/pytorch:23.09-py3",
    }
    return watched(
        monkeypatch,
        lambda: (
            run_program(
                LINES | said, target="kubernetes", oci=DEFAULT, kubernetes=settled(merged(group, own or {})), **changes
            ).resources
        ),
    )


def kubernetes_from_here(monkeypatch, tmp_path) -> Seen:
    """Run the program for target kubernetes, with kubectl on the machine that runs Pulumi."""
    here = {"controlPlane": DEFAULT, "jump": DEFAULT, "knownHosts": DEFAULT, "server": "https://10.138.61.49:6443"}
    return kubernetes(monkeypatch, tmp_path, own=here)


def watched(monkeypatch, run: Callable[[], list[tuple[str, str, dict[str, Any]]]]) -> Seen:
    """Run the program, and record the inputs and the result of its acceptance."""
    seen = Seen()
    genuine = acceptance.Acceptance.__init__

    def init(self, name, cluster, stack, opts=None) -> None:
        genuine(self, name, cluster, stack, opts)
        seen.cluster = cluster
        cluster.inventory.apply(lambda its: setattr(seen, "inventory", its))
        self.measured.apply(lambda its: setattr(seen, "measured", its))
        head = cluster.inventory.apply(lambda its: Head(its.nodes()[0]["address"] if its.nodes() else "none", HOST_KEY))
        cluster.reach.shell(head).apply(lambda its: setattr(seen, "shell", its))
        cluster.reach.known_hosts(head).apply(lambda its: setattr(seen, "known_hosts", its))

    monkeypatch.setattr(acceptance.Acceptance, "__init__", init)
    seen.commands = [name for kind, name, _ in run() if kind.startswith("command:")]
    assert seen.cluster is not None
    assert seen.inventory is not None
    return seen
