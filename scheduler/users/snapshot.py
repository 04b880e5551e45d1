"""A copy of the LDAP directory, kept beside the home folders.

The copy is written after every change of the directory. A controller whose directory is empty reads the copy. The copy has no
secrets, because the directory has none, but whoever can write the copy could define the users of the next controller.
"""

import os
import stat
from typing import List

from scheduler import durable
from scheduler.users import ldap, ldif
from scheduler.users.ldif import Entry
from scheduler.users.refusal import RefusalError

_ROOT = 0
#: Permissions of the copy.
_PRIVATE = 0o600


def write(path: str) -> bool:
    """Write the directory's entries to `path`, unless the file already has them and is private; return whether it was written.

    Raises:
        OSError: the file could not be written.
        RefusalError: somebody other than root could change the folder, or the directory does not answer.
    """
    text = ldif.text_of(ldap.entries()).encode()
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    refuse_others(folder)
    if _is_private(path):
        with open(path, "rb") as source:
            if source.read() == text:
                return False
    durable.replace(path, text, _PRIVATE)
    return True


def read(path: str) -> List[Entry]:
    """Return the entries of the copy; empty without a copy.

    Raises:
        RefusalError: somebody other than root could have written the copy.
    """
    if not os.path.exists(path):
        return []
    for each in (os.path.dirname(path), path):
        refuse_others(each)
    with open(path, encoding="utf-8") as source:
        return ldif.entries_of(source.read())


def _is_private(path: str) -> bool:
    """Tell whether there is a file that only root can read and write."""
    try:
        its = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(its.st_mode) and stat.S_IMODE(its.st_mode) == _PRIVATE and its.st_uid == _ROOT


def refuse_others(path: str) -> None:
    """Refuse a file or folder that somebody other than root could change."""
    its = os.lstat(path)
    if its.st_uid != _ROOT or its.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or stat.S_ISLNK(its.st_mode):
        raise RefusalError(
            f"{path} does not belong to root only, so nothing is saved to it or read from it; check its content, then let only "
            "root own and write it"
        )
