"""A login node becomes Slurm's controller; these tests redirect the controller's files to a temporary folder."""

from __future__ import annotations

import ast
import base64
import json
import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler import accounting_setup, node_setup, plugins, programs, slurm_conf, slurm_facts
from scheduler.elastic import controller, earlier_launches, join, metadata_guard, settings, work
from scheduler.elastic.cloud import Cloud
from scheduler.elastic.http_client import Answer
from scheduler.elastic.settings import LaunchSet
from scheduler.elastic.slurm import NodeState, Slurm, SlurmError
from scheduler.elastic.state import Batch, State
from scheduler.users import controller_setup, snapshot

FACTS = {"lacks": [], "controls": True, "version": "22.05.9", "first_line": None, "running": {}}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Redirect, to a temporary folder, the paths of all controller files that these tests use; return the folder."""
    monkeypatch.setattr(node_setup.pwd, "getpwnam", lambda _: SimpleNamespace(pw_uid=os.getuid(), pw_gid=os.getgid()))
    monkeypatch.setattr(slurm_facts, "facts", lambda: dict(FACTS))
    for module, name in ((controller, "KEY"), (settings, "CONFIGURATION"), (programs, "ARCHIVE"), (programs, "PROGRAMS")):
        monkeypatch.setattr(module, name, f"{tmp_path}/{name.lower()}")
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAA busbar-controller\n")
    monkeypatch.setattr(snapshot, "_ROOT", os.getuid())
    monkeypatch.setattr(slurm_conf, "STATE", str(tmp_path / "slurmctld"))
    monkeypatch.setattr(settings, "FOLDER", str(tmp_path / "state"))
    monkeypatch.setattr(controller, "_UNITS", str(tmp_path / "units"))
    monkeypatch.setattr(node_setup, "_UNITS", str(tmp_path / "units"))
    monkeypatch.setattr(node_setup, "_KEY", str(tmp_path / "munge.key"))
    monkeypatch.setattr(node_setup, "daemon", lambda *_: None)
    monkeypatch.setattr(
        controller, "_PLACES", {"conf": str(tmp_path / "slurm"), "mark": slurm_conf.MARK, "folders": [str(tmp_path / "log")]}
    )
    return tmp_path


def region(method: str, url: str, headers: dict[str, str], _body: bytes, _timeout: float) -> Answer:
    assert (method, headers) == ("GET", {"Authorization": "Bearer Oracle"})
    assert url == "http://169.254.169.254/opc/v2/instance/canonicalRegionName"
    return Answer(200, b"ap-tokyo-1\n", {})


def test_the_ssh_key_of_the_controller_is_made_once_and_only_its_public_key_is_reported(machine):
    first, second = (controller.identity("oci", region) for _ in range(2))
    assert first == second
    assert first["public_key"].startswith("ssh-ed25519 ")
    assert first["region"] == "ap-tokyo-1"
    assert stat.S_IMODE(Path(controller.KEY).stat().st_mode) == 0o600
    assert "PRIVATE" not in json.dumps(first)
    assert machine


def test_on_aws_the_metadata_service_is_not_asked_for_a_region(machine):
    assert controller.identity("aws", lambda *_: pytest.fail("the metadata service was asked"))["region"] == ""
    assert machine


def test_an_error_of_the_metadata_service_is_reported_and_the_text_of_the_error_is_not_taken_as_the_region(machine):
    with pytest.raises(SystemExit, match="does not say which region this is: the service answers 404 to http"):
        controller.identity("oci", lambda *_: Answer(404, b"<html>Not Found</html>", {}))
    assert machine


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"lacks": ["munged"]}, "the login node has no munged, slurmctld, which first boot installs"),
        ({"controls": False}, "the login node has no slurmctld, which first boot installs"),
        ({"first_line": "# mine"}, "slurm.conf of the login node belongs to another cluster, and is left as it is"),
        ({"running": {"slurmd": None}}, "the login node runs slurmd of another cluster, which is left as it is"),
    ],
)
def test_a_machine_that_cannot_be_a_controller_is_refused_with_the_reason(machine, monkeypatch, facts, sentence):
    found = {"lacks": facts["lacks"]} if "lacks" in facts else {**FACTS, **facts}
    monkeypatch.setattr(slurm_facts, "facts", lambda: found)
    with pytest.raises(SystemExit) as refused:
        controller.identity("oci", region)
    assert str(refused.value).endswith(sentence)
    assert not (machine / "key").exists()


def calm(_: dict[str, Any]) -> Cloud:
    """A cloud without machines."""
    return Cloud()


def document(machine: Path, **changes: Any) -> str:
    found = {
        "files": {"slurm.conf": f"{slurm_conf.MARK}\n"},
        "units": {"slurmctld.service": "[Unit]\n"},
        "settings": {"sets": {}, "cloud": {}, "join": {"user": "opc"}, "static": {}},
        "shared": str(machine / "shared" / "busbar.dev"),
        "allowed": ["aws.allowReplace", 0],
        "jobs": {"home": str(machine), "folder": str(machine / "jobs" / "busbar.dev")},
    }
    return json.dumps(found | changes)


def test_the_installation_writes_programs_and_files_and_timers_and_prints_no_key(machine, capsys, monkeypatch):
    own = machine / "own.pyz"
    own.write_bytes(b"zip")
    calls: list[str] = []
    monkeypatch.setattr(node_setup, "run", lambda *words: calls.append(" ".join(words)))
    owned: list[tuple[str, str]] = []
    monkeypatch.setattr(node_setup, "give", lambda *words: owned.append(words))
    controller.install(document(machine), str(own), calm)
    assert capsys.readouterr().out == ""
    assert Path(programs.ARCHIVE).read_bytes() == b"zip"
    assert (machine / "slurm" / "slurm.conf").exists()
    assert (machine / "units" / "busbar-slurm.timer").exists()
    assert (machine / "shared" / "busbar.dev").is_dir()
    assert [path for path, user in owned if user == "opc"] == [str(machine / "shared"), str(machine / "shared" / "busbar.dev")]
    timers = [f"systemctl enable --now busbar-{name}.timer" for name in ("entry", "jobs", "slurm")]
    assert calls == ["systemctl daemon-reload", "systemctl daemon-reload", *timers]
    assert stat.S_IMODE(Path(settings.CONFIGURATION).stat().st_mode) == 0o600
    calls.clear()
    controller.install(document(machine), str(own), calm)
    assert calls == timers, "a second installation changes nothing"


def test_nothing_is_installed_on_a_login_node_without_the_plugin_that_slurm_would_load(machine, monkeypatch):
    monkeypatch.setattr(plugins, "PYXIS", str(machine / "spank_pyxis.so"))
    monkeypatch.setattr(node_setup, "run", lambda *_: None)
    (machine / "own.pyz").write_bytes(b"zip")
    given = document(machine, files={"slurm.conf": f"{slurm_conf.MARK}\n", "plugstack.conf": plugins.plugstack_conf()})
    with pytest.raises(SystemExit, match=r"the login node has no .*spank_pyxis\.so, which its first boot builds"):
        controller.install(given, str(machine / "own.pyz"), calm)
    assert not (machine / "slurm").exists()
    (machine / "spank_pyxis.so").touch()
    controller.install(given, str(machine / "own.pyz"), calm)
    assert (machine / "slurm" / "plugstack.conf").exists()


@pytest.fixture
def jobs(machine, monkeypatch) -> dict[str, NodeState]:
    """Slurm's nodes and their states; nodes 1 to 4 of the set gpu/p5 have machines."""
    Path(settings.FOLDER).mkdir()
    (machine / "own.pyz").write_bytes(b"zip")
    state = State.load(str(Path(settings.FOLDER) / "state.json"))
    state.batches["a1"] = Batch("a1", "gpu/p5", "", [f"gpu-dy-p5-{at}" for at in range(1, 5)], 0)
    state.save()
    monkeypatch.setattr(node_setup, "run", lambda *_: None)
    known: dict[str, NodeState] = {}
    monkeypatch.setattr(Slurm, "states", lambda _: known)
    return known


