"""Programs that run on other machines through `python3 -`: Python 3.6 or later, standard library only, never imported.

`text` returns a program with its call appended, so no file and no quoted argument is needed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: The command that runs them: isolated and without its site, so that no user's environment changes what they see.
PYTHON = "python3 -IS -"


def source(name: str) -> str:
    """Return the program `name` without a call."""
    return (Path(__file__).parent / f"{name}.py").read_text()


def text(name: str, **arguments: Any) -> str:
    """Return the program `name` followed by a call of its `main` with `arguments` (plain data)."""
    return f"{source(name)}\n\nmain(**json.loads({json.dumps(arguments, sort_keys=True)!r}))\n"
