"""Measure line and branch coverage of the product's rooms, and print it room by room.

Coverage by bytecode costs a tenth of what a tracing one does, so every test is measured.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slipcover import FileMatcher, ImportManager, Slipcover, merge_coverage
from slipcover.importer import SlipcoverLoader

ROOT = Path(__file__).resolve().parent.parent
#: Where every process that measures leaves a file.
DATA = ROOT / ".busbar" / "coverage"
#: The product: the rehearsal and the tools are what it is tested with. Programs that tests start are not measured.
PRODUCT = ("benchmarks", "catalogue", "cloudinit", "components", "config", "scheduler")


def begin() -> Callable[[], None]:
    """Measure what of the product is imported from here on; return what ends that and writes this process's file."""
    folders = [str(ROOT / room) for room in PRODUCT]
    # What only says that a subclass has to say it is no line of the product.
    measured = Slipcover(immediate=True, branch=True, source=folders, exclude_also=["raise NotImplementedError"])
    imports = ImportManager(measured, FileMatcher(sources=folders))
    imports.__enter__()
    # Its loader lacks this part of a loader's interface, by which the runner reads what it sends to a node.
    SlipcoverLoader.get_source = lambda self, name: self.orig_loader.get_source(name)

    def end() -> None:
        imports.__exit__()
        DATA.mkdir(parents=True, exist_ok=True)
        (DATA / f"{os.getpid()}.json").write_text(json.dumps(measured.get_coverage()))

    return end


def by_room() -> dict[str, Counter[str]]:
    """Return counts of lines and branches, covered and missing, by room, and of the whole product under "product"."""
    whole: dict[str, Any] = {"meta": {"software": "slipcover", "branch_coverage": True}, "files": {}}
    for path in sorted(DATA.glob("*.json")):
        merge_coverage(whole, json.loads(path.read_text()))  # one file by two names becomes one
    rooms: dict[str, Counter[str]] = {}
    for name, found in sorted(whole["files"].items()):
        room = "/".join(Path(name).parts[:2]) if len(Path(name).parts) > 2 else Path(name).parts[0]  # noqa: PLR2004 - ROOM/PART/FILE
        for place in (room, "product"):
            rooms.setdefault(place, Counter()).update(found["summary"])
    return {name: rooms[name] for name in [*sorted(rooms.keys() - {"product"}), "product"]}


def main() -> int:
    """Print a line for each room."""
    for room, counts in by_room().items():
        said = [f"coverage: {room:<24}"]
        for what in ("lines", "branches"):
            covered, missing = counts[f"covered_{what}"], counts[f"missing_{what}"]
            if covered + missing:
                said.append(f"{what} {100 * covered / (covered + missing):5.1f} %")
        sys.stdout.write("   ".join(said) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
