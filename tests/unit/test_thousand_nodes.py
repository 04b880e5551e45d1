"""1,024 nodes of 8 GPUs through the real runner and the real judge: the runner's line fits, and the worst nodes are named.

The programs are stand-ins: ssh answers for every node with facts, and mpirun with the rows of all collectives.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import time
from pathlib import Path

import pytest
from fake_head import Head
from measurement_line import a_plan, place

from benchmarks.host import requests
from benchmarks.judge.transport import least_bytes
from benchmarks.judge.verdict import judge
from benchmarks.launch.protocol import Node
from benchmarks.plan import ceiling
from benchmarks.plan.asked import Asked
from benchmarks.plan.ranks import Place
from catalogue import SHAPES
from config.measure import Measure

NODES = 1024
SHAPE = SHAPES["BM.GPU4.8"]
NAMES = tuple(f"inst-ab12c-training-cluster-{number:04}" for number in range(NODES))
SLOW, SILENT = 700, 901
LIMIT_BYTES = 64 * 1024


#: All tests share one measurement, so they run on one worker.
pytestmark = [pytest.mark.xdist_group("thousand"), pytest.mark.programs]


@pytest.fixture(scope="module")
def asked() -> Asked:
    # Every collective and every size, as by default.
    sizes = Measure()
    ends = {"begin_bytes": sizes.begin_bytes, "end_bytes": sizes.end_bytes}
    plan = a_plan(collectives=sizes.collectives, spread_iterations=20, looks=sizes.looks, **ends)
    return Asked(plan, SHAPE, NODES, names=NAMES, pool="gpu")


@pytest.fixture(scope="module")
def measured(tmp_path_factory, asked) -> tuple[str, str]:
    """Return the runner's output for a cluster with one node that is slow inside and one node whose rails carried nothing."""
    head = Head(tmp_path_factory.mktemp("head"))
    facts(head, asked)
    mpirun = head.home / "mpi" / "bin" / "mpirun"
    mpirun.parent.mkdir(parents=True)
    mpirun.symlink_to(Path(__file__).parents[1] / "fakes" / "mpirun-many")
    speed = {name: 0.97 * (ceiling.bound_gb_s(name, SHAPE, NODES) or 20.0) for name in asked.plan.collectives}
    speed |= {"node": 0.97 * (ceiling.nvlink_gb_s(SHAPE) or 0), "rails": 0.97 * (ceiling.ring_gb_s(SHAPE, NODES) or 0) / 8}
    (head.home / "many.json").write_text(json.dumps({"busbw_gb_s": speed, "slow_nodes": {str(SLOW): 0.5}}))
    head.environment["MANY"] = str(head.home / "many.json")
    built = dataclasses.replace(place(), nodes=()).built._replace(home=str(head.home), mpi_home=str(head.home / "mpi"))
    nodes = tuple(Node(name, address(number)) for number, name in enumerate(NAMES))
    where = Place(nodes, "10.0.0.0/16", built, asked.interfaces)
    (head.home / ".busbar").mkdir()
    status, out, err = head.run(json.loads(requests.measure(where, asked, [])), timeout_s=300)
    assert status == 0, err
    return out, err


def address(number: int) -> str:
    return f"10.0.{number // 256}.{number % 256}"


def facts(head: Head, asked: Asked) -> None:
    """Let `sh` on the head node and `ssh` to all other nodes answer with a node's facts."""
    sent = int(1.1 * least_bytes(asked.plan, SHAPE, NODES) / 16)
    rails = SHAPE.rdma.hca if SHAPE.rdma else ()

    def said(tx_bytes: int) -> str:
        port = {"active": True, "rate": "100 Gb/sec", "tx_bytes": tx_bytes, "rx_bytes": 0, "events": {"link_downed": 0}}
        hca = {name: {"netdev": f"r{i}", **port} for i, name in enumerate(rails)}
        eth0 = {"mtu": 9000, "up": True, "tx_bytes": 5000, "rx_bytes": 0}
        found = {"clock": "CLOCK", "interfaces": {"eth0": eth0}, "hca": hca, "gpus": ["NVIDIA A100-SXM4-40GB"] * 8}
        found |= {"driver": "535.1", "os": "Linux", "kernel": "6", "machine": "ocid1.instance.oc1.phx.MACHINE" + "x" * 60}
        found |= {"nvlink_tx_bytes": None, "nccl": {"networks": {"IB": 8}, "devices": {}, "channels": {"NET/IB/0": 2}}}
        return json.dumps(found)

    for name, tx_bytes in (("before", 0), ("after", sent), ("silent", 0)):
        (head.home / name).write_text(said(tx_bytes) + "\n")
    # Thousands of these answers are given, so the shell does everything itself and starts no other program.
    answer = (
        f'moment=before; case "$words" in *--harvest*) moment=after; [ $at = {address(SILENT)} ] && moment=silent;; esac\n'
        f"read -r up rest < /proc/uptime; clock=$(({int(time.time() - time.monotonic())} + ${{up%%.*}}))\n"
        "IFS= read -r text < $HOME/$moment\n"
        'text="${text%%\\"CLOCK\\"*}$clock${text#*\\"CLOCK\\"}"\n'
        'printf "%s\\n" "${text%%MACHINE*}$at${text#*MACHINE}"\n'
    )
    head.tool(
        "ssh",
        'for word; do case $word in 10.0.*) at=$word;; esac; done; words="$*"\n'
        'case "$words" in *"-u -c"*) echo 4242; echo "[]"; cat > /dev/null;; *sha256sum*) ;;\n'
        f'*"-IS - "*) {answer};; esac\n',
    )
    head.tool(
        "sh",
        f'words="$*"; at={address(0)}\ncase "$words" in *sha256sum*) ;; *"-IS - "*) {answer};; *) exec /bin/sh "$@";; esac\n',
    )


def test_the_line_of_a_thousand_nodes_fits_and_contains_every_step(measured, asked):
    out, _ = measured
    assert len(out.encode()) <= LIMIT_BYTES
    line = json.loads(out)
    assert not [step["failed"] for step in line["steps"] if "failed" in step]
    assert {*asked.plan.collectives, "node", "rails", "spread"} <= {step["name"] for step in line["steps"]}


def test_a_thousand_nodes_are_judged_and_the_worst_nodes_are_named(measured, asked):
    judged = judge(measured[0], asked)
    assert judged.verdict == "short"
    said = {one.name: " ".join(one.why) for one in judged.checks if one.state == "short"}
    assert set(said) == {"node", "transport"}, [one for one in judged.checks if one.name == "transport"]
    assert said["node"].startswith(f"{NAMES[SLOW]}: all_reduce inside it reached")
    assert said["transport"].startswith(f"{NAMES[SILENT]}: its rails")
    assert judged.busbw_gb_s is not None
    assert "unknown" not in {one.state for one in judged.checks}


def test_everything_that_the_line_leaves_out_is_in_the_evidence(measured):
    line = json.loads(measured[0])
    text = gzip.decompress(Path(line["evidence"]["path"]).read_bytes())
    assert hashlib.sha256(text).hexdigest() == line["evidence"]["sha256"]
    bulk = json.loads(text.decode().split("# busbar step nodes\n")[1].splitlines()[0])
    assert len(bulk["machines"]) == NODES
    named = json.dumps(bulk["machines"], sort_keys=True).encode()
    assert line["machines"] == {"count": NODES, "sha256": hashlib.sha256(named).hexdigest()}
    assert len(bulk["groups_gb_s"]["node"]) == NODES