def shrunk(machine: Path, dynamic: int, allowed: int = 0) -> str:
    sets = {"gpu/p5": LaunchSet("gpu", "p5", dynamic, 60, {})._asdict()}
    given = {"sets": sets, "cloud": {}, "join": {"user": "opc"}, "static": {}}
    return document(machine, settings=given, allowed=["aws.allowReplace", allowed])


def test_the_removal_of_nodes_on_which_jobs_run_is_refused_before_anything_is_written(machine, jobs):
    for node, flag in (("gpu-dy-p5-1", "ALLOCATED"), ("gpu-dy-p5-3", "IDLE"), ("gpu-dy-p5-4", "MIXED")):
        jobs[node] = NodeState(frozenset({flag, "CLOUD"}), "")
    with pytest.raises(SystemExit) as refused:
        controller.install(shrunk(machine, 2), str(machine / "own.pyz"), calm)
    assert str(refused.value) == (
        "aws.allowReplace is 0, and the stack file no longer has these nodes, on which jobs run: gpu-dy-p5-4. Their machines "
        "would be terminated, and the jobs would end. Set aws.allowReplace to 1 to allow this, wait until the jobs have ended, "
        "or undo the change"
    )
    assert not Path(settings.CONFIGURATION).exists()
    controller.install(shrunk(machine, 2, allowed=1), str(machine / "own.pyz"), calm)
    assert Path(settings.CONFIGURATION).exists()


