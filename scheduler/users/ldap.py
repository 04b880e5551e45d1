"""Reads and changes the directory as root over its local socket, with OpenLDAP's own clients."""

import os
import subprocess
from typing import Dict, List

from scheduler.users import directory, ldif
from scheduler.users.ldif import Entry
from scheduler.users.refusal import RefusalError

_TIMEOUT_S = 30
_URL = "ldapi:///"
#: A result code of LDAP (RFC 4511), which the clients return as their exit status.
NO_SUCH_OBJECT = 32


def entries(base: str = directory.BASE, wanted: str = "(objectClass=*)") -> List[Entry]:
    """Of `base` and the entries below `base`, return those that match the filter `wanted`; empty if `base` does not exist."""
    words = ["ldapsearch", "-Q", "-LLL", "-o", "ldif-wrap=no", "-Y", "EXTERNAL", "-H", _URL, "-b", base, wanted]
    done = _run(words)
    if done.returncode == NO_SUCH_OBJECT:
        return []
    if done.returncode:
        raise RefusalError(f"the directory does not answer: {_last(done)}")
    return ldif.entries_of(done.stdout.decode("utf-8", "replace"))


def add(new: List[Entry]) -> None:
    """Add entries, parents first."""
    _change("ldapadd", ldif.text_of(new))


def delete(name: str) -> None:
    """Delete the entry of that name."""
    _change("ldapmodify", ldif.text_of([{"dn": [name], "changetype": ["delete"]}]))


def change_members(group: str, verb: str, user: str) -> None:
    """Add a user to a group, or delete the user from the group; `verb` is `add` or `delete`."""
    change = {"dn": [directory.group_dn(group)], "changetype": ["modify"], verb: ["memberUid"], "memberUid": [user]}
    _change("ldapmodify", ldif.text_of([change]))


def answers() -> str:
    """Return why the directory does not answer root; empty if it does."""
    done = _run(["ldapwhoami", "-Q", "-Y", "EXTERNAL", "-H", _URL])
    return _last(done) if done.returncode else ""


def _change(program: str, text: str) -> None:
    done = _run([program, "-Q", "-Y", "EXTERNAL", "-H", _URL], text)
    if done.returncode:
        raise RefusalError(f"the directory refused the change: {_last(done)}")


def _run(words: List[str], given: str = "") -> "subprocess.CompletedProcess[bytes]":
    environment: Dict[str, str] = {**os.environ, "LDAPNOINIT": "1", "LC_ALL": "C"}
    try:
        return subprocess.run(
            words,
            input=given.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT_S,
            check=False,
            env=environment,
        )
    except FileNotFoundError as error:
        raise RefusalError(f"there is no {words[0]}; on Oracle Linux install openldap-clients, on Ubuntu ldap-utils") from error
    except subprocess.TimeoutExpired as error:
        raise RefusalError(f"the directory did not answer within {_TIMEOUT_S} s") from error


def _last(done: "subprocess.CompletedProcess[bytes]") -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else f"status {done.returncode}"
