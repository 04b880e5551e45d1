"""Measure what README and CHANGELOG claim, one line each; a run takes some minutes and needs the rehearsal.

    make figures

Ratios come of runs side by side in one world. It deliberately judges nothing: the reader compares.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tools.stage import ROOT, Finished, Stage

#: The dev stack's own plan, which `make up` runs.
_DEV_PLAN = {"sizesFrom": "8", "sizesTo": "64M", "iterations": 1, "warmup": 0}
_MANY = 8


def main() -> None:
    """Print every figure."""
    with tempfile.TemporaryDirectory(prefix="busbar-figures-") as folder:
        two = _stage(Path(folder) / "two")
        try:
            _two_hosts(two)
        finally:
            two.close()
        many = _stage(Path(folder) / "many")
        try:
            _many_hosts(many)
        finally:
            many.close()
    _pure_tests()


def _stage(folder: Path) -> Stage:
    folder.mkdir()
    return Stage(folder)


def say(name: str, figure: str) -> None:
    """Print one figure."""
    print(f"{name:<58} {figure}", flush=True)  # noqa: T201 - printing is its duty


def _timed(what: str, finished: Finished) -> Finished:
    if finished.status != 0:
        sys.exit(f"{what} failed: {finished}")
    return finished


def _two_hosts(stage: Stage) -> None:
    say("preview of a new stack, 2 hosts", f"{_timed('preview', stage.preview(**_DEV_PLAN)).seconds:.1f} s")
    say("up on a clean state, 2 hosts, 8 B to 64 MiB", f"{_timed('up', stage.up(**_DEV_PLAN)).seconds:.1f} s")
    again = _timed("unchanged up", stage.up(**_DEV_PLAN))
    changes = sum(int(count) for count in re.findall(r"([0-9]+) (?:created|updated|deleted|replaced|to \w+)", again.text))
    say("unchanged up", f"{again.seconds:.1f} s, {changes} changes")
    say("program resources, 2 hosts", str(len(_own(stage))))
    outputs = stage.outputs()
    size = outputs["gate"]["size_bytes"]
    say(f"rehearsed busbw / scaled wire ceiling, at {size} B", f"{outputs['wire_efficiency']:.4f}")
    ratios = [outputs["busbw_gbps"] / _by_hand(stage, size) for _ in range(2)]
    say("busbw through the product / by hand with mpirun, twice", ", ".join(f"{ratio:.4f}" for ratio in ratios))


def _by_hand(stage: Stage, size_bytes: int) -> float:
    """Run the same binary with the same arguments on the head by hand, at one size; return its busbw in GB/s."""
    request = json.loads(_inputs(stage, "sweep-measure")["stdin"])
    words = [str(word) for word in request["argv"]]
    words[words.index("-b") + 1] = str(size_bytes)
    words = words[: words.index("-J")]
    login = stage.outputs()["ssh"].split()[1:]
    config = stage.folder / "ssh_config"
    config.write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n")
    found = _timed("the run by hand", stage.inside("ssh", "-F", str(config), *login, shlex.join(words)))
    (row,) = [line.split() for line in found.text.splitlines() if line.split()[:1] == [str(size_bytes)]]
    # The printed busbw has two decimals, too few here: time and rank count give it exactly.
    ranks = request["gpus"] * len(request["nodes"])
    return float(size_bytes / (float(row[5]) * 1e3) * 2 * (ranks - 1) / ranks)


def _many_hosts(stage: Stage) -> None:
    before = _available_mb()
    _timed("up", stage.up(nodes=_MANY))
    time.sleep(5)  # the last Command's processes go
    own = _own(stage)
    created = {resource["urn"].rsplit("::", 1)[1]: _when(resource) for resource in own if "created" in resource}
    boot_s = (created["ready-contact"] - created["cluster-configuration"]).total_seconds()
    say(f"program resources, {_MANY} hosts", str(len(own)))
    say(f"{_MANY} hosts from launch to the last one ready", f"{boot_s:.1f} s")
    say("memory of one idle host", f"{(before - _available_mb()) / (_MANY + 1):.0f} MB")
    say(f"rehearsed busbw / scaled wire ceiling, {_MANY} hosts, 4 MiB", f"{stage.outputs()['wire_efficiency']:.4f}")


def _own(stage: Stage) -> list[dict[str, Any]]:
    """Return the resources that the program registers, without the engine's own."""
    return [one for one in stage.state()["deployment"]["resources"] if not one["type"].startswith("pulumi:")]


def _inputs(stage: Stage, name: str) -> dict[str, Any]:
    for resource in stage.state()["deployment"]["resources"]:
        if resource["urn"].endswith(f"::{name}"):
            return dict(resource["inputs"])
    sys.exit(f"the state has no {name}")


def _when(resource: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", resource["created"]))


def _available_mb() -> float:
    text = Path("/proc/meminfo").read_text()
    return int(re.findall(r"MemAvailable:\s+(\d+) kB", text)[0]) / 1000


def _pure_tests() -> None:
    began = time.monotonic()
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-m", "not rehearsal"]
    found = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    say(
        "tests that need neither root nor network",
        f"{time.monotonic() - began:.1f} s, {found.stdout.splitlines()[-1].strip('= ')}",
    )


if __name__ == "__main__":
    main()
