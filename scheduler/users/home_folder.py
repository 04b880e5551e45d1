"""Checks that the home folders' file system answers and is mounted, before the controller reads or writes there."""

import os
import signal
import time

from scheduler.users.refusal import RefusalError

#: How long the file system may take to answer. NFS and Lustre wait for a server without a limit.
_ANSWERS_S = 30
_POLL_S = 0.01
_MOST_FILES = 1024


def is_mounted(home: str) -> bool:
    """Tell whether the folder `home` is a mount point.

    Raises:
        RefusalError: its file system does not answer.
    """
    _refuse_silent(home)
    return os.path.ismount(home)


def refuse_unmounted(home: str, mounted: bool, content: str = "the homes are") -> None:
    """Refuse if the folder `home` must be mounted, but is not: the controller would write into the empty mount point.

    `content` begins the second half of the message, which ends with "on its file system". Example: "the homes are".

    Raises:
        RefusalError: the folder is not mounted, or its file system does not answer.
    """
    if mounted and not is_mounted(home):
        raise RefusalError(f"{home} is not mounted or cannot be read, but {content} on its file system; mount it first")


def _refuse_silent(home: str) -> None:
    """Refuse if the file system does not answer in time.

    A child process asks the file system, because a process that waits for a file server cannot stop waiting.

    Raises:
        RefusalError: it does not answer.
    """
    child = os.fork()
    if not child:
        try:
            os.closerange(0, _MOST_FILES)  # the child may live on; then it must not hold the parent's locks and connections
            os.statvfs(home)
        finally:
            os._exit(0)  # even an error shows that the file system answers
    end = time.monotonic() + _ANSWERS_S
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            # Do not wait until the child ends: a process that waits for certain file servers ignores even SIGKILL.
            os.kill(child, signal.SIGKILL)
            raise RefusalError(f"the file system at {home} has not answered for {_ANSWERS_S} s; repair it first")
        time.sleep(_POLL_S)
