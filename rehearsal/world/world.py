"""The folder of a rehearsed world, and the names derived from it."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path

#: The operator's address on the rehearsed Internet (TEST-NET-2, RFC 5737: never a real address).
OPERATOR_ADDRESS = "198.51.100.10"

#: Range of public addresses (TEST-NET-3, RFC 5737).
PUBLIC_RANGE = "203.0.113.0/24"

#: Default divisor of line rates: a rail of 100 Gb/s becomes a rail of 25 Mb/s, which two busy cores can still fill.
DEFAULT_SCALE = 4000
#: Estimate of how many ranks' traffic one core can carry at the default divisor. In a measurement on two cores, 24 ranks
#: reached the full rate, and 64 ranks reached 0.8 of the full rate.
_RANKS_OF_A_CORE = 16


def scale_for(ranks: int, cores: int | None = None) -> int:
    """Return the divisor of line rates at which `cores` cores (default: this machine's) carry the traffic of `ranks` ranks."""
    return DEFAULT_SCALE * max(1, math.ceil(ranks / (_RANKS_OF_A_CORE * (cores or os.cpu_count() or 1))))


@dataclass(frozen=True)
class World:
    """One rehearsed world: a folder, and a tag that is derived from the folder's path.

    Attributes:
        path: absolute path of the world's folder.
        tag: six hexadecimal digits that are part of every name in this world: always the same for one folder, different for
            another checkout.
        scale: divisor of every line rate.
    """

    path: Path
    tag: str
    scale: int

    @classmethod
    def at(cls, path: Path, scale: int = DEFAULT_SCALE) -> World:
        """Return the world of a folder, which need not exist yet."""
        resolved = path.resolve()
        return cls(resolved, hashlib.sha256(str(resolved).encode()).hexdigest()[:6], scale)

    @classmethod
    def current(cls) -> World:
        """Return the world of this process, from BUSBAR_WORLD and BUSBAR_SCALE.

        Raises:
            RuntimeError: BUSBAR_WORLD is unset or not absolute, or BUSBAR_SCALE is not a positive integer.
        """
        where = os.environ.get("BUSBAR_WORLD", "")
        if not where.startswith("/"):
            raise RuntimeError(
                f"BUSBAR_WORLD is {where!r}, but must be an absolute path, because a rehearsal may only touch its own "
                "world: start the command through rehearsal/enter, which sets BUSBAR_WORLD."
            )
        scale = os.environ.get("BUSBAR_SCALE", str(DEFAULT_SCALE))
        if not scale.isdecimal() or int(scale) < 1:
            raise RuntimeError(f"BUSBAR_SCALE is {scale!r}, but must be a whole number from 1: line rates are divided by it.")
        return cls.at(Path(where), int(scale))

    def netns(self, name: str) -> str:
        """Return the full name of one of this world's network namespaces."""
        return f"bb{self.tag}-{name}"

    @property
    def agent_socket(self) -> Path:
        """The socket of the operator's SSH agent; outside the world's folder, because a socket's path has at most 107 bytes."""
        return Path("/run") / f"bb{self.tag}-agent"

    def folder(self, *parts: str) -> Path:
        """Return a folder below the world's folder; create it if it does not exist."""
        made = self.path.joinpath(*parts)
        made.mkdir(parents=True, exist_ok=True)
        return made

    def faults(self) -> list[dict[str, object]]:
        """Return the faults in faults.json; empty if the file does not exist.

        Raises:
            ValueError: the file is not a JSON list of objects that each have a `kind`.
        """
        file = self.path / "faults.json"
        if not file.exists():
            return []
        listed = json.loads(file.read_text())
        if not isinstance(listed, list) or not all(isinstance(one, dict) and "kind" in one for one in listed):
            raise ValueError(f"{file} must contain a JSON list of objects that each have a kind.")
        return listed


def write_whole(file: Path, text: str) -> None:
    """Write a file atomically, readable by its owner only; readers need no lock."""
    fresh = file.with_suffix(".new")
    fresh.touch(0o600)
    fresh.write_text(text)
    fresh.replace(file)
