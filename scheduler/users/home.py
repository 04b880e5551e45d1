"""Creates a user's home folder, completely or not at all, with the skeleton and an SSH key for use inside the cluster."""

import os
import pwd
import shutil
import subprocess
import sys
from typing import Dict, List

from scheduler.users.directory import User
from scheduler.users.refusal import RefusalError

_SKELETON = "/etc/skel"
_TIMEOUT_S = 60


def make(user: User, keys: List[str], own_key: bool) -> None:
    """Create a user's home folder, mode 0700: `keys` allow logins; `own_key` adds a key pair for logins to other machines."""
    path, uid, gid = user.home, user.uid, user.gid
    part = os.path.join(os.path.dirname(path), f".busbar-new-{user.name}")
    shutil.rmtree(part, ignore_errors=True)
    try:
        os.mkdir(part, 0o700)
        if os.path.isdir(_SKELETON):
            for each in os.listdir(_SKELETON):
                _copy(os.path.join(_SKELETON, each), os.path.join(part, each))
        _keys(part, user.name, keys, own_key)
        for folder, folders, files in os.walk(part):
            for each in (*folders, *files):
                os.lchown(os.path.join(folder, each), uid, gid)
        os.lchown(part, uid, gid)
        os.rename(part, path)
    except OSError as error:
        raise RefusalError(f"the home {path} could not be made: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise RefusalError(f"the home {path} could not be made: {error.cmd[0]} did not end within {error.timeout} s") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    if shutil.which("restorecon"):
        subprocess.run(["restorecon", "-R", path], timeout=_TIMEOUT_S, check=False)


def add_keys(user: User, keys: List[str]) -> None:
    """Authorize keys in an existing home folder, with its user's rights, so that links in the folder cannot redirect root."""
    path = f"{user.home}/.ssh/authorized_keys"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(user.gid)
            os.setuid(user.uid)
            os.umask(0o077)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with open(path, "a+", encoding="utf-8") as target:
                target.seek(0)
                known = target.read()
                lines = [key for key in keys if key not in known.splitlines()]
                target.write("".join(f"{line}\n" for line in (["", *lines] if known and known[-1:] != "\n" else lines)))
            status = 0
        except OSError as error:
            sys.stderr.write(f"{error}\n")
        finally:
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        raise RefusalError(f"the keys could not be added to {path}")


def purge(path: str, name: str) -> None:
    """Delete a home folder with everything in it."""
    gone = os.path.join(os.path.dirname(path), f".busbar-gone-{name}")
    shutil.rmtree(gone, ignore_errors=True)
    os.rename(path, gone)
    shutil.rmtree(gone)


def owner(path: str) -> int:
    """Return the uid of the owner of the folder `path`; -1 if the folder does not exist.

    Raises:
        RefusalError: `path` is not a folder.
    """
    if not os.path.lexists(path):
        return -1
    if os.path.islink(path) or not os.path.isdir(path):
        raise RefusalError(f"{path} is not a folder")
    return os.lstat(path).st_uid


def owners(folder: str) -> Dict[str, int]:
    """Return the owner's uid of each home folder in `folder`, including the home folders of deleted users."""
    with os.scandir(folder) as found:
        return {each.name: each.stat(follow_symlinks=False).st_uid for each in found}


def _copy(source: str, target: str) -> None:
    if os.path.isdir(source) and not os.path.islink(source):
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _keys(part: str, name: str, keys: List[str], own_key: bool) -> None:
    folder = os.path.join(part, ".ssh")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    lines = list(keys)
    if own_key:
        path = os.path.join(folder, "id_ed25519")
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"{name} inside the cluster", "-f", path]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=_TIMEOUT_S, check=False)
        if done.returncode:
            raise RefusalError("ssh-keygen made no key: {}".format(done.stderr.decode("utf-8", "replace").strip()))
        with open(f"{path}.pub", encoding="utf-8") as source:
            lines.append(source.read().strip())
    authorized = os.path.join(folder, "authorized_keys")
    with open(authorized, "w", encoding="utf-8") as target:
        target.write("".join(f"{line}\n" for line in lines))
    os.chmod(authorized, 0o600)


def caller() -> str:
    """Return the login name of the person who runs this."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
