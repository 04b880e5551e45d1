"""Check that the tests detect mutants (small changes) of the product: run the tests whose imports reach each mutant.

Tests that need rehearsed machines or the engine are left out.

python -m tools.mutants --sample 60 --seed 1      random mutants, spread over the parts of the product
python -m tools.mutants --known                   the mutants of known.json, which once survived; a test was written for each
python -m tools.mutants ... --jobs 2              number of mutants to test at once, each in a copy of the checkout

With --known, the exit status is 1 if a mutant survives, or does not apply because the source changed: then correct known.json.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.mutants.change import Mutant, sample
from tools.mutants.reach import Reach

ROOT = Path(__file__).resolve().parents[2]
#: Parts of the product, each with the number of mutants that the part gets among 60 random mutants. This number is about
#: proportional to the part's size.
STRATA: tuple[tuple[int, tuple[str, ...]], ...] = (
    (16, ("components/**/*.py",)),
    (10, ("benchmarks/runner/*.py", "benchmarks/search/*.py")),
    (6, ("benchmarks/records/*.py", "benchmarks/report/*.py")),
    (10, ("benchmarks/plan/*.py", "benchmarks/judge/*.py", "benchmarks/host/*.py", "benchmarks/launch/*.py")),
    (8, ("catalogue/**/*.py",)),
    (6, ("config/**/*.py", "__main__.py")),
    (4, ("cloudinit/**/*.py", "manifests/*.py", "scheduler/*.py")),
)
#: Tests of rehearsed machines and of the engine fail in a bare copy whether or not anything was changed.
_TESTS = "not rehearsal and not engine and not kubernetes and not on_demand"
#: Time limit of a test run; a mutant that hangs counts as detected.
_BOUND_S = 600
_ORDER = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of a mutant: `by` is the first failing test, or how else the test run failed; empty if the mutant survived."""

    mutant: Mutant
    by: str
    seconds: float


def drawn(count: int, seed: int) -> list[Mutant]:
    """Return about `count` random mutants; the number of mutants of each part is rounded."""
    dice = random.Random(seed)  # noqa: S311 - a sample, not a secret
    whole = sum(share for share, _ in STRATA)
    found: list[Mutant] = []
    for share, patterns in STRATA:
        files = sorted({path.relative_to(ROOT).as_posix() for pattern in patterns for path in ROOT.glob(pattern)})
        found += sample(ROOT, files, round(count * share / whole), dice)
    return found


def known() -> list[Mutant]:
    """Return the mutants of known.json.

    Raises:
        SystemExit: the source has changed, so that a mutant does not apply.
    """
    found, lost = [], []
    for row in json.loads((Path(__file__).parent / "known.json").read_text()):
        path = ROOT / row["file"]
        text = path.read_text() if path.is_file() else ""
        if text.count(row["old"]) != 1:
            lost.append(f"{row['file']} has {text.count(row['old'])} times, but must have once: {row['old']}")
            continue
        before = text[: text.index(row["old"])]
        line = before.count("\n") + 1
        found.append(Mutant(row["file"], line, len(before) - before.rfind("\n") - 1, row["old"], row["new"]))
    if lost:
        sys.exit("mutants: known.json is out of date; correct these entries:\n  " + "\n  ".join(lost))
    return found


def copied(folder: Path) -> Path:
    """Return a copy of the checkout in `folder`."""
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / ".busbar").mkdir()
    (folder / ".busbar" / "venv").symlink_to(ROOT / ".busbar" / "venv")
    return folder


def tried(mutant: Mutant, copy: Path, reach: Reach) -> Outcome:
    """Apply the mutant in `copy`, run the tests that reach it until a test fails, and undo the mutant."""
    tests = reach.tests_of(mutant.file)
    began = time.monotonic()
    if not tests:
        return Outcome(mutant, "", 0.0)
    path, text = copy / mutant.file, (copy / mutant.file).read_text()
    mutant.apply(copy)
    _touch(path)
    try:
        by = _first_failure(copy, tests)
    finally:
        path.write_text(text)
        _touch(path)
    return Outcome(mutant, by, time.monotonic() - began)


def _touch(path: Path) -> None:
    """Set a distinct modification time.

    Python recognises a changed source only by the file's size and the whole seconds of the modification time.
    """
    os.utime(path, (next(_ORDER), next(_ORDER)))


def _first_failure(copy: Path, tests: list[str]) -> str:
    argv = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--tb=no", "--no-header"]
    argv += ["-m", _TESTS, f"--basetemp={copy}/.busbar/tmp", *tests]
    try:
        done = subprocess.run(argv, cwd=copy, capture_output=True, text=True, timeout=_BOUND_S, check=False)
    except subprocess.TimeoutExpired:
        return f"no end within {_BOUND_S} s"
    if done.returncode in {0, 5}:  # all passed, or nothing was selected
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else f"pytest ended with {done.returncode}"


def outcomes(mutants: list[Mutant], jobs: int) -> Iterator[Outcome]:
    """Try all mutants, `jobs` at once; each copy of the checkout is used for one mutant at a time."""
    reach = Reach(ROOT)
    with tempfile.TemporaryDirectory(prefix="busbar-mutants-") as folder, ThreadPoolExecutor(jobs) as window:
        free: queue.Queue[Path] = queue.Queue()
        for number in range(jobs):
            (Path(folder) / str(number)).mkdir()
            free.put(copied(Path(folder) / str(number)))

        def one(mutant: Mutant) -> Outcome:
            copy = free.get()
            try:
                return tried(mutant, copy, reach)
            finally:
                free.put(copy)

        yield from window.map(one, mutants)


def main(words: list[str]) -> int:
    """Run as the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--known", action="store_true")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args(words)
    mutants = (known() if asked.known else []) + drawn(asked.sample, asked.seed)
    survived = 0
    shown = {mutant: mutant.shown(ROOT) for mutant in mutants}  # the checkout may change during the run
    for number, outcome in enumerate(outcomes(mutants, asked.jobs), 1):
        survived += not outcome.by
        said = f"killed by {outcome.by}" if outcome.by else "SURVIVED"
        sys.stdout.write(f"{number}/{len(mutants)} {shown[outcome.mutant]}\n  {said} ({outcome.seconds:.0f} s)\n")
        sys.stdout.flush()
    sys.stdout.write(f"mutants: {len(mutants) - survived} of {len(mutants)} killed\n")
    return 1 if asked.known and survived else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
