"""Lists and changes the users of the directory. Every check is made before anything changes."""

import os
from typing import Dict, List, NamedTuple, Optional

from scheduler.users import accepted, associations, busy, cache, directory, groups, home, ldap, local
from scheduler.users.directory import User
from scheduler.users.refusal import RefusalError
from scheduler.users.settings import Settings


class Wanted(NamedTuple):
    """A user to add.

    Attributes:
        uid: None for the next id, which is one above the largest id of all users and of all owners of home folders.
        keys: text with the public keys that the user logs in with; empty for none.
        own_key: whether the user gets a key pair for logins between the cluster's machines.
    """

    name: str
    uid: Optional[int]
    gid: int
    full_name: str
    shell: str
    keys: str
    own_key: bool


def existing() -> Dict[str, User]:
    """Return the directory's users by name."""
    found = {}
    for entry in ldap.entries(directory.PEOPLE, "(objectClass=posixAccount)"):
        name = entry["uid"][0]
        numbers = int(entry["uidNumber"][0]), int(entry["gidNumber"][0])
        found[name] = User(name, *numbers, entry["cn"][0], entry["homeDirectory"][0], entry["loginShell"][0])
    return found


def add(wanted: Wanted, its: Settings) -> User:
    """Add a user: the home folder, the entry in the directory, and an association if Slurm has a database."""
    keys = _refuse(wanted)
    known = existing()
    _refuse_taken(wanted, known)
    path = f"{its.home}/{wanted.name}"
    owner = home.owner(path)
    uid = _next_uid(known, its.home) if wanted.uid is None else wanted.uid
    if owner not in (-1, uid):
        raise RefusalError(
            f"user {wanted.name}: {path} exists and belongs to uid {owner}; pass --uid {owner} to return the folder "
            "to its user, or move the folder away"
        )
    _refuse_former(wanted, its.home)
    user = User(wanted.name, uid, wanted.gid, wanted.full_name, path, wanted.shell)
    if owner == -1:
        home.make(user, keys, wanted.own_key)
    elif keys:
        home.add_keys(user, keys)
    try:
        ldap.add([directory.user_entry(user)])
    except RefusalError:
        if owner == -1:
            home.purge(path, user.name)
        raise
    cache.forget(user.name)
    if its.accounting:
        try:
            associations.add(its.accounting, [user.name])
        except RefusalError as why:
            raise RefusalError(
                f"user {user.name} is added, but not to Slurm's database (the next update adds it): {why}"
            ) from why
    return user


def delete(name: str, purge_home: bool, its: Settings) -> User:
    """Delete a user's entry, memberships, association and, if `purge_home`, home; refuse if the user has jobs or processes."""
    user = existing().get(name)
    if not user:
        here = "; it is a user of this machine only" if name in local.users() else ""
        raise RefusalError(f"user {name}: there is no such user in the directory{here}")
    running = busy.jobs(user.uid)
    if running:
        raise RefusalError(f"user {name}: has jobs: {_some(running)}; cancel them with `scancel --user={name}`")
    started = busy.processes(user.uid)
    if started:
        raise RefusalError(f"user {name}: has processes on this machine: {_some(started)}; end them first")
    owner = home.owner(user.home) if purge_home else -1
    if owner not in (-1, user.uid):
        raise RefusalError(f"--purge-home: {user.home} belongs to uid {owner}, not to {name}; nothing was deleted")
    for group in groups.existing().values():
        if name in group.members:
            ldap.change_members(group.name, "delete", name)
    ldap.delete(directory.user_dn(name))
    cache.forget(name)
    if its.accounting:
        associations.delete(its.accounting, name)
    if purge_home and os.path.lexists(user.home):
        home.purge(user.home, name)
    return user


def _refuse(wanted: Wanted) -> List[str]:
    """Refuse invalid values; return the public keys."""
    why = accepted.refused_name(wanted.name)
    if why:
        raise RefusalError(f"user {wanted.name}: {why}")
    for option, number in (("--uid", wanted.uid), ("--gid", wanted.gid)):
        why = "" if number is None else accepted.refused_number(number)
        if why:
            raise RefusalError(f"{option} {number}: {why}")
    why = accepted.refused_full_name(wanted.full_name)
    if why:
        raise RefusalError(f"--name {wanted.full_name}: {why}")
    if not (os.path.isabs(wanted.shell) and os.access(wanted.shell, os.X_OK) and os.path.isfile(wanted.shell)):
        raise RefusalError(f"--shell {wanted.shell}: there is no such program on this machine; give its whole path")
    keys, why = accepted.public_keys(wanted.keys) if wanted.keys else ([], "")
    if why:
        raise RefusalError(f"--ssh-key: {why}")
    return keys


def _refuse_taken(wanted: Wanted, known: Dict[str, User]) -> None:
    if wanted.name in known:
        raise RefusalError(f"user {wanted.name}: there is a user of that name already, with uid {known[wanted.name].uid}")
    if wanted.name in local.users():
        raise RefusalError(f"user {wanted.name}: this machine has a local user of that name (/etc/passwd)")
    taken = {one.uid: one.name for one in known.values()}
    taken.update({number: name for name, number in local.users().items()})
    if wanted.uid in taken:
        raise RefusalError(f"--uid {wanted.uid}: it is the uid of user {taken[wanted.uid]}")
    gids = {one.gid: one.name for one in groups.existing().values()}
    if wanted.gid not in gids:
        shown = ", ".join(f"{gid} ({name})" for gid, name in sorted(gids.items()))
        raise RefusalError(
            f"--gid {wanted.gid}: no group has that gid; the groups are {shown}; `cluster group add` adds a group"
        )


def _refuse_former(wanted: Wanted, homes: str) -> None:
    """Refuse `wanted.uid` if the home folder of another name belongs to this uid: the new user could read that folder."""
    of = sorted(name for name, uid in home.owners(homes).items() if uid == wanted.uid and name != wanted.name)
    if of:
        raise RefusalError(
            f"--uid {wanted.uid}: this uid owns {homes}/{of[0]}, the home of a former user; choose another uid, or change the "
            "folder's owner first"
        )


def _next_uid(known: Dict[str, User], homes: str) -> int:
    """Return the number after the largest id up to `MOST` of all users and of all owners of home folders.

    The id of a former user whose home folder remains is not used again, because the new user would own that folder.
    """
    used = [one.uid for one in known.values()] + list(home.owners(homes).values()) + list(local.users().values())
    number = max([accepted.FIRST_UID - 1, *(uid for uid in used if uid <= accepted.MOST)]) + 1
    if accepted.refused_number(number):
        raise RefusalError(f"--uid: the largest uid, {accepted.MOST}, is in use, so there is no next uid; choose a free uid")
    return number


def _some(things: List[str]) -> str:
    shown = ", ".join(things[:5])
    return shown if len(things) <= 5 else f"{shown} and {len(things) - 5} more"  # noqa: PLR2004 - as many as above
