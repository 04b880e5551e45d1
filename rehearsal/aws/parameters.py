"""Stores the account's Systems Manager parameters, each parameter in one file.

If a host writes a parameter, its metadata service imports this module. So this module imports little. Several processes may
write parameters at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path
from urllib.parse import quote

from rehearsal.world.world import World, write_whole

TYPES = ("String", "StringList", "SecureString")


class ExistsError(Exception):
    """A parameter with this name exists, and `overwrite` is false."""


@dataclass(frozen=True)
class Parameter:
    """One parameter: its name, value, type, and a version that starts at 1 and grows by one with each write."""

    name: str
    value: str
    type: str
    version: int


def put(world: World, name: str, value: str, *, type: str = "String", overwrite: bool = False) -> Parameter:  # noqa: A002 - the API's word
    """Write a parameter and return its new state.

    Raises:
        ExistsError: the parameter exists, and `overwrite` is false.
        ValueError: `type` is not one of `TYPES`.
    """
    if type not in TYPES:
        raise ValueError(f"parameter {name} has type {type!r}; it must be one of {', '.join(TYPES)}.")
    with _alone(world):
        old = get(world, name)
        if old is not None and not overwrite:
            raise ExistsError(f"the parameter {name} already exists, and overwriting it was not requested.")
        made = Parameter(name, value, type, old.version + 1 if old else 1)
        write_whole(_file(world, name), json.dumps(asdict(made)))
        return made


def get(world: World, name: str) -> Parameter | None:
    """Return the parameter with this name, or None."""
    try:
        return Parameter(**json.loads(_file(world, name).read_text()))
    except FileNotFoundError:
        return None


def delete(world: World, name: str) -> None:
    """Delete a parameter; idempotent."""
    with _alone(world):
        _file(world, name).unlink(missing_ok=True)


def _file(world: World, name: str) -> Path:
    return world.path / "ssm" / f"{quote(name, safe='')}.json"


@contextlib.contextmanager
def _alone(world: World) -> Iterator[None]:
    """Hold the lock of the parameters' folder. The lock file is elsewhere, because the parameters' folder may be emptied."""
    world.folder("ssm")
    held = os.open(world.folder("locks") / "ssm", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        flock(held, LOCK_EX)
        yield
    finally:
        os.close(held)