def test_nodes_without_jobs_may_be_removed(machine, jobs):
    jobs["gpu-dy-p5-1"] = NodeState(frozenset({"ALLOCATED"}), "")
    jobs["gpu-dy-p5-4"] = NodeState(frozenset({"IDLE"}), "")
    controller.install(shrunk(machine, 2), str(machine / "own.pyz"), calm)
    assert Path(settings.CONFIGURATION).exists()


def test_if_slurm_does_not_answer_every_removed_node_counts_as_a_node_on_which_jobs_run(machine, jobs, monkeypatch):
    def silent(_: Slurm) -> dict[str, NodeState]:
        raise SlurmError("no answer")

    monkeypatch.setattr(Slurm, "states", silent)
    with pytest.raises(SystemExit) as refused:
        controller.install(document(machine), str(machine / "own.pyz"), calm)
    said = str(refused.value)
    assert "these nodes, on which jobs may run (Slurm does not answer: no answer): gpu-dy-p5-1, gpu-dy-p5-2, " in said
    controller.install(shrunk(machine, 4), str(machine / "own.pyz"), calm)
    assert not jobs


def test_nodes_start_again_after_an_update_that_follows_an_unfinished_destroy(machine, monkeypatch):
    monkeypatch.setattr(node_setup, "run", lambda *_: None)
    (machine / "own.pyz").write_bytes(b"zip")
    closed = Path(settings.FOLDER, work.CLOSED)
    closed.parent.mkdir()
    closed.touch()
    controller.install(document(machine), str(machine / "own.pyz"), calm)
    assert not closed.exists()


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (None, "its first boot has not finished"),
        ({"status": "failed", "step": "home"}, "its first boot failed in step home"),
    ],
)
def test_a_machine_whose_first_boot_is_not_done_does_not_join(tmp_path, said, sentence):
    path = tmp_path / "boot.json"
    if said is not None:
        path.write_text(json.dumps(said))
    with pytest.raises(SystemExit, match=sentence):
        node_setup.main(json.dumps({"booted": str(path)}))


def test_a_machine_whose_first_boot_is_done_is_set_up(tmp_path):
    (tmp_path / "boot.json").write_text('{"status": "done", "warned": "x"}')
    node_setup.await_first_boot(str(tmp_path / "boot.json"))


def sent_over_ssh(folder: Path, monkeypatch: pytest.MonkeyPatch, status: int, said: bytes) -> list[bytes]:
    """Give the controller a munge key, and return the list of the programs that it sends over SSH.

    Each program ends with `status` and prints `said`.
    """
    sent: list[bytes] = []
    monkeypatch.setattr(join, "_KEY", str(folder / "key"))
    (folder / "key").write_bytes(b"munge")

    def run(_: Any, **given: Any) -> SimpleNamespace:
        sent.append(given["input"])
        return SimpleNamespace(returncode=status, stderr=said)

    monkeypatch.setattr(join.subprocess, "run", run)
    return sent


def test_the_call_that_joins_a_node_contains_the_path_of_the_result_of_the_nodes_first_boot(tmp_path, monkeypatch):
    sent = sent_over_ssh(tmp_path, monkeypatch, 1, b"its first boot has not finished\n")
    given = {
        "user": "opc",
        "identity": "i",
        "known_hosts": "k",
        "controller": "10.0.0.2",
        "booted": "/var/lib/busbar/boot.json",
    }
    assert join.over_ssh(given)("n", "m", "10.0.1.3", {}) == "its first boot has not finished"
    call = sent[0].decode().rpartition("\nmain(")[2]
    assert '"booted": "/var/lib/busbar/boot.json"' in call
    assert base64.b64encode(b"munge").decode() in call


