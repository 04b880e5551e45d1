"""Evidence in a pod is copied to the control plane's host during and after the run, and from there to the next pod."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from cluster_in_memory import Cluster

from components.remote_scripts import kubernetes_evidence
from components.remote_scripts.kubectl import HOME, Answer
from components.remote_scripts.kubernetes_evidence import Evidence

REQUEST = {"run_id": "abc1", "kind": "measure"}


class Pods(Cluster):
    """Commands in pods run on this machine, in one home folder for each pod; commands in a deleted pod get NotFound."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.gone = folder, set[str]()
        self._one_at_a_time = threading.Lock()

    def delete(self, pod: str) -> None:
        """Delete a pod while no command runs, so that a copy that has begun sees only files from before the deletion."""
        with self._one_at_a_time:
            self.gone.add(pod)

    def home(self, pod: str) -> Path:
        made = self.folder / pod
        made.mkdir(exist_ok=True)
        return made

    def run(self, words: tuple[str, ...], stdin: Any) -> Answer:
        pod = words[1]
        if pod in self.gone:
            return Answer(1, "", f'Error from server (NotFound): pods "{pod}" not found')
        command = words[-1].replace(f"HOME={HOME}", f"HOME={self.home(pod)}").replace("~", str(self.home(pod)))
        given = stdin.encode() if isinstance(stdin, str) else stdin
        with self._one_at_a_time:
            done = subprocess.run(["sh", "-c", command], input=given, capture_output=True, check=False)
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def pods(tmp_path, monkeypatch) -> Pods:
    host = tmp_path / "host"
    host.mkdir()
    monkeypatch.setenv("HOME", str(host))
    return Pods(tmp_path)


def writes(pods: Pods, pod: str, path: str, text: str) -> None:
    file = pods.home(pod) / ".busbar" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def kept(tmp_path: Path) -> dict[str, str]:
    """Return the text of each file that was kept on the control plane's host, by path."""
    top = tmp_path / "host" / ".busbar" / "kubernetes" / "busbar"
    return {str(file.relative_to(top)): file.read_text() for file in top.rglob("*") if file.is_file()}


@pytest.mark.parametrize("kind", ["measure", "search"])
def test_files_of_a_run_are_on_the_control_planes_host_when_the_run_ends(pods, tmp_path, kind):
    with Evidence(pods, "busbar", "p", REQUEST | {"kind": kind}) as evidence:
        writes(pods, "p", "runs/abc1/line.json", "{}")
        writes(pods, "p", "runs/abc1/12ab.txt.gz", "transcript")
        writes(pods, "p", "runs/other/line.json", "not this run")
        writes(pods, "p", "looks/1f.json", "[1.0]")
    assert kept(tmp_path) == {"runs/abc1/line.json": "{}", "runs/abc1/12ab.txt.gz": "transcript", "looks/1f.json": "[1.0]"}
    assert evidence.kept == str(tmp_path / "host" / ".busbar/kubernetes/busbar/runs/abc1")


def test_files_that_a_lost_pod_wrote_before_the_last_copy_are_kept(pods, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kubernetes_evidence, "_EVERY_S", 0.05)
    with Evidence(pods, "busbar", "p", REQUEST) as evidence:
        writes(pods, "p", "runs/abc1/all_reduce.txt", "8 rows")
        end = time.monotonic() + 20
        while not kept(tmp_path) and time.monotonic() < end:
            time.sleep(0.02)
        pods.delete("p")
        writes(pods, "p", "runs/abc1/alltoall.txt", "too late")
    assert kept(tmp_path) == {"runs/abc1/all_reduce.txt": "8 rows"}
    assert evidence.kept
    assert "evidence was not copied out of p" in capsys.readouterr().err


def test_only_files_that_changed_are_copied_again(pods, tmp_path):
    evidence = Evidence(pods, "busbar", "p", REQUEST)
    writes(pods, "p", "runs/abc1/all_reduce.txt", "8 rows")
    assert not evidence.take()
    (tmp_path / "host/.busbar/kubernetes/busbar/runs/abc1/all_reduce.txt").write_text("as it was copied")
    assert not evidence.take()
    assert kept(tmp_path) == {"runs/abc1/all_reduce.txt": "as it was copied"}
    writes(pods, "p", "runs/abc1/all_reduce.txt", "8 rows and 9")
    assert not evidence.take()
    assert kept(tmp_path) == {"runs/abc1/all_reduce.txt": "8 rows and 9"}


def test_a_new_pod_gets_the_files_of_ended_runs_and_keeps_its_own_files(pods):
    with Evidence(pods, "busbar", "p", REQUEST):
        writes(pods, "p", "runs/abc1/line.json", "old")
        writes(pods, "p", "looks/1f.json", "[1.0]")
    with Evidence(pods, "busbar", "p", REQUEST | {"run_id": "cut1"}):
        writes(pods, "p", "runs/cut1/all_reduce.txt", "this run never ended")
    writes(pods, "q", "looks/1f.json", "[2.0]")
    Evidence(pods, "busbar", "q", REQUEST | {"run_id": "abc2"}).give_back()
    home = pods.home("q") / ".busbar"
    assert (home / "runs/abc1/line.json").read_text() == "old"
    assert (home / "looks/1f.json").read_text() == "[2.0]"
    assert not (home / "runs/cut1").exists()


def test_a_new_pod_gets_only_the_sixteen_newest_runs(pods, tmp_path):
    for number in range(17):
        line = tmp_path / f"host/.busbar/kubernetes/busbar/runs/run{number}/line.json"
        line.parent.mkdir(parents=True)
        line.write_text("{}")
        os.utime(line, (number, number))
    Evidence(pods, "busbar", "q", REQUEST).give_back()
    found = {path.name for path in (pods.home("q") / ".busbar/runs").iterdir()}
    assert found == {f"run{number}" for number in range(1, 17)}


@pytest.mark.parametrize("request_", [{"run_id": "abc1", "kind": "build"}, {"run_id": "../x", "kind": "measure"}, {}])
def test_files_are_kept_only_for_measurements_with_a_valid_run_id(pods, tmp_path, request_):
    with Evidence(pods, "busbar", "p", request_) as evidence:
        writes(pods, "p", "runs/abc1/line.json", "{}")
    assert not kept(tmp_path)
    assert not evidence.kept
    assert not pods.calls


def test_a_pod_cannot_write_outside_the_folder_of_kept_files(pods, tmp_path, monkeypatch):
    stolen = {"runs/../../../.bashrc": [1, 1, "eA=="], "/etc/x": [1, 1, "eA=="], "runs/abc1/a/b": [1, 1, "eA=="]}
    monkeypatch.setattr(pods, "run", lambda *_: Answer(0, json.dumps(stolen), ""))
    assert not Evidence(pods, "busbar", "p", REQUEST).take()
    assert not list((tmp_path / "host").rglob("*"))
