"""Take into a stack's state what an update that was killed has made.

    python -m tools.take_in STACK [STACK-FILE [DOOR...]]

DOOR are words that each command of the engine is run by.

A preview by the stack's own program says what would be created, and finds the machines that run in such a place
(components/left_behind.py). They become resources of the state with the vendor's ids, a refresh reads the rest of them, and so
the next update or destroy sees them.

The engine's own `refresh --import-pending-creates` is no way: it forgets what it is given, and the next update forgets what was
pending (pulumi 3.259.0: backend/snapshot.go keeps pending operations of type `creating` and drops all others).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.verbs import RefusedError, ended

#: As components/left_behind.py has it, which takes longer to import than all that is done here.
NOTED = "BUSBAR_LEFT_BEHIND"


def found(steps: list[Mapping[str, Any]], ids: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the resources that a preview with these `steps` creates, and of which `ids` by URN run already.

    What it replaces is no such resource: the state has it.
    """
    return [
        {"outputs": {}, **one["newState"], "id": ids[one["urn"]]}
        for one in steps
        if one["op"] == "create" and one["urn"] in ids
    ]


def taken(deployment: Mapping[str, Any], resources: list[dict[str, Any]]) -> dict[str, Any]:
    """Return `deployment` with these `resources`, and without the operations that were creating them."""
    urns = {one["urn"] for one in resources}
    operations = deployment.get("pending_operations") or []
    others = [one for one in operations if one["resource"]["urn"] not in urns]
    return {**deployment, "resources": [*deployment.get("resources", []), *resources], "pending_operations": others}


def take_in(stack: str, file: str, door: list[str]) -> list[str]:
    """Take in what an update that was killed has made; return a sentence for each.

    Raises:
        RefusedError: the engine or the program refused; the state is as it was.
    """
    which = ["--stack", stack]
    where = [*which, *(["--config-file", file] if file else []), "--non-interactive"]
    with tempfile.TemporaryDirectory(prefix="busbar-") as folder:
        note, state = Path(folder) / "left-behind", Path(folder) / "state.json"
        note.touch()
        steps = json.loads(_engine(["preview", "--json", *where], door, {NOTED: str(note)})).get("steps", [])
        resources = found(steps, dict(json.loads(line) for line in note.read_text().splitlines()))
        if not resources:
            return []
        exported = json.loads(_engine(["stack", "export", *which]))
        state.write_text(json.dumps(exported | {"deployment": taken(exported["deployment"], resources)}))
        _engine(["stack", "import", *which, "--file", str(state)])
    targets = [word for one in resources for word in ("--target", one["urn"])]
    _engine(["refresh", "--yes", "--skip-preview", *where, *targets], door)
    return [f"{one['id']}, which an update that was killed has made, is in the state now" for one in resources]


def _engine(words: list[str], door: list[str] | None = None, more: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [*(door or []), "pulumi", *words], env=os.environ | (more or {}), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RefusedError(f"`pulumi {' '.join(words)}` ended with status {done.returncode}: {_said(done.stdout)}{done.stderr}")
    return done.stdout


def _said(text: str) -> str:
    """Return what a preview in JSON says is wrong, or the text."""
    try:
        diagnostics = json.loads(text)["diagnostics"]
    except (ValueError, KeyError):
        return text
    return "".join(one["message"] for one in diagnostics if one["severity"] == "error")


def main(argv: list[str]) -> int:
    """Take in what was left behind for the stack that `argv` names first; return an exit status."""
    if not argv:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    stack, file, *door = [*argv, "", ""][: max(len(argv), 2)]

    def work() -> None:
        for sentence in take_in(stack, file, door):
            sys.stdout.write(f"busbar: {sentence}\n")

    return ended("take_in", work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
