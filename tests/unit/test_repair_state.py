"""Before the engine runs, a truncated state is restored from the engine's own backup, and a stale lock is removed."""

from __future__ import annotations

import json
import os
import socket

import pytest

from tools import repair_state, unlock

WHOLE = json.dumps({"version": 3, "checkpoint": {"latest": {"resources": []}}})


@pytest.fixture
def state(tmp_path):
    """Return the path of a stack's state in a backend; the backup's path is this path with `.bak` appended."""
    place = tmp_path / ".pulumi" / "stacks" / "busbar"
    place.mkdir(parents=True)
    return place / "dev.json"


@pytest.mark.parametrize("cut", ["", WHOLE[:-3], "null"])
def test_a_truncated_state_is_restored_from_its_backup_with_a_message(state, tmp_path, monkeypatch, capsys, cut):
    state.write_text(cut)
    backup = state.with_name("dev.json.bak")
    backup.write_text(WHOLE)
    os.utime(backup, (1_800_000_000, 1_800_000_000))
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    assert repair_state.main(["dev"]) == 0
    assert state.read_text() == WHOLE
    said = "the state of dev was truncated (was the disk full?); it is restored from its backup of 2027-01-15 08:00:00 UTC"
    assert capsys.readouterr().err == f"busbar: {said}\n"
    assert repair_state.main(["dev"]) == 0
    assert capsys.readouterr().err == ""
    assert sorted(path.name for path in state.parent.iterdir()) == ["dev.json", "dev.json.bak"]


@pytest.mark.parametrize(("backup", "said"), [(WHOLE[:9], "truncated, too"), (None, "missing")])
def test_a_state_whose_backup_is_truncated_or_missing_is_not_touched_and_is_reported(state, tmp_path, backup, said):
    state.write_text(WHOLE[:9])
    if backup is not None:
        state.with_name("dev.json.bak").write_text(backup)
    with pytest.raises(
        repair_state.RefusedError, match=rf"dev\.json is truncated, and its dev\.json\.bak is {said}; import an"
    ):
        repair_state.restored(f"file://{tmp_path}", "dev")
    assert state.read_text() == WHOLE[:9]


def test_a_state_that_cannot_be_read_is_not_replaced_by_its_backup(state, tmp_path):
    state.mkdir()  # root can read every file, so a folder is at the path instead
    state.with_name("dev.json.bak").write_text(WHOLE)
    with pytest.raises(repair_state.RefusedError, match=r"dev\.json could not be read: Is a directory"):
        repair_state.restored(f"file://{tmp_path}", "dev")
    assert state.is_dir()


def test_the_state_and_the_lock_of_another_project_are_ignored(state, tmp_path):
    state.write_text(WHOLE)
    for path in ("stacks/other/dev.json", "locks/organization/other/dev/1.json"):
        (tmp_path / ".pulumi" / path).parent.mkdir(parents=True)
        (tmp_path / ".pulumi" / path).write_text("")
    (tmp_path / ".pulumi/stacks/other/dev.json.bak").write_text(WHOLE)
    assert repair_state.restored(f"file://{tmp_path}", "dev") == []
    assert repair_state.unlocked(f"file://{tmp_path}", "dev") == []
    assert (tmp_path / ".pulumi/stacks/other/dev.json").read_text() == ""


def test_the_truncated_state_of_a_stack_with_another_name_and_the_backup_of_a_removed_stack_are_ignored(state, tmp_path):
    state.write_text("")
    state.with_name("other.json.bak").write_text(WHOLE)
    assert repair_state.restored(f"file://{tmp_path}", "other") == []
    assert not state.with_name("other.json").exists()


@pytest.mark.parametrize(("hostname", "lifted"), [(socket.gethostname(), True), ("elsewhere", False)])
def test_a_stale_lock_is_removed_and_a_lock_of_another_machine_is_left_to_the_engine(tmp_path, monkeypatch, hostname, lifted):
    place = tmp_path / ".pulumi" / "locks" / "organization" / "busbar" / "dev"
    place.mkdir(parents=True)
    lock = {"pid": 1, "username": "root", "hostname": hostname, "timestamp": "2026-11-22T21:00:00Z"}
    (place / "1.json").write_text(json.dumps(lock))
    ran: list[list[str]] = []
    monkeypatch.setattr(unlock.subprocess, "run", lambda words, **_: ran.append(words))
    said = repair_state.unlocked(f"file://{tmp_path}", "dev")
    assert [one.partition(": ")[2].partition(",")[0] for one in said] == [f"process 1 of root on {hostname}"] * lifted
    assert len(ran) == lifted


@pytest.mark.parametrize(
    "text", ["", '{"pid": 1', "[]", '{"pid": 1}', json.dumps(dict.fromkeys(("pid", "username", "hostname", "timestamp")))]
)
@pytest.mark.parametrize("running", [True, False])
def test_a_truncated_lock_is_removed_unless_an_engine_runs_on_this_machine(tmp_path, monkeypatch, text, running):
    place = tmp_path / ".pulumi" / "locks" / "organization" / "busbar" / "dev"
    place.mkdir(parents=True)
    (place / "1.json").write_text(text)
    (tmp_path / "proc" / "17").mkdir(parents=True)
    (tmp_path / "proc" / "17" / "stat").write_text(f"17 ({'pulumi' if running else 'bash'}) S 1")
    monkeypatch.setattr(unlock, "_PROCESSES", tmp_path / "proc")
    ran: list[list[str]] = []
    monkeypatch.setattr(unlock.subprocess, "run", lambda words, **_: ran.append(words))
    said = repair_state.unlocked(f"file://{tmp_path}", "dev")
    assert len(said) == len(ran) == (not running)
    if running:
        with pytest.raises(unlock.RefusedError, match=r"truncated .* type `pulumi cancel` when no update runs"):
            unlock.unlock(f"file://{tmp_path}", "dev")


def test_a_backend_outside_this_machine_is_not_touched(monkeypatch, capsys):
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://bucket")
    assert repair_state.main(["dev"]) == 0
    assert capsys.readouterr().err == ""


def test_the_state_is_repaired_before_pulumi_is_run():
    lines = (repair_state.Path(repair_state.__file__).parent / "in-stack").read_text().splitlines()
    (at,) = [number for number, line in enumerate(lines) if "tools.repair_state" in line]
    assert not [line for line in lines[:at] if "pulumi " in line and not line.lstrip().startswith("#")]
