"""A run's folder on the head node: the files of a worker, and the end of the wait for the run. No worker is started."""

from __future__ import annotations

import fcntl
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.launch import protocol
from benchmarks.runner import __main__ as runner
from benchmarks.runner import jobs
from benchmarks.runner.refusal import Refusal

REQUEST = protocol.Schedule("r1", 60, [protocol.Node("a", "10.0.0.1")], "gpu", "NVIDIA H100", 8)
LINE = protocol.Refused("r1", "why", "schedule")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of run r1, which contains the run's request."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".busbar/runs/r1"
    folder.mkdir(parents=True)
    (folder / "request.json").write_text(json.dumps(protocol.data(REQUEST)))
    return folder


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(jobs.subprocess, "Popen", lambda argv, **given: found.append(given | {"argv": argv}))
    return found


def kinds(work: Any) -> Callable[[str], Any]:
    return {"schedule": SimpleNamespace(work=work)}.__getitem__


def test_a_worker_leaves_its_line_and_its_progress(here):
    def work(request: protocol.Request, folder: str, say: jobs.Say) -> Any:
        assert (request, folder) == (REQUEST, str(here))
        say("one\n")
        say("two")
        return LINE

    jobs.work(str(here), kinds(work))
    assert json.loads((here / "line.json").read_text()) == protocol.data(LINE)
    assert (here / "progress.log").read_text() == "one\ntwo\n"
    assert not (here / "failed.txt").exists()


def refuse(*_: Any) -> Any:
    raise Refusal("no room")


def test_failed_txt_quotes_a_refusal_but_gives_the_path_of_the_log_for_any_other_failure(here):
    jobs.work(str(here), kinds(refuse))
    assert (here / "failed.txt").read_text() == "no room"
    with pytest.raises(ZeroDivisionError):
        jobs.work(str(here), kinds(lambda *_: 1 // 0))
    said = (here / "failed.txt").read_text()
    assert said.startswith("the runner itself failed (ZeroDivisionError(")
    assert said.endswith(f"see {here}/worker.log")


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_a_line_has_at_most_64_kib(here, more, fits):
    empty = len(json.dumps(protocol.data(LINE._replace(failed=""))))
    line = LINE._replace(failed="x" * (65536 - empty + more))
    jobs.work(str(here), kinds(lambda *_: line))
    assert (here / "line.json").exists() is fits
    if not fits:
        assert (here / "failed.txt").read_text() == "the result is 65537 bytes long, but a line may have at most 65536"


def test_progress_is_seen_while_the_work_goes_on(here, monkeypatch):
    """Before Python 3.9, stderr buffered even complete lines if it was not a terminal."""
    shown = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr("sys.stderr", shown)
    (here / "progress.log").write_text("one\n")
    seen = []

    def pause(_: float) -> None:
        seen.append(shown.buffer.getvalue())
        (here / "line.json").write_text("{}")

    monkeypatch.setattr(jobs, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=pause))
    with (here / "worker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        jobs.wait("r1", 5)
    assert seen == [b"one\n"]


def test_work_starts_although_a_reader_has_the_lock_at_that_instant_but_not_while_a_worker_has_it(here, started, monkeypatch):
    held = (here / "worker.lock").open("w")
    fcntl.flock(held, fcntl.LOCK_SH)
    monkeypatch.setattr(jobs.time, "sleep", lambda _: held.close())
    jobs.submit(REQUEST)
    assert len(started) == 1
    with (here / "worker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        jobs.submit(REQUEST)
    assert len(started) == 1


def test_waiting_prints_the_result_and_each_complete_line_of_progress_once(here, capsys):
    (here / "progress.log").write_text("one\ntwo\nhalf a li")
    (here / "line.json").write_text("{}")
    assert jobs.wait("r1", 5) == 0
    found = capsys.readouterr()
    assert (found.out, found.err) == ("{}\n", "one\ntwo\n")


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"failed.txt": "no room"}, "no room"),
        ({"failed.txt": "no room", "worker.log": "x"}, "no room"),
        ({}, "the work on the head node ended without a result; last log line: none"),
        ({"worker.log": "\n"}, "the work on the head node ended without a result; last log line: none"),
        ({"worker.log": "first\nKilled\n"}, "the work on the head node ended without a result; last log line: Killed"),
    ],
)
def test_waiting_for_a_run_that_ended_without_a_line_raises_the_reason(here, files, why):
    for name, text in files.items():
        (here / name).write_text(text)
    with pytest.raises(Refusal) as refused:
        jobs.wait("r1", 5)
    assert str(refused.value) == why


