"""Measure line and branch coverage of the product, and print it package by package.

Only the pure tests, which need neither root nor a network, measure coverage. The other tests run the product mostly in
processes apart from the test workers. So measuring the workers of these tests would add few lines, although each worker would
have to read every module of the product from its source.
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
#: Folder in which every measured process leaves a file.
DATA = ROOT / ".busbar" / "coverage"
#: The product. The rehearsal and the tools only test it, and programs that tests start are not measured.
PRODUCT = ("benchmarks", "catalogue", "cloudinit", "components", "config", "manifests", "scheduler")


def begin() -> Callable[[], None]:
    """Measure every product module imported from here on; return a function that stops measuring and writes the results.

    Raises:
        RuntimeError: product modules are imported already, so that their lines would be missing in the results.
    """
    early = sorted(name for name in sys.modules if name.partition(".")[0] in PRODUCT)
    if early:
        raise RuntimeError(f"imported before the measurement of coverage, and therefore not measured: {', '.join(early)}")
    folders = [str(ROOT / room) for room in PRODUCT]
    # A line that only requires a subclass to define something does not count.
    measured = Slipcover(immediate=True, branch=True, source=folders, exclude_also=["raise NotImplementedError"])
    imports = ImportManager(measured, FileMatcher(sources=folders))
    imports.__enter__()
    # Slipcover's loader lacks `get_source`, by which the product reads its own modules to send them to a node.
    SlipcoverLoader.get_source = lambda self, name: self.orig_loader.get_source(name)

    def end() -> None:
        imports.__exit__()
        DATA.mkdir(parents=True, exist_ok=True)
        (DATA / f"{os.getpid()}.json").write_text(json.dumps(measured.get_coverage()))

    return end


def by_room() -> dict[str, Counter[str]]:
    """Return the numbers of covered and missing lines and branches by package; "product" is the total."""
    whole: dict[str, Any] = {"meta": {"software": "slipcover", "branch_coverage": True}, "files": {}}
    for path in sorted(DATA.glob("*.json")):
        merge_coverage(whole, json.loads(path.read_text()))  # one file may be recorded under two names
    rooms: dict[str, Counter[str]] = {}
    for name, found in sorted(whole["files"].items()):
        room = "/".join(Path(name).parts[:2]) if len(Path(name).parts) > 2 else Path(name).parts[0]  # noqa: PLR2004 - ROOM/PART/FILE
        for place in (room, "product"):
            rooms.setdefault(place, Counter()).update(found["summary"])
    return {name: rooms[name] for name in [*sorted(rooms.keys() - {"product"}), "product"]}


def main() -> int:
    """Print a line for each package."""
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
