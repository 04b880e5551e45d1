"""Checks the file system of the home folders before anything is read from it or written to it."""

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
    """Refuse if the folder `home` must be mounted and is not: files would go to the empty mount point instead.

    The message says "... is not mounted, but {content} in it".

    Raises:
        RefusalError: the folder is not mounted, or its file system does not answer.
    """
    if mounted and not is_mounted(home):
        raise RefusalError(f"{home} is not mounted, but {content} in it; mount it first")


def _refuse_silent(home: str) -> None:
    """Let another process ask the file system, because a process that waits for a file server cannot give up."""
    child = os.fork()
    if not child:
        try:
            os.closerange(0, _MOST_FILES)  # a child that cannot be killed must keep neither a lock nor a connection
            os.statvfs(home)
        finally:
            os._exit(0)  # an error is an answer, too
    end = time.monotonic() + _ANSWERS_S
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)  # nobody waits for its end: a child that waits for some file servers ignores signals
            raise RefusalError(f"the file system at {home} has not answered for {_ANSWERS_S} s; repair it first")
        time.sleep(_POLL_S)
