"""Hands Slurm's jobs over to the stack's next controller, through a copy of slurmctld's state beside the home folders.

The controller writes the copy whenever jobs change (`keep`). A new controller of the stack takes the copy before its slurmctld
starts for the first time (`take`): it writes its public key into the copy's folder. If the earlier controller still runs, it
then stops its slurmctld, writes a last copy, and starts and terminates nothing any more. The new controller waits for that
copy. So jobs that wait keep their numbers. The machines of running jobs are terminated, because they do not accept the new
controller; `reconcile` then sets their nodes DOWN, and Slurm requeues the jobs.

The copy contains the scripts and environments of jobs, so only root can read it. Whoever can write the copy can submit jobs
as any user; root on a node can do so without the copy, because every node has munge's key.
"""

import gzip
import hashlib
import io
import json
import os
import tarfile
import time
import zlib
from typing import Any, Callable, Dict, Iterator, NamedTuple, Tuple

from scheduler import durable, node_setup, slurm_conf
from scheduler.users.home_folder import refuse_unmounted
from scheduler.users.snapshot import refuse_others

#: The message that the home file system is not mounted says with these words what is on that file system.
CONTENT = "the copy of Slurm's jobs is"
#: Files in the programs' folder. The first means that another controller has taken over. The second identifies the list of jobs
#: that was copied most recently. The third means that the last copy is written, and the fourth that machines of an earlier
#: controller must still be terminated.
_GIVEN = "given"
_KEPT, _LAST, _TO_END = "kept", "last-copy", "to-end"
_OWNER, _COPY, _ABOUT = "controller", "jobs.tar.gz", "busbar.json"
#: slurmctld's list of jobs. A job's script and environment are in other files, which are written before this list.
_JOBS = "job_state"
#: Messages to the database of jobs, which is on the earlier controller.
_LEFT_OUT = frozenset(("dbd.messages",))
#: `keep` runs every ten seconds and stops slurmctld within about ten seconds.
_WAIT_S = 60
_UNREADABLE = (tarfile.TarError, EOFError, zlib.error, ValueError, KeyError)


class Place(NamedTuple):
    """Where the copy is.

    Attributes:
        home: mount point of the home folders.
        folder: the copy's folder below `home`, of this stack only.
        mounted: whether `home` is on another machine, so that it must be mounted before anything is written to it.
        state: folder of slurmctld's state on this machine.
    """

    home: str
    folder: str
    mounted: bool = False
    state: str = slurm_conf.STATE

    @property
    def copy(self) -> str:
        """Path of the copy."""
        return os.path.join(self.folder, _COPY)

    @property
    def owner(self) -> str:
        """Path of the file with the public key of the controller whose slurmctld may run."""
        return os.path.join(self.folder, _OWNER)


def keep(place: Place, me: str, version: Callable[[], str], local: str) -> str:
    """Write the copy if jobs have changed since the previous copy; return what to log.

    If another controller has taken over, note this (`is_given`), stop slurmctld, and write the last copy.

    Args:
        place: where the copy is.
        me: this controller's public key.
        version: returns the version of this machine's Slurm.
        local: folder of the programs' own files.

    Raises:
        OSError: the copy could not be written.
        RefusalError: `home` is not mounted, or somebody other than root could change the copy.
    """
    _prepare(place)
    owner = _read(place.owner)
    if owner not in ("", me):
        # This file comes first: whatever fails below, this controller neither starts nor terminates a machine any more.
        _write(os.path.join(local, _GIVEN), owner)
        node_setup.run("systemctl", "disable", "--now", "slurmctld.service")
        if _has_own(place, me):
            _pack(place, {"by": me, "slurm": version(), "last": True})
        _write(os.path.join(local, _LAST), owner)
        return "another controller has taken over, so slurmctld was stopped; no machine is started or terminated from here"
    if not owner:
        _write(place.owner, me)
    kept, changed = os.path.join(local, _KEPT), _changed(place.state)
    if changed and changed != _read(kept):
        _pack(place, {"by": me, "slurm": version(), "last": False})
        _write(kept, changed)
    return ""


