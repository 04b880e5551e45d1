"""The command `cluster`: adds, lists and deletes the cluster's users and groups. It runs on the controller, as root.

Its subcommands are almost the same as in OCI's HPC stack (oci-hpc, roles/cluster-cli); docs/users.md lists the differences.
If it does not run as root, it starts itself again through sudo.
"""

import argparse
import contextlib
import fcntl
import os
import subprocess
import sys
from typing import Any, List, Sequence

from scheduler.users import accounts, directory, groups, home, home_folder, settings, snapshot
from scheduler.users.refusal import RefusalError

#: Only one command runs at a time. Other commands wait without a time limit, because deleting a large home takes long.
_LOCK = "/run/busbar-users.lock"
#: How long `sudo -n true` may take.
_SUDO_TIMEOUT_S = 10
_MOST_KEY_BYTES = 1 << 16


def main(argv: Sequence[str]) -> int:
    """Run one command; return its exit status: 0, 1 if it was refused, or 2 if the arguments name no command."""
    given = parser().parse_args(argv)
    if not hasattr(given, "run"):
        parser().print_help()
        return 2
    try:
        as_root(argv)
        with open(_LOCK, "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = given.settings = settings.load()
            home_folder.refuse_unmounted(known.home, known.mounted)
            try:
                given.run(given)
            except (RefusalError, OSError, subprocess.SubprocessError):
                # The steps before the failed step may have changed the directory, so the copy is written, too.
                with contextlib.suppress(OSError, RefusalError):
                    snapshot.write(known.snapshot)
                raise
            if given.changes:
                _save_copy(known)
    except RefusalError as refusal:
        sys.stderr.write(f"cluster: {refusal}\n")
        return 1
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"cluster: the command stopped half-way, because {error}; see what it has done, and finish it\n")
        return 1
    return 0


