"""The real program for existing machines, on a recording engine: what it registers, and what it never imports."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from conftest import BUILD_LINE, HOST_KEY, SERVER_FACTS, run_program

from tools.stack_changes import DEFAULT

LINE = {"schema": 2, "kind": "ready", "host_key": HOST_KEY, "count": 2, "fronts": ["bond0"], "networks": ["10.0.0.0/16"]}


def contact_of(facts):
    return json.dumps(LINE | {"groups": [{"facts": facts, "nodes": ["a", "b"]}]})


LINES = {
    "acceptance-ready-contact": contact_of(SERVER_FACTS),
    "acceptance-build": BUILD_LINE,
    "acceptance-measure": "{}",
    "acceptance-search": json.dumps({"schema": 1, "kind": "search", "needed": False}),
}


@pytest.fixture
def hosts(tmp_path, monkeypatch):
    """Return a function that runs the program without any cloud's SDK available."""
    for name in [name for name in sys.modules if name.startswith("components.oci")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("pulumi_oci", "pulumi_aws"):
        monkeypatch.setitem(sys.modules, name, None)  # makes the import fail
    known = tmp_path / "known_hosts"
    known.write_text("".join(f"{address} {HOST_KEY}\n" for address in ("10.0.0.1", "10.0.0.2", "203.0.113.9")))

    def run(**changes):
        given = {
            "nodes": {"a": "10.0.0.1", "b": "10.0.0.2"},
            "user": "ubuntu",
            "jump": "admin@203.0.113.9",
            "knownHosts": str(known),
        }
        return run_program(LINES, target="hosts", oci=DEFAULT, hosts=given | changes)

    return run


def test_target_hosts_registers_only_commands_and_needs_no_sdk_of_a_cloud(hosts):
    found = hosts()
    assert sorted((kind, name) for kind, name, _ in found.resources if not kind.startswith("pulumi:")) == sorted(
        [
            ("busbar:hosts:Cluster", "cluster"),
            ("busbar:acceptance:Accept", "acceptance-accept"),
            ("busbar:acceptance:Acceptance", "acceptance"),
            ("busbar:acceptance:Ready", "acceptance-ready"),
            ("busbar:acceptance:Records", "acceptance-records"),
            ("busbar:acceptance:Runner", "acceptance-runner"),
            ("command:local:Command", "acceptance-ready-contact"),
            ("command:local:Command", "acceptance-accept-verdict"),
            ("command:remote:Command", "acceptance-build"),
            ("command:local:Command", "acceptance-measure-nonce"),
            ("command:remote:Command", "acceptance-measure"),
            ("command:remote:Command", "acceptance-search"),
            ("command:remote:CopyToRemote", "acceptance-runner-program"),
            ("command:remote:CopyToRemote", "acceptance-runner-file"),
        ]
    )
    assert not found.invokes
    assert not [name for name in sys.modules if name.startswith("components.oci")]


def test_with_slurm_and_without_slurm_the_steps_are_the_same_and_only_the_launcher_differs(hosts, monkeypatch):
    monkeypatch.setitem(LINES, "acceptance-schedule", "{}")

    def requests(**changes) -> dict[str, dict]:
        found = {name: inputs for _, name, inputs in hosts(**changes).resources}
        kinds = [kind for kind in ("build", "schedule", "measure") if f"acceptance-{kind}" in found]
        return {kind: json.loads(found[f"acceptance-{kind}"]["stdin"]) for kind in kinds}

    plain, queued = requests(), requests(slurm={"queue": "gpus"})
    assert queued["build"] == plain["build"]
    assert queued["schedule"]["nodes"] == plain["build"]["nodes"]
    assert [queued["schedule"][key] for key in ("queue", "gpus")] == ["gpus", 8]
    assert queued["measure"]["steps"] == plain["measure"]["steps"]
    assert queued["measure"]["launch"] == plain["measure"]["launch"] | {"kind": "slurm", "queue": "gpus"}
    assert queued["measure"]["run_id"] != plain["measure"]["run_id"]
    existing = requests(slurm={"queue": "gpus", "existing": True})
    assert sorted(existing) == ["build", "measure"], "an existing Slurm cluster needs no set-up"
    assert existing["measure"] == queued["measure"]


def test_two_stacks_on_the_same_machines_share_the_build_but_each_stack_makes_its_own_measurement(hosts, monkeypatch):
    def run_ids(nonce: str) -> list[str]:
        monkeypatch.setitem(LINES, "acceptance-measure-nonce", nonce)
        found = {name: inputs for _, name, inputs in hosts().resources}
        return [json.loads(found[name]["stdin"])["run_id"] for name in ("acceptance-build", "acceptance-measure")]

    assert run_ids("a") == run_ids("a")
    (build, first), (same, second) = run_ids("a"), run_ids("b")
    assert (build == same, first == second) == (True, False)


def test_the_number_of_a_measurement_is_random_and_the_command_fails_if_no_number_can_be_read(hosts, tmp_path):
    (made,) = [inputs for _, name, inputs in hosts().resources if name == "acceptance-measure-nonce"]

    def run(path: str) -> subprocess.CompletedProcess[str]:
        shell = ["/bin/sh", "-c", made["create"]]
        return subprocess.run(shell, env={"PATH": path}, capture_output=True, text=True, check=False, timeout=60)

    first, second = run("/usr/bin:/bin"), run("/usr/bin:/bin")
    assert re.fullmatch("[0-9a-f]{32}", first.stdout)
    assert re.fullmatch("[0-9a-f]{32}", second.stdout)
    assert first.stdout != second.stdout
    (tmp_path / "od").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "od").chmod(0o755)
    assert run(f"{tmp_path}:/usr/bin:/bin").returncode != 0


