"""A new controller of a Slurm cluster takes over the earlier controller's jobs, through a copy beside the home folders."""

from __future__ import annotations

import io
import os
import re
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from scheduler import node_setup
from scheduler.elastic import handover
from scheduler.users import snapshot
from scheduler.users.refusal import RefusalError

SCRIPT = "hash.7/job.17/script"


class Machine:
    """A controller with its own disk, and the home file system that it shares with the other controllers.

    Attributes:
        state: folder of slurmctld's state.
        stopped: how often any controller stopped slurmctld; the controller `first` has this number, all others have 0.
        slurm: the version of the machine's Slurm.
    """

    def __init__(self, home: Path, name: str) -> None:
        self.name, self.local, self.slurm, self.stopped = name, home.parent / name, "22.05.9", 0
        self.state = self.local / "slurmctld"
        self.local.mkdir()
        self.place = handover.Place(str(home), str(home / ".busbar-slurm" / "busbar.dev"), state=str(self.state))

    def queue(self, jobs: str) -> None:
        """Write the files that slurmctld would write for these jobs; job 17 has a script."""
        (self.state / SCRIPT).parent.mkdir(parents=True, exist_ok=True)
        (self.state / SCRIPT).write_text("#!/bin/sh\n")
        for name, text in (("job_state", jobs), ("job_state.old", "before"), ("dbd.messages", "m"), ("node_state", "n")):
            (self.state / name).write_text(text)

    def keep(self) -> str:
        return handover.keep(self.place, self.name, lambda: self.slurm, str(self.local))

    def take(self, wait: Callable[[float], None] = lambda _: None, clock: Callable[[], float] = lambda: 0) -> str:
        return handover.take(self.place, self.name, self.slurm, wait, clock)

    def files(self) -> set[str]:
        return {str(path.relative_to(self.state)) for path in self.state.rglob("*") if path.is_file()}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Machine]:
    """Return a function that makes the controller with a name; this user replaces root and slurm, and systemctl is not run."""
    made: dict[str, Machine] = {}
    monkeypatch.setattr(snapshot, "_ROOT", os.getuid())
    monkeypatch.setattr(node_setup.pwd, "getpwnam", lambda _: SimpleNamespace(pw_uid=os.getuid(), pw_gid=os.getgid()))

    def stop(*words: str) -> int:
        assert words == ("systemctl", "disable", "--now", "slurmctld.service")
        made["first"].stopped += 1
        jobs = made["first"].state / "job_state"  # slurmctld writes its state once more when it stops
        if jobs.exists():
            jobs.write_text(f"{jobs.read_text()}, at the stop")
        return 0

    monkeypatch.setattr(node_setup, "run", stop)
    (tmp_path / "home").mkdir()
    return lambda name: made.setdefault(name, Machine(tmp_path / "home", name))


def test_an_earlier_controller_stops_slurmctld_and_makes_a_last_copy_for_which_the_new_controller_waits(machine):
    first, second = machine("first"), machine("second")
    first.queue("job 17")
    assert first.keep() == ""
    first.queue("jobs 17 and 18")
    said = []

    def wait(_: float) -> None:
        said.append(first.keep())

    assert handover.is_second(second.place, second.name, str(second.local))
    assert second.take(wait) == ""
    assert said == [
        "another controller has taken over, so slurmctld was stopped; no machine is started or terminated from here"
    ]
    assert first.stopped == 1
    assert handover.is_given(str(first.local))
    assert second.files() == {"job_state", "node_state", SCRIPT}
    assert (second.state / "job_state").read_text() == "jobs 17 and 18, at the stop"
    assert handover.is_second(second.place, second.name, str(second.local)), (
        "a controller is the second until the machines of the first controller are terminated"
    )
    handover.ended(str(second.local))
    assert not handover.is_second(second.place, second.name, str(second.local))


