"""Reads the stack's state from the engine while an update or a preview runs."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import pulumi

#: Time limit of an export; the state of a thousand resources takes some seconds from a remote backend.
_EXPORTED_WITHIN_S = 120
#: A state in a folder or bucket is not written atomically: if it is read during a write, it is truncated or missing. A write
#: lasts only moments, but occurs whenever another resource of the update completes.
_EXPORT_TRIES, _BETWEEN_TRIES_S = 6, 1.0


def this_stack() -> str:
    """Return the stack's unique name in its backend: organization, project and name."""
    return f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"


def folder_name() -> str:
    """Return the name of the stack's folders on a file system that several stacks may share."""
    return f"{pulumi.get_project()}.{pulumi.get_stack()}"


def ids_in_state() -> frozenset[str]:
    """Return the vendor's ids of all resources in the stack's state, including resources that are being replaced.

    Raises:
        pulumi.RunError: the engine could not export the state.
    """
    unknown = "it is unknown whether the state has a machine that already runs"
    return frozenset(str(one["id"]) for one in resources_in_state(unknown) if "id" in one)


def resources_in_state(unknown: str) -> list[dict[str, Any]]:
    """Return the resources in the stack's state, as the engine exports them.

    Raises:
        pulumi.RunError: the engine could not export the state; the message adds the clause `unknown` as the consequence.
    """
    words = ["pulumi", "stack", "export", "--stack", this_stack()]
    for left in reversed(range(_EXPORT_TRIES)):
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=_EXPORTED_WITHIN_S)
            return json.loads(done.stdout)["deployment"].get("resources") or []
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            if left and not isinstance(error, OSError | subprocess.TimeoutExpired):
                time.sleep(_BETWEEN_TRIES_S)
                continue
            said = getattr(error, "stderr", "") or error
            raise pulumi.RunError(f"`{' '.join(words)}` failed, so {unknown}: {said}") from error
    raise AssertionError  # the last try returns or raises
