"""Writes a cluster's files on one node, as root, and starts its daemons; files with the right content are not written again.

The node reads this program with `python3 -`. The sender appends a call of `main` with the settings, so that munge's key is
never on a command line.
"""

import base64
import json
import os
import pwd
import socket
import subprocess
import sys
from typing import Any, Dict

_KEY = "/etc/munge/munge.key"
_KEY_BYTES = 1024
_HOSTNAME = "/etc/hostname"
_HOSTS = "/etc/hosts"
#: End of each line that busbar writes into a hosts file.
_OURS = "# a node of busbar"
_UNITS = "/etc/systemd/system"
_START_TIMEOUT_S = 60
#: Beginning of the reason why a machine will never become a node.
FIRST_BOOT_FAILED = "its first boot failed"


def main(text: str) -> None:
    """Set up what the JSON `text` describes; print munge's key as JSON if `text` has no key, else an empty JSON object.

    If `hostname` is given, it becomes the machine's name, by which slurmd finds itself in slurm.conf. `others` are addresses of
    nodes by name, for the hosts file. `booted` is the path of the file with the result of the first boot.
    """
    given = json.loads(text)
    if given.get("booted"):
        await_first_boot(given["booted"])
    key = set_up(given)
    print(json.dumps({"key": base64.b64encode(key).decode()} if not given["key"] else {}))


def set_up(given: Dict[str, Any]) -> bytes:
    """Set up what `given` describes; return munge's key."""
    if given.get("others"):
        know(_HOSTS, given["others"])
    if given.get("hostname"):
        name_machine(given["hostname"])
    key = base64.b64decode(given["key"]) if given["key"] else _own_key(given["conf"], given["mark"])
    changed = put(_KEY, key, 0o400, "munge")
    daemon("munge", changed)
    for folder in given["folders"]:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        give(folder, "slurm")
    files = {os.path.join(given["conf"], name): body for name, body in given["files"].items()}
    wrote = [
        put(path, body.encode(), 0o755 if body.startswith("#!") else 0o644, "root") for path, body in sorted(files.items())
    ]
    new = [put(os.path.join(_UNITS, name), body.encode(), 0o644, "root") for name, body in sorted(given["units"].items())]
    if any(new):
        run("systemctl", "daemon-reload")
        wrote.append(True)
    for name in sorted(given["units"]):
        daemon(name, any(wrote) or changed)
    return key


def await_first_boot(path: str) -> None:
    """Exit unless the JSON in `path` reports that this machine's first boot is done, because a job could fail before that."""
    if not os.path.exists(path):
        sys.exit("its first boot has not finished")
    with open(path, encoding="utf-8") as source:
        said = json.load(source)
    if said.get("status") != "done":
        sys.exit("{} in step {}".format(FIRST_BOOT_FAILED, said.get("step")))


def _own_key(conf: str, mark: str) -> bytes:
    """Return munge's key for this controller: the existing key of this cluster, or a new key.

    A key that a package created at installation is not used: it may come from an image, so other people may know it.
    """
    path = os.path.join(conf, "slurm.conf")
    if os.path.exists(path) and os.path.exists(_KEY):
        with open(path, encoding="utf-8", errors="replace") as source:
            ours = source.readline().rstrip("\n") == mark
        if ours:
            with open(_KEY, "rb") as known:
                return known.read()
    return os.urandom(_KEY_BYTES)


def name_machine(hostname: str) -> None:
    """Set the name of this machine, now and after a reboot."""
    put(_HOSTNAME, f"{hostname}\n".encode(), 0o644, "root")
    if socket.gethostname() != hostname:
        socket.sethostname(hostname)


def know(path: str, others: Dict[str, str]) -> None:
    """Replace busbar's lines in the hosts file `path` with lines for `others`, addresses by name; other lines stay.

    The file is overwritten in place and not replaced, because it may be a mount point. It is not emptied first, so the other
    lines also stay if the disk is full.
    """
    with open(path, encoding="utf-8") as source:
        lines = source.read().splitlines()
    kept = [line for line in lines if not line.endswith(_OURS)]
    wanted = kept + [f"{address} {name} {_OURS}" for name, address in sorted(others.items())]
    if wanted != lines:
        with open(path, "r+", encoding="utf-8") as target:
            target.write("\n".join(wanted) + "\n")
            target.flush()
            target.truncate()


def put(path: str, body: bytes, mode: int, owner: str) -> bool:
    """Write a file atomically unless it has this content already; return whether it was written.

    In both cases the file gets exactly these permissions, whatever the umask is, and this owner.
    """
    if os.path.exists(path):
        with open(path, "rb") as source:
            if source.read() == body:
                os.chmod(path, mode)
                give(path, owner)
                return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    part = path + ".busbar"
    if os.path.exists(part):
        os.unlink(part)
    number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(number, "wb") as target:
        target.write(body)
        os.fchmod(number, mode)
    give(part, owner)
    os.rename(part, path)
    return True


def give(path: str, owner: str) -> None:
    """Set the owner of `path` to a user and that user's primary group."""
    try:
        its = pwd.getpwnam(owner)
    except KeyError:
        sys.exit(f"there is no user {owner}, which the packages of Slurm and munge create")
    os.chown(path, its.pw_uid, its.pw_gid)


def daemon(name: str, changed: bool) -> None:
    """Enable a unit, and restart it if its files `changed` or it is not running."""
    run("systemctl", "enable", name)
    if changed or run("systemctl", "is-active", "--quiet", name, may_fail=True):
        run("systemctl", "restart", name)


def run(*argv: str, may_fail: bool = False) -> int:
    """Run a command and return its exit status.

    If a command without `may_fail` fails, exit with the last line of the command's output.
    """
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_START_TIMEOUT_S,
        check=False,
    )
    if done.returncode and not may_fail:
        said = done.stdout.decode("utf-8", "replace").strip().splitlines() or ["no output"]
        sys.exit("{}: {}".format(" ".join(argv), said[-1]))
    return done.returncode