def is_given(local: str) -> bool:
    """Whether another controller has taken over."""
    return os.path.exists(os.path.join(local, _GIVEN))


def is_done(local: str) -> bool:
    """Whether another controller has taken over and this controller has written its last copy."""
    return os.path.exists(os.path.join(local, _LAST))


def is_second(place: Place, me: str, local: str) -> bool:
    """Whether the machines of an earlier controller of this stack must still be ended.

    This is remembered in the folder `local` until `ended` is called, because `take` makes this controller the owner.
    """
    mark = os.path.join(local, _TO_END)
    if _read(place.owner) not in ("", me):
        _write(mark, me)
    return os.path.exists(mark)


def ended(local: str) -> None:
    """Note that the machines of the earlier controller are ended."""
    os.unlink(os.path.join(local, _TO_END))


def take(
    place: Place,
    me: str,
    version: str,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Unpack the copy of an earlier controller unless this machine has jobs already; return what to tell the operator.

    The earlier controller has up to a minute for its last copy; after that, the most recent copy is taken. A copy that cannot
    be read, or that another release of Slurm wrote, is renamed, and its jobs are not taken over.

    Raises:
        OSError: the copy could not be read, or the state could not be written.
        RefusalError: `home` is not mounted, or somebody other than root could change the copy.
    """
    _prepare(place)
    if os.path.exists(os.path.join(place.state, _JOBS)):
        return ""
    _write(place.owner, me)
    if not os.path.exists(place.copy):
        return ""
    end = clock() + _WAIT_S
    about = _about(place.copy)
    while about and about["by"] != me and not about["last"] and clock() < end:
        sleep(1)
        about = _about(place.copy)
    late = about and about["by"] != me and not about["last"]
    if about and _release(about["slurm"]) != _release(version):
        why = "they were written by Slurm {}, and this login node has {}".format(about["slurm"], version)
        return _set_aside(place, why)
    try:
        if about:
            _unpack(place.copy, place.state)
            return _late(place) if late else ""
    except _UNREADABLE:
        pass
    except OSError as error:
        _raise_unless_damaged(error)
    return _set_aside(place, "their copy cannot be read")


def _late(place: Place) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(os.path.getmtime(place.copy)))
    return f"the earlier controller did not write a last copy within {_WAIT_S} s; the queue is as it was at {at}"


def forget(place: Place, me: str, local: str) -> None:
    """Remove the copy, if it is this controller's: the cluster is being destroyed, and its jobs must not start again.

    Raises:
        OSError: the copy could not be removed.
        RefusalError: `home` is not mounted, or somebody other than root could change the copy.
    """
    _prepare(place)
    if _read(place.owner) == me:
        for path in (place.copy, place.owner, os.path.join(local, _KEPT)):
            if os.path.exists(path):
                os.unlink(path)


def _prepare(place: Place) -> None:
    refuse_unmounted(place.home, place.mounted, CONTENT)
    os.makedirs(place.folder, mode=0o700, exist_ok=True)
    for path in (os.path.dirname(place.folder), place.folder):
        refuse_others(path)


def _changed(state: str) -> str:
    """Return a value that changes when slurmctld writes its list of jobs; empty before the first list."""
    try:
        its = os.stat(os.path.join(state, _JOBS))
    except FileNotFoundError:
        return ""
    return f"{its.st_mtime:.6f} {its.st_ino}"


def _about(path: str) -> Dict[str, Any]:
    """Return who wrote a copy (`by`), with which Slurm (`slurm`), and whether it was the `last`; empty if this is unknown."""
    try:
        with tarfile.open(path) as source:
            member = source.extractfile(source.next() or tarfile.TarInfo())
            found: Dict[str, Any] = json.loads(member.read().decode()) if member else {}
            return {name: found[name] for name in ("by", "slurm", "last")}
    except (FileNotFoundError, *_UNREADABLE):
        return {}
    except OSError as error:
        _raise_unless_damaged(error)
        return {}


def _raise_unless_damaged(error: OSError) -> None:
    """Raise `error` if it has a number; gzip reports damaged data as an OSError without a number."""
    if error.errno is not None:
        raise error


def _has_own(place: Place, me: str) -> bool:
    """Tell whether the copy is the controller's own, or there is none that can be read."""
    return bool(_about(place.copy).get("by", me) == me)


def _pack(place: Place, about: Dict[str, Any]) -> None:
    """Replace the copy, unless another controller has taken over meanwhile.

    The last copy is written even then, because the other controller waits for it; but it never replaces a copy that the other
    controller has written.
    The list of jobs is read first and the other files are listed after that, so the copy has the script of each job that waits.
    """
    part = f"{place.copy}.{hashlib.sha256(about['by'].encode()).hexdigest()[:16]}"
    if os.path.exists(part):
        os.unlink(part)
    number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(number, "wb") as target:
        with tarfile.open(fileobj=target, mode="w:gz", compresslevel=1) as packed:
            _add(packed, _ABOUT, json.dumps(about).encode())
            _add_file(packed, place.state, _JOBS)
            for folder, _, files in os.walk(place.state):
                for file in sorted(files):
                    name = os.path.relpath(os.path.join(folder, file), place.state)
                    if name != _JOBS and name not in _LEFT_OUT and not name.endswith((".old", ".new")):
                        _add_file(packed, place.state, name)
        target.flush()
        os.fsync(target.fileno())
    if _has_own(place, about["by"]) if about["last"] else _read(place.owner) == about["by"]:
        os.rename(part, place.copy)
    else:
        os.unlink(part)


def _add_file(packed: tarfile.TarFile, state: str, name: str) -> None:
    try:
        with open(os.path.join(state, name), "rb") as source:
            body = source.read()
    except FileNotFoundError:
        return  # the job to which the file belongs has just ended
    _add(packed, name, body)


def _add(packed: tarfile.TarFile, name: str, body: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(body), 0o600
    packed.addfile(member, io.BytesIO(body))


def _unpack(path: str, state: str) -> None:
    """Write the copy's files for user slurm. The list of jobs gets its name last: without it, `take` unpacks again."""
    files = list(_packed(path))  # a damaged copy is refused before any file is written
    _folder(state)
    for name, body in sorted(files, key=lambda one: one[0] == _JOBS):
        wanted = os.path.join(state, name)
        _folder(os.path.dirname(wanted), state)
        node_setup.put(wanted, body, 0o600, "slurm")


def _packed(path: str) -> Iterator[Tuple[str, bytes]]:
    """Yield name and content of each file of slurmctld in the copy.

    Raises:
        ValueError: a file would be written elsewhere than below slurmctld's folder.
        OSError, EOFError, tarfile.TarError, zlib.error: the copy cannot be read to its end, or is damaged.
    """
    with gzip.open(path) as stream, tarfile.open(fileobj=stream) as source:
        for member in source:
            if member.name == _ABOUT:
                continue
            if not member.isfile() or os.path.isabs(member.name) or ".." in member.name.split("/"):
                raise ValueError(member.name)
            body = source.extractfile(member)
            yield member.name, body.read() if body else b""
        stream.read()  # gzip compares the checksum only at the end


def _folder(path: str, state: str = "") -> None:
    """Create a folder, and the folders between it and `state`, for user slurm."""
    if path != state and not os.path.isdir(path):
        if state:
            _folder(os.path.dirname(path), state)
        os.makedirs(path, mode=0o700)
        node_setup.give(path, "slurm")


def _set_aside(place: Place, why: str) -> str:
    path = f"{place.folder}/jobs-not-taken-{int(time.time())}.tar.gz"
    os.rename(place.copy, path)
    return f"the jobs of the earlier controller are not in this controller's queue: {why}; see {path}"


def _release(version: str) -> str:
    """Return the release, such as 22.05: another release may be unable to read slurmctld's state."""
    return ".".join(version.split(".")[:2])


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as source:
            return source.read().strip()
    except FileNotFoundError:
        return ""


def _write(path: str, text: str) -> None:
    durable.replace(path, f"{text}\n".encode())
