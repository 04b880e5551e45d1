"""Damage measurements and hand them to the parser and the judge; count crashes and false passes.

    python -m tools.fuzz --seconds 60 --seed 1 --corpus .busbar/fuzz

Two runs with the same seed make the same edits in the same order. Failures are reduced to the edits that they need, and kept in
the corpus.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

from tools.fuzz.bases import bases
from tools.fuzz.cases import Case, keep, smaller, tried
from tools.fuzz.edits import edits


def main(argv: list[str]) -> int:
    """Damage measurements until the time is over; print the counts and return 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, required=True, help="folder for the failures")
    parser.add_argument("--executions", type=int, default=sys.maxsize, help="end after this many executions")
    asked = parser.parse_args(argv)
    known, began, failed = bases(), time.monotonic(), Counter[str]()
    passed = executions = 0
    while executions < asked.executions and time.monotonic() - began < asked.seconds:
        dice = random.Random(asked.seed * 1_000_003 + executions)  # noqa: S311 - noise
        base = dice.choice(known)
        made = edits(base.documents, dice)
        found = tried(base, made)
        executions += 1
        passed += found.verdict == "pass"
        if found.failure:
            case = Case(base.name, tuple(smaller(base, made, found.failure)), found.failure, found.why)
            kept = keep(case, asked.corpus)
            failed[found.failure] += 1
            if kept:
                sys.stdout.write(f"{found.failure} in {base.name}: {found.why} ({kept})\n")
                sys.stdout.flush()
    sys.stdout.write(
        f"{executions} executions in {time.monotonic() - began:.0f} s, seed {asked.seed}, {len(known)} measurements: "
        f"{failed['crash']} crashes, {failed['false pass']} false passes, {passed} still passed, rightly or not\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