def test_the_facts_of_the_machines_decide_how_ranks_start(hosts):
    (measure,) = [inputs for _, name, inputs in hosts().resources if name == "acceptance-measure"]
    request = json.loads(measure["stdin"])
    ranks = request["steps"][-1]["ranks"]["environment"]
    assert request["hcas"] == [f"mlx5_{number}" for number in range(8)]
    assert ranks["NCCL_IB_HCA"] == "=" + ",".join(request["hcas"])
    assert ranks["NCCL_SOCKET_IFNAME"] == "=bond0"
    assert request["launch"]["mca"]["oob_tcp_if_include"] == "10.0.0.0/16"
    assert not {"UCX_NET_DEVICES", "NCCL_IB_TC"} & set(ranks)


def test_a_remark_about_a_detected_shape_is_shown_as_a_warning(hosts, monkeypatch):
    said = []
    monkeypatch.setattr("pulumi.log.warn", lambda text, _where=None: said.append(text))
    monkeypatch.setitem(LINES, "acceptance-ready-contact", contact_of(SERVER_FACTS))
    hosts()
    assert not said
    shared = SERVER_FACTS | {"hca": SERVER_FACTS["hca"][:4]}
    monkeypatch.setitem(LINES, "acceptance-ready-contact", contact_of(shared))
    hosts()
    assert len(said) == 1
    assert "8 GPUs share 4 rails" in said[0]


def test_mpi_uses_the_network_that_the_stack_file_names(hosts):
    (measure,) = [inputs for _, name, inputs in hosts(network="10.0.8.0/24").resources if name == "acceptance-measure"]
    assert json.loads(measure["stdin"])["launch"]["mca"]["oob_tcp_if_include"] == "10.0.8.0/24"


def test_every_connection_pins_the_host_keys_of_the_head_node_and_the_jump_host(hosts):
    connections = [inputs["connection"]["value"] for kind, _, inputs in hosts().resources if kind.startswith("command:remote")]
    assert len(connections) == 5
    for connection in connections:
        assert (connection["host"], connection["user"], connection["hostKey"]) == ("10.0.0.1", "ubuntu", HOST_KEY)
        proxy = connection["proxy"]
        assert (proxy["host"], proxy["user"], proxy["hostKey"]) == ("203.0.113.9", "admin", HOST_KEY)
        assert not {"privateKey", "agentSocketPath"} & {*connection, *proxy}


def test_a_single_machine_without_a_jump_host_can_be_measured(hosts):
    found = hosts(nodes={"one": "10.0.0.1"}, jump=None, shape="HGX-A100-40GB.8")
    (measure,) = [inputs for _, name, inputs in found.resources if name == "acceptance-measure"]
    assert [node["address"] for node in json.loads(measure["stdin"])["nodes"]] == ["10.0.0.1"]
    assert "proxy" not in next(inputs for kind, _, inputs in found.resources if kind.startswith("command:remote"))["connection"]
