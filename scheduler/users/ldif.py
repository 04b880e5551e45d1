"""Converts entries to LDIF (RFC 2849) and back; an entry has its attributes by name, including `dn`."""

import base64
import re
from typing import Dict, List

Entry = Dict[str, List[str]]
#: Text that needs no base64: printable ASCII, with no space, colon or < at the start and no space at the end (RFC 2849,
#: SAFE-STRING).
_SAFE = re.compile(r"(?![ :<])[\x20-\x7e]*(?<! )\Z")


def text_of(entries: List[Entry]) -> str:
    """Return entries as LDIF."""
    return "".join(
        "".join(_line(name, value) for name, values in entry.items() for value in values) + "\n" for entry in entries
    )


def entries_of(text: str) -> List[Entry]:
    """Return the entries in LDIF that `ldapsearch` printed; attribute names keep their case."""
    found: List[Entry] = []
    for block in re.split(r"\n\n+", text.replace("\n ", "").strip("\n")):
        entry: Entry = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            if not line.startswith("#") and name:
                entry.setdefault(name, []).append(_value(value))
        if "dn" in entry:
            found.append(entry)
    return found


def _line(name: str, value: str) -> str:
    if _SAFE.match(value):
        return f"{name}: {value}\n"
    return f"{name}:: {base64.b64encode(value.encode()).decode()}\n"


def _value(text: str) -> str:
    if text.startswith(":"):
        return base64.b64decode(text[1:].strip()).decode("utf-8", "replace")
    return text[1:] if text.startswith(" ") else text  # noqa: FURB188 - removeprefix came with 3.9