def test_if_the_earlier_controller_is_dead_its_most_recent_copy_is_taken_after_a_minute(machine):
    first, second = machine("first"), machine("second")
    first.queue("job 17")
    first.keep()
    times = iter(range(0, 1000, 10))
    said = second.take(clock=lambda: next(times))
    assert re.fullmatch(
        r"the earlier controller did not write a last copy within 60 s; the queue is as it was at \d{4}-.* UTC", said
    )
    assert (second.state / "job_state").read_text() == "job 17"
    assert 60 < next(times) < 100


def test_an_earlier_controller_that_comes_back_late_does_not_overwrite_the_copy_of_its_successor(machine):
    first, second = machine("first"), machine("second")
    first.queue("job 17")
    first.keep()
    second.take(clock=iter((0, 100)).__next__)
    second.queue("job 19")
    second.keep()
    first.queue("job 18")
    assert "another controller has taken over" in first.keep()
    third = machine("third")
    third.take(clock=iter((0, 100)).__next__)
    assert (third.state / "job_state").read_text() == "job 19"


def test_a_controller_that_has_jobs_already_takes_nothing_and_the_first_controller_finds_no_copy(machine):
    first = machine("first")
    assert first.take() == ""
    first.queue("job 1")
    first.keep()
    first.queue("job 2")
    assert first.take() == ""
    assert (first.state / "job_state").read_text() == "job 2"
    assert first.stopped == 0


def test_the_copy_is_written_only_after_jobs_changed_and_only_root_can_read_it(machine):
    first = machine("first")
    assert first.keep() == ""
    copy = Path(first.place.copy)
    assert not copy.exists(), "slurmctld has not written its list yet"
    first.queue("job 17")
    first.keep()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(Path(first.place.folder).stat().st_mode) == 0o700
    copy.unlink()
    first.keep()
    assert not copy.exists()
    (first.state / "job_state").unlink()
    first.queue("job 18")
    first.keep()
    assert copy.exists()


def test_jobs_of_another_release_of_slurm_are_left_in_a_file_and_the_operator_is_told(machine):
    first, second = machine("first"), machine("second")
    first.queue("job 17")
    first.keep()
    second.slurm = "23.11.4"
    said = second.take(lambda _: first.keep() and None)
    assert "not in this controller's queue: they were written by Slurm 22.05.9, and this login node has 23.11.4; see /" in said
    assert Path(said.rpartition("see ")[2]).exists()
    assert not second.state.exists()


@pytest.mark.parametrize("name", ["../outside", "/outside/of/it", "job_state/../../x"])
def test_a_copy_with_a_file_that_would_be_written_elsewhere_is_not_unpacked(machine, name, tmp_path):
    first, second = machine("first"), machine("second")
    first.queue("job 17")
    first.keep()
    with tarfile.open(first.place.copy, "w:gz") as packed:
        about = b'{"by": "first", "slurm": "22.05.9", "last": true}'
        for member, body in (("busbar.json", about), ("node_state", b"n"), (name, b"x")):
            its = tarfile.TarInfo(member)
            its.size = len(body)
            packed.addfile(its, io.BytesIO(body))
    assert "their copy cannot be read" in second.take()
    assert not second.state.exists()
    assert not (tmp_path / "second" / "outside").exists()


@pytest.mark.parametrize("cut", [0, 10, 100])
def test_a_copy_that_cannot_be_read_is_renamed_and_the_operator_is_told(machine, cut):
    first, second = machine("first"), machine("second")
    first.queue("job 17")
    first.keep()
    copy = Path(first.place.copy)
    copied = copy.read_bytes()
    copy.write_bytes(copied[:cut])
    said = second.take()
    assert "their copy cannot be read" in said
    assert Path(said.rpartition("see ")[2]).read_bytes() == copied[:cut]
    assert not copy.exists()
    assert not second.state.exists()


