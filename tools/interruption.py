"""Wait until an update has reached a point, and then send a signal to programs of the operator or of a host."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from rehearsal.host import hosts
from rehearsal.world.world import World
from tools.stage import Stage

_SEEN_WITHIN_S = 150


def runs_with(stage: Stage, text: str, file: str = "progress.log") -> set[str]:
    """Return the paths of those files named `file` in the folders of runs, on all hosts, that contain `text`.

    The engine's own output would show the text too late.
    """
    found = set()
    for host in stage.world.glob("hosts/*/pid"):
        with contextlib.suppress(OSError):  # meanwhile the host may stop, or its run may be removed
            root = Path("/proc", host.read_text().strip(), "root")
            runs = root.glob(f"home/*/.busbar/runs/*/{file}")
            found |= {f"/{run.relative_to(root)}" for run in runs if text.encode() in run.read_bytes()}
    return found


@contextlib.contextmanager
def begun(stage: Stage, words: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a command in the stage's world; if the command still runs when the `with` block ends or raises, wait for it."""
    child = stage.begin(*words)
    try:
        yield child
    finally:
        if child.poll() is None:
            stage.end(child)


def wait_for(stage: Stage, child: subprocess.Popen[str], text: str, before: set[str], file: str = "progress.log") -> None:
    """Wait until a run's file named `file` contains `text`; files whose paths are in `before` do not count.

    Raises:
        AssertionError: the update ended first, or the text was not seen in time.
    """
    deadline = time.monotonic() + _SEEN_WITHIN_S
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise AssertionError(stage.end(child))
        if runs_with(stage, text, file) - before:
            return
        time.sleep(0.2)
    raise AssertionError(f"{text!r} was not seen within {_SEEN_WITHIN_S} s")


def signal_operator(stage: Stage, name: str, how: signal.Signals = signal.SIGKILL) -> None:
    """Signal the operator's processes in this world whose program, script or module is called `name`.

    Raises:
        AssertionError: there is no such process.
    """
    mine = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(str(stage.world)) in (place / "environ").read_bytes():
                words = os.fsdecode((place / "cmdline").read_bytes()).split("\0")
                mine += [int(place.name)] if name in {Path(word).name for word in words[:3]} else []
    if not mine:
        raise AssertionError(f"no {name} runs")
    for pid in mine:
        with contextlib.suppress(ProcessLookupError):  # if one of these processes dies, others may end before their own signal
            os.kill(pid, how)


def host_named(stage: Stage, name: str) -> str:
    """Return the id of the host of that name."""
    world = World.at(stage.world)
    ids = [path.parent.name for path in stage.world.glob("hosts/*/pid")]
    return next(one for one in ids if hosts.enter(world, one, ["hostname", "-s"]).stdout.strip() == name)


def console(stage: Stage, name: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell's `script` as root on host `name`, as on its console."""
    return hosts.enter(World.at(stage.world), host_named(stage, name), ["sh", "-c", script])


def signal_host(stage: Stage, name: str, command_line: str, how: signal.Signals) -> None:
    """Signal the processes of host `name` whose command line matches the expression `command_line`.

    Raises:
        AssertionError: there is no such process.
    """
    if console(stage, name, f"exec pkill -{how.value} -f '{command_line}'").returncode != 0:
        raise AssertionError(f"nothing on {name} matches {command_line}")


def at_work(stage: Stage, command_line: str) -> list[str]:
    """Return the command lines on all hosts that match the expression `command_line`, each with its host's id."""
    world, found = World.at(stage.world), []
    for host in sorted(stage.world.glob("hosts/*/pid")):
        listed = hosts.enter(world, host.parent.name, ["pgrep", "-a", "-f", command_line]).stdout.splitlines()
        found += [f"{host.parent.name}: {line}" for line in listed]
    return found
