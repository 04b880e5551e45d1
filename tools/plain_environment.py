"""Removes from an environment what concerns this checkout, for commands in another checkout or as another user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_OURS = str(Path(__file__).resolve().parents[1] / ".busbar" / "bin")
_ADDED = ("BUSBAR_", "PULUMI_", "MAKE", "MFLAGS")


def plain(given: Mapping[str, str]) -> dict[str, str]:
    """Return `given` without the variables of busbar, pulumi and make, and without this checkout's folder on PATH."""
    kept = {name: value for name, value in given.items() if not name.startswith(_ADDED)}
    if "PATH" in kept:
        kept["PATH"] = os.pathsep.join(part for part in kept["PATH"].split(os.pathsep) if part != _OURS)
    return kept
