"""Reads local users and groups from this machine's files.

NSS is not asked: if it is asked for a name before the user is added, it caches that no such user exists.
"""

from typing import Dict, List

_PASSWD, _GROUP = "/etc/passwd", "/etc/group"


def users() -> Dict[str, int]:
    """Return the uid of each local user by name."""
    return _numbers(_PASSWD)


def groups() -> Dict[str, int]:
    """Return the gid of each local group by name."""
    return _numbers(_GROUP)


def _numbers(path: str) -> Dict[str, int]:
    with open(path, encoding="utf-8", errors="replace") as source:
        rows: List[List[str]] = [line.rstrip("\n").split(":") for line in source]
    return {row[0]: int(row[2]) for row in rows if len(row) > 2 and row[2].isdigit()}  # noqa: PLR2004 - name, x, number
