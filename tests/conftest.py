"""Fixtures and options of all tests, and a double of the engine, which records what the real program registers."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import json
import logging
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

# In a process that a test forks, gRPC finds its sockets closed. This is intended. Without this setting, gRPC would report it on
# stderr.
os.environ["GRPC_VERBOSITY"] = "NONE"

import pulumi
import pytest
import yaml
from google.protobuf import empty_pb2
from hypothesis import HealthCheck, settings
from pulumi.runtime.proto.source_pb2 import StackTrace
from wait_until import wait_until

from rehearsal.engine.language.forked import SERVER
from rehearsal.engine.language.program import EXIT_ALREADY_TOLD
from tools.stack_changes import merged, settled
from tools.stage import SHARED, Stage

# The SDK would record the whole call stack, with source lines, at each registration. Under pytest that would take a fifth of a
# test's time, so tests record an empty stack.
pulumi.runtime.resource._get_stack_trace = StackTrace  # type: ignore[assignment]  # noqa: SLF001 - there is no public switch
#: The hooks of the program's resources, by name. The engine's double cannot call the program back, so tests call the hooks.
HOOKS: dict[str, pulumi.ResourceHook] = {}


#: The names of the outputs that each component registered, by the component's type and name.
REGISTERED: dict[tuple[str, str], set[str]] = {}


def _register(_: Any, request: Any) -> empty_pb2.Empty:
    kind, name = request.urn.rpartition("$")[2].split("::")[-2:]
    REGISTERED[kind, name] = set(request.outputs)
    return empty_pb2.Empty()


pulumi.runtime.mocks.MockMonitor.RegisterResourceOutputs = _register  # type: ignore[method-assign]


def _keep(hook: pulumi.ResourceHook) -> asyncio.Future[None]:
    HOOKS[hook.name] = hook
    kept: asyncio.Future[None] = asyncio.get_event_loop().create_future()
    kept.set_result(None)
    return kept


pulumi.resource_hooks.register_resource_hook = _keep


class _Loop(asyncio.SelectorEventLoop):
    """Runs the tasks of executors in this thread: the recording engine answers at once, and more threads would take longer."""

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run `func` and return a finished future with its result."""
        done: asyncio.Future[Any] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the caller gets the error
            done.set_exception(error)
        return done


class _Policy(asyncio.DefaultEventLoopPolicy):
    _loop_factory = _Loop


