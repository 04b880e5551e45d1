"""How commands reach many nodes at once, how a retest runs, and how traffic is counted; nodes are stand-ins."""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import DECIDING, LOOKS, NODES, Cluster, row, run

from benchmarks.launch.protocol import Evidence, Node
from benchmarks.runner import fanout, retest_run, traffic
from benchmarks.runner.refusal import Refusal


class Programs:
    """Stand-in for subprocess: `calls` has the words and input of each command, `ends` the results of commands by address."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[list[str], Any]] = []
        self.ends: dict[str, list[Any]] = {}
        self.killed = 0
        patch.setattr(fanout.subprocess, "Popen", self._start)

    def _start(self, argv: list[str], **given: Any) -> Any:
        address = argv[-2]
        end = self.ends.get(address, [(0, b"", b"")])
        return SimpleNamespace(
            communicate=lambda text=None, timeout=None: self._end(argv, end, text, given, timeout),
            wait=lambda timeout=None: self._wait(argv, end, given, timeout),
            kill=self._kill,
            returncode=end[0][0] if not isinstance(end[0], BaseException) else None,
        )

    def _end(self, argv: list[str], end: list[Any], text: Any, given: dict[str, Any], timeout: Any) -> tuple[bytes, bytes]:
        if timeout is None:
            return b"", b""
        self.calls.append((argv, text if given["stdin"] == subprocess.PIPE else "a file"))
        found = end.pop(0) if len(end) > 1 else end[0]
        if isinstance(found, BaseException):
            raise found
        return found[1], found[2]

    def _wait(self, argv: list[str], end: list[Any], given: dict[str, Any], timeout: Any) -> None:
        if timeout is not None:
            assert set(given.values()) == {subprocess.DEVNULL}
            self.calls.append((argv, timeout))
            if isinstance(end[0], BaseException):
                raise end[0]

    def _kill(self) -> None:
        self.killed += 1


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Programs:
    monkeypatch.setenv("HOME", str(tmp_path))
    return Programs(monkeypatch)


LATE = subprocess.TimeoutExpired("ssh", 1)


def test_the_first_node_runs_the_command_locally_and_the_others_run_it_over_ssh_with_pinned_host_keys(programs):
    programs.ends = {"10.0.0.2": [(3, b"out\n", b"first\nlast\n")], "-c": [(0, b"here", b"")]}
    first, second = fanout.each(NODES, "the command", b"text", 5)
    assert (first, second) == (fanout.Answer(0, "here", ""), fanout.Answer(3, "out\n", "first\nlast\n"))
    assert sorted(programs.calls, key=lambda call: len(call[0])) == [
        (["sh", "-c", "the command"], b"text"),
        ([*fanout.SSH, "10.0.0.2", "the command"], b"text"),
    ]
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "UserKnownHostsFile=~/.ssh/known_hosts"} <= set(fanout.SSH)


def test_a_command_that_takes_too_long_is_stopped_and_gets_status_124(programs):
    programs.ends = {"10.0.0.2": [LATE]}
    found = fanout.on("10.0.0.2", "sleep", b"", 5)
    assert (found.status, found.out, found.why, programs.killed) == (124, "", "no answer within 0 s", 1)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (fanout.Answer(1, "out\nlast out\n", "err\nlast err\n"), "last err"),
        (fanout.Answer(1, "out\nlast out\n", " \n"), "last out"),
        (fanout.Answer(1, "", ""), "no output"),
    ],
)
def test_the_reason_of_a_failure_is_the_last_line_of_stderr_or_else_of_stdout(answer, why):
    assert answer.why == why


def test_a_connection_that_fails_is_ignored_and_none_is_opened_to_the_first_node(programs, monkeypatch):
    programs.ends = {"10.0.0.2": [LATE]}
    with tempfile.TemporaryDirectory(prefix="bb") as home:  # a socket's path must be short
        monkeypatch.setenv("HOME", home)
        fanout.keep(NODES)
        assert Path(home, ".busbar/ssh").stat().st_mode & 0o777 == 0o700
    ((argv, timeout),) = programs.calls
    assert (argv[-2:], timeout, programs.killed) == (["10.0.0.2", "true"], 20, 1)
    assert {"ControlMaster=auto", "ControlPersist=60"} <= set(argv)


@pytest.mark.parametrize(("length", "is_shared"), [(104 - 1 - 40 - 17 - 1, True), (104 - 1 - 40 - 17, False)])
def test_connections_are_shared_only_if_the_path_of_their_sockets_fits(monkeypatch, length, is_shared):
    folder = "/" + "h" * (length - len("//.busbar/ssh"))
    monkeypatch.setenv("HOME", folder)
    assert len(str(Path("~/.busbar/ssh").expanduser())) == length
    assert fanout.shared() == ("~/.busbar/ssh/%C" if is_shared else "")


@pytest.mark.parametrize(
    ("checked", "copies", "status"),
    [
        ((0, b"", b""), False, 0),  # the node has the complete file
        ((255, b"", b"no route"), False, 255),
        ((1, b"", b""), True, 0),
    ],
)
def test_a_file_is_copied_only_to_nodes_that_lack_the_file(programs, tmp_path, checked, copies, status):
    path = tmp_path / "image file"
    path.write_text("image")
    programs.ends = {"10.0.0.2": [checked, (0, b"", b"")]}
    here, there = fanout.send(NODES, str(path), "abc", 60)
    assert here == fanout.Answer(0, "", "")
    assert len(programs.calls) == 1 + copies
    check = f"echo 'abc  {path}' | sha256sum --check --quiet --strict - 2> /dev/null"
    assert programs.calls[0] == ([*fanout.SSH, "10.0.0.2", check], b"")
    if copies:
        part = check.replace("image file", "image file.part")
        take = f"mkdir -p {tmp_path} && cat > '{path}.part' && {part} && mv '{path}.part' '{path}'"
        assert programs.calls[1] == ([*fanout.SSH, "10.0.0.2", take], "a file")
    else:
        assert there.status == status


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    return Cluster(monkeypatch, tmp_path)


def test_a_retest_refers_to_the_first_measurement_but_does_not_run_again_if_its_result_is_saved(cluster):
    cluster.runs = {"all": run(row(1024, 3.0)), "looks": run(row(1024, 3.5))}
    request = cluster.request(DECIDING, LOOKS, evidence=Evidence("/first", "abc"))
    found = retest_run.retest(request, cluster.said.append)
    assert [step["name"] for step in found["steps"]] == ["all", "looks"]
    assert (found["transport"]["steps"], found["transport"]["network"], found["failed"]) == (["all"], "IB", None)
    text = gzip.decompress(Path(found["evidence"]["path"]).read_bytes()).decode()
    assert text.startswith("# busbar: measured a second time; the first is abc (/first)\n# busbar step all\n")
    cluster.runs = {}
    assert retest_run.retest(request, cluster.said.append) == json.loads(json.dumps(found))
    (cluster.folder / ".busbar/runs/r1/second.json").unlink()
    cluster.runs = {"all": run(row(1024, 3.0)), "looks": run(row(1024, 4.5))}
    retest_run.retest(request, cluster.said.append)
    assert cluster.line(DECIDING, LOOKS)["earlier_looks"] == [3.5, 4.5], "looks of a retest are kept beside earlier looks"


def test_a_retest_that_could_not_run_says_why_and_is_tried_again(cluster):
    cluster.silent = {"b": "no route to host"}
    request = cluster.request(DECIDING)
    found = retest_run.retest(request, cluster.said.append)
    why = "no inventory from b (no route to host)"
    assert found == {"steps": [], "transport": None, "evidence": None, "failed": why}
    assert cluster.said == [f"the retest failed: {why}"]
    cluster.silent, cluster.runs = {}, {"all": Refusal("it hung")}
    found = retest_run.retest(request, cluster.said.append)
    assert (found["transport"], found["failed"]) == (None, None)
    assert found["steps"][0]["failed"].startswith("it hung")


@pytest.mark.parametrize(("busy", "changed"), [(["process 7"], []), ([], ["b (all_reduce_perf)"])])
def test_no_retest_runs_beside_other_processes_or_with_changed_programs(cluster, busy, changed):
    cluster.inventory["b"]["busy"], cluster.changed = busy, changed
    assert retest_run.retest(cluster.request(DECIDING), cluster.said.append)["failed"]
    assert not cluster.ran


def device(sent: int | None, **events: int | None) -> dict[str, Any]:
    return {"tx_bytes": sent, "netdev": "ib0", "events": events}


def facts(sent: int | None, nvlink: int | None = None, **events: int | None) -> dict[str, Any]:
    return {"interfaces": {"eth0": {"tx_bytes": 1}}, "hca": {"m0": device(sent, **events)}, "nvlink_tx_bytes": nvlink}


def test_moved_bytes_are_the_differences_of_counters_that_were_read_both_before_and_after_a_run():
    moved = traffic.between(NODES, [facts(10, 100), facts(None, None)], [facts(15, 160), facts(7, 5)], ["m0"])
    assert moved.tx_bytes == {"a": {"eth0": 0, "m0": 5}, "b": {"eth0": 0}}
    assert moved.counted_nodes == 1
    assert moved.nvlink_tx_bytes == (60, 1)
    assert (moved.hcas, moved.netdevs) == (["m0"], {"m0": "ib0"})
    assert traffic.between(NODES, [facts(1)] * 2, [facts(2)] * 2, []).nvlink_tx_bytes is None


def test_port_events_are_the_counters_that_grew_and_are_sorted_by_their_growth():
    before = [facts(0, discards=1, cnp=5, resets=None), facts(0, discards=1)]
    after = [facts(0, discards=3, cnp=5, resets=9, new=4), facts(0, discards=8)]
    found = traffic.between(NODES, before, after, ["m0"])
    assert [(one.node, one.counter, one.count) for one in found.events] == [("b", "discards", 7), ("a", "discards", 2)]
    assert found.uncounted_ports == []


def test_a_link_that_went_down_once_is_reported_beside_any_number_of_larger_counters():
    names = [f"counter{number}" for number in range(40)]
    before = [facts(0, link_downed=0, **dict.fromkeys(names, 0))] * 3
    after = [facts(0, link_downed=1, **dict.fromkeys(names, 10**6))] * 3
    found = traffic.between([Node(name, name) for name in "abc"], before, after, ["m0"]).events
    assert len(found) <= 64
    assert {one.counter for one in found} == {*names, "link_downed"}


def test_a_rail_whose_error_counters_were_not_read_both_before_and_after_a_run_is_listed_as_uncounted():
    before, after = [facts(0, discards=None), facts(0, discards=1)], [facts(0, discards=3), facts(0, discards=8)]
    assert traffic.between(NODES, before, after, ["m0"]).uncounted_ports == ["m0 of a"]
    assert traffic.between(NODES, before, after, []).uncounted_ports == ["m0 of a"]
    assert traffic.between(NODES, after, after, ["m0", "m1"]).uncounted_ports == ["m1 of a", "m1 of b"]


def test_of_many_uncounted_ports_and_of_many_nodes_without_gpudirect_eight_are_named_and_the_others_counted():
    many, silent = [Node(f"n{number}", "") for number in range(20)], [facts(0) | {"nccl": {"gpudirect": {"NET": 1}}}] * 20
    found = traffic.between(many, silent, silent, ["m0"])
    assert found.uncounted_ports == [*(f"m0 of n{number}" for number in range(8)), "and 12 more"]
    assert found.through_host_memory == [*(f"n{number}" for number in range(8)), "and 12 more"]
