"""Kill a program that an update needs, or fill a disk, and observe how the next `up` and `down` end.

Each case runs twice. The first time, an update follows, which must end as if nothing had happened. The second time, a destroy
follows, which must leave nothing. The only help is `tools.repair_state` and `tools.take_in`, which `make up` and `make down`
call first.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.interruption import at_work, begun, console, runs_with, signal_host, signal_operator, wait_for
from tools.stack_changes import merged
from tools.stage import Finished, Stage, standing_hosts

Say = Callable[[str, str], None]
_Harm = Callable[[], contextlib.AbstractContextManager[None]]
_HEAD = "gpu-1"
#: The fault: the fourth of the second host's four rails carries less than half its rate. The search must name this device.
_HCA = "mlx5_4"
_SLOW_RAIL: dict[str, Any] = {"kind": "rail_rate", "host": 1, "rail": 3, "factor": 0.4}
#: A measurement of about ten seconds that passes with any bandwidth above 1 GB/s.
_ANY_NUMBER: dict[str, Any] = {
    "measure": {"sizes": {"from": "4M", "to": "8M", "othersTo": None}, "iterations": 4, "search": "0 s"},
    "accept": {"gate": "1 GB/s"},
    "records": {"history": None},
}
_SEARCHED: dict[str, Any] = {"records": {"history": None}}
#: Programs of a run, on any host; the pattern does not match the shell that searches for them.
_RUNNING = "[b]usbar-runner|[m]pirun|[o]rted|_[p]erf"
#: A process in which sshd serves a session, not the listening daemon.
_SESSION = r"^sshd: [a-z]+( \[priv\]|@)"
_WORKER = "[b]usbar-runner-.* worker "
#: The stack has three machines. The disturbance comes when two of them boot.
_BOOTING, _ALL = 2, 3
_DISK = "512m"
#: Processes of a run must end within this time after an up or a destroy.
_GONE_WITHIN_S = 60


@dataclass(frozen=True)
class _Phase:
    """A phase of an update: how to see that it has begun, and how the update after the disturbance must end."""

    name: str
    text: str
    file: str
    settings: dict[str, Any]
    faults: tuple[dict[str, Any], ...] = ()

    def asked(self, stage: Stage, settings: dict[str, Any], number: int) -> dict[str, Any]:
        """Return the settings of the update; they differ for each `number`, so that this phase has to run again."""
        measure: dict[str, Any] = {"run": number}
        if self.name == "build":
            measure |= {"ncclTests": {"source": str(_another_archive(stage, number))}}
        asked: dict[str, Any] = merged(merged(settings, self.settings), {"measure": measure})
        return asked

    def wrong(self, found: Finished, stage: Stage) -> str:
        """Return what is wrong with the update after the disturbance; empty if nothing is wrong."""
        if not self.faults:
            return "" if found.status == 0 else f"the next up failed: {_reason(found)}"
        search = (stage.outputs().get("measured") or {}).get("search") or {"culprits": []}
        named = [rail for one in search["culprits"] for rail in one["rails"]]
        return "" if named == [_HCA] else f"the next up named {named or 'nothing'}: {_reason(found)}"


_PHASES = (
    _Phase("build", "building nccl-tests", "progress.log", _ANY_NUMBER),
    _Phase("measure", "  4194304  ", "all_reduce.txt", _ANY_NUMBER),
    _Phase("search", "search round 1", "progress.log", _SEARCHED, (_SLOW_RAIL,)),
)
_After = Callable[[Stage, _Phase, dict[str, Any]], str]
_SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL)


def figures(folder: Path, say: Say, only: str = "") -> None:
    """Print how each case ended, and how many ended well; `only` selects cases whose name contains this text."""
    folder.mkdir()
    well = [*_on_hosts(folder / "hosts", say, only), *_while_renting(folder / "rent", say, only)]
    say("disturbed updates that ended well", f"{sum(well)} of {len(well)}")


def _on_hosts(folder: Path, say: Say, only: str) -> list[bool]:
    folder.mkdir()
    stage, settings = standing_hosts(folder, 2, "BM.GPU.GB200.4")
    well, number = [], 0
    with _small_disk(folder / "state") as full_here:
        try:
            _must(stage.build(**merged(settings, _ANY_NUMBER)))
            _small_head(stage)
            harms = _operators(stage, "command", full_here) | _heads(stage)
            days = itertools.product(_PHASES, harms.items(), (_after_up, _after_down))
            for phase, (name, harm), after in days:
                what = f"{phase.name}, {name}, then {'up' if after is _after_up else 'down'}"
                if only in what:
                    number += 1
                    wrong = _one(stage, phase.asked(stage, settings, number), phase, harm, after)
                    well.append(not wrong)
                    say(what, wrong or "well")
        finally:
            stage.close()
    return well


def _while_renting(folder: Path, say: Say, only: str) -> list[bool]:
    """Disturb an update while it creates a cluster network; afterwards, the state must have exactly the rented machines."""
    folder.mkdir()
    stage, well = Stage(folder), []
    with _small_disk(folder / "state") as full_here:
        try:
            harms = _operators(stage, "rehearsal.oci", full_here)
            for (name, harm), after in itertools.product(harms.items(), ("up", "down")):
                what = f"rent, {name}, then {after}"
                if only in what:
                    wrong = _rent(stage, harm, after)
                    well.append(not wrong)
                    say(what, wrong or "well")
        finally:
            stage.close()
    return well


def _rent(stage: Stage, harm: _Harm, after: str) -> str:
    try:
        with begun(stage, stage.build_words()) as child:
            _wait_for_machines(stage, child)
            with harm():
                ended = stage.end(child)
        _must(stage.mend())
        found = stage.build() if after == "up" else stage.destroy()
        wrong = f"the next {after} failed: {_reason(found)}" if found.status != 0 else _unsaid(stage)
        if after == "up" and not wrong:
            _must(stage.destroy())
    except AssertionError as error:
        return f"could not be done: {error}"
    return f"{wrong} (the disturbed update: {_reason(ended)})" if wrong else _unsaid(stage)


def _wait_for_machines(stage: Stage, child: subprocess.Popen[str]) -> None:
    """Wait until two of the stack's machines boot; the update must not have ended before."""
    booting, end = set(stage.world.glob("hosts/*/pid")), time.monotonic() + 60
    while len(set(stage.world.glob("hosts/*/pid")) - booting) < _BOOTING:
        if child.poll() is not None or time.monotonic() > end:
            raise AssertionError(stage.end(child))
        time.sleep(0.02)


