"""Time `make preview`, `make up` and an unchanged `make up` of older commits and of this commit, in turn on this machine.

    make older COMMITS="8471989 d7aa662"

Every commit is cloned and set up in a folder of its own; this commit's folder is named HEAD. The rehearsed cluster of a commit
is destroyed before the next commit is timed. Each figure is the median of ROUNDS rounds (default 2) in seconds, with the ratio
of this commit's figure to the older commit's figure. Each commit takes a minute in each round, and another minute for its
set-up.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.plain_environment import plain

ROOT = Path(__file__).resolve().parents[1]
#: What is timed, in this order: its name, and the words after `make`.
STEPS = {"preview": "preview", "up": "up", "unchanged up": "up"}
_LIMIT_S = 900
_SHOWN_CHARACTERS = 3000


def make(folder: Path, words: str) -> float:
    """Run `make` in a checkout and return the seconds that it took.

    Raises:
        SystemExit: `make` failed, or took longer than 15 minutes.
    """
    began = time.monotonic()
    try:
        done = subprocess.run(
            ["make", *words.split()],
            cwd=folder,
            env=plain(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"`make {words}` of {folder.name} took longer than {_LIMIT_S} s") from None
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout[-_SHOWN_CHARACTERS:]}\n`make {words}` of {folder.name} ended with {done.returncode}")
    return time.monotonic() - began


def checkout(commit: str, folder: Path) -> None:
    """Clone this repository at `commit` into `folder`, and set it up."""
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "checkout", "--quiet", "--detach", commit], check=True)
    _say(f"{folder.name}: set up in {make(folder, 'setup'):.0f} s")


def rounds(folders: Sequence[Path], count: int) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of every step by checkout; every second round goes through the checkouts backwards."""
    found: dict[str, dict[str, list[float]]] = {folder.name: {step: [] for step in STEPS} for folder in folders}
    for number in range(count):
        for folder in folders if number % 2 == 0 else reversed(folders):
            try:
                for step, words in STEPS.items():
                    found[folder.name][step].append(make(folder, words))
            finally:
                make(folder, "down")
            last = ", ".join(f"{step} {found[folder.name][step][-1]:.1f} s" for step in STEPS)
            _say(f"round {number + 1}, {folder.name}: {last}")
    return found


def table(found: Mapping[str, Mapping[str, Sequence[float]]], ours: str) -> str:
    """Return one row for each step: each checkout's median, and the ratio of the median of `ours` to each older median."""
    older = [name for name in found if name != ours]
    lines = [" ".join([f"{'':14}", *(f"{name:>18}" for name in older), f"{ours:>10}"])]
    for step in STEPS:
        middle = {name: statistics.median(found[name][step]) for name in found}
        cells = [f"{middle[name]:8.1f} s {middle[ours] / middle[name]:7.2f}" for name in older]
        lines.append(" ".join([f"{step:14}", *(f"{cell:>18}" for cell in cells), f"{middle[ours]:8.1f} s"]))
    return "\n".join(lines)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - printing is its purpose


def main(commits: Sequence[str]) -> int:
    """Set up the commits, time them in turn, and print the table."""
    if not commits:
        raise SystemExit('COMMITS is empty, but must name the older commits, such as COMMITS="8471989 d7aa662"')
    with tempfile.TemporaryDirectory(prefix="busbar-older-") as place:
        folders = [Path(place, commit) for commit in (*commits, "HEAD")]
        for folder in folders:
            checkout(folder.name, folder)
        _say(table(rounds(folders, int(os.environ.get("ROUNDS", "2"))), "HEAD"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
