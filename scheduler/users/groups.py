"""Lists and changes the groups of the directory."""

from typing import Dict, List, NamedTuple, Optional

from scheduler.users import accepted, directory, ldap, local
from scheduler.users.ldif import Entry
from scheduler.users.refusal import RefusalError


class Group(NamedTuple):
    """One group; `members` has only those users of the group whose primary group is another group."""

    name: str
    gid: int
    members: List[str]


def existing() -> Dict[str, Group]:
    """Return the directory's groups by name."""
    found = [_group(entry) for entry in ldap.entries(directory.GROUPS, "(objectClass=posixGroup)")]
    return {one.name: one for one in found}


def add(name: str, gid: Optional[int]) -> Group:
    """Add a group.

    Without `gid`, the new group's id is one above the largest used id; ids above `accepted.MOST` do not count. The new id is at
    least `accepted.FIRST_UID`.
    """
    known = existing()
    why = accepted.refused_name(name)
    if why:
        raise RefusalError(f"group {name}: {why}")
    why = "" if gid is None else accepted.refused_number(gid)
    if why:
        raise RefusalError(f"--gid {gid}: {why}")
    if name in known or name in local.groups():
        raise RefusalError(f"group {name}: there is a group of that name{'' if name in known else ' on this machine'} already")
    taken = {one.gid: one.name for one in known.values()}
    taken.update({number: its for its, number in local.groups().items()})
    if gid in taken:
        raise RefusalError(f"--gid {gid}: it is the gid of group {taken[gid]}")
    number = gid if gid is not None else max([accepted.FIRST_UID - 1, *(one for one in taken if one <= accepted.MOST)]) + 1
    if accepted.refused_number(number):
        raise RefusalError(f"group {name}: the largest possible gid, {accepted.MOST}, is in use; give a free gid with --gid")
    ldap.add([directory.group_entry(name, number)])
    return Group(name, number, [])


def delete(name: str, primary: Dict[str, int]) -> None:
    """Delete a group; `primary` has the gid of each user's primary group, by user."""
    one = _known(name)
    if name == directory.PRIVILEGE:
        why = "it is the default primary group of new users, so it is kept"
        raise RefusalError(f"group {name}: {why}")
    users = sorted(user for user, gid in primary.items() if gid == one.gid)
    if users:
        raise RefusalError("group {}: it is the primary group of {}; delete these users first".format(name, ", ".join(users)))
    ldap.delete(directory.group_dn(name))


def join(name: str, user: str) -> None:
    """Make a user a member of a group."""
    if user in _known(name).members:
        raise RefusalError(f"group {name}: {user} is a member already")
    ldap.change_members(name, "add", user)


def leave(name: str, user: str) -> None:
    """Remove a user from a group."""
    if user not in _known(name).members:
        raise RefusalError(f"group {name}: {user} is no member; a user's primary group cannot be left")
    ldap.change_members(name, "delete", user)


def _known(name: str) -> Group:
    found = existing().get(name)
    if not found:
        raise RefusalError(f"group {name}: there is no such group in the directory; see `cluster group list`")
    return found


def _group(entry: Entry) -> Group:
    return Group(entry["cn"][0], int(entry["gidNumber"][0]), entry.get("memberUid", []))
