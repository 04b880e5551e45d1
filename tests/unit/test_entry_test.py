"""The entry test of new machines: its request, how the test reaches the machines, and which machines pass."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from measurement_line import ASKED, BUILT, a_plan

from benchmarks.host import requests
from benchmarks.launch import launcher, placeholders
from benchmarks.launch.lines import EntryLine
from benchmarks.launch.protocol import EntryTest, Node, PairLimit, Source, data, load
from benchmarks.plan.gate import gate
from benchmarks.runner import __main__ as runner
from benchmarks.runner import build, search_run
from benchmarks.runner.entry_test import limit, remote_shell, verdict
from benchmarks.runner.refusal import Refusal
from catalogue import IMAGES, SHAPES

NAMES = ["gpu-1", "gpu-2", "gpu-3"]
NODES = [Node(name, f"10.0.1.{number}") for number, name in enumerate(NAMES, 3)]


@pytest.fixture
def test() -> EntryTest:
    source = Source("2.19.6", "0" * 64, path="/home/.busbar/tests.tar")
    text = requests.entry_test(ASKED, source, IMAGES["ol8"].homes, network="10.0.1.0/24", timeout_s=600, reasons=["r"])
    return load(EntryTest, json.loads(text))


def test_placeholders_in_the_request_are_only_for_paths_and_not_for_names_or_addresses(test):
    text = json.dumps(data(test))
    assert "@name" not in text
    assert "@address" not in text
    names = ("HOME", "BINARIES", "MPI", "CUDA", "NCCL", "SHELL")
    known = {getattr(placeholders, name): "/x" for name in names}
    assert "@" not in json.dumps(placeholders.filled(data(test), known))


def test_ranks_start_through_the_program_that_reaches_the_other_machines(test):
    ranks = test.trials.ranks._replace(nodes=[0, 1])
    words = launcher.command(test.trials.launch, NODES, [ranks])
    assert words[words.index("plm_rsh_agent") + 1] == placeholders.SHELL
    assert "plm_rsh_args" not in words


def test_the_limit_of_a_pair_grows_with_the_message_size_and_is_divided_by_the_scale_of_a_rehearsal(test):
    assert ASKED.shape.rdma is not None
    rate = ASKED.shape.rdma.node_gbytes_per_s
    assert limit(test.limits, 4096 * 1024**2, 1) == pytest.approx(0.85 * rate)
    assert limit(test.limits, 1024 * 1024**2, 1) == pytest.approx(0.80 * rate)
    assert limit(test.limits, 1024**2, 4000) == pytest.approx(0.85 * rate / 4000)
    assert limit(test.limits, 1024**2, 1) is None, "so small a message says nothing about the rails"
    assert limit([], 1024**3, 1) is None


def test_if_nvlink_is_slower_than_the_rails_the_limit_of_a_pair_is_the_gate():
    shape = SHAPES["BM.GPU.H100.8"]
    source = Source("2.19.6", "0" * 64, path="/home/.busbar/tests.tar")
    asked = replace(ASKED, shape=shape)
    text = requests.entry_test(asked, source, IMAGES["ol8"].homes, network="10.0.1.0/24", timeout_s=600, reasons=["r"])
    limits = load(EntryTest, json.loads(text)).limits
    assert limit(limits, 4096 * 1024**2, 1) == gate(a_plan(end_bytes=4096 * 1024**2), shape, 2).limit_gb_s == pytest.approx(324)


def line(*pairs: tuple[int, int, float | None], **more: Any) -> dict[str, Any]:
    return {"pairs": [list(one) for one in pairs], "culprits": [], "failed": None, **more}


def test_machines_that_are_fast_with_two_partners_pass():
    found = verdict("t", NAMES, line((0, 1, 24.0), (1, 2, 23.5), (0, 2, 23.0)), 20.0)
    assert (found.failed, found.bad) == ("", {})
    assert found.told["gpu-1"] == "24 GB/s with gpu-2, 23 GB/s with gpu-3, 20 wanted"


def test_two_machines_pass_with_one_partner_each():
    assert verdict("t", NAMES[:2], line((0, 1, 24.0)), 20.0).bad == {}


def test_a_machine_that_was_tried_with_only_one_of_two_partners_has_not_passed():
    found = verdict("t", NAMES, line((0, 1, 24.0), (1, 2, 24.0)), 20.0)
    assert set(found.bad) == {"gpu-1", "gpu-3"}
    assert found.bad["gpu-1"].endswith("this node was tried with only 1 of 2 partners")


def test_a_machine_without_a_measured_pair_has_not_passed_even_if_the_search_blames_nothing():
    found = verdict("t", NAMES, line((0, 1, 24.0)), 20.0)
    assert found.bad["gpu-3"] == "no pair with this node was measured"


def test_a_machine_whose_pairs_are_all_below_the_limit_has_not_passed_even_if_the_search_blames_nothing():
    found = verdict("t", NAMES, line((0, 1, 6.0), (1, 2, 24.0), (0, 2, 7.0)), 20.0)
    assert found.bad == {"gpu-1": "6 GB/s with gpu-2, 7 GB/s with gpu-3, 20 wanted"}


def culprit(kind: str, nodes: list[str], *rails: str) -> dict[str, Any]:
    return {"kind": kind, "nodes": nodes, "rails": list(rails), "evidence": [{"why": "mpirun died"}]}


def test_a_machine_that_the_search_blames_has_not_passed_and_the_reason_names_the_rail():
    whole = line((0, 1, 19.0), (1, 2, 24.0), (0, 2, 21.0), culprits=[culprit("rail", ["gpu-1"], "mlx5_3")])
    assert list(verdict("t", NAMES, whole, 20.0).bad) == ["gpu-1"]
    assert verdict("t", NAMES, whole, 20.0).bad["gpu-1"].endswith("; slow rail mlx5_3")


def test_the_machines_at_both_ends_of_a_slow_link_have_not_passed():
    whole = line((0, 1, 6.0), (1, 2, 24.0), (0, 2, 24.0), culprits=[culprit("link", ["gpu-1", "gpu-2"])])
    assert set(verdict("t", NAMES, whole, 20.0).bad) == {"gpu-1", "gpu-2"}


def test_no_machine_has_passed_if_a_fault_is_in_more_nodes_than_the_line_lists():
    whole = line((0, 1, 24.0), (1, 2, 24.0), (0, 2, 24.0), culprits=[culprit("rail_plane", ["gpu-1", "... 3 nodes"], "mlx5_3")])
    assert set(verdict("t", NAMES, whole, 20.0).bad) == set(NAMES)


def test_no_machine_is_blamed_for_pairs_that_are_slow_only_while_many_pairs_run():
    whole = line((0, 1, 24.0), (1, 2, 24.0), (0, 2, 24.0), culprits=[culprit("between", NAMES)])
    assert verdict("t", NAMES, whole, 20.0).bad == {}


def test_without_any_measured_pair_no_machine_has_passed():
    assert verdict("t", NAMES, {"failed": "no answer from gpu-2"}, 20.0) == EntryLine("t", "no answer from gpu-2", {}, {})


def test_a_message_size_without_a_limit_is_reported():
    assert verdict("t", NAMES[:2], line((0, 1, 24.0)), None).told["gpu-1"].endswith("no limit is known for this size")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("BUSBAR_REMOTE_SHELL", raising=False)
    return tmp_path


def given(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    nodes = [list(one) for one in NODES[:2]]
    text = json.dumps({"token": "a1", "nodes": nodes, "known_hosts": "10.0.1.4 ssh-ed25519 AAA\n", **changes})
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


class Replaced(Exception):  # noqa: N818 - execve does not return
    """The process has been replaced by another program."""


def test_the_program_restarts_itself_with_a_shell_for_the_other_machines_and_keeps_the_ssh_agent(home, monkeypatch, test):
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    given(monkeypatch)
    seen: list[Any] = []

    def execve(path: str, words: list[str], environment: dict[str, str]) -> None:
        seen.append((path, words, environment))
        raise Replaced

    monkeypatch.setattr(os, "execve", execve)
    (home / "entry.json").write_text(json.dumps(data(test)))
    with pytest.raises(Replaced):
        runner.main(["entry", str(home / "entry.json")])
    environment = seen[0][2]
    shell = Path(environment["BUSBAR_REMOTE_SHELL"])
    assert shell.parent == home / "entry/a1", "the shell is in entry.json's folder, which all machines share"
    assert environment["SSH_AUTH_SOCK"] == "/run/agent"
    assert (shell.stat().st_mode & 0o777, shell.parent.stat().st_mode & 0o777) == (0o700, 0o700)
    assert (shell.parent / "known_hosts").read_text() == "10.0.1.4 ssh-ed25519 AAA\n"
    assert "known_hosts" not in json.loads(environment["BUSBAR_ENTRY_TEST"])


def test_a_token_that_could_name_a_path_outside_the_folder_of_entry_tests_is_refused(home, monkeypatch, test, capsys):
    given(monkeypatch, token="../x")  # noqa: S106 - the name of a launch
    (home / "entry.json").write_text(json.dumps(data(test)))
    assert runner.main(["entry", str(home / "entry.json")]) == 1
    assert "only letters and digits" in capsys.readouterr().err


def test_the_remote_shell_accepts_only_host_keys_that_the_controller_pinned(tmp_path):
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nprintf "%s\\n" "$SSH_AUTH_SOCK" "$@"\n')
    ssh.chmod(0o755)
    (tmp_path / "shell").write_text(remote_shell("/h/known hosts", "/run/ssh-x/agent.7"))
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(
        ["sh", str(tmp_path / "shell"), "10.0.1.4", "echo 'a b'"], capture_output=True, text=True, check=True, env=path
    ).stdout.splitlines()
    assert said[0] == "/run/ssh-x/agent.7", "mpirun starts the shell without the connection's variables"
    assert said[-2:] == ["10.0.1.4", "echo 'a b'"]
    assert {"StrictHostKeyChecking=yes", "UserKnownHostsFile=/h/known hosts", "GlobalKnownHostsFile=/dev/null"} <= set(said)


@pytest.fixture
def begun(home, monkeypatch) -> Path:
    """Prepare a test whose program was restarted; return the test's folder."""
    here = home / "entry/a1"
    here.mkdir(parents=True)
    (here / "shell").write_text("#!/bin/sh\n")
    monkeypatch.setenv("BUSBAR_REMOTE_SHELL", str(here / "shell"))
    monkeypatch.setenv("BUSBAR_ENTRY_TEST", json.dumps({"token": "a1", "nodes": [list(one) for one in NODES[:2]]}))
    (home / "tests").mkdir()
    monkeypatch.setattr(build, "work", lambda *_: BUILT._replace(binaries=str(home / "tests")))
    monkeypatch.setattr(search_run, "scale", lambda *_: 1)
    (home / "entry.json").write_text("{}")
    return here


