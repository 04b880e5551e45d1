"""The stand-ins for Pulumi's Python language host and command plugin behave like the real ones.

The plugin's expected messages and answers were recorded from version 1.2.1 of the real command plugin. Two refusals exist only
in the stand-in: of what it does not implement, and of a line so long that the real plugin would hang.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc
import pytest
from child_process import started
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.runtime.proto import engine_pb2_grpc, provider_pb2, provider_pb2_grpc
from wait_until import wait_until

PLUGINS = Path(__file__).resolve().parents[2] / "rehearsal" / "engine"
MARK = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a mark, not a secret
ASSET = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE = "0def7320c3a5731c473e5ecbe6d01bc7"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
DEFAULTS = {"user": "root", "port": 22.0, "dialErrorLimit": 10.0, "perDialTimeout": 15.0}
TOKENS = {"local": "local:Command", "remote": "remote:Command", "copy": "remote:CopyToRemote"}
ENGINES = [*sorted(Path.home().glob(".cache/busbar/bin/pulumi-v*")), shutil.which("pulumi")]
needs_engine = pytest.mark.skipif(not any(ENGINES), reason="needs the engine")
needs_sshd = pytest.mark.skipif(not Path("/usr/sbin/sshd").is_file(), reason="needs openssh-server")
Json = dict[str, Any]


def secret(value: object) -> Json:
    return {MARK: SECRET, "value": value}


def asset(**fields: str) -> Json:
    return {MARK: ASSET, "path": "", "text": "", "uri": "", "hash": "abc", **fields}


def archive(path: str) -> Json:
    return {MARK: ARCHIVE, "path": path, "uri": "", "assets": {}, "hash": "abc"}


def message(value: Json) -> struct_pb2.Struct:
    return json_format.ParseDict(value, struct_pb2.Struct())


class Engine(engine_pb2_grpc.EngineServicer):
    """Receives what the plugin logs."""

    def __init__(self) -> None:
        self.logged: list[tuple[int, str, bool]] = []

    def Log(self, request: Any, context: grpc.ServicerContext) -> empty_pb2.Empty:  # noqa: N802
        del context
        self.logged.append((request.severity, request.message, request.ephemeral))
        return empty_pb2.Empty()


@dataclass
class Plugin:
    """A running command plugin, and a stub engine that only records what the plugin logs."""

    environment: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.engine = Engine()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        engine_pb2_grpc.add_EngineServicer_to_server(self.engine, self._server)
        port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()
        environment = {**os.environ, "BUSBAR_PYTHON": sys.executable, "SSH_AUTH_SOCK": "", **self.environment}
        argv = [str(PLUGINS / "pulumi-resource-command"), f"127.0.0.1:{port}"]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        self.stub = provider_pb2_grpc.ResourceProviderStub(
            grpc.insecure_channel(f"127.0.0.1:{int(self.process.stdout.readline())}")
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(timeout=10)
        self._server.stop(0)

    def ask(self, method: str, request: object, timeout_s: float = 30) -> Any:
        """Return the answer as JSON, or the status of a refusal as "CODE: details"."""
        self.engine.logged.clear()
        try:
            answer = getattr(self.stub, method)(request, timeout=timeout_s)
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
        return json_format.MessageToDict(answer)

    def check(self, kind: str, news: Json) -> Any:
        return self.ask("Check", provider_pb2.CheckRequest(urn=urn(kind), news=message(news)))

    def diff(self, kind: str, old: Json, new: Json) -> Any:
        request = provider_pb2.DiffRequest(
            id="x1", urn=urn(kind), olds=message(old), old_inputs=message(old), news=message(new)
        )
        return self.ask("Diff", request).get("detailedDiff", {})

    def create(self, kind: str, inputs: Json, *, preview: bool = False, timeout_s: float = 0) -> Any:
        request = provider_pb2.CreateRequest(urn=urn(kind), properties=message(inputs), preview=preview, timeout=timeout_s)
        return self.ask("Create", request)

    def update(self, kind: str, state: Json, inputs: Json, *, preview: bool = False) -> Any:
        request = provider_pb2.UpdateRequest(id="x1", urn=urn(kind), olds=message(state), news=message(inputs), preview=preview)
        return self.ask("Update", request)


def urn(kind: str) -> str:
    return f"urn:pulumi:dev::project::command:{TOKENS[kind]}::x"


@pytest.fixture(scope="module")
def plugin() -> Iterator[Plugin]:
    with Plugin() as running:
        yield running


@dataclass
class Sshd:
    """A real sshd, run by the user who runs the tests, on a free port of the loopback."""

    folder: Path
    port: int

    def key(self, name: str) -> str:
        return (self.folder / name).read_text()

    def public(self, name: str) -> str:
        return " ".join(self.key(f"{name}.pub").split()[:2])

    def connection(self, **changes: object) -> Json:
        values: Json = {
            "host": "127.0.0.1", "user": getpass.getuser(), "port": self.port, "dialErrorLimit": 1,
            "perDialTimeout": 5, "privateKey": self.key("user"), "hostKey": self.public("host"), **changes,
        }  # fmt: skip
        return secret({key: value for key, value in values.items() if value is not None})

    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    made = Sshd(tmp_path_factory.mktemp("sshd"), free_port())
    for name in ("host", "user", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", made.folder / name], check=True)
    settings = {
        "Port": made.port, "ListenAddress": "127.0.0.1", "HostKey": made.folder / "host", "PidFile": "none",
        "AuthorizedKeysFile": made.folder / "user.pub", "UsePAM": "no", "StrictModes": "no",
        "PasswordAuthentication": "no", "KbdInteractiveAuthentication": "no", "PermitRootLogin": "yes",
        "AcceptEnv": "FOO", "Subsystem": "sftp internal-sftp",
    }  # fmt: skip
    (made.folder / "config").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    argv = ["/usr/sbin/sshd", "-D", "-e", "-f", str(made.folder / "config")]
    with started(argv, stderr=subprocess.DEVNULL):
        wait_until(made.answers, "sshd answers")
        yield made


@pytest.fixture(scope="module")
def agent(sshd: Sshd) -> Iterator[str]:
    path = str(sshd.folder / "agent")
    with started(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL):
        with socket.socket(socket.AF_UNIX) as probe:  # the socket's file appears before the agent listens on it
            wait_until(lambda: probe.connect_ex(path) == 0, "ssh-agent listens")
        environment = {**os.environ, "SSH_AUTH_SOCK": path}
        subprocess.run(["ssh-add", "-q", sshd.folder / "user"], env=environment, check=True)
        yield path


def test_a_check_of_inputs_fills_in_defaults_and_marks_the_connection_as_secret(plugin: Plugin) -> None:
    given = {"create": "x", "connection": {"host": "h", "password": "p", "proxy": {"host": "b", "user": "opc"}}}
    inner = {**DEFAULTS, "host": "h", "password": secret("p"), "proxy": {**DEFAULTS, "host": "b", "user": "opc"}}
    assert plugin.check("remote", given) == {"inputs": {"create": "x", "connection": secret(inner)}}


@pytest.mark.parametrize(
    ("kind", "given", "failures"),
    [
        ("remote", {}, {"connection": "Missing required field 'connection' on 'remote.CommandInputs'"}),
        (
            "remote",
            {"connection": {"user": "u", "extra": 1}},
            {
                "connection": "An error occurred decoding 'CommandInputs.connection': 2 failures decoding:\n"
                "\thost: Missing required field 'host' on 'remote.Connection'\n"
                "\textra: Unrecognized field 'extra' on 'remote.Connection'"
            },
        ),
        (
            "local",
            {"create": 5, "environment": {"A": 1}, "nonsense": 1},
            {
                "create": "Field 'create' on 'local.CommandInputs' must be a 'string'; got 'float64' instead",
                "environment[A] value": "Field 'environment[A] value' on 'local.CommandInputs' must be a 'string'; "
                "got 'float64' instead",
                "nonsense": "Unrecognized field 'nonsense' on 'local.CommandInputs'",
            },
        ),
        (
            "copy",
            {"connection": {"host": "h"}, "remotePath": "/x", "source": asset(uri="http://a/b")},
            {"asset": "asset must be a path-based file asset or a text asset"},
        ),
        (
            "local",
            {"create": "x", "assetPaths": ["*"]},
            {"assetPaths": "this stand-in for the command plugin does not collect files that a command leaves"},
        ),
    ],
)
def test_each_wrong_or_unsupported_input_is_refused_with_its_own_message(
    plugin: Plugin, kind: str, given: Json, failures: dict[str, str]
) -> None:
    answer = plugin.check(kind, given)
    assert {one["property"]: one["reason"] for one in answer["failures"]} == failures


@pytest.mark.parametrize(
    ("kind", "old", "new", "found"),
    [
        ("local", {"create": "x"}, {"create": "x", "version": "1", "__x": 1}, {}),
        ("local", {"create": "x"}, {"create": "y", "stdin": "q"}, {"create": {"kind": "UPDATE"}, "stdin": {}}),
        ("local", {"triggers": [1, 2]}, {"triggers": [1, 3]}, {"triggers[1]": {"kind": "UPDATE"}}),
        ("local", {}, {"triggers": [1]}, {"triggers": {"kind": "ADD_REPLACE"}}),
        ("local", {"triggers": [1]}, {"triggers": UNKNOWN}, {"triggers": {"kind": "UPDATE_REPLACE"}}),
        ("local", {"triggers": [1]}, {}, {"triggers": {"kind": "DELETE_REPLACE"}}),
        (
            "remote",
            {"connection": secret({"host": "a"})},
            {"connection": secret({"host": "b"})},
            {"connection": {"kind": "UPDATE"}},
        ),
        ("local", {"create": "x"}, {"create": secret("x")}, {"create": {"kind": "UPDATE"}}),
        (
            "local",
            {"environment": {"A.B": "1", "C": "2"}},
            {"environment": {"A.B": "2"}},
            {'environment["A.B"]': {"kind": "UPDATE"}, "environment.C": {"kind": "DELETE"}},
        ),
        ("copy", {"source": asset(path="/a")}, {"source": asset(path="/b")}, {}),
        ("copy", {"source": asset(path="/a")}, {"source": asset(path="/a", hash="z")}, {"source": {"kind": "UPDATE"}}),
    ],
)
def test_a_diff_reports_the_differences_that_the_genuine_plugin_reports(
    plugin: Plugin, kind: str, old: Json, new: Json, found: Json
) -> None:
    assert plugin.diff(kind, old, new) == found


def test_a_preview_of_a_command_runs_nothing_and_leaves_outputs_unknown(plugin: Plugin, tmp_path: Path) -> None:
    inputs = {"create": f"touch {tmp_path}/ran", "environment": {"A": secret("1")}}
    answer = plugin.create("local", inputs, preview=True)
    assert answer["properties"] == {**inputs, "stdout": UNKNOWN, "stderr": UNKNOWN}
    state = {"create": "x", "stdout": "o", "stderr": "e"}
    assert plugin.update("local", state, {"create": "x"}, preview=True)["properties"] == state
    changed = plugin.update("local", state, {"create": "y"}, preview=True)["properties"]
    assert changed == {"create": "y", "stdout": UNKNOWN, "stderr": UNKNOWN}
    assert list(tmp_path.iterdir()) == []


def test_a_local_command_returns_stdout_and_stderr_and_logs_their_lines(plugin: Plugin) -> None:
    answer = plugin.create("local", {"create": "printf 'a\\nb\\n\\n'; cat >&2", "stdin": "in\n", "interpreter": []})
    assert re.fullmatch("x[0-9a-f]{8}", answer["id"])
    assert answer["properties"]["stdout"] == "a\nb\n"  # one final newline is removed
    assert answer["properties"]["stderr"] == "in"
    assert sorted(plugin.engine.logged) == [(1, "", True), (1, "a", True), (1, "b", True), (1, "in", True)]
    plugin.create("local", {"create": "echo a; echo b >&2", "logging": "stderr"})
    assert plugin.engine.logged == [(1, "b", True)]


@pytest.mark.parametrize(
    ("inputs", "error"),
    [
        ({"create": 'echo "é"; exit 3'}, 'exit status 3: running "echo \\"é\\"; exit 3":\né\n'),
        ({"create": "kill -9 $$"}, 'signal: killed: running "kill -9 $$":\n'),
        ({"create": "x", "dir": "/nope"}, 'chdir /nope: no such file or directory: running "x":\n'),
        (
            {"create": "x", "interpreter": ["nope-nope"]},
            'exec: "nope-nope": executable file not found in $PATH: running "x":\n',
        ),
        ({"create": "x", "interpreter": ["/etc"]}, 'fork/exec /etc: permission denied: running "x":\n'),
    ],
)
def test_a_failing_local_command_fails_with_the_genuine_plugins_message(plugin: Plugin, inputs: Json, error: str) -> None:
    assert plugin.create("local", inputs) == f"UNKNOWN: {error}"


def test_a_local_commands_interpreter_is_found_although_the_command_has_another_path(plugin: Plugin) -> None:
    """Go looks for the program in its own PATH (os/exec, LookPath)."""
    inputs = {"create": "echo $PATH", "interpreter": ["sh", "-c"], "environment": {"PATH": "/nowhere"}}
    assert plugin.create("local", inputs)["properties"]["stdout"] == "/nowhere"


def test_an_update_runs_the_update_command_or_else_the_create_command_and_passes_it_the_previous_outputs(
    plugin: Plugin,
) -> None:
    state = {"create": "x", "stdout": "o", "stderr": "e"}
    shown = "echo $PULUMI_COMMAND_STDOUT$PULUMI_COMMAND_STDERR"
    assert plugin.update("local", state, {"create": shown})["properties"]["stdout"] == "oe"
    assert plugin.update("local", state, {"create": "exit 1", "update": shown})["properties"]["stdout"] == "oe"
    hidden = {"create": shown, "addPreviousOutputInEnv": False}
    assert plugin.update("local", state, hidden)["properties"]["stdout"] == ""
    assert plugin.update("local", state, {"delete": "x"})["properties"] == {"delete": "x", "stdout": "o", "stderr": "e"}


def test_a_printed_line_that_would_hang_the_genuine_plugin_makes_its_command_fail_with_the_reason(plugin: Plugin) -> None:
    long = {"create": "head -c 70000 /dev/zero | tr '\\0' a; echo"}
    assert "a line of 65536 bytes or more" in plugin.create("local", long)
    assert len(plugin.create("local", {**long, "logging": "none"})["properties"]["stdout"]) == 70000


def test_the_run_function_runs_a_command_at_once_and_keeps_a_secret_command_secret(plugin: Plugin) -> None:
    request = provider_pb2.InvokeRequest(tok="command:local:run", args=message({"command": secret("echo hi")}))
    assert plugin.ask("Invoke", request)["return"] == {"command": secret("echo hi"), "stdout": "hi", "stderr": ""}


@needs_sshd
def test_a_remote_command_gets_stdin_and_returns_stdout_and_stderr(plugin: Plugin, sshd: Sshd) -> None:
    command = "cat; echo err >&2; echo $FOO"
    answer = plugin.create(
        "remote",
        {"create": command, "stdin": "hello\n", "environment": {"FOO": "bar"}, "connection": sshd.connection()},
    )
    assert (answer["properties"]["stdout"], answer["properties"]["stderr"]) == ("hello\nbar", "err")
    assert answer["properties"]["connection"] == json.loads(json.dumps(sshd.connection()))
    assert sorted(plugin.engine.logged) == [(1, "bar", True), (1, "err", True), (1, "hello", True)]


@needs_sshd
@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("echo o; exit 3", 'Process exited with status 3: running "echo o; exit 3":\no\n'),
        ("kill -9 $$", 'Process exited with status 137 from signal KILL: running "kill -9 $$":\n'),
    ],
)
def test_a_failing_remote_command_fails_with_the_genuine_plugins_message(
    plugin: Plugin, sshd: Sshd, command: str, error: str
) -> None:
    assert plugin.create("remote", {"create": command, "connection": sshd.connection()}) == f"UNKNOWN: {error}"


@needs_sshd
def test_a_command_whose_variable_the_server_refuses_fails_before_it_starts(plugin: Plugin, sshd: Sshd, tmp_path: Path) -> None:
    inputs = {"create": f"touch {tmp_path}/ran", "environment": {"BAR": "1"}, "connection": sshd.connection()}
    assert plugin.create("remote", inputs) == 'UNKNOWN: could not set environment variable "BAR": ssh: setenv failed'
    assert plugin.engine.logged[0][1].startswith("Unable to set 'BAR'.")
    assert list(tmp_path.iterdir()) == []
    state = {"create": "x", "stdout": "o", "stderr": "", "connection": sshd.connection()}
    answer = plugin.update("remote", state, {"create": "echo ok", "connection": sshd.connection()})
    # The server also refuses the variables with the previous outputs, but that refusal causes only a warning.
    assert answer["properties"]["stdout"] == "ok"
    assert [severity for severity, _, _ in plugin.engine.logged] == [2, 1]


@needs_sshd
def test_a_connection_that_cannot_be_made_fails_with_the_genuine_plugins_message(plugin: Plugin, sshd: Sshd) -> None:
    closed = free_port()
    proxy = sshd.connection()["value"]
    refused = f"dial tcp 127.0.0.1:{closed}: connect: connection refused"
    auth = "ssh: unable to authenticate, attempted methods [none{}], no supported methods remain"
    # The plugin makes one attempt more than it reports: dialErrorLimit counts the failed attempts that are retried.
    cases: list[tuple[Json, str]] = [
        ({"port": closed}, f"after 1 failed attempts: {refused}"),
        ({"port": closed, "dialErrorLimit": 0}, f"after 0 failed attempts: {refused}"),
        ({"hostKey": sshd.public("other")}, "after 1 failed attempts: ssh: handshake failed: ssh: host key mismatch"),
        ({"hostKey": "trash"}, "failed to parse host key: ssh: no key found"),
        ({"privateKey": sshd.key("other")}, f"after 1 failed attempts: ssh: handshake failed: {auth}"),
        ({"privateKey": None}, f"after 1 failed attempts: ssh: handshake failed: {auth}"),
        ({"privateKey": "trash"}, "ssh: no key found"),
        (
            {"privateKey": None, "agentSocketPath": "/nope"},
            "dial unix /nope: connect: no such file or directory",
        ),
        ({"proxy": {**proxy, "port": closed}}, f"proxy: after 1 failed attempts: {refused}"),
        (
            {"proxy": proxy, "port": closed},
            "proxy: after 1 failed attempts: ssh: rejected: connect failed (Connection refused)",
        ),
        # The failed handshake has used up its channel. The retry on that channel fails with EOF, and the EOF is reported.
        (
            {"proxy": proxy, "hostKey": sshd.public("other")},
            "proxy: after 1 failed attempts: ssh: handshake failed: EOF",
        ),
    ]
    for changes, error in cases:
        offered = " publickey" if changes.get("privateKey", "") is not None else ""
        answer = plugin.create("remote", {"create": "true", "connection": sshd.connection(**changes)})
        assert answer == f"UNKNOWN: {error.format(offered)}", changes
    plugin.create("remote", {"create": "true", "connection": sshd.connection(port=closed)})
    assert plugin.engine.logged == [(1, "Dial 1/1 failed: retrying", True)]


@needs_sshd
@pytest.mark.parametrize("by_variable", [False, True])
def test_an_ssh_agent_authenticates_both_hops_and_is_not_forwarded(sshd: Sshd, agent: str, *, by_variable: bool) -> None:
    with Plugin({"SSH_AUTH_SOCK": agent if by_variable else ""}) as running:
        path = {} if by_variable else {"agentSocketPath": agent}
        hop = sshd.connection(privateKey=None, **path)["value"]
        connection = sshd.connection(privateKey=None, proxy=hop, **path)
        answer = running.create("remote", {"create": 'echo "[$SSH_AUTH_SOCK]"', "connection": connection})
    assert answer["properties"]["stdout"] == "[]"


@needs_sshd
def test_a_copy_follows_the_genuine_plugins_rules_for_paths(plugin: Plugin, sshd: Sshd, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "a").write_text("A")
    (source / "sub" / "b").write_text("B")
    (source / "link").symlink_to("a")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")

    def copied(what: Json, to: str) -> str | None:
        inputs = {"connection": sshd.connection(), "remotePath": f"{tmp_path}/{to}", "source": what}
        answer = plugin.create("copy", inputs)
        return answer if isinstance(answer, str) else None

    assert copied(asset(text="hello"), "new/text") is None
    assert copied(asset(path=f"{source}/a"), "new/deep/file") is None
    assert copied(asset(path=f"{source}/a"), "folder") is None
    assert copied(asset(path=f"{source}/a"), "file") is None
    assert copied(archive(str(source)), "new/one") is None
    assert copied(archive(f"{source}/"), "new/two") is None
    made = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert {name: text for name, text in made.items() if not name.startswith("source")} == {
        "new/text": "hello", "new/deep/file": "A", "folder/a": "A", "file": "A",
        "new/one/source/a": "A", "new/one/source/sub/b": "B", "new/one/source/link": "A",
        "new/two/a": "A", "new/two/sub/b": "B", "new/two/link": "A",
    }  # fmt: skip
    assert copied(asset(text="x"), "folder") == (
        f"UNKNOWN: remote path {tmp_path}/folder is a directory; when using a text asset, remotePath must be a file path"
    )
    assert copied(asset(path="/nope"), "x") == "UNKNOWN: open /nope: no such file or directory"
    assert copied(archive(f"{source}/"), "file") == (f"UNKNOWN: remote path {tmp_path}/file exists but is not a directory")


@needs_sshd
def test_an_update_of_a_copy_copies_again_only_if_content_or_destination_changes(
    plugin: Plugin, sshd: Sshd, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    inputs = {"connection": sshd.connection(), "remotePath": f"{tmp_path}/to", "source": asset(path=f"{tmp_path}/file")}
    plugin.update("copy", inputs, {**inputs, "triggers": [1]})
    assert not (tmp_path / "to").exists()
    plugin.update("copy", inputs, {**inputs, "source": asset(path=f"{tmp_path}/file", hash="z")})
    assert (tmp_path / "to").read_text() == "x"


@needs_sshd
def test_a_cancel_stops_connection_attempts_and_local_commands_but_no_remote_command(sshd: Sshd, tmp_path: Path) -> None:
    """As in the real plugin: a command on another machine continues, and its result is not lost."""
    waiting = sshd.connection(port=free_port(), dialErrorLimit=-1)
    with Plugin() as running, futures.ThreadPoolExecutor() as threads:
        dialling = threads.submit(running.create, "remote", {"create": "true", "connection": waiting})
        local = threads.submit(running.create, "local", {"create": "exec tail -f /dev/null", "dir": str(tmp_path)})
        held = f"touch {tmp_path}/begun; until [ -e {tmp_path}/let-go ]; do sleep 0.02; done; echo done"
        remote = threads.submit(running.create, "remote", {"create": held, "connection": sshd.connection()})
        while not (tmp_path / "begun").exists():
            assert not remote.done(), remote.result()
            time.sleep(0.02)
        running.stub.Cancel(empty_pb2.Empty())
        assert dialling.result(timeout=60) == "CANCELLED: context canceled"
        assert local.result(timeout=60) == 'UNKNOWN: signal: killed: running "exec tail -f /dev/null":\n'
        assert not remote.done()
        (tmp_path / "let-go").touch()
        assert remote.result(timeout=60)["properties"]["stdout"] == "done"
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(timeout=60) == -signal.SIGINT


of_one_project = pytest.mark.xdist_group("project")


@dataclass
class Project:
    """A Pulumi project in a folder of its own, run by the real engine with the stand-ins."""

    folder: Path

    def write(self, main: str, runtime: str = "python") -> None:
        (self.folder / "Pulumi.yaml").write_text(f"name: trial\nruntime: {runtime}\n")
        (self.folder / "__main__.py").write_text(main)

    def pulumi(self, *argv: str) -> subprocess.CompletedProcess[str]:
        engine = next(str(one) for one in reversed(ENGINES) if one)
        state = self.folder / "state"
        state.mkdir(exist_ok=True)
        environment = {
            **os.environ, "PATH": f"{PLUGINS}{os.pathsep}{os.environ['PATH']}", "BUSBAR_PYTHON": sys.executable,
            "PULUMI_BACKEND_URL": state.as_uri(), "PULUMI_CONFIG_PASSPHRASE": "x", "PULUMI_HOME": str(state / "home"),
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true", "PULUMI_SKIP_UPDATE_CHECK": "true",
        }  # fmt: skip
        command = [engine, "--non-interactive", "--color", "never", *argv]
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with one stack; each test writes its own program into the project."""
    made = Project(tmp_path_factory.mktemp("project"))
    made.write("")
    assert made.pulumi("stack", "init", "dev").returncode == 0
    return made


