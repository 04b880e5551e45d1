"""A directory of users without a server: it stores what the real directory stores, but refuses nothing."""

from __future__ import annotations

import pytest

from scheduler.users import directory, ldap
from scheduler.users.ldif import Entry


class FakeDirectory:
    """Replaces functions of `scheduler.users.ldap`; `by_name` has the entries, and `calls` the changes in their order."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.by_name = {entry["dn"][0]: entry for entry in directory.first_entries()}
        self.calls: list[str] = []
        for name in ("entries", "add", "delete", "change_members"):
            patch.setattr(ldap, name, getattr(self, f"_{name}"))

    def _entries(self, base: str = directory.BASE, wanted: str = "(objectClass=*)") -> list[Entry]:
        kind = wanted[1:-1].partition("=")[2]
        return [
            entry
            for name, entry in self.by_name.items()
            if name.endswith(base) and (kind == "*" or kind in entry["objectClass"])
        ]

    def _add(self, new: list[Entry]) -> None:
        for entry in new:
            self.calls.append(f"add {entry['dn'][0]}")
            self.by_name[entry["dn"][0]] = entry

    def _delete(self, name: str) -> None:
        self.calls.append(f"delete {name}")
        del self.by_name[name]

    def _change_members(self, group: str, verb: str, user: str) -> None:
        self.calls.append(f"{verb} {user} {group}")
        members = self.by_name[directory.group_dn(group)].setdefault("memberUid", [])
        if verb == "add":
            members.append(user)
        else:
            members.remove(user)
