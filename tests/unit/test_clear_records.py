"""`make clear` deletes the records of rehearsed stacks; measurements of real machines stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.records.history import Key, Record, append
from tools.clear_records import clear


def record(folder: Path, run_id: str, scale: int) -> Path:
    """Write one run into the history; return the path of its file."""
    key = Key("oci", "BM.GPU4.8", 2, "all_reduce", 1 << 30, scale=scale)
    append(str(folder / "history"), Record(run_id, "2026-11-27T12:00:00Z", key, "pass", 170.0, 171.0, 30.0, {}))
    (found,) = (folder / "history").rglob(f"*{run_id}.json")
    return found


@pytest.fixture
def busbar(tmp_path):
    for name in ("state/.pulumi/stacks/busbar", "config", "history/evidence", "report/dev", "report/oci", "report/team"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "state/.pulumi/stacks/busbar/dev.json").touch()
    (tmp_path / "config" / "team.created-in").touch()
    (tmp_path / "config" / "Pulumi.oci.yaml").touch()  # `make outputs` writes this file for a real stack, too
    return tmp_path


def test_a_rehearsals_state_and_records_are_deleted(busbar):
    record(busbar, "run1", scale=100)
    assert clear(busbar) == [str(busbar / "report" / "oci")]
    assert sorted(path.name for path in busbar.iterdir()) == ["report"]


def test_a_measurement_of_real_machines_and_all_transcripts_stay(busbar):
    rehearsed, real = record(busbar, "run1", scale=100), record(busbar, "run2", scale=1)
    assert str(real.parent) in clear(busbar)
    assert (real.exists(), rehearsed.exists(), (busbar / "history" / "evidence").is_dir()) == (True, False, True)


def test_a_record_that_cannot_be_read_stays(busbar):
    kept = record(busbar, "run1", scale=100)
    kept.write_text("{")
    assert str(kept.parent) in clear(busbar)
    assert kept.exists()


def test_a_checkout_without_records_is_no_error(tmp_path):
    assert clear(tmp_path) == []