@needs_engine
@pytest.mark.engine
@of_one_project
def test_documented_commands_on_a_stack_file_or_a_state_have_the_documented_effect(project: Project) -> None:
    """The commands are from README and docs/."""
    file = project.folder / "Pulumi.dev.yaml"
    kept = file.read_text()
    nodes = "config:\n  trial:hosts:\n    nodes:\n      gpu-a: 10.20.1.11\n      x: 10.20.1.12\n"
    file.write_text(nodes + kept)
    for words in (["set", "--path", "measure.run", "2"], ["rm", "--path", 'hosts.nodes["x"]']):
        done = project.pulumi("config", *words)
        assert done.returncode == 0, done.stderr
    assert json.loads(project.pulumi("config", "get", "measure").stdout) == {"run": 2}
    assert json.loads(project.pulumi("config", "get", "hosts").stdout) == {"nodes": {"gpu-a": "10.20.1.11"}}
    file.write_text(kept)
    project.write("")
    for words in (["up", "--yes", "--skip-preview"], ["refresh", "--yes"], ["cancel", "--yes"]):
        done = project.pulumi(*words)
        assert done.returncode == 0, done.stderr
    assert "URN: urn:pulumi:dev::trial::pulumi:pulumi:Stack::trial-dev" in project.pulumi("stack", "--show-urns").stdout


