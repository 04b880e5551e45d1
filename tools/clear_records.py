"""Remove what rehearsals left in this checkout; records of real machines stay: python3 -m tools.clear_records.

The history and the reports of real stacks are in the same folders by default (`records.history`, `records.report`). Nothing is
removed while a stack in `.busbar/state` has resources that the rehearsal's world does not have, because without the stack's
state no command would delete these resources.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.stack_commands import RefusedError, ended

_CHECKOUT = Path(__file__).resolve().parents[1]


def refuse_real(busbar: Path, world: Path) -> None:
    """Refuse if a stack in the folder `.busbar` has resources that `world`, the rehearsal's folder, does not have.

    The rehearsal's clouds record the URN of each resource. A stack that consists of commands only is a rehearsal's if the world
    has existing hosts (rehearsal/entry/existing_hosts.py).

    Raises:
        RefusedError: names the stack, the number of its resources, and the command that ends them.
    """
    clouds = [json.loads(path.read_text())["records"] for path in world.glob("clouds/*.json")]
    rehearsed = {record["urn"] for records in clouds for record in records.values()}
    stacks = busbar / "state" / ".pulumi" / "stacks"
    for path in sorted([*stacks.glob("*/*.json"), *stacks.glob("*/*.json.gz")]):
        stack = path.name.partition(".json")[0]
        try:
            found = _resources(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise RefusedError(
                f"{path} cannot be read, so stack {stack} may have machines that are billed; nothing is removed. "
                f"`. tools/env && python3 -m tools.repair_state {stack}` restores the file from its backup, if there is one."
            ) from None
        rented = [urn for urn, kind in found if not kind.startswith("command:")]
        if found and (set(rented) - rehearsed or not (rented or (world / "existing.json").exists())):
            raise RefusedError(
                f"stack {stack} has {len(found)} resources, and not all of them are this rehearsal's; nothing is removed. "
                f"`. tools/env && pulumi destroy --stack {stack}` ends them; if you rehearsed the stack, `make down "
                f"STACK={stack}` does."
            )


def _resources(path: Path) -> list[tuple[str, str]]:
    """Return URN and type of the resources that exist according to a stack's state, or that an update was creating."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as source:
        latest: dict[str, Any] = json.load(source)["checkpoint"].get("latest") or {}
    started = [one["resource"] for one in latest.get("pending_operations") or () if one["type"] == "creating"]
    return [
        (one["urn"], one["type"])
        for one in (*(latest.get("resources") or ()), *started)
        if one.get("custom") and not one.get("external") and not one["type"].startswith("pulumi:")
    ]


def clear(busbar: Path) -> list[str]:
    """Delete the state and the records of rehearsed stacks from the folder `.busbar`; return the paths that stay."""
    stacks = {path.stem for path in (busbar / "state").glob(".pulumi/stacks/*/*.json")}
    stacks |= {path.stem for path in (busbar / "config").glob("*.created-in")}  # stacks in the user's own backend
    for name in ("state", "config"):
        shutil.rmtree(busbar / name, ignore_errors=True)
    history, reports = busbar / "history", busbar / "report"
    runs = [one for one in _folders(history) if next(one.glob("*.json"), None)]
    rehearsed = [*filter(_is_rehearsed, runs), *(one for one in _folders(reports) if one.name in stacks)]
    for one in rehearsed:
        shutil.rmtree(one)
    real = [one for one in runs if one not in rehearsed]
    if not real:  # transcripts do not say which runs they belong to
        shutil.rmtree(history, ignore_errors=True)
    return [str(one) for one in (*real, *_folders(reports))]


def _folders(path: Path) -> list[Path]:
    return sorted(one for one in path.iterdir() if one.is_dir()) if path.is_dir() else []


def _is_rehearsed(runs: Path) -> bool:
    """Tell whether the runs in a folder of the history are rehearsed; all runs of one folder have the same scale."""
    try:
        return bool(json.loads(next(runs.glob("*.json")).read_text())["key"]["scale"] != 1)
    except (OSError, ValueError, KeyError, TypeError):
        return False  # a file that cannot be read may be of real machines


def main() -> int:
    """End the rehearsal of this checkout and remove what it left; return an exit status."""
    busbar = _CHECKOUT / ".busbar"

    def work() -> None:
        refuse_real(busbar, Path(os.environ.get("BUSBAR_WORLD", str(busbar / "world"))))
        subprocess.run([sys.executable, "-m", "rehearsal.entry.clear"], cwd=_CHECKOUT, check=True)
        for kept in clear(busbar):
            sys.stdout.write(f"clear: {kept} stays, because it is not a rehearsal's\n")

    return ended("clear", work)


if __name__ == "__main__":
    sys.exit(main())
