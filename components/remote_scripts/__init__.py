"""Programs that are sent as text to the standard input of `python3 -`, and that use only the standard library.

They run on other machines or on the operator's machine. Programs for other machines run with Python 3.6 or later. A program's
text is sent with a call of its `main` appended, so the machine needs no file, and no argument has to be quoted for a shell.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: A program may import other files of this folder. `read` then puts the text of these files before the program's own text.
_PART = re.compile(r"^from components\.remote_scripts\.(\w+) import .*\n", re.MULTILINE)
#: Command that runs a program: isolated mode without site-packages, so that no user's environment affects the program.
PYTHON = "python3 -IS -"


@dataclass(frozen=True)
class Program:
    """One program as text. Create a `Program` while resources are registered, because that reads the program's file.

    Attributes:
        source: the program without a call, after the text of every file that it imports.
    """

    source: str

    def call(self, **arguments: Any) -> str:
        """Return the program followed by a call of its `main` with `arguments` (plain data)."""
        return f"{self.source}\n\nmain(**json.loads({json.dumps(arguments, sort_keys=True)!r}))\n"


def read(name: str) -> Program:
    """Return the program `name` of this folder."""
    return Program("\n\n".join(_parts(name, set())))


def _parts(name: str, known: set[str]) -> list[str]:
    known.add(name)
    own = (Path(__file__).parent / f"{name}.py").read_text()
    before = [text for part in _PART.findall(own) if part not in known for text in _parts(part, known)]
    return [*before, _PART.sub("", own)]