@needs_engine
@pytest.mark.engine
@of_one_project
def test_a_program_runs_in_its_folder_with_its_configuration(project: Project) -> None:
    (project.folder / "beside.py").write_text("NAME = 'beside'\n")
    project.write(
        "import os, sys, pulumi, beside\n"
        "pulumi.export('where', [os.getcwd(), sys.path[0], beside.NAME])\n"
        "pulumi.export('who', [pulumi.get_project(), pulumi.get_stack()])\n"
        "pulumi.export('word', pulumi.Config().require_secret('word'))\n"
        "print('a line of the program')\n"
    )
    project.pulumi("config", "set", "--secret", "word", "hush")
    up = project.pulumi("up", "--yes", "--skip-preview", "--debug")
    assert up.returncode == 0, up.stdout + up.stderr
    assert "a line of the program" in up.stdout
    assert "debug: resource registration successful" in up.stdout  # this line is shown only with --debug
    outputs = json.loads(project.pulumi("stack", "output", "--json", "--show-secrets").stdout)
    assert outputs == {
        "where": [str(project.folder), str(project.folder), "beside"],
        "who": ["trial", "dev"],
        "word": "hush",
    }
    assert json.loads(project.pulumi("stack", "output", "--json").stdout)["word"] == "[secret]"


@needs_engine
@pytest.mark.engine
@of_one_project
@pytest.mark.parametrize(
    ("program", "shown", "hidden"),
    [
        ("import pulumi\nraise pulumi.RunError('just this.')", "error: just this.\n", "Traceback"),
        ("def f():\n  raise ValueError('x')\nf()", "ValueError: x", "runpy"),
        ("import pulumi\npulumi.Output.from_input(1).apply(lambda _: 1 / 0)", "ZeroDivisionError", "exit code"),
        ("import sys\nsys.exit(3)", "Program exited with non-zero exit code: 3", "Traceback"),
    ],
)
def test_a_program_that_fails_shows_only_its_own_error(project: Project, program: str, shown: str, hidden: str) -> None:
    project.write(program)
    previewed = project.pulumi("preview")
    assert previewed.returncode != 0
    assert shown in previewed.stdout
    assert hidden not in previewed.stdout