def _unsaid(stage: Stage) -> str:
    """Return how the cloud's resources or machines differ from those of the state; empty if they do not."""
    known = [one["type"].rpartition(":")[2] for one in stage.resources() if one["type"].startswith("oci:")]
    sold, machines = stage.sold("oci"), len(list(stage.world.glob("hosts/*/pid")))
    wanted = _ALL if known else 0
    if sorted(sold) != sorted(known):
        return f"the cloud has {sorted(sold)}, the state {sorted(known)}"
    return "" if machines == wanted else f"{machines} machines run, and {wanted} belong to the stack"


def _operators(stage: Stage, plugin: str, full_here: _Harm) -> dict[str, _Harm]:
    """Return the disturbances on the operator's machine, by name. Each happens in the middle of an update.

    What a disturbance changes on this machine is changed back after that update.
    """
    found = {f"engine {how.name}": _killed(signal_operator, stage, "pulumi", how) for how in _SIGNALS}
    found |= {f"plugin {how.name}": _killed(signal_operator, stage, plugin, how) for how in _SIGNALS}
    return found | {"operator's disk full": full_here}


def _heads(stage: Stage) -> dict[str, _Harm]:
    """Return the disturbances on the head node, by name."""
    found = {f"worker {how.name}": _killed(signal_host, stage, _HEAD, _WORKER, how) for how in _SIGNALS}
    found |= {f"sshd {how.name}": _killed(signal_host, stage, _HEAD, _SESSION, how) for how in _SIGNALS}
    return found | {"head node's disk full": lambda: _full_head(stage)}