def as_root(argv: Sequence[str]) -> None:
    """Return if this process is root's. Otherwise start this program again through sudo, or refuse if sudo needs a password."""
    if os.geteuid() == 0:
        return
    program = os.path.abspath(sys.argv[0])
    try:
        allowed = subprocess.run(
            ["sudo", "-n", "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SUDO_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        allowed = None
    if allowed is None or allowed.returncode:
        raise RefusalError(f"only root may manage users, and {home.caller()} cannot use sudo without a password")
    os.execvp("sudo", ["sudo", "-n", program, *argv])  # noqa: S606 - this program, as root


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    top = argparse.ArgumentParser(prog="cluster", description="Users and groups of this cluster, on all of its machines.")
    rooms = top.add_subparsers(metavar="user|group")
    user = rooms.add_parser("user", help="users").add_subparsers(metavar="add|list|delete")
    one = _verb(user, "add", _add_user, "add a user, with a home and an SSH key for use inside the cluster")
    one.add_argument("name", metavar="NAME")
    one.add_argument(
        "--gid",
        type=int,
        default=directory.PRIVILEGE_GID,
        help="group ID of the primary group (default %(default)s, privilege)",
    )
    one.add_argument("--uid", type=int, help="user ID (default: one above the largest user ID, at least 10001)")
    one.add_argument("--name", dest="full_name", default="", help="full name")
    one.add_argument("--shell", default="/bin/bash", help="login shell (default %(default)s)")
    one.add_argument(
        "--ssh-key", metavar="FILE", default="", help="file with the public keys of the user's logins; - for standard input"
    )
    one.add_argument("--nossh", action="store_true", help="make no SSH key for use inside the cluster")
    _verb(user, "list", _list_users, "list the users", changes=False)
    one = _verb(user, "delete", _delete_user, "delete a user who has no jobs and no processes")
    one.add_argument("name", metavar="NAME")
    one.add_argument("--purge-home", action="store_true", help="also delete the home and everything in it")
    group = rooms.add_parser("group", help="groups").add_subparsers(metavar="add|list|delete|join|leave")
    one = _verb(group, "add", _add_group, "add a group")
    one.add_argument("name", metavar="NAME")
    one.add_argument("--gid", type=int, help="group ID (default: one above the largest group ID, at least 10001)")
    _verb(group, "list", _list_groups, "list the groups", changes=False)
    _verb(group, "delete", _delete_group, "delete a group").add_argument("name", metavar="NAME")
    for verb, run, text in (("join", _join, "add users to a group"), ("leave", _leave, "remove users from a group")):
        one = _verb(group, verb, run, text)
        one.add_argument("name", metavar="NAME")
        one.add_argument("users", metavar="USER", nargs="+")
    return top


def _verb(under: Any, name: str, run: Any, text: str, *, changes: bool = True) -> argparse.ArgumentParser:
    found: argparse.ArgumentParser = under.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    found.set_defaults(run=run, changes=changes)
    return found


def _add_user(given: argparse.Namespace) -> None:
    wanted = accounts.Wanted(
        given.name, given.uid, given.gid, given.full_name, given.shell, _keys(given.ssh_key), not given.nossh
    )
    user = accounts.add(wanted, given.settings)
    sys.stdout.write(f"user {user.name}: uid {user.uid}, gid {user.gid}, home {user.home}\n")
    if not wanted.keys:
        sys.stdout.write(f"To log in from outside, {user.name} needs a public key in {user.home}/.ssh/authorized_keys.\n")


def _list_users(_: argparse.Namespace) -> None:
    names = {one.gid: one.name for one in groups.existing().values()}
    members = {one.name: one.members for one in groups.existing().values()}
    rows = [["NAME", "UID", "GROUPS", "HOME", "SHELL", "FULL NAME"]]
    for user in sorted(accounts.existing().values(), key=lambda one: one.uid):
        more = sorted(name for name, those in members.items() if user.name in those)
        shown = ",".join([names.get(user.gid, str(user.gid)), *more])
        rows.append([user.name, str(user.uid), shown, user.home, user.shell, user.full_name])
    _table(rows)


def _delete_user(given: argparse.Namespace) -> None:
    user = accounts.delete(given.name, given.purge_home, given.settings)
    kept = (
        "the home is deleted, too"
        if given.purge_home
        else f"the home {user.home} stays; a new user gets user ID {user.uid} only if --uid asks for it"
    )
    sys.stdout.write(f"user {user.name} is deleted; {kept}\n")


def _add_group(given: argparse.Namespace) -> None:
    group = groups.add(given.name, given.gid)
    sys.stdout.write(f"group {group.name}: gid {group.gid}\n")


def _list_groups(_: argparse.Namespace) -> None:
    users = accounts.existing().values()
    rows = [["NAME", "GID", "MEMBERS"]]
    for group in sorted(groups.existing().values(), key=lambda one: one.gid):
        first = [user.name for user in users if user.gid == group.gid]
        rows.append([group.name, str(group.gid), ",".join(sorted({*first, *group.members})) or "-"])
    _table(rows)


def _delete_group(given: argparse.Namespace) -> None:
    groups.delete(given.name, {user.name: user.gid for user in accounts.existing().values()})
    sys.stdout.write(f"group {given.name} is deleted\n")


def _join(given: argparse.Namespace) -> None:
    _refuse_unknown(given.users)
    for user in given.users:
        groups.join(given.name, user)


def _leave(given: argparse.Namespace) -> None:
    _refuse_unknown(given.users)
    for user in given.users:
        groups.leave(given.name, user)


def _refuse_unknown(names: List[str]) -> None:
    known = accounts.existing()
    for name in names:
        if name not in known:
            raise RefusalError(f"user {name}: there is no such user in the directory")


def _keys(path: str) -> str:
    """Return the public keys in the file `path` (`-`: on standard input) as text; empty if `path` is empty."""
    if not path:
        return ""
    try:
        if path == "-":
            text = sys.stdin.read(_MOST_KEY_BYTES + 1)
        else:
            with open(path, encoding="utf-8") as source:
                text = source.read(_MOST_KEY_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise RefusalError(f"--ssh-key {path}: {why}") from error
    if len(text) > _MOST_KEY_BYTES:
        raise RefusalError(f"--ssh-key {path}: it is longer than {_MOST_KEY_BYTES} characters, so none of its keys is accepted")
    if not text.strip():
        raise RefusalError(f"--ssh-key {path}: there is no public key in it")
    return text


def _save_copy(known: settings.Settings) -> None:
    """Save the copy of the directory from which a new controller takes the users."""
    try:
        snapshot.write(known.snapshot)
    except OSError as error:
        raise RefusalError(
            f"the change is made, but {known.snapshot}, from which a new controller takes the users, was not written: "
            f"{error.strerror}"
        ) from error


def _table(rows: List[List[str]]) -> None:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths))
        sys.stdout.write(line.rstrip() + "\n")
