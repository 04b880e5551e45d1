"""Delete what rehearsals recorded in this checkout; records of real machines stay: python3 -m tools.clear_records.

The history and the reports of real stacks are in the same folders by default (`records.history`, `records.report`).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[1]


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


if __name__ == "__main__":
    for kept in clear(_CHECKOUT / ".busbar"):
        print(f"clear: {kept} stays, because it is not a rehearsal's")  # noqa: T201 - a command's answer
