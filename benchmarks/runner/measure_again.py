"""Writes a shell script that measures a slow part again, and healthy parts for comparison, so that a person sees the fault.

Counters and port states do not show that a rail is up but slow. For each part that the search blames, there is one such
script on the head node, and the search's line has the command that runs it.
"""

import os
import shlex
from typing import Dict, List, NamedTuple

from benchmarks.runner import jobs

_TIMEOUT_S = 120
#: The script computes busbw from the time in nccl-tests' row, because the printed busbw has only two decimals.
_SCRIPT = """#!/bin/sh
# Measures the parts that are to blame and, for comparison, healthy parts; GB/s are busbw as nccl-tests defines it.
cd
measured() { # WHAT RANKS COMMAND...
  what=$1 ranks=$2; shift 2
  timeout %d "$@" 2>&1 < /dev/null | awk -v what="$what" -v n="$ranks" '
    $1 ~ /^[0-9]+$/ && NF > 7 && $6 > 0 { gb_s = $1 / $6 / 1e3 * 2 * (n - 1) / n }
    NF { last = $0 }
    END { if (gb_s) printf "%%s: %%.4g GB/s\\n", what, gb_s; else print what ": no number; " last }'
}
"""


class Run(NamedTuple):
    """One measurement that the script makes: what it measures, its number of ranks, its command, and its environment."""

    what: str
    ranks: int
    argv: List[str]
    environment: Dict[str, str]


def write(path: str, runs: List[Run]) -> None:
    """Write the script that measures `runs` one after the other."""
    lines = []
    for run in runs:
        said = [f"{name}={value}" for name, value in sorted(run.environment.items())]
        words = [run.what, str(run.ranks), *(["env", *said] if said else []), *run.argv]
        lines.append("measured " + " ".join(shlex.quote(word) for word in words) + "\n")
    with jobs.text(path, "w") as file:
        file.write(_SCRIPT % _TIMEOUT_S + "".join(lines))
    os.chmod(path, 0o700)
