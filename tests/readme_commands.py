"""The commands that README tells a reader to type in a shell."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def typed() -> list[str]:
    """Return the lines of README's blocks of shell commands, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]
