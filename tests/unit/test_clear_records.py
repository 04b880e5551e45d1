"""`make clear` deletes the records of rehearsed stacks; measurements and stacks of real machines stay."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from benchmarks.records.history import Key, Record, append
from tools import clear_records
from tools.clear_records import clear, refuse_real
from tools.stack_commands import RefusedError

NETWORK = "oci:Core/clusterNetwork:ClusterNetwork"
COMMAND = "command:remote:Command"


def record(folder: Path, run_id: str, scale: int) -> Path:
    """Write one run into the history; return the path of its file."""
    key = Key("oci", "BM.GPU4.8", 2, "all_reduce", 1 << 30, scale=scale)
    append(str(folder / "history"), Record(run_id, "2026-11-27T12:00:00Z", key, "pass", 170.0, 171.0, 30.0, {}))
    (found,) = (folder / "history").rglob(f"*{run_id}.json")
    return found


@pytest.fixture
def busbar(tmp_path):
    folder = tmp_path / ".busbar"
    for name in ("state/.pulumi/stacks/busbar", "config", "history/evidence", "report/dev", "report/oci", "report/team"):
        (folder / name).mkdir(parents=True)
    (folder / "state/.pulumi/stacks/busbar/dev.json").touch()
    (folder / "config" / "team.created-in").touch()
    (folder / "config" / "Pulumi.oci.yaml").touch()  # `make outputs` writes this file for a real stack, too
    return folder


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
    refuse_real(tmp_path, tmp_path / "world")
    assert clear(tmp_path) == []


def state(busbar: Path, *kinds: str, name: str = "oci.json", creating: bool = False) -> None:
    """Write a stack's state with a resource of each kind, or with an unfinished creation of each."""
    stack = {"urn": "urn:stack", "type": "pulumi:pulumi:Stack"}
    provider = {"urn": "urn:provider", "type": "pulumi:providers:oci", "custom": True}
    found = [{"urn": f"urn:{kind}", "type": kind, "custom": True} for kind in kinds]
    operations = [{"type": "creating", "resource": one} for one in found] if creating else []
    latest = {"resources": [stack, provider, *([] if creating else found)], "pending_operations": operations}
    text = json.dumps({"version": 3, "checkpoint": {"stack": "x", "latest": latest}}).encode()
    (busbar / "state/.pulumi/stacks/busbar" / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)


def world(busbar: Path, *kinds: str) -> Path:
    """Write the records of the rehearsal's cloud; return the world's folder."""
    folder = busbar / "world"
    (folder / "clouds").mkdir(parents=True)
    records = {kind: {"urn": f"urn:{kind}"} for kind in kinds}
    (folder / "clouds" / "oci.json").write_text(json.dumps({"records": records, "struck": {}}))
    return folder


@pytest.mark.parametrize("how", [("oci.json", False), ("oci.json", True), ("oci.json.gz", False)])
@pytest.mark.parametrize("kinds", [[NETWORK, COMMAND], [COMMAND, COMMAND]])
def test_nothing_is_removed_while_a_stack_has_resources_that_the_rehearsal_does_not_have(
    busbar, monkeypatch, capsys, kinds, how
):
    (busbar / "state/.pulumi/stacks/busbar/dev.json").write_text('{"version": 3, "checkpoint": {"latest": {}}}')
    state(busbar, *kinds, name=how[0], creating=how[1])
    world(busbar, "other")
    monkeypatch.setattr(clear_records, "_CHECKOUT", busbar.parent)
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("the rehearsal was ended"))
    monkeypatch.delenv("BUSBAR_WORLD", raising=False)
    assert clear_records.main() == 1
    assert capsys.readouterr().err == (
        "clear: stack oci has 2 resources, and not all of them are this rehearsal's; nothing is removed. `. tools/env && "
        "pulumi destroy --stack oci` ends them; if you rehearsed the stack, `make down STACK=oci` does.\n"
    )
    assert (busbar / "state/.pulumi/stacks/busbar" / how[0]).exists()


def test_a_rehearsed_stack_that_was_not_destroyed_is_no_reason_to_refuse(busbar):
    (busbar / "state/.pulumi/stacks/busbar/dev.json").unlink()
    state(busbar, NETWORK, COMMAND)
    refuse_real(busbar, world(busbar, NETWORK, "other"))


def test_rehearsed_existing_hosts_are_no_reason_to_refuse(busbar):
    (busbar / "state/.pulumi/stacks/busbar/dev.json").unlink()
    state(busbar, COMMAND)
    (world(busbar) / "existing.json").touch()
    refuse_real(busbar, busbar / "world")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"checkpoint": {"latest": {"resources": [1]}}}'])
def test_nothing_is_removed_if_a_state_cannot_be_read(busbar, text):
    (busbar / "state/.pulumi/stacks/busbar/dev.json").write_text(text)
    with pytest.raises(RefusedError, match=r"dev\.json cannot be read, so stack dev may have machines that are billed"):
        refuse_real(busbar, busbar / "world")
