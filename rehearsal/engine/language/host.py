"""Serve pulumirpc.LanguageRuntime: start one Python process for every run of a program.

This language host does not install packages, generate code or list required plugins. The engine needs no list, because the SDKs
send the provider's name and version with every registration, and plugins are on PATH.
"""

# ruff: noqa: E402  protocol.start_fast must run before anything of pulumi is imported

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[3])

from rehearsal import protocol

protocol.start_fast()

import json
import os
import platform
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent import futures

import grpc
import pulumi
from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from rehearsal.engine.language.forked import SERVER, Forked

EXECUTOR = Path(__file__).resolve().with_name("program.py")
MESSAGE_SIZE_BYTES = 400 * 1024 * 1024  # the engine and the SDK accept messages of this size from each other
EXIT_ALREADY_TOLD = 32  # the program's process has shown its error; the engine stops without showing another
GRACE_S = 2.0  # an interrupted program has this long to exit before this language host kills the program


def debug_lines_are_shown() -> bool:
    """Tell whether the engine that started this host shows debug lines; true if the engine's options are unreadable."""
    try:
        words = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
    except OSError:
        return True
    return any(word in {"-d", "--debug", "--logtostderr"} or word.startswith(("--debug=", "--logtostderr=")) for word in words)


class HostError(Exception):
    """The folder in the project's `virtualenv` option is not a virtual environment."""