def test_a_copy_with_a_wrong_checksum_is_renamed_but_an_error_of_the_file_system_is_not_taken_for_damage(machine, monkeypatch):
    first, second = machine("first"), machine("second")
    first.queue("job 17")
    first.keep()
    copy = Path(first.place.copy)
    whole = copy.read_bytes()
    copy.write_bytes(whole[:-8] + bytes(4) + whole[-4:])
    assert "their copy cannot be read" in second.take(clock=iter((0, 100)).__next__)
    copy.write_bytes(whole)

    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(tarfile, "open", fails)
    with pytest.raises(OSError, match="Input/output error"):
        machine("third").take()
    assert copy.exists()


def test_an_interrupted_unpacking_is_repeated(machine, monkeypatch):
    first, second = machine("first"), machine("second")
    first.queue("job 17")
    first.keep()
    put = node_setup.put

    def full(path: str, *rest: object) -> bool:
        if path.endswith("script"):
            raise OSError(28, "No space left on device")
        return put(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(node_setup, "put", full)
    with pytest.raises(OSError, match="No space left"):
        second.take(clock=iter((0, 100)).__next__)
    assert "job_state" not in second.files()
    monkeypatch.setattr(node_setup, "put", put)
    second.take(clock=iter((0, 100)).__next__)
    assert second.files() == {"job_state", "node_state", SCRIPT}


def test_after_a_destroy_no_later_stack_finds_the_jobs(machine):
    first, second = machine("first"), machine("second")
    first.queue("job 17")
    first.keep()
    handover.forget(second.place, second.name, str(second.local))
    assert Path(first.place.copy).exists(), "only the first controller, which made the copy, removes it"
    handover.forget(first.place, first.name, str(first.local))
    assert second.take() == ""
    assert not second.state.exists()


def test_nothing_is_written_below_a_mount_point_whose_file_system_is_missing(machine):
    first = machine("first")
    first.place = first.place._replace(mounted=True)
    for call in (first.keep, first.take, lambda: handover.forget(first.place, "first", str(first.local))):
        with pytest.raises(RefusalError, match="the copy of Slurm's jobs is on its file system"):
            call()
    assert not Path(first.place.folder).exists()


def test_a_copy_that_somebody_other_than_root_could_change_is_neither_read_nor_written(machine):
    first = machine("first")
    first.queue("job 17")
    first.keep()
    Path(first.place.folder).chmod(0o777)
    for call in (first.keep, first.take):
        with pytest.raises(RefusalError, match="does not belong to root only"):
            call()


def test_a_controller_that_cannot_write_its_last_copy_starts_no_machine_any_more_and_tries_again(machine, monkeypatch):
    first, second = machine("first"), machine("second")
    first.queue("job 17")
    first.keep()
    second.take(clock=iter((0, 100)).__next__)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(handover, "_pack", full)
        with pytest.raises(OSError, match="No space left"):
            first.keep()
    assert handover.is_given(str(first.local))
    assert not handover.is_done(str(first.local))
    assert "another controller has taken over" in first.keep()
    assert handover.is_done(str(first.local))


def test_a_last_copy_without_a_list_of_jobs_gives_an_empty_queue(machine):
    first, second = machine("first"), machine("second")
    first.queue("job 17")
    first.keep()
    (first.state / "job_state").unlink()
    assert second.take(lambda _: first.keep() and None) == ""
    assert "job_state" not in second.files()
    assert "node_state" in second.files()


def test_a_copy_that_was_begun_before_another_controller_took_over_does_not_replace_that_controllers_copy(machine, monkeypatch):
    first, second = machine("first"), machine("second")
    first.queue("job 17")
    add, taken = handover._add_file, []  # noqa: SLF001

    def takes_over(*given: object) -> None:
        if not taken:
            taken.append(second.take(clock=iter((0, 100)).__next__))
            second.queue("job 19")
            second.keep()
        add(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(handover, "_add_file", takes_over)
    first.keep()
    third = machine("third")
    third.take(clock=iter((0, 100)).__next__)
    assert (third.state / "job_state").read_text() == "job 19"
    assert [path.name for path in Path(first.place.folder).iterdir() if ".tar.gz." in path.name] == []
