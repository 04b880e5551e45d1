"""Programs that run on other machines through `python3 -`: Python 3.6 or later, standard library only, never imported.

A program is sent with its call appended, so it needs neither a file there nor quoted arguments.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: A program may consist of several files of this folder, which import each other.
_PART = re.compile(r"^from components\.remote_scripts\.(\w+) import .*\n", re.MULTILINE)
#: Command that runs them: isolated mode without site-packages, so that no user's environment affects them.
PYTHON = "python3 -IS -"


@dataclass(frozen=True)
class Program:
    """One program as text. It is read before the engine has any output, so that no output reads a file.

    Attributes:
        source: the program without a call; its parts come first, each once.
    """

    source: str

    def call(self, **arguments: Any) -> str:
        """Return the program followed by a call of its `main` with `arguments` (plain data)."""
        return f"{self.source}\n\nmain(**json.loads({json.dumps(arguments, sort_keys=True)!r}))\n"


def read(name: str) -> Program:
    """Return the program of that name in this folder."""
    return Program("\n\n".join(_parts(name, set())))


def _parts(name: str, known: set[str]) -> list[str]:
    known.add(name)
    own = (Path(__file__).parent / f"{name}.py").read_text()
    before = [text for part in _PART.findall(own) if part not in known for text in _parts(part, known)]
    return [*before, _PART.sub("", own)]
