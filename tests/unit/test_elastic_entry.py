"""New machines are tested in pairs before they become nodes: which machines join, why some fail, what remains after faults."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from elastic import Controller, KilledError

from scheduler.elastic import entry
from scheduler.elastic.entry import Desk, Outcome
from scheduler.elastic.settings import LaunchSet, Settings
from scheduler.elastic.work import LOST_S, PAUSE_S

pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")

LIMIT_S = 600


@pytest.fixture(autouse=True)
def frequent_looks_for_pending_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "_POLL_S", 0.01)


@pytest.fixture
def head(tmp_path: Path) -> Controller:
    return Controller(tmp_path, entry_s=LIMIT_S)


def answer(head: Controller, bad: dict[str, str] | None = None, failed: str = "") -> None:
    """Give every pending test a result in which the nodes `bad` have not passed."""
    for token, _, machines in head.desk.due():
        told = {node: "24 GB/s with gpu-dy-p5-9" for node, _, _ in machines}
        head.desk.answer(token, Outcome(failed, bad or {}, told))


def test_machines_join_only_after_their_entry_test_and_slurms_comments_show_its_results(head):
    head.slurm.start(("7", head.nodes(3)))
    head.run(4)
    assert not head.joined, "no slurmd has started, so no job can run on these machines"
    ((_, node_set, machines),) = head.desk.due()
    assert (node_set, sorted(node for node, _, _ in machines)) == ("gpu/p5", head.nodes(3))
    answer(head)
    head.run(2)
    assert sorted(head.joined) == head.nodes(3)
    assert head.slurm.comments == dict.fromkeys(head.nodes(3), "entry test: 24 GB/s with gpu-dy-p5-9")
    assert not head.slurm.reasons()


def test_the_entry_test_waits_until_every_machine_of_the_launch_has_booted(head):
    head.silent = {head.nodes(2)[1]}
    head.slurm.start(("7", head.nodes(2)))
    head.run(3)
    assert not head.desk.due()
    head.silent = set()
    head.run()
    assert head.desk.due()


def test_the_whole_launch_is_terminated_with_the_reason_in_sinfo_if_one_of_its_machines_fails_its_test(head):
    first, second = head.nodes(2)
    head.slurm.start(("7", [first, second]))
    head.run(2)
    answer(head, {first: f"6 of 24 GB/s with {second}"})
    head.run(2)
    assert not head.joined
    assert not head.cloud.running
    assert head.slurm.reasons() == {
        first: f"entry test: 6 of 24 GB/s with {second}",
        second: f"entry test: terminated with {first}, which did not pass",
    }
    head.run(2, seconds=LOST_S)
    assert set(head.slurm.reasons()) == {first}, "the healthy node is usable soon, the bad node only after the pause"
    head.run(2, seconds=PAUSE_S)
    assert not head.slurm.reasons()


def test_machines_of_several_jobs_of_one_node_are_tested_together_and_only_the_bad_machine_is_terminated(head):
    head.slurm.start(*((str(number), [node]) for number, node in enumerate(head.nodes(3))))
    head.run(2)
    answer(head, {head.nodes(1)[0]: "slow"})
    head.run(2)
    assert sorted(head.joined) == head.nodes(2, first=2)
    assert len(head.cloud.running) == 2


def test_a_node_that_the_result_of_the_entry_test_does_not_mention_has_not_passed(head):
    head.slurm.start(("7", head.nodes(2)))
    head.run(2)
    ((token, _, _),) = head.desk.due()
    head.desk.answer(token, Outcome("", {}, {head.nodes(1)[0]: "24 GB/s"}))
    head.run(2)
    assert not head.joined
    assert head.slurm.reasons()[head.nodes(2)[1]] == "entry test: no pair with this node was measured"


def test_the_only_machine_of_a_launch_joins_untested_and_slurms_comment_says_that_no_test_ran(head):
    head.slurm.start(("7", head.nodes(1)))
    head.run(2)
    assert head.joined == head.nodes(1)
    assert head.slurm.comments[head.nodes(1)[0]] == "entry test: not run, because its launch has no other machine"


def test_no_machine_joins_if_the_entry_test_could_not_run(head):
    head.slurm.start(("7", head.nodes(2)))
    head.run(2)
    answer(head, failed="nccl-tests did not build")
    head.run(2)
    assert not head.joined
    assert not head.cloud.running
    assert set(head.slurm.reasons().values()) == {"entry test: nccl-tests did not build"}


def test_an_entry_test_has_a_time_limit_of_its_own_which_may_be_longer_than_the_limit_of_a_start(tmp_path):
    head = Controller(tmp_path, entry_s=3000)
    head.slurm.start(("7", head.nodes(2)))
    head.run(2)
    head.run(1, seconds=3000)
    assert len(head.cloud.running) == 2, "startTimeout of 1800 s does not count while the test runs"
    head.run(2, seconds=entry.GRACE_S)
    assert not head.cloud.running
    assert set(head.slurm.reasons().values()) == {"entry test: it did not end within 3000 s"}


def test_all_machines_of_a_job_end_if_one_of_them_never_boots_because_a_lone_replacement_would_join_untested(head):
    head.silent = {head.nodes(3)[2]}
    head.slurm.start(("7", head.nodes(3)))
    head.run(2)
    head.run(2, seconds=1000)
    assert head.slurm.reasons()[head.nodes(3)[2]] == "its machine was not ready within 1800 s: Connection refused"
    head.run(2)
    assert not head.desk.due()
    assert not head.joined
    assert not head.cloud.running
    told = "entry test: terminated, because another machine of its job did not start"
    assert {head.slurm.reasons()[node] for node in head.nodes(2)} == {told}
    head.run(2, seconds=LOST_S)
    assert set(head.slurm.reasons()) == {head.nodes(3)[2]}, "the others are usable after a minute"


def test_machines_of_single_node_jobs_are_tested_although_another_machine_of_their_launch_never_boots(head):
    head.silent = {head.nodes(3)[2]}
    head.slurm.start(*((str(number), [node]) for number, node in enumerate(head.nodes(3))))
    head.run(2)
    head.run(2, seconds=1000)
    head.run()
    ((_, _, machines),) = head.desk.due()
    assert sorted(node for node, _, _ in machines) == head.nodes(2)


def test_a_terminated_launch_leaves_no_pending_entry_test(head):
    head.slurm.start(("7", head.nodes(2)))
    head.run(2)
    head.slurm.idle(*head.nodes(2))
    head.run(3)
    assert not head.desk.due()
    assert not list((head.folder / entry.FOLDER).iterdir())


@pytest.mark.parametrize("after", [False, True])
def test_a_run_killed_at_any_step_is_continued_until_the_tested_machines_join(tmp_path, after):
    for kill_at in range(1, 40):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        head = Controller(folder, entry_s=LIMIT_S)
        head.steps.kill_at, head.steps.after = kill_at, after
        head.slurm.start(("7", head.nodes(2)))
        killed = False
        for _ in range(6):
            try:
                head.run()
            except KilledError:
                killed = True
            answer(head)
        assert sorted(set(head.joined)) == head.nodes(2)
        assert len(head.cloud.running) == 2
        assert not head.slurm.reasons()
        if not killed:
            return
    pytest.fail("a run was still killed at its 39th step")


def test_pending_tests_run_concurrently_and_do_not_delay_a_new_test(tmp_path):
    desk, both = Desk(str(tmp_path / "entry")), threading.Barrier(2, timeout=20)
    desk.ask("a1", "gpu/p5", [("n1", "i-1", "10.0.0.1"), ("n2", "i-2", "10.0.0.2")])

    def made(token: str, node_set: str, machines: list[tuple[str, str, str]]) -> Outcome:
        assert (node_set, machines[0]) == ("gpu/p5", ("n1", "i-1", "10.0.0.1"))
        if token == "a1":  # noqa: S105 - the name of a launch
            desk.ask("b2", "gpu/p5", machines)
        both.wait()  # raises an error unless both tests run
        return Outcome("", {}, {"n1": token})

    entry.all_due(desk, made)
    assert [(desk.outcome(token) or Outcome("", {}, {})).told for token in ("a1", "b2")] == [{"n1": "a1"}, {"n1": "b2"}]


def test_the_outcome_of_a_test_is_not_kept_if_the_tested_launch_is_gone(tmp_path):
    desk = Desk(str(tmp_path / "entry"))
    desk.ask("a1", "gpu/p5", [])

    def made(*_: Any) -> Outcome:
        desk.keep_only([])
        return Outcome("", {}, {})

    entry.all_due(desk, made)
    assert desk.outcome("a1") is None


MACHINES = [("n1", "i-1", "10.0.0.1"), ("n2", "i-2", "10.0.0.2")]


@pytest.fixture
def known(tmp_path: Path) -> Settings:
    (tmp_path / "known").write_text("i-1 ssh-ed25519 AAA1\ni-0 ssh-ed25519 OLD\ni-2 ssh-ed25519 AAA2\n")
    join = {"user": "opc", "identity": "/srv/key", "known_hosts": str(tmp_path / "known"), "controller": "10.0.0.9"}
    return Settings({"gpu/p5": LaunchSet("gpu", "p5", 4, 1800, {}, "/home/.busbar/entry.sh", 5)}, {}, join, {})


def said(monkeypatch: pytest.MonkeyPatch, known: Settings, out: str, err: str = "", status: int = 0) -> tuple[Outcome, Any]:
    calls: list[Any] = []

    def run(words: list[str], **given: Any) -> SimpleNamespace:
        calls.append((words, json.loads(given["input"]), given["timeout"]))
        return SimpleNamespace(returncode=status, stdout=out.encode(), stderr=err.encode())

    monkeypatch.setattr(entry.subprocess, "run", run)
    return entry.over_ssh(lambda: known)("a1", "gpu/p5", MACHINES), calls[0]


def test_a_test_runs_on_the_first_machine_and_reaches_the_other_machines_by_the_forwarded_agent_and_pinned_keys(
    known, monkeypatch
):
    outcome, (words, given, timeout_s) = said(monkeypatch, known, 'x\n{"failed": "", "bad": {}, "told": {"n1": "24"}}\n')
    assert outcome == Outcome("", {}, {"n1": "24"})
    assert words[:5] == ["ssh-agent", "sh", "-c", 'ssh-add -q "$0" && exec "$@"', "/srv/key"]
    assert words[-4:] == ["-o", "ForwardAgent=yes", "opc@10.0.0.1", "/home/.busbar/entry.sh"]
    assert "HostKeyAlias=i-1" in words
    assert given["nodes"] == [["n1", "10.0.0.1"], ["n2", "10.0.0.2"]]
    assert given["known_hosts"] == "10.0.0.1 ssh-ed25519 AAA1\n10.0.0.2 ssh-ed25519 AAA2\n"
    assert timeout_s == 5


@pytest.mark.parametrize(
    ("out", "err", "status", "why"),
    [
        ("", "busbar: nccl-tests did not build", 1, "busbar: nccl-tests did not build"),
        ("", "", 0, "no output"),
        ("hello", "", 0, "its answer cannot be read: hello"),
    ],
)
def test_a_test_without_a_result_fails_with_the_reason(known, monkeypatch, out, err, status, why):  # noqa: PLR0913, PLR0917
    assert said(monkeypatch, known, out, err, status)[0] == Outcome(why, {}, {})


def test_a_test_that_does_not_end_fails_with_the_reason(known, monkeypatch):
    def run(*_: Any, **__: Any) -> None:
        raise entry.subprocess.TimeoutExpired("ssh", 5)

    monkeypatch.setattr(entry.subprocess, "run", run)
    assert entry.over_ssh(lambda: known)("a1", "gpu/p5", MACHINES).failed == "it did not end within 5 s"


def test_a_test_fails_with_the_reason_if_ssh_cannot_start_or_the_file_of_host_keys_cannot_be_read(known, monkeypatch, tmp_path):
    desk = Desk(str(tmp_path / "entry"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for token, missing in (("a1", "ssh-agent"), ("b2", f"{tmp_path}/known")):
        desk.ask(token, "gpu/p5", MACHINES)
        entry.all_due(desk, entry.over_ssh(lambda: known))
        assert desk.outcome(token) == Outcome(f"[Errno 2] No such file or directory: '{missing}'", {}, {})
        (tmp_path / "known").unlink(missing_ok=True)


def test_files_of_a_known_launch_are_kept_even_if_half_written_but_files_of_other_launches_are_removed(tmp_path):
    desk = Desk(str(tmp_path / "entry"))
    for name in (".a1.outcome", "a1.asked", ".b2.outcome", "b2.asked"):
        (tmp_path / "entry" / name).touch()
    desk.keep_only(["a1"])
    assert sorted(path.name for path in (tmp_path / "entry").iterdir()) == [".a1.outcome", "a1.asked"]


def test_files_of_an_entry_test_that_another_program_removes_or_renames_cause_no_failure(tmp_path, monkeypatch):
    desk = Desk(str(tmp_path / "entry"))
    monkeypatch.setattr(entry.os, "listdir", lambda _: [".b2.outcome"])  # `all_due` has renamed this file in the meantime
    desk.keep_only([])
    monkeypatch.setattr(entry.os, "fsync", lambda _: (tmp_path / "entry" / ".b2.outcome.part").unlink())
    desk.answer("b2", Outcome("", {}, {}))
    assert desk.outcome("b2") is None


def test_machines_of_a_removed_set_are_not_tested(known):
    assert (
        entry.over_ssh(lambda: known)("a1", "gpu/p4", MACHINES).failed
        == "the set of these machines is no longer in the cluster"
    )
