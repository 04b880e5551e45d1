"""A node's rails, each tried by itself: whether it is usable, and what rping and ib_write_bw report about it.

A rail that was not measured has no number.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.launch.lines import ProofsLine, RailLine
from benchmarks.launch.protocol import Node, Proofs
from benchmarks.runner import fanout, rail_proofs, rail_try, reachability

GOLDEN = Path(__file__).parents[1] / "golden" / "transcripts"
NODES = [Node("gpu0", "127.0.0.1"), Node("gpu1", "127.0.0.2")]
ENDS: dict[str, Any] = {
    "netdev": "net1",
    "address": "10.100.100.1",
    "rate_gbit_s": 25.0,
    "unusable": "",
    "iwarp": False,
    "efa": False,
    "rping": "/usr/bin/rping",
    "ib_write_bw": "/usr/bin/ib_write_bw",
}
FAR = ENDS | {"address": "10.100.100.2"}
ONE = Proofs(["irdma0"], True, 6)
PING, WRITE = ((GOLDEN / name).read_text() for name in ("k8s-rping-client.txt", "k8s-ib_write_bw-client.txt"))
LINE = RailLine("gpu0", "gpu1", "irdma0", line_gbit_s=25.0)


@pytest.fixture
def device(tmp_path, monkeypatch) -> Path:
    """One device as the kernel shows it, with its device file in /dev."""
    for name in ("_RDMA", "_VERBS", "_DEVICES", "_NET"):
        monkeypatch.setattr(rail_try, name, str(tmp_path / name))
    port = tmp_path / "_RDMA" / "irdma0" / "ports" / "1"
    for folder in (port, tmp_path / "_RDMA/irdma0/device/net/lo", tmp_path / "_VERBS/uverbs0", tmp_path / "_DEVICES"):
        folder.mkdir(parents=True)
    (port / "rate").write_text("25 Gb/sec (1X EDR)\n")
    (tmp_path / "_RDMA/irdma0/node_type").write_text("1: CA\n")
    (tmp_path / "_VERBS/uverbs0/ibdev").write_text("irdma0\n")
    (tmp_path / "_DEVICES/uverbs0").touch()
    return tmp_path


@pytest.mark.usefixtures("device")
def test_a_usable_device_is_reported_with_its_address_and_its_rate():
    found = rail_try.about("irdma0", True)
    assert (found["netdev"], found["address"], found["rate_gbit_s"]) == ("lo", "127.0.0.1", 25.0)
    assert (found["unusable"], found["iwarp"]) == ("", False)


def test_a_device_without_its_file_in_dev_is_reported_as_unusable(device):
    (device / "_DEVICES/uverbs0").unlink()
    assert rail_try.about("irdma0", True)["unusable"] == f"there is no {device}/_DEVICES/uverbs0, so no program can use irdma0"


def test_an_efa_device_is_reported_as_unusable(device):
    (device / "_RDMA/irdma0/device/driver").symlink_to("../../../../bus/pci/drivers/efa")
    assert "irdma0 is an EFA device" in rail_try.about("irdma0", True)["unusable"]


@pytest.mark.usefixtures("device")
def test_a_device_that_does_not_exist_is_reported():
    assert rail_try.about("mlx5_9", True)["unusable"] == "there is no RDMA device mlx5_9"
    found = rail_try.about("nosuch0", False)
    assert (found["address"], found["rate_gbit_s"]) == ("", None)
    assert found["unusable"] == "the rails have no RDMA device"


def words(plan: dict[str, Any], peer: str = "", **more: Any) -> list[str]:
    return [" ".join(argv) for argv in rail_try._programs("irdma0", ENDS, plan | more, peer)]  # noqa: SLF001


def test_a_single_rail_is_tried_by_its_address():
    plan = rail_proofs._plan(ENDS, FAR, ONE)  # noqa: SLF001
    assert words(plan) == [
        "/usr/bin/rping -s -a 10.100.100.1 -p 7174 -C 3 -v",
        "/usr/bin/ib_write_bw -d irdma0 --report_gbits -F -D 6 -p 18515 -R",
    ]
    assert words(plan, "10.100.100.2", front="10.244.1.7") == [
        "/usr/bin/rping -c -a 10.100.100.2 -p 7174 -C 3 -v",
        "/usr/bin/ib_write_bw -d irdma0 --report_gbits -F -D 6 -p 18515 -R 10.100.100.2",
    ]


def test_of_several_rails_each_rail_is_chosen_explicitly_and_not_by_the_route():
    plan = rail_proofs._plan(ENDS, FAR, Proofs(["irdma0", "irdma1"], True, 6))  # noqa: SLF001
    ping, write = words(plan, "10.100.100.2", front="10.244.1.7")
    assert ping.endswith(" -I 10.100.100.1 -p 7174 -C 3 -v")
    assert write.endswith(" -p 18515 10.244.1.7")
    iwarp = rail_proofs._plan(ENDS | {"iwarp": True}, FAR, Proofs(["irdma0", "irdma1"], True, 6))  # noqa: SLF001
    assert words(iwarp, "10.100.100.2", front="10.244.1.7")[1].endswith(" -R 10.100.100.2")


def test_a_rail_without_addresses_is_tried_only_by_ib_write_bw():
    plan = rail_proofs._plan(ENDS | {"address": ""}, FAR, ONE)  # noqa: SLF001
    assert words(plan, "", front="10.244.1.7") == ["/usr/bin/ib_write_bw -d irdma0 --report_gbits -F -D 6 -p 18515 10.244.1.7"]
    answer = {"ping": "", "write": WRITE, "connect": "not tried"}
    assert rail_proofs._judged(LINE, plan, answer).reached == "link"  # noqa: SLF001


PLAN = rail_proofs._plan(ENDS, FAR, ONE)  # noqa: SLF001
BARE = rail_proofs._plan(ENDS | {"unusable": "no device"}, FAR, ONE)  # noqa: SLF001
UNINSTALLED = rail_proofs._plan(ENDS, FAR | {"ib_write_bw": "", "rping": ""}, ONE)  # noqa: SLF001
ANSWERS: dict[str, tuple[dict[str, Any], dict[str, str], tuple[str | None, float | None, str | None]]] = {
    "both": (PLAN, {"ping": PING, "write": WRITE, "connect": ""}, ("rdma", 23.14, None)),
    "no message came back": (
        PLAN,
        {"ping": "cma event RDMA_CM_EVENT_ADDR_ERROR, error -19\n", "write": WRITE, "connect": ""},
        (None, 23.14, "rping: cma event RDMA_CM_EVENT_ADDR_ERROR, error -19"),
    ),
    "no table": (
        PLAN,
        {"ping": PING, "write": " Failed to modify QP 195 to RTR\n", "connect": ""},
        ("rdma", None, "ib_write_bw: it printed no table: Failed to modify QP 195 to RTR"),
    ),
    "another device": (
        PLAN,
        {"ping": PING, "write": WRITE.replace("irdma0", "irdma1"), "connect": ""},
        ("rdma", None, "ib_write_bw ran over irdma1"),
    ),
    "no device": (BARE, {"ping": "", "write": "", "connect": ""}, ("address", None, "not measured: no device")),
    "no program": (
        UNINSTALLED,
        {"ping": "", "write": "", "connect": "timed out"},
        (
            None,
            None,
            "no TCP connection over the rail: timed out; not measured: ib_write_bw is not installed (package perftest)",
        ),
    ),
}


EFA = ENDS | {"address": "", "unusable": "rdmap0 is an EFA device", "efa": True}
LACKING = ENDS | {"address": "", "ib_write_bw": ""}
MISSING = ENDS | {"address": "", "unusable": "there is no RDMA device irdma0"}


@pytest.mark.parametrize(
    ("own", "far", "untried"),
    [(EFA, EFA, True), (LACKING, LACKING, True), (MISSING, ENDS, False), (MISSING, MISSING, False), (ENDS, FAR, False)],
)
def test_a_rail_that_no_program_can_try_is_untried_but_a_missing_device_is_a_rail_that_is_not_reached(own, far, untried):
    plan = rail_proofs._plan(own, far, ONE)  # noqa: SLF001
    found = rail_proofs._judged(LINE, plan, {"ping": "", "write": WRITE, "connect": "not tried"})  # noqa: SLF001
    assert bool(found.untried) is untried
    line = rail_proofs._line([found], 1.0)  # noqa: SLF001
    assert (line.untried, line.reached) == ((1, 0) if untried else (None, int(found.reached is not None)))


def test_the_worst_rails_are_those_with_faults_then_the_slowest_and_some_without_a_number():
    fine = [LINE._replace(rail=f"fine{rate}", reached="rdma", gbit_s=float(rate), line_gbit_s=100.0) for rate in range(80, 100)]
    without = [LINE._replace(rail=f"without{at}", reached="rdma", why="not measured: no ib_write_bw") for at in range(20)]
    failed = LINE._replace(rail="failed", reached="rdma", why="ib_write_bw: it printed no table")
    lost = LINE._replace(rail="lost", why="rping: no route")
    for found in ([*without, *fine, failed, lost], [lost, failed, *reversed(fine), *without]):
        worst = [one.rail for one in rail_proofs._line(found, 1.0).worst]  # noqa: SLF001
        assert worst[:10] == ["lost", "failed", *(f"fine{rate}" for rate in range(80, 88))]
        assert (len(worst), {one[:7] for one in worst[10:]}) == (16, {"without"})


@pytest.mark.parametrize("name", ANSWERS)
def test_a_trial_with_rping_and_ib_write_bw_gives_the_rate_of_a_rail_or_the_reason_why_there_is_none(name):
    plan, answer, expected = ANSWERS[name]
    found = rail_proofs._judged(LINE, plan, answer)  # noqa: SLF001
    assert (found.reached, found.gbit_s, found.why) == expected


def test_a_program_that_fails_is_tried_again_because_its_server_may_listen_later(tmp_path, monkeypatch):
    monkeypatch.setattr(rail_try, "_PAUSE_S", 0)
    script = f"[ -e {tmp_path}/once ] && echo came && exit 0; touch {tmp_path}/once; echo refused; exit 1"
    assert rail_try._ran(["sh", "-c", script], 10) == "came\n"  # noqa: SLF001
    assert rail_try._ran(["sh", "-c", "echo refused; exit 1"], 10) == "refused\n"  # noqa: SLF001
    assert rail_try._ran(["sleep", "60"], 0.1) == "sleep did not end within 0 s"  # noqa: SLF001


def test_the_far_end_listens_only_on_the_rails_address_and_only_during_the_trial():
    its = rail_try.about("lo", False)
    plan = {"ping": False, "write": False}
    with rail_try.listening("lo", its, plan) as port:
        asked = plan | {"address": "127.0.0.1", "port": port}
        assert rail_try.attempt("lo", its, asked) == {"ping": "", "write": "", "connect": ""}
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", port), timeout=5)
    assert "refused" in rail_try.attempt("lo", its, asked)["connect"]


def here(monkeypatch, *wrong: str) -> None:
    """Let every node be a process of this machine; the nodes named in `wrong` do not answer."""
    words = [sys.executable, "-IS", "-u", "-c", reachability.BOOT]
    monkeypatch.setattr(fanout, "beginnings", lambda nodes, _: [["false"] if one.name in wrong else words for one in nodes])


@pytest.mark.programs
def test_every_rail_of_every_node_is_tried_and_an_unmeasured_rail_has_no_number(monkeypatch):
    here(monkeypatch)
    said: list[str] = []
    found = rail_proofs.tried(NODES, Proofs(["nosuch0", "lo"], False, 6), said.append)
    assert said == ["trying 2 rails by themselves between 2 nodes"]
    why = "not measured: the rails have no RDMA device"
    assert found.line._replace(seconds=0) == ProofsLine(
        rails=4,
        reached=2,
        measured=0,
        worst=[
            *(RailLine(node, peer, "nosuch0", why=why) for node, peer in (("gpu0", "gpu1"), ("gpu1", "gpu0"))),
            *(RailLine(node, peer, "lo", "address", why=why) for node, peer in (("gpu0", "gpu1"), ("gpu1", "gpu0"))),
        ],
        seconds=0,
    )
    assert not found.text


@pytest.mark.programs
def test_a_node_that_does_not_answer_is_named_in_every_trial_with_that_node(monkeypatch):
    here(monkeypatch, "gpu1")
    found = rail_proofs.tried(NODES, Proofs(["lo"], False, 6), print).line
    assert (found.reached, found.measured) == (0, 0)
    assert [one.why for one in found.worst] == ["gpu1 did not answer"] * 2


@pytest.mark.programs
def test_the_program_that_tries_rails_needs_no_other_file(tmp_path):
    source = fanout.source_of(rail_try).decode()
    given = f"{len(source)}\n{source}" + json.dumps({"do": "about", "rails": ["lo"], "rdma": False}) + "\n"
    argv = [sys.executable, "-IS", "-u", "-c", reachability.BOOT]
    done = subprocess.run(argv, input=given, capture_output=True, text=True, cwd=tmp_path, timeout=30, check=True)
    assert json.loads(done.stdout)["lo"]["address"] == "127.0.0.1"
