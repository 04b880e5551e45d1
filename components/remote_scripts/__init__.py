"""Programs that run somewhere else, fed to a `python3 -`: Python 3.6 upward, standard library alone, never imported.

`text` reads one and appends the call, so that neither a file nor a quoted argument has to travel.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: What they are fed to: isolated and without its site, so that nobody's environment changes what they see.
PYTHON = "python3 -IS -"


def source(name: str) -> str:
    """Return the program `name` without a call."""
    return (Path(__file__).parent / f"{name}.py").read_text()


def text(name: str, **arguments: Any) -> str:
    """Return the program `name` followed by a call of its `main` with `arguments` (plain data)."""
    return f"{source(name)}\n\nmain(**json.loads({json.dumps(arguments, sort_keys=True)!r}))\n"
