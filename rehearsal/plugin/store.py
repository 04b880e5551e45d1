"""The records of a stand-in cloud, in one JSON file.

A change is made under a file lock and takes effect by renaming a complete file, so that a process that is killed at any moment
leaves either the old or the new content. This protects against dying processes, not against power failures.
"""

from __future__ import annotations

import hashlib
import json
import os
import string
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rehearsal.net.wires import locked
from rehearsal.world.world import World

_BIRTH_FIELD = 22  # field of /proc/<pid>/stat with the start time, which tells two processes with the same pid apart
_SHORT_DIGITS = 8
#: Folder of the world with one file for each cloud that has resources.
_FOLDER = "clouds"


@dataclass
class Record:
    """One existing resource.

    Attributes:
        id: its id in the database; `Kind.shown` returns the id that the engine gets.
        token: its Pulumi type.
        urn: its URN in the engine; empty if the engine did not request it (a VPC's default resources, pool members).
        state: its lifecycle state, in the vendor's words.
        inputs: the requested properties.
        computed: properties that the service adds if they were not requested; `outputs` returns them together with the inputs.
        private: data that only this cloud needs.
        parent: the id of the larger resource that this resource belongs to and is deleted with, or None.
        worker: the process that is creating, changing or deleting this resource, or "".
    """

    id: str
    token: str
    urn: str
    state: str
    inputs: dict[str, Any]
    computed: dict[str, Any] = field(default_factory=dict)
    private: dict[str, Any] = field(default_factory=dict)
    parent: str | None = None
    worker: str = ""

    @property
    def short(self) -> str:
        """A letter and seven hexadecimal digits, for the names of namespaces and folders."""
        digest = hashlib.sha256(self.id.encode())
        # The name begins with a letter, so that no tool mistakes it for a number.
        return string.ascii_lowercase[digest.digest()[-1] % 26] + digest.hexdigest()[: _SHORT_DIGITS - 1]

    def outputs(self) -> dict[str, Any]:
        """Return the resource's outputs."""
        return _over(self.computed, self.inputs)


@dataclass
class Database:
    """All records by id; for each fault that may occur only so many times, how often it has occurred."""

    records: dict[str, Record] = field(default_factory=dict)
    struck: dict[str, int] = field(default_factory=dict)

    def find(self, record_id: object, token: str | None = None) -> Record | None:
        """Return the record with this id; None if it does not exist, is being deleted, or has a type other than `token`."""
        record = self.records.get(record_id) if isinstance(record_id, str) else None
        if record is None or record.state == "TERMINATING" or (token is not None and record.token != token):
            return None
        return record

    def of(self, token: str, **inputs: object) -> list[Record]:
        """Return the live records of a type whose inputs have these values, in order of creation."""
        return [
            record
            for record in self.records.values()
            if record.token == token
            and record.state != "TERMINATING"
            and all(record.inputs.get(name) == value for name, value in inputs.items())
        ]

    def children(self, parent: str) -> list[Record]:
        """Return the records that belong to a record and are deleted with it."""
        return [record for record in self.records.values() if record.parent == parent]


class Store:
    """The database's file: `read` returns a snapshot, `change` runs a transaction."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._file = world.path / _FOLDER / f"{name}.json"
        self._threads = threading.Lock()

    @classmethod
    def all_of(cls, world: World) -> list[Store]:
        """Return the store of every cloud that has resources in a world."""
        return [cls(world, file.stem) for file in sorted((world.path / _FOLDER).glob("*.json"))]

    def read(self) -> Database:
        """Return a snapshot; a missing file is an empty cloud."""
        try:
            stored = json.loads(self._file.read_text())
        except FileNotFoundError:
            return Database()
        return Database(records={key: Record(**record) for key, record in stored["records"].items()}, struck=stored["struck"])

    @contextmanager
    def change(self) -> Iterator[Database]:
        """Run a transaction: commit it when the block ends, roll it back if the block raises.

        When the last record is deleted, the file is deleted, too.
        """
        with self._threads, locked(self._world, self._name):
            database = self.read()
            sold_something = bool(database.records)
            yield database
            if database.records or not sold_something:
                self._world.folder(_FOLDER)
                draft = self._file.with_suffix(".draft")
                draft.write_text(json.dumps(asdict(database), indent=1))
                draft.replace(self._file)
            else:
                self._file.unlink()


def _over(base: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs, with the service's own values (`base`) in place of missing inputs."""
    merged = dict(base)
    for name, value in asked.items():
        below = base.get(name)
        merged[name] = _over(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def this_process() -> str:
    """Return a name that identifies this process and that no later process gets."""
    return f"{os.getpid()}:{_birth(os.getpid())}"


def alive(process: str) -> bool:
    """Return whether a process named by `this_process` still runs."""
    pid, _, birth = process.partition(":")
    return pid.isdecimal() and _birth(int(pid)) == birth


def _birth(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The command's name is in parentheses and may contain blanks; the later fields contain none.
    return stat.rpartition(")")[2].split()[_BIRTH_FIELD - 3]


def references(value: Any) -> Iterator[str]:
    """Yield every string in a value of inputs, however deeply nested."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)