def _killed(kill: Callable[..., None], *whom: Any) -> _Harm:
    @contextlib.contextmanager
    def harm() -> Iterator[None]:
        kill(*whom)
        yield

    return harm


def _one(stage: Stage, asked: dict[str, Any], phase: _Phase, harm: _Harm, after: _After) -> str:
    """Cause one disturbance in the middle of `phase`, then update or destroy; return what is wrong, or an empty text."""
    try:
        if phase.name != "build":
            _must(stage.build(**asked))
        stage.refault(*phase.faults)
        before = runs_with(stage, phase.text, phase.file)
        with begun(stage, stage.up_words(**asked)) as child:
            wait_for(stage, child, phase.text, before, phase.file)
            with harm():
                ended = stage.end(child)
        _must(stage.mend())
        wrong = after(stage, phase, asked)
    except AssertionError as error:
        return f"could not be done: {error}"
    finally:
        stage.refault()
    return f"{wrong} (the disturbed update: {_reason(ended)})" if wrong else ""


def _after_up(stage: Stage, phase: _Phase, asked: dict[str, Any]) -> str:
    return phase.wrong(stage.up(**asked), stage) or _still_at_work(stage)


def _after_down(stage: Stage, _phase: _Phase, _asked: dict[str, Any]) -> str:
    found = stage.destroy()
    if found.status != 0:
        return f"down failed: {_reason(found)}"
    return f"down left {len(stage.resources())} resources" if stage.resources() else _still_at_work(stage)


def _still_at_work(stage: Stage) -> str:
    end = time.monotonic() + _GONE_WITHIN_S
    while found := at_work(stage, _RUNNING):
        if time.monotonic() > end:
            return f"still at work: {found}"
        time.sleep(0.5)
    return ""


def _must(found: Finished) -> None:
    if found.status != 0:
        raise AssertionError(found)


def _reason(found: Finished) -> str:
    said = [line.strip() for line in found.text.splitlines() if "error" in line or "verdict" in line]
    return f"exit {found.status}; {' | '.join(said[:3])[:400]}"


def _another_archive(stage: Stage, number: int) -> Path:
    """Return an archive of the same nccl-tests with another sha256, so that nccl-tests is built again."""
    path = stage.folder / f"nccl-tests-{number}.tar"
    shutil.copyfile(".busbar/build/nccl-tests.tar", path)
    mark = stage.folder / "mark"
    mark.write_text(str(number))
    subprocess.run(["tar", "--append", "-f", str(path), "-C", str(stage.folder), "mark"], check=True)
    return path


@contextlib.contextmanager
def _small_disk(place: Path) -> Iterator[_Harm]:
    """Put the state on a small disk; yield a context manager in which this disk is full."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "small", str(place)], check=True)

    @contextlib.contextmanager
    def full() -> Iterator[None]:
        with contextlib.suppress(OSError), (place / "fill").open("wb") as target:
            while True:
                target.write(bytes(1 << 16))
                target.flush()
        try:
            yield
        finally:
            (place / "fill").unlink()

    try:
        yield full
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _small_head(stage: Stage) -> None:
    """Move the head node's folder of the runner to a small disk; no run may be active there."""
    script = (
        "set -e; here=$(echo /home/*/.busbar); cp -a $here /tmp/kept; "
        f"mount -t tmpfs -o size={_DISK} small $here; cp -aT /tmp/kept $here; rm -r /tmp/kept"
    )
    done = console(stage, _HEAD, script)
    if done.returncode != 0:
        raise AssertionError(done.stderr)


@contextlib.contextmanager
def _full_head(stage: Stage) -> Iterator[None]:
    """Fill the head node's small disk for a while."""
    console(stage, _HEAD, "cat /dev/zero >$(echo /home/*/.busbar)/fill")
    try:
        yield
    finally:
        console(stage, _HEAD, "rm /home/*/.busbar/fill")
