"""Calls of kubectl end within their limits, even if kubectl or a program that it started hangs."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
from types import SimpleNamespace

import pytest

from components.remote_scripts import kubectl, kubernetes_run


@pytest.fixture
def slow(tmp_path, monkeypatch) -> kubectl.Kubectl:
    """A kubectl that starts a credential plugin, which keeps the pipes open, and then hangs."""
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\nsleep 30 &\necho $! > {tmp_path}/plugin\nsleep 30\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return kubectl.Kubectl({"kubeconfig": None, "context": None, "host": "this machine"}, "busbar")


@pytest.mark.programs
def test_a_call_of_kubectl_ends_although_a_program_that_kubectl_started_keeps_its_output_open(slow, monkeypatch, tmp_path):
    monkeypatch.setattr(kubectl, "_ENDS_S", 0.1)
    assert slow("get", "pods", timeout_s=-4.5) == (124, "", "kubectl get did not answer within -4 s")
    plugin = int((tmp_path / "plugin").read_text())
    os.kill(plugin, signal.SIGKILL)  # raises an error if the plugin ended before the call did


def test_kubectl_has_five_seconds_more_than_its_request_so_that_it_can_report_the_request_that_timed_out(monkeypatch):
    calls = []

    class Process:
        returncode = 1

        def __init__(self, argv, **_):
            calls.append(argv[3:])

        def communicate(self, _, timeout):
            calls.append(timeout)
            return b"", b"error: context deadline exceeded\n"

    monkeypatch.setattr(kubectl.subprocess, "Popen", Process)
    monkeypatch.setattr(kubectl.shutil, "which", lambda _: "/usr/bin/kubectl")
    called = kubectl.Kubectl({"kubeconfig": None, "context": None, "host": "this machine"}, "busbar")
    assert called("get", "pods").why == "error: context deadline exceeded"
    called("get", "pods", timeout_s=7)
    assert calls == [["--request-timeout=30s", "get", "pods"], 35, ["--request-timeout=7s", "get", "pods"], 12]


class Answering(kubectl.Kubectl):
    """A kubectl whose every call has the same answer."""

    def __init__(self, answer: kubectl.Answer) -> None:
        self.answer = answer

    def __call__(self, *_: str, **__: object) -> kubectl.Answer:
        return self.answer


def test_an_object_that_does_not_exist_and_an_object_of_an_unknown_kind_are_none():
    unknown = kubectl.Answer(1, "", 'error: the server doesn\'t have a resource type "pod"\n')
    assert Answering(kubectl.Answer(0, '{"kind": "Pod"}\n', "")).known("pod", "a") == {"kind": "Pod"}
    assert Answering(kubectl.Answer(0, "\n", "")).known("pod", "a") is None
    assert Answering(unknown).known("pod", "a") is None
    with pytest.raises(SystemExit, match=r"^kubectl get pod a: error: the server doesn't have a resource type \"pod\"$"):
        Answering(unknown).get("pod", "a")


@pytest.mark.parametrize(
    ("err", "sentence"),
    [
        ("Unable to connect to the server: EOF\n", "kubectl get pod a: Unable to connect to the server: EOF"),
        (
            'Error from server (Forbidden): pods "a" is forbidden\n',
            'the kubeconfig\'s user may not {} pod (RBAC): (Forbidden): pods "a" is forbidden',
        ),
    ],
)
def test_a_look_up_that_fails_is_no_missing_object_but_ends_the_program_with_the_reason(err, sentence):
    failing = Answering(kubectl.Answer(1, "", err))
    for verb, look_up in (("list", failing.get), ("read", failing.known)):
        with pytest.raises(SystemExit) as ended:
            look_up("pod", "a")
        assert str(ended.value) == sentence.format(verb)


def test_a_stalled_connection_to_a_pod_ends_the_command_after_twice_the_requests_limit_and_ten_minutes(monkeypatch):
    def run(words, **given):
        assert given["timeout"] == 2 * 1800 + 600
        raise subprocess.TimeoutExpired(words, given["timeout"])

    monkeypatch.setattr(kubernetes_run, "subprocess", SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired))
    given = json.dumps({"kind": "measure", "timeout_s": 1800}).encode()
    with pytest.raises(SystemExit, match=r"^kubectl exec did not end within 4200 s, so its connection to the pod has stalled$"):
        kubernetes_run._ran(["kubectl"], given, json.loads(given))  # noqa: SLF001


def test_a_command_that_carries_out_no_request_has_no_limit(monkeypatch):
    seen = []
    monkeypatch.setattr(kubernetes_run.subprocess, "run", lambda *_, **given: seen.append(given["timeout"]))
    monkeypatch.setattr(kubernetes_run.sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    kubernetes_run._ran(["kubectl"], b"", {})  # noqa: SLF001
    assert seen == [None]