def test_waiting_for_a_run_that_ended_because_the_disk_was_full_raises_that_reason(here):
    """The run could not record anything. Here, the file `room` is a link to /dev/full, so every write to `room` fails."""
    (here / "room").symlink_to("/dev/full")
    with pytest.raises(Refusal, match=r"^the work on the head node ended without a result; its disk: No space left on device$"):
        jobs.wait("r1", 5)
    assert not (here / "room").exists()


@pytest.mark.parametrize(("given", "bound"), [(None, 60), (7, 7)])
def test_a_wait_ends_300_s_after_twice_its_timeout_which_is_by_default_the_timeout_of_the_request(
    here, monkeypatch, given, bound
):
    clock = SimpleNamespace(now=1000.0)

    def pause(_: float) -> None:
        clock.now += 50

    monkeypatch.setattr(jobs, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=pause))
    with (here / "worker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Refusal) as refused:
            jobs.wait("r1", given)
    assert str(refused.value) == f"run r1 is still running, although its limit is {bound} s of waiting and {bound} s of work"
    assert 2 * bound + 300 < clock.now - 1000 <= 2 * bound + 350


def test_waiting_for_a_run_that_nobody_started_is_refused(here):
    assert here.exists()
    with pytest.raises(Refusal, match=r"^no run r2 is known on this node$"):
        jobs.wait("r2", 5)


@pytest.mark.parametrize("run_id", ["", "../r1", "a b", "a/b"])
def test_a_run_id_that_is_not_only_letters_and_digits_is_refused(run_id):
    with pytest.raises(Refusal, match="only letters and digits are allowed"):
        jobs.folder(run_id)


def test_a_run_begins_in_a_private_folder_without_an_earlier_attempts_files(here, started, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["runner"])
    for name in ("failed.txt", "progress.log", "request.json"):
        (here / name).write_text("old")
    jobs.submit(REQUEST)
    (one,) = started
    assert one["argv"] == [sys.executable, "-IS", str(Path("runner").resolve()), "worker", str(here)]
    assert one["start_new_session"]
    assert len(one["pass_fds"]) == 1
    assert sorted(path.name for path in here.iterdir()) == ["request.json", "worker.lock", "worker.log"]
    assert protocol.request(json.loads((here / "request.json").read_text())) == REQUEST
    jobs.submit(REQUEST._replace(run_id="r2"))
    assert (here.parent / "r2").stat().st_mode & 0o777 == 0o700


def test_a_finished_run_is_not_started_again(here, started):
    (here / "line.json").write_text("{}")
    jobs.submit(REQUEST)
    assert started == []


def test_the_function_fresh_empties_an_existing_folder(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old/file").touch()
    assert jobs.fresh(str(tmp_path / "old")) == str(tmp_path / "old")
    assert list((tmp_path / "old").iterdir()) == []


def test_a_file_gets_its_name_only_when_its_whole_content_is_on_the_disk(tmp_path, monkeypatch):
    on_disk: list[tuple[str, list[str]]] = []

    def sync(_: int) -> None:
        on_disk.append(((tmp_path / "file.new").read_text(), [path.name for path in tmp_path.iterdir()]))

    monkeypatch.setattr(jobs.os, "fsync", sync)
    jobs.write(str(tmp_path / "file"), "content")
    assert on_disk == [("content", ["file.new"])]
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "content")]


def ran(patch: pytest.MonkeyPatch, text: str, *words: str) -> int:
    patch.setattr(sys, "stdin", SimpleNamespace(read=lambda: text))
    return runner.main(list(words))


def test_a_refusal_is_complete_on_stderr_for_a_person_but_is_cut_in_the_line_for_the_engine(here, started, monkeypatch, capsys):
    (here / "failed.txt").write_text("x" * 5000)
    text = json.dumps(protocol.data(REQUEST))
    monkeypatch.setattr(jobs, "submit", lambda _: None)
    assert ran(monkeypatch, text, "ask") == 0
    found = capsys.readouterr()
    line = json.loads(found.out)
    assert (line["run_id"], line["kind"], set(line["failed"])) == ("r1", "schedule", {"x"})
    assert found.err == f"busbar: {'x' * 5000}\n"
    assert len(line["failed"]) == 4000
    assert ran(monkeypatch, text, "run") == 1
    assert capsys.readouterr().err == f"busbar: {'x' * 5000}\n"
    assert started == []


@pytest.mark.parametrize("words", [(), ("dance",), ("wait",), ("worker",), ("run", "more"), ("plan", "more")])
def test_invalid_arguments_of_the_runner_print_its_usage(monkeypatch, capsys, words):
    assert ran(monkeypatch, "", *words) == 2
    assert "run" in capsys.readouterr().err