def test_the_installation_writes_each_of_several_new_units(machine, monkeypatch):
    monkeypatch.setattr(node_setup, "run", lambda *_: None)
    (machine / "own").write_bytes(b"zip")
    units = {"slurmctld.service": "[Unit]\n", **metadata_guard.units()}
    controller.install(document(machine, units=units), str(machine / "own"), calm)
    assert {name: (machine / "units" / name).read_text() for name in units} == units


def test_nodes_start_only_after_the_users_exist_and_slurmctld_starts_only_after_the_database(machine, monkeypatch):
    done: list[Any] = []
    monkeypatch.setattr(node_setup, "set_up", lambda given: done.append(sorted(given["units"])))
    monkeypatch.setattr(node_setup, "run", lambda *words: done.append(words[-1]))
    monkeypatch.setattr(accounting_setup, "set_up", lambda given: done.append(("accounting", given)))
    monkeypatch.setattr(controller_setup, "set_up", lambda given: done.append(("users", given)))
    (machine / "own").write_bytes(b"zip")
    controller.install(document(machine, accounting={"unit": "x"}, users={"home": "/home"}), str(machine / "own"), calm)
    assert done == [
        [],
        ("accounting", {"unit": "x"}),
        ["slurmctld.service"],
        ("users", {"home": "/home"}),
        "daemon-reload",
        "busbar-entry.timer",
        "busbar-jobs.timer",
        "busbar-slurm.timer",
    ]


def test_no_timer_starts_machines_if_the_set_up_of_a_login_node_fails_and_the_error_gives_the_reason(machine, monkeypatch):
    monkeypatch.setattr(node_setup, "run", lambda *_: None)
    seen: list[Any] = []
    whys = {"i-1": "", "i-2": "its first boot has not finished"}

    def login_node(given: Any, its: str, address: str, files: Any) -> str:
        assert (machine / "slurm" / "slurm.conf").exists(), "the controller is set up before its login nodes"
        seen.append((given["user"], its, address, sorted(files)))
        return whys[its]

    monkeypatch.setattr(join, "login_node", login_node)
    (machine / "own").write_bytes(b"zip")
    given = document(machine, logins={"login-1": ["i-1", "10.0.0.4"], "login-2": ["i-2", "10.0.0.5"]})
    with pytest.raises(
        SystemExit, match=r"no job can be submitted on login-2 at 10\.0\.0\.5, .*: its first boot has not finished"
    ):
        controller.install(given, str(machine / "own"), calm)
    assert seen == [("opc", "i-1", "10.0.0.4", ["slurm.conf"]), ("opc", "i-2", "10.0.0.5", ["slurm.conf"])]
    assert not (machine / "units" / "busbar-slurm.timer").exists()
    whys["i-2"] = ""
    controller.install(given, str(machine / "own"), calm)
    assert (machine / "units" / "busbar-slurm.timer").exists()


def test_a_login_node_gets_the_munge_key_and_slurms_files_and_the_guard_of_its_credentials_but_none_of_slurms_daemons(
    tmp_path, monkeypatch
):
    sent = sent_over_ssh(tmp_path, monkeypatch, 0, b"")
    given = {"user": "opc", "identity": "i", "known_hosts": "k", "controller": "10.0.0.2", "booted": "/boot.json"}
    files = {"slurm.conf": "# a\n", "plugstack.conf": "# b\n", "gres.conf": "# c\n", "topology.conf": "# d\n"}
    assert join.login_node(given, "m", "10.0.0.4", files) == ""
    its = json.loads(ast.literal_eval(sent[0].decode().rpartition("\nmain(")[2].rstrip()[:-1]))
    assert (sorted(its["files"]), its["booted"]) == (["plugstack.conf", "slurm.conf"], "/boot.json")
    assert its["units"] == metadata_guard.units()
    assert base64.b64decode(its["key"]) == b"munge"