@pytest.mark.parametrize(("busbw", "kept"), [(1000.0, False), (0.1, True)])
def test_an_entry_test_prints_its_json_last_and_keeps_evidence_only_if_a_machine_failed(  # noqa: PLR0913, PLR0917
    begun, home, monkeypatch, capsys, test, busbw, kept
):
    seen: list[Any] = []

    def search(request: Any, trials: Any, here: str, _say: Any) -> dict[str, Any]:
        seen.append((request, trials, here))
        return line((0, 1, busbw))

    monkeypatch.setattr(search_run, "on_free_nodes", search)
    trials = test.trials._replace(size_bytes=4096 * 1024**2)
    (home / "entry.json").write_text(json.dumps(data(test._replace(trials=trials, limits=[PairLimit(1, 20.0)]))))
    assert runner.main(["entry", str(home / "entry.json")]) == 0
    found = load(EntryLine, json.loads(capsys.readouterr().out.splitlines()[-1]))
    assert bool(found.bad) is kept is begun.exists()
    request, trials, here = seen[0]
    assert (request.nodes, here, trials.pair_limit_gb_s) == (NODES[:2], str(begun), 20.0)
    assert 0 < request.budget_s <= max(test.timeout_s - search_run.TRIAL_TIMEOUT_S, 1), "the last round ends in time"
    assert not (home / "tests").exists(), "an entry test leaves no programs behind"