def interpreter(root: Path, virtualenv: str) -> tuple[str, dict[str, str]]:
    """Return the Python that runs the program, and the program's environment variables.

    The first of these that is set and exists is used: the runtime's `virtualenv` option, BUSBAR_PYTHON, PULUMI_PYTHON_CMD, the
    active virtual environment, the Python that runs this host. Raises HostError if `virtualenv`'s folder has no bin/python.
    """
    environment = dict(os.environ)
    if virtualenv:
        folder = (root / Path(virtualenv).expanduser()).absolute()
        python = folder / "bin" / "python"
        if not python.is_file():
            raise HostError(
                f"The 'virtualenv' option in Pulumi.yaml is set to {virtualenv!r}, but {str(folder)!r} doesn't appear "
                "to be a virtual environment."
            )
        environment.pop("PYTHONHOME", None)
        environment["VIRTUAL_ENV"] = str(folder)
        environment["PATH"] = os.pathsep.join([str(folder / "bin"), *filter(None, [environment.get("PATH", "")])])
        return str(python), environment
    for name in ("BUSBAR_PYTHON", "PULUMI_PYTHON_CMD"):
        found = shutil.which(environment.get(name, "") or "/nowhere")
        if found:
            return found, environment
    active = environment.get("VIRTUAL_ENV", "")
    if active and (Path(active) / "bin" / "python").is_file():
        return str(Path(active) / "bin" / "python"), environment
    return sys.executable, environment


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """Language host for Python programs."""

    def __init__(self, engine_address: str) -> None:
        self._engine_address = engine_address
        self._running: set[subprocess.Popen[bytes] | Forked] = set()
        self._lock = threading.Lock()
        self._cancelled = False

    def Handshake(  # noqa: N802 - the protocol's name
        self, request: language_pb2.LanguageHandshakeRequest, context: grpc.ServicerContext
    ) -> language_pb2.LanguageHandshakeResponse:
        """Take the engine's address."""
        del context
        self._engine_address = request.engine_address or self._engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(  # noqa: N802
        self, request: empty_pb2.Empty, context: grpc.ServicerContext
    ) -> plugin_pb2.PluginInfo:
        """Return the version of the installed SDK as the version of this host."""
        del request, context
        # importlib.metadata also has the version, but importing it takes a fifth of this program's start, and an engine starts
        # two hosts.
        (installed,) = Path(pulumi.__path__[0]).parent.glob("pulumi-[0-9]*.dist-info")
        return plugin_pb2.PluginInfo(version=installed.name.removeprefix("pulumi-").removesuffix(".dist-info"))

    def GetRequiredPackages(  # noqa: N802
        self, request: language_pb2.GetRequiredPackagesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPackagesResponse:
        """Return no packages: every registration that a program sends names the resource's provider."""
        del request, context
        return language_pb2.GetRequiredPackagesResponse()

    def GetRequiredPlugins(  # noqa: N802
        self, request: language_pb2.GetRequiredPluginsRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetRequiredPluginsResponse:
        """Return no plugins, for the same reason as GetRequiredPackages."""
        del request, context
        return language_pb2.GetRequiredPluginsResponse()

    def About(  # noqa: N802
        self, request: language_pb2.AboutRequest, context: grpc.ServicerContext
    ) -> language_pb2.AboutResponse:
        """Name the interpreter, for `pulumi about`."""
        python, _ = self._interpreter(request.info, context)
        return language_pb2.AboutResponse(executable=python, version=platform.python_version())

    def GetProgramDependencies(  # noqa: N802
        self, request: language_pb2.GetProgramDependenciesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetProgramDependenciesResponse:
        """List the installed packages for `pulumi about`, by default only the packages that no other package requires."""
        python, environment = self._interpreter(request.info, context)
        only_top = [] if request.transitiveDependencies else ["--not-required"]
        argv = [python, "-m", "pip", "list", "--format", "json", *only_top]
        listed = subprocess.run(argv, env=environment, capture_output=True, timeout=60, check=False)
        found = json.loads(listed.stdout) if listed.returncode == 0 else []
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[language_pb2.DependencyInfo(name=one["name"], version=one["version"]) for one in found]
        )

    def InstallDependencies(  # noqa: N802
        self, request: language_pb2.InstallDependenciesRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.InstallDependenciesResponse]:
        """Refuse: packages are installed from a lock file with hashes, never by a plugin."""
        del request
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "this language host installs nothing: run `make` in the checkout")
        yield from ()

    def Run(  # noqa: N802
        self, request: language_pb2.RunRequest, context: grpc.ServicerContext
    ) -> language_pb2.RunResponse:
        """Run the program once, in a process of its own whose output the engine shows; return how the program ended."""
        python, environment = self._interpreter(request.info, context)
        environment["PULUMI_CONFIG"] = json.dumps(dict(request.config))
        environment["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(list(request.configSecretKeys))
        directory = Path(request.info.program_directory or request.pwd or ".")
        plan = {
            "monitor": request.monitor_address,
            "engine": self._engine_address,
            "project": request.project,
            "stack": request.stack,
            "organization": request.organization,
            "root_directory": request.info.root_directory,
            "parallel": request.parallel,
            "dry_run": request.dryRun,
            "pwd": request.pwd or str(directory),
            "program": os.path.normpath(directory / (request.info.entry_point or request.program or ".")),
            "args": list(request.args),
            "debug": debug_lines_are_shown(),
        }
        with self._lock:
            if self._cancelled:
                return language_pb2.RunResponse(bail=True)
            process = _start(python, [str(EXECUTOR), json.dumps(plan)], environment)
            self._running.add(process)
        context.add_callback(lambda: _end(process))
        code = process.wait()
        with self._lock:
            self._running.discard(process)
        if code == EXIT_ALREADY_TOLD or (self._cancelled and code != 0):
            return language_pb2.RunResponse(bail=True)
        error = "" if code == 0 else f"Program exited with non-zero exit code: {code}"
        if code < 0:
            error = f"Program was ended by {signal.Signals(-code).name}"
        return language_pb2.RunResponse(error=error)

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:  # noqa: N802
        """Stop all programs that are running, within a time limit."""
        del request, context
        self.end_all()
        return empty_pb2.Empty()

    def end_all(self) -> None:
        """Refuse further runs, and stop all programs that are running."""
        with self._lock:
            self._cancelled = True
            running = list(self._running)
        for process in running:
            _end(process)

    def _interpreter(self, info: language_pb2.ProgramInfo, context: grpc.ServicerContext) -> tuple[str, dict[str, str]]:
        options = json_format.MessageToDict(info.options)
        try:
            return interpreter(Path(info.root_directory or "."), str(options.get("virtualenv", "")))
        except HostError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            raise


def _start(python: str, argv: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes] | Forked:
    """Start a program; if a program server with this Python's packages runs, as in tests, that server forks the program."""
    server = environment.pop(SERVER, "")
    if server and Path(python).parent.parent.resolve() == Path(sys.prefix).resolve():
        return Forked(server, python, argv, environment)
    # The program stays in this process's group, because the engine stops a plugin by stopping the plugin's group.
    return subprocess.Popen([python, "-u", *argv], env=environment, stdin=subprocess.DEVNULL)


def _end(process: subprocess.Popen[bytes] | Forked) -> None:
    """Interrupt a program, and kill the program if it does not exit in time."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + GRACE_S
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    if process.poll() is None:
        process.kill()


def main() -> int:
    """Serve until the engine interrupts this process, or until the engine exits."""
    engine = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    stop = protocol.StopSignals()
    sizes = [("grpc.max_receive_message_length", MESSAGE_SIZE_BYTES), ("grpc.max_send_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), options=sizes)
    host = LanguageHost(engine)
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    parent = os.getppid()
    while not stop.wait(0.5):
        if os.getppid() != parent:  # an engine that was killed sends no message
            break
    host.end_all()
    server.stop(grace=0.2).wait(1)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # grpc's worker threads must not keep this host running after the server has stopped