def test_a_home_file_system_that_was_mounted_at_the_first_installation_must_be_mounted_at_later_installations(
    machine, monkeypatch
):
    monkeypatch.setattr(node_setup, "run", lambda *_: None)
    (machine / "own.pyz").write_bytes(b"zip")
    monkeypatch.setattr(os.path, "ismount", lambda path: path == str(machine))
    controller.install(document(machine), str(machine / "own.pyz"), calm)
    monkeypatch.setattr(os.path, "ismount", lambda _: False)
    with pytest.raises(SystemExit, match="but the copy of Slurm's jobs is on its file system; mount it first"):
        controller.install(document(machine), str(machine / "own.pyz"), calm)


@pytest.fixture
def second(machine, monkeypatch) -> Path:
    """The folder of the second controller of a stack, which replaces the first controller."""
    monkeypatch.setattr(node_setup, "run", lambda *_: None)
    (machine / "own.pyz").write_bytes(b"zip")
    owner = machine / "jobs" / "busbar.dev" / "controller"
    owner.parent.mkdir(parents=True)
    owner.parent.chmod(0o700)
    owner.write_text("ssh-ed25519 BBBB busbar-controller\n")
    return Path(machine)


def test_a_second_controller_terminates_the_machines_of_the_first_one_before_slurmctld_starts(second, monkeypatch):
    done: list[str] = []
    monkeypatch.setattr(node_setup, "set_up", lambda given: done.extend(given["units"]))
    monkeypatch.setattr(earlier_launches, "end", lambda _: done.append("ended") or "")
    monkeypatch.setattr(earlier_launches, "adopt", lambda *_: done.append("adopted") or "")
    controller.install(document(second), str(second / "own.pyz"), calm)
    assert done == ["ended", "slurmctld.service", "adopted"]
    controller.install(document(second), str(second / "own.pyz"), calm)
    assert done == ["ended", "slurmctld.service", "adopted", "slurmctld.service"], (
        "the second installation ends no machines: the takeover is done, and there are no launches yet"
    )


def test_if_installing_the_second_controller_is_interrupted_the_next_try_terminates_the_machines_of_the_first(
    second, monkeypatch
):
    calls: list[str] = []

    def end(_: Cloud) -> str:
        calls.append("end")
        if len(calls) == 1:
            raise KeyboardInterrupt
        return ""

    monkeypatch.setattr(earlier_launches, "end", end)
    with pytest.raises(KeyboardInterrupt):
        controller.install(document(second), str(second / "own.pyz"), calm)
    for _ in range(2):
        controller.install(document(second), str(second / "own.pyz"), calm)
    assert calls == ["end"] * 2


def test_nothing_is_installed_on_a_controller_from_which_another_one_has_taken_over(machine):
    Path(settings.FOLDER).mkdir()
    Path(settings.FOLDER, "given").touch()
    with pytest.raises(SystemExit, match="another controller of this stack has taken over, so nothing was installed here"):
        controller.install(document(machine), str(machine / "own.pyz"), calm)
    assert not Path(settings.CONFIGURATION).exists()


def test_nothing_is_installed_while_the_state_of_reconcile_cannot_be_read(machine):
    Path(settings.FOLDER).mkdir()
    Path(settings.FOLDER, "state.json").touch()
    with pytest.raises(SystemExit, match=r"state\.json cannot be read, so no machine is started or terminated"):
        controller.install(document(machine), str(machine / "own.pyz"), calm)
    assert not Path(settings.CONFIGURATION).exists()


@pytest.mark.usefixtures("jobs")
def test_changed_tags_are_refused_while_machines_have_the_old_tags(machine):
    def tagged(name: str) -> str:
        given = json.loads(shrunk(machine, 4))
        given["settings"]["cloud"] = {"tags": {"busbar:cluster": name}}
        return json.dumps(given)

    controller.install(tagged("before"), str(machine / "own.pyz"), calm)
    state = State.load(str(Path(settings.FOLDER) / "state.json"))
    state.batches["a1"].machines = {"gpu-dy-p5-1": "i-1"}
    state.ending = {"i-9": 0.0}
    state.save()
    with pytest.raises(SystemExit, match="but i-1, i-9 run under the former name: nothing would terminate them"):
        controller.install(tagged("after"), str(machine / "own.pyz"), calm)
    assert settings.load(settings.CONFIGURATION).cloud["tags"] == {"busbar:cluster": "before"}
    controller.install(tagged("before"), str(machine / "own.pyz"), calm)
    state.batches.clear()
    state.ending.clear()
    state.save()
    controller.install(tagged("after"), str(machine / "own.pyz"), calm)