def test_the_reason_is_reported_if_no_pair_runs():
    whole = line((0, 1, None), culprits=[culprit("link", NAMES[:2])])
    assert verdict("t", NAMES[:2], whole, 20.0) == EntryLine("t", "mpirun died", {}, {})


def test_the_scale_is_read_from_the_first_pair_that_runs(monkeypatch, test):
    tried: list[str] = []

    def run(job: Any, *_: Any) -> SimpleNamespace:
        tried.append(job.name)
        if job.name == "first0":
            raise Refusal("node-1 died")
        return SimpleNamespace(transcript=SimpleNamespace(scale=4000))

    monkeypatch.setattr(search_run.program_run, "run", run)
    request = search_run.Search("a1", 600, NODES, 60, None, test.trials)
    assert search_run.scale(request, test.trials, "/x", 60) == 4000
    assert tried == ["first0", "first1"]
    alone = request._replace(nodes=NODES[:2])
    assert search_run.scale(alone, test.trials, "/x", 60) == 1, "no pair runs, so no scale is read"
    tried.clear()
    assert search_run.scale(request, test.trials, "/x", 0) == 1
    assert not tried, "there is no time for a trial"


def test_a_trial_that_the_end_of_the_budget_stopped_does_not_count_and_the_search_says_why(monkeypatch, test):
    """A run that was stopped early says nothing about its nodes; otherwise healthy machines would be called dead."""
    now = [0.0]
    monkeypatch.setattr(search_run.time, "monotonic", lambda: now[0])

    def slow_names(_: Any) -> dict[str, int]:
        now[0] += 20
        return {"x": 0}

    monkeypatch.setattr(search_run._Launch, "_host_names", slow_names)  # noqa: SLF001

    def hangs(job: Any, *_: Any) -> None:
        now[0] += job.timeout_s
        raise Refusal("stopped")

    monkeypatch.setattr(search_run.program_run, "run", hangs)
    request = search_run.Search("a1", 600, NODES, 10.0, None, test.trials)
    found = search_run.on_free_nodes(request, test.trials, "/x", lambda _: None)
    assert found["failed"] == "the budget of 10 s was used up in round 1, whose trials do not count"
    assert (found["culprits"], found["complete"]) == ([], False)


def test_a_search_that_cannot_continue_returns_the_reason(monkeypatch, test):
    def refuses(*_: Any) -> None:
        raise Refusal("no answer from gpu-2")

    monkeypatch.setattr(search_run, "_search", refuses)
    request = search_run.Search("a1", 600, NODES, 60, None, test.trials)
    assert search_run.on_free_nodes(request, test.trials, "/x", print) == {"failed": "no answer from gpu-2"}