@needs_engine
@pytest.mark.engine
@of_one_project
def test_a_missing_virtualenv_is_named_in_the_error(project: Project) -> None:
    project.write("", runtime="{name: python, options: {virtualenv: nope}}")
    previewed = project.pulumi("preview")
    assert previewed.returncode != 0
    assert "The 'virtualenv' option in Pulumi.yaml is set to 'nope'" in previewed.stdout


@needs_engine
@pytest.mark.engine
@of_one_project
def test_a_command_is_replaced_only_if_a_trigger_changed(project: Project) -> None:
    program = (
        "import pulumi\nfrom pulumi_command import local\n"
        "one = local.Command('one', create='echo once >> log', triggers=[{}], delete='echo gone >> log')\n"
        "pulumi.export('out', one.stdout)\n"
    )
    project.write(program.format("'a'"))
    assert project.pulumi("up", "--yes", "--skip-preview").returncode == 0
    assert project.pulumi("up", "--yes", "--skip-preview", "--expect-no-changes").returncode == 0
    assert (project.folder / "log").read_text() == "once\n"
    project.write(program.format("'b'"))
    up = project.pulumi("up", "--yes", "--skip-preview")
    assert "1 replaced" in up.stdout
    assert (project.folder / "log").read_text() == "once\nonce\ngone\n"
