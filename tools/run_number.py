"""Measure a stack of this checkout again without changing its stack file.

python -m tools.run_number raise STACK     the next update measures again
python -m tools.run_number run STACK       print the `measure.run` in effect

A file in .busbar/config counts how many times the run number was raised. At each update, tools/in-stack copies the stack
file and adds that count to `measure.run` in the copy, so no later update falls back to an earlier run. (`pulumi up
--config-path --config busbar:measure.run=2` would work for one update only, and pulumi 3.259.0 would drop the other keys of
`busbar:measure`.)
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent


def raised(folder: Path, stack: str) -> int:
    """Return how many times the run number of `stack` was raised."""
    file = folder / f"{stack}.again"
    return int(file.read_text()) if file.exists() else 0


def run(folder: Path, stack: str, given: str) -> int:
    """Return the `measure.run` in effect for `stack`, whose file contains the text `given`."""
    group = (yaml.safe_load(given).get("config") or {}).get("busbar:measure") or {}
    return int(group.get("run", 1)) + raised(folder, stack)


def main(argv: list[str]) -> int:
    """Run one of the two commands; return an exit status."""
    if len(argv) != 2 or argv[0] not in {"raise", "run"}:  # noqa: PLR2004 - a verb and a stack
        sys.stderr.write(f"{__doc__}\n")
        return 2
    folder, stack = ROOT / ".busbar" / "config", argv[1]
    given = ROOT / f"Pulumi.{stack}.yaml"
    if not given.exists():
        return 0  # tools/in-stack reports a missing stack file
    if argv[0] == "raise":
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stack}.again").write_text(str(raised(folder, stack) + 1))
    else:
        sys.stdout.write(f"{run(folder, stack, given.read_text())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
