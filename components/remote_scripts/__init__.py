"""Programs that run on other machines through `python3 -`: Python 3.6 or later, standard library only, never imported.

A program is sent with its call appended, so no file and no quoted argument is needed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: A program may be made of several files of this folder, each with one duty.
_PART = re.compile(r"^from components\.remote_scripts\.(\w+) import .*\n", re.MULTILINE)
#: The command that runs them: isolated and without its site, so that no user's environment changes what they see.
PYTHON = "python3 -IS -"


@dataclass(frozen=True)
class Program:
    """One program as text; it is read before the engine has any output, so that no output reads a file.

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
