"""Print line and branch coverage of the product, room by room, from the data that `pytest --coverage` left."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from coverage import Coverage

ROOT = Path(__file__).resolve().parent.parent
_COUNTED = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def by_room() -> dict[str, Counter[str]]:
    """Return what was counted, by room, and of the whole product under "product"."""
    measured = Coverage(config_file=str(ROOT / "pyproject.toml"))
    measured.combine()
    with tempfile.TemporaryDirectory() as folder:
        measured.json_report(outfile=f"{folder}/coverage.json")
        files = json.loads(Path(folder, "coverage.json").read_text())["files"]
    rooms: dict[str, Counter[str]] = {}
    for name, found in sorted(files.items()):
        room = "/".join(Path(name).parts[:2]) if len(Path(name).parts) > 2 else Path(name).parts[0]  # noqa: PLR2004 - ROOM/PART/FILE
        for place in (room, "product"):
            rooms.setdefault(place, Counter()).update({key: found["summary"][key] for key in _COUNTED})
    return {name: rooms[name] for name in [*sorted(rooms.keys() - {"product"}), "product"]}


def main() -> int:
    """Print a line for each room."""
    for room, counts in by_room().items():
        lines, branches = (
            100 * counts[done] / max(1, counts[all_])
            for done, all_ in (("covered_lines", "num_statements"), ("covered_branches", "num_branches"))
        )
        sys.stdout.write(f"coverage: {room:<24} lines {lines:5.1f} %   branches {branches:5.1f} %\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
