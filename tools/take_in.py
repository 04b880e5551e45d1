"""Import into a stack's state the machines that a killed update created.

    python -m tools.take_in STACK [STACK-FILE [DOOR...]]

DOOR is a command that runs another command, as rehearsal/enter does: it is put in front of the engine's preview and refresh.

A preview lists the resources that an update would create. During this preview, the stack's own program finds which of these
resources are machines that already run (components/left_behind.py). These machines are added to the state with the vendor's
ids, a refresh reads their other properties, and the next update or destroy sees them. If several machines run for one resource,
nothing is imported, because the state can have only one of them.

The engine's own `refresh --import-pending-creates` does not work in pulumi 3.259.0: the snapshot after the refresh has neither
the resources whose ids were given nor their pending operations. The option changes the type of these operations to
`importing`, but backend/snapshot.go keeps only pending operations of type `creating`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.stack_commands import RefusedError, ended

#: Copied from components/left_behind.py, because importing that module would load Pulumi's SDK, which is not needed here.
NOTED = "BUSBAR_LEFT_BEHIND"


def found(steps: list[Mapping[str, Any]], noted: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the resources that an update with these `steps` would create although their machines already run.

    `noted` has URN and id of each running machine. Resources that the update would replace are not included: the state
    already has them.

    Raises:
        RefusedError: several machines run for one resource.
    """
    ids = {urn: [its for one, its in noted if one == urn] for urn, _ in noted}
    created = [one for one in steps if one["op"] == "create" and one["urn"] in ids]
    several = [ids[one["urn"]] for one in created if len(ids[one["urn"]]) > 1]
    if several:
        raise RefusedError(
            f"{'; '.join(' and '.join(each) for each in several)} run for one resource of this stack, which can have only one "
            "machine; nothing was imported. All these machines are billed. Terminate all but one by hand, then type the same "
            "command again"
        )
    return [{"outputs": {}, **one["newState"], "id": ids[one["urn"]][0]} for one in created]


def taken(deployment: Mapping[str, Any], resources: list[dict[str, Any]]) -> dict[str, Any]:
    """Return `deployment` with these `resources`, and without pending operations on them."""
    urns = {one["urn"] for one in resources}
    operations = deployment.get("pending_operations") or []
    others = [one for one in operations if one["resource"]["urn"] not in urns]
    return {**deployment, "resources": [*deployment.get("resources", []), *resources], "pending_operations": others}


def take_in(stack: str, file: str, door: list[str]) -> list[str]:
    """Import the machines that a killed update created; return a sentence for each.

    Raises:
        RefusedError: the engine or the program refused, or several machines run for one resource. The state is unchanged,
            unless the refresh at the end was refused.
    """
    which = ["--stack", stack]
    where = [*which, *(["--config-file", file] if file else []), "--non-interactive"]
    with tempfile.TemporaryDirectory(prefix="busbar-") as folder:
        note, state = Path(folder) / "left-behind", Path(folder) / "state.json"
        note.touch()
        steps = json.loads(_engine(["preview", "--json", *where], door, {NOTED: str(note)})).get("steps", [])
        resources = found(steps, [json.loads(line) for line in note.read_text().splitlines()])
        if not resources:
            return []
        exported = json.loads(_engine(["stack", "export", *which]))
        state.write_text(json.dumps(exported | {"deployment": taken(exported["deployment"], resources)}))
        _engine(["stack", "import", *which, "--file", str(state)])
    targets = [word for one in resources for word in ("--target", one["urn"])]
    _engine(["refresh", "--yes", "--skip-preview", *where, *targets], door)
    return [f"{one['id']}, which a killed update created, is now in the state" for one in resources]


def _engine(words: list[str], door: list[str] | None = None, more: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [*(door or []), "pulumi", *words], env=os.environ | (more or {}), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RefusedError(f"`pulumi {' '.join(words)}` ended with status {done.returncode}: {_said(done.stdout)}{done.stderr}")
    return done.stdout


def _said(text: str) -> str:
    """Return the error messages in `text`, a preview's JSON, or `text` itself if it is not such JSON."""
    try:
        diagnostics = json.loads(text)["diagnostics"]
    except (ValueError, KeyError, TypeError):
        return text
    return "".join(one["message"] for one in diagnostics if one["severity"] == "error")


def main(argv: list[str]) -> int:
    """Import into a stack's state what a killed update created; `argv` begins with the stack's name. Return an exit status."""
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