asyncio.set_event_loop_policy(_Policy())
# When a program is refused, each of its hundred futures logs a traceback that nobody reads.
logging.getLogger("asyncio").setLevel(logging.CRITICAL)
# The program disables garbage collection, because its process runs for seconds; this process runs the program a hundred times.
gc.disable = lambda: None
gc.set_threshold(200_000, 20, 100)
# The machine may be busy with rehearsed hosts, so the duration of one example of the package Hypothesis means nothing.
settings.register_profile("busbar", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busbar")

ROOT = Path(__file__).parent.parent
#: What a dev stack must set if no account is queried.
DEV_PLACE = {
    "preflight": False,
    "tenancy": "ocid1.tenancy.oc1..rehearsed",
    "availabilityDomain": "Uocm:REHEARSED-AD-1",
}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHostKeyOfTheLoginNode0000000000000000000000"
#: The host key as first boot writes it to the console: three times, the first time cut by a line of the kernel.
CONSOLE = f"busbar-host-key: {HOST_KEY[:40]}[   31.4] eth0: link up\nbusbar-host-key: {HOST_KEY}\nbusbar-host-key: {HOST_KEY}\n"


#: The only reasons for which a full run may skip a test: each names a thing that other machines than CI's may lack.
MAY_LACK = ("no user namespace can be made here",)
#: The largest number of characters of a parameter's name, as pytest shows it.
_NAME_CHARACTERS = 90


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options of this suite."""
    parser.addoption("--no-skips", action="store_true", help="fail if a test is skipped for a reason that is not in MAY_LACK")
    parser.addoption("--coverage", action="store_true", help="measure which product code the tests run, in .busbar/coverage")
    parser.addoption("--write-golden", action="store_true", help="write reviewed texts anew instead of comparing with them")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Keep the tests of one xdist_group on one worker: they share a stack and run in the order of their file."""
    if hasattr(config, "workerinput"):
        config.option.loadgroup = True
    elif getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "loadgroup"
        config.option.loadscopereorder = False  # pytest-xdist would start the group with the most tests first


def pytest_configure(config: pytest.Config) -> None:
    """With --coverage, measure coverage from now on, before any test file imports the product."""
    if config.getoption("--coverage") and not getattr(config.option, "numprocesses", None):
        from tools import coverage_report  # noqa: PLC0415 - needed only with --coverage

        config.add_cleanup(coverage_report.begin())


#: Markers of tests that are not pure, because they start other programs; tools/test finds the files by these names.
NOT_PURE = ("rehearsal", "kubernetes", "engine", "programs")


@functools.cache
def _text(path: Path) -> str:
    return path.read_text()


#: Groups of tests that share a stack, long groups first, so that no worker starts a long group when the other workers are done.
#: Slurm's groups wait most of their time, so they run beside groups that compute.
STORIES = (
    *("stack", "faults", "aws", "elastic", "users", "hosts", "container", "readme", "oci-files", "machines", "nccl-tests"),
    *("tenancy", "broken", "booted", "storage", "oci-single"),
)


def _turn(item: pytest.Item) -> tuple[int, int]:
    """Return the sort key of a test: tests that share a stack come first, then other rehearsals, then all other tests."""
    (group,) = [mark.args[0] for mark in item.iter_markers("xdist_group")][:1] or [""]
    return (STORIES.index(group) if group in STORIES else len(STORIES)), 0 if item.get_closest_marker("rehearsal") else 1


def pytest_make_parametrize_id(val: Any) -> str | None:
    """Truncate a long value's name: pytest puts it into each report, and into the environment of every child process."""
    if not isinstance(val, str | bytes) or len(val) <= _NAME_CHARACTERS:
        return None
    head = ascii(val[:_NAME_CHARACTERS])[1:-1]
    return f"{head}...{len(val)}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put long groups first; skip tests that only root can run, and say why. --write-golden selects the tests that write.

    Tests of the rehearsal's own parts start plugins, compilers and MPI, so they are not pure.
    """
    if config.getoption("--write-golden"):
        items[:] = [one for one in items if "reviewed" in getattr(one, "fixturenames", ())]
    items.sort(key=_turn)
    gc.freeze()  # the garbage collector then skips the modules and tests, which are needed until the end
    for item in items:
        if item.path.parent.name == "rehearsal":
            item.add_marker("programs")
        marked = [name for name in NOT_PURE if item.get_closest_marker(name)]
        if not marked and item.path.parent.name not in {"unit", "program"}:
            raise pytest.UsageError(
                f"{item.nodeid} is a pure test, but tools/test looks for pure tests only in tests/unit and tests/program"
            )
        if marked and item.path.parent.name != "rehearsal" and not any(f"mark.{name}" in _text(item.path) for name in NOT_PURE):
            raise pytest.UsageError(
                f"{item.path} has tests marked {marked[0]}, but its text has none of the markers that tools/test searches for"
            )
    if os.geteuid() != 0:
        lacking = pytest.mark.skip(reason="the rehearsal makes network namespaces and mounts, which only root can do")
        for item in items:
            if item.get_closest_marker("rehearsal") or item.get_closest_marker("kubernetes"):
                item.add_marker(lacking)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run with --no-skips if a test was skipped for a reason that is not in MAY_LACK."""
    if not session.config.getoption("--no-skips") or hasattr(session.config, "workerinput"):
        return
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = {report.nodeid for report in reporter.stats.get("skipped", []) if not str(report.longrepr[2]).endswith(MAY_LACK)}
    if skipped:
        reporter.write_line(f"a full run may not skip these tests: {', '.join(sorted(skipped))}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the engine's errors of failed tests last: a log that is truncated in the middle keeps its end."""
    for report in terminalreporter.stats.get("failed", []):
        said = dict.fromkeys(line.strip() for line in report.caplog.splitlines() if re.search(r"\berror: |killed after", line))
        for line in list(said)[-6:]:
            terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {line[:1000]}")


@dataclass
class Engine(pulumi.runtime.Mocks):
    """Records each registered resource as (type, name, inputs), and each call of a look-up as (token, arguments)."""

    lines: dict[str, str]
    resources: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    invokes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    members: int = 2
    before: dict[str, Any] = field(default_factory=dict)

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.resources.append((args.typ, args.name, args.inputs))
        outputs = dict(args.inputs)
        if args.typ == "oci:Core/instance:Instance":
            outputs |= {"publicIp": "203.0.113.5", "privateIp": "10.0.1.2", "displayName": args.inputs.get("displayName")}
        if args.typ.startswith(("oci:FileStorage/", "oci:Lustre/")):
            outputs |= {"ipAddress": "10.0.1.9", "exportSetId": "set", "managementServiceAddress": "10.0.1.10", "lnet": "tcp"}
        if args.typ.endswith(":AppCatalogSubscription"):
            outputs |= {"listingResourceId": "ocid1.image.oc1..subscribed"}
        if args.typ.startswith("command:"):
            outputs |= {"stdout": self.lines.get(args.name, ""), "stderr": ""}
        return f"ocid1.{args.name}.oc1..id", outputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        if args.token.endswith(":readStackOutputs"):
            return {"name": args.args["name"], "outputs": self.before}
        self.invokes.append((args.token, args.args))
        answers: dict[str, Callable[[], dict[str, Any]]] = {
            "oci:Core/getServices:getServices": lambda: {
                "services": [{"id": "svc", "cidrBlock": "all-nrt-services", "name": "All"}]
            },
            "oci:Core/getConsoleHistoryData:getConsoleHistoryData": lambda: {"data": f"boot\n{CONSOLE}"},
            "oci:Core/getClusterNetworkInstances:getClusterNetworkInstances": lambda: {
                "instances": [
                    {
                        "id": f"i{n}",
                        "displayName": f"inst-{n}",
                        "state": "RUNNING",
                        "faultDomain": "FD-1",
                        "availabilityDomain": "Uocm:REHEARSED-AD-1",
                        "timeCreated": f"2026-11-20 00:{n:02}",
                    }
                    for n in range(self.members)
                ]
            },
            "oci:Core/getInstances:getInstances": lambda: {"instances": []},
            "oci:Core/getVnicAttachments:getVnicAttachments": lambda: {
                "vnicAttachments": [{"instanceId": f"i{n}", "vnicId": f"v{n}", "state": "ATTACHED"} for n in range(8)]
            },
            "oci:Core/getPrivateIps:getPrivateIps": lambda: {
                "privateIps": [{"vnicId": f"v{n}", "ipAddress": f"10.0.1.{n + 2}", "isPrimary": True} for n in range(8)]
            },
        }
        return answers[args.token]()

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the inputs of every resource whose type ends with `kind`."""
        return [inputs for typ, _, inputs in self.resources if typ.endswith(kind)]


def ready_line(nodes: int = 2) -> str:
    groups = [{"facts": {}, "nodes": [f"inst-{n}" for n in range(nodes)]}]
    found = {"host_key": HOST_KEY, "count": nodes, "groups": groups, "fronts": [], "networks": []}
    return json.dumps({"schema": 2, "kind": "ready", **found})


#: What a server with eight GPUs and eight rails reports at first contact.
SERVER_FACTS = {
    "gpu": "NVIDIA A100-SXM4-40GB",
    "gpus": 8,
    "hca": [[f"mlx5_{number}", 200, f"ib{number}", True] for number in range(8)],
    "tag": "",
    "mpi": "/opt/openmpi",
    "front": "bond0",
    "network": "10.0.0.0/16",
}


BUILD_LINE = json.dumps(
    {
        "schema": 2,
        "kind": "build",
        "run_id": "build1",
        "seconds": 1.0,
        "home": "/home/opc",
        "shared": "~/.busbar/ssh/%C",
        "mpi_home": "/usr/mpi/gcc/openmpi-4.1.2a1",
        "cuda_home": "/usr/local/cuda-11.6",
        "nccl_home": "/usr",
        "binaries": "/home/opc/.busbar/tests/x",
        "hashes": {"all_reduce_perf": "0" * 64},
        "versions": {"nccl_tests": "2.19.6"},
    }
)


@functools.cache
def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())["config"]
    return found


def groups(stack: str, **changes: Any) -> dict[str, Any]:
    """Return the groups of settings in a stack file, for a test without rehearsal, with `changes` merged into them."""
    found = {key.partition(":")[2]: value for key, value in _read(f"Pulumi.{stack}.yaml").items() if key.startswith("busbar:")}
    own: dict[str, Any] = {
        # The measurement has few rows: the SDK visits every row several times, and many rows would take most of a test's time.
        "measure": {
            "sizes": {"from": "1M"},
            "collectives": ["all_reduce"],
            "spreadIterations": 0,
            "looks": 0,
            "ncclTests": {"source": str(ROOT / "README.md")},
        },
        "accept": {"allowSkipped": ["spread", "looks"]},
        "records": {"history": None, "report": None},
    }
    if found["target"] not in {"hosts", "kubernetes"}:
        own[found["target"]] = {"access": {"publicKey": KEY}}
    return merged(merged(found, own), changes)


def texts(found: dict[str, Any]) -> dict[str, str]:
    """Return the groups of settings in a stack file as texts, as the engine passes them to the program."""
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in settled(found).items()}


def configuration(**changes: Any) -> dict[str, Any]:
    """Return the configuration that the engine passes to the program for the dev stack, with `changes`."""
    found = merged(merged(groups("dev"), {"oci": DEV_PLACE}), changes)
    return {f"busbar:{key}": text for key, text in texts(found).items()}


def run_main() -> None:
    """Run the real __main__.py in this process.

    Raises:
        pulumi.RunError: the program refused the stack. It reported this to the engine before its exit.
    """
    with mock.patch.object(pulumi.log, "error", wraps=pulumi.log.error) as told:
        try:
            runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")
        except SystemExit as ended:
            refusal = ended.__cause__
            if ended.code != EXIT_ALREADY_TOLD or not isinstance(refusal, pulumi.RunError):
                raise
        else:
            return
    assert mock.call(str(refusal)) in told.mock_calls, "the engine does not show this refusal to the user"
    raise refusal from None


def exported(patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a dictionary to which programs that run later add their exports."""
    found: dict[str, Any] = {}

    def export(name: str, value: Any) -> None:
        pulumi.Output.from_input(value).apply(lambda known: found.update({name: known}))

    patch.setattr(pulumi, "export", export)
    return found


def options(patch: pytest.MonkeyPatch) -> dict[str, pulumi.ResourceOptions]:
    """Return a dictionary to which programs that run later add the options of each resource, by the resource's name."""
    found: dict[str, pulumi.ResourceOptions] = {}
    register = pulumi.resource.register_resource

    def spy(*given: Any) -> None:
        found[given[2]] = given[7]
        register(*given)

    patch.setattr(pulumi.resource, "register_resource", spy)
    return found


def run_program(lines: dict[str, str], *, members: int = 2, preview: bool = False, **changes: Any) -> Engine:
    """Run the real __main__.py on a recording engine until it is idle.

    Check that each component registers its outputs, and that no Command puts its earlier output into its environment.
    """
    REGISTERED.clear()
    engine = Engine(lines, members=members)
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(engine, project="busbar", stack="dev", organization="organization", preview=preview)
    pulumi.runtime.set_all_config(configuration(**changes) | {"oci:region": "us-rehearsed-1"})

    @pulumi.runtime.test
    def program() -> None:
        run_main()

    from early_refusal import early_refusal  # noqa: PLC0415 - at the top, it would import the product before coverage is measured

    with contextlib.chdir(ROOT), early_refusal(engine.resources):
        program()
    made = {(typ, name) for typ, name, _ in engine.resources if typ.startswith("busbar:")}
    assert made, "the program made nothing"
    assert made <= REGISTERED.keys(), "these components registered no outputs: the engine shows them as if they never ended"
    commands = [(name, its) for typ, name, its in engine.resources if typ.startswith("command:") and typ.endswith(":Command")]
    assert commands, "the program made no Command"
    told = [name for name, its in commands if its.get("addPreviousOutputInEnv") is not False]
    assert not told, "these Commands get their earlier output in the environment, where a long output prevents their start"
    return engine


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give this run its own folder for the program's user cache."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@contextlib.contextmanager
def program_server(folder: Path) -> Iterator[str]:
    """Run the server that forks programs; yield the path of its socket."""
    path = folder / "socket"
    words = [sys.executable, str(ROOT / "rehearsal/engine/language/program_server.py"), str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as server:
        wait_until(path.exists, "the server of programs listens")
        yield str(path)
        assert server.stdin is not None
        server.stdin.close()


@pytest.fixture(scope="session", autouse=True)
def _programs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start the server that forks rehearsed programs: importing the SDKs takes half of the processor time of a program."""
    if not any(item.get_closest_marker("rehearsal") and item.path.parent.name == "rehearsed" for item in request.session.items):
        yield
        return
    with program_server(tmp_path_factory.mktemp("programs")) as path:
        SHARED[SERVER] = path
        yield
        SHARED.clear()


@pytest.fixture
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync, which programs call after each step so that their state survives a crash of the machine."""
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def reviewed(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with the reviewed file; with --write-golden, write the file instead."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--write-golden"):
            path.write_text(text)
        assert path.read_text() == text, "`make golden` rewrites the reviewed file"

    return compare


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A rehearsed world for this test, destroyed afterwards."""
    made = Stage(tmp_path)
    yield made
    made.close()


def _noted(monkeypatch: pytest.MonkeyPatch, read: Callable[[pulumi.ResourceOptions | None], Any]) -> dict[str, Any]:
    """Return what `read` finds in each resource's options at its registration, by resource name; a result None is left out."""
    said: dict[str, Any] = {}
    genuine = pulumi.Resource.__init__

    def note(self, t, name, custom, props=None, opts=None, *rest, **more):  # noqa: PLR0913, PLR0917 - as in the SDK
        found = read(opts)
        if found is not None:
            said[name] = found
        genuine(self, t, name, custom, props, opts, *rest, **more)

    monkeypatch.setattr(pulumi.Resource, "__init__", note)
    return said


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str | None, str | None]]:
    """The provider's timeouts for create and delete, of each resource that sets them, by resource name."""

    def read(opts: pulumi.ResourceOptions | None) -> tuple[str | None, str | None] | None:
        limits = opts.custom_timeouts if opts else None
        return (limits.create, limits.delete) if limits else None

    return _noted(monkeypatch, read)


@pytest.fixture
def protection(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[bool, bool]]:
    """The options `protect` and `retain_on_delete` of each resource at its registration, by resource name."""
    return _noted(monkeypatch, lambda opts: (bool(opts and opts.protect), bool(opts and opts.retain_on_delete)))
