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
    """Refuse if the folder `home` must be mounted and is not: files would go to the empty mount point instead.

    `content` is a subject and its verb, such as "the homes are". The message says "... but {content} on its file system".

    Raises:
        RefusalError: the folder is not mounted, or its file system does not answer.
    """
    if mounted and not is_mounted(home):
        raise RefusalError(f"{home} is not mounted or cannot be read, but {content} on its file system; mount it first")


def _refuse_silent(home: str) -> None:
    """Refuse if the file system does not answer in time.

    A child asks it, because a process that waits for a file server cannot give up.

    Raises:
        RefusalError: it does not answer.
    """
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
            # Do not wait until the child ends: while it waits for some file servers, it ignores even SIGKILL.
            os.kill(child, signal.SIGKILL)
            raise RefusalError(f"the file system at {home} has not answered for {_ANSWERS_S} s; repair it first")
        time.sleep(_POLL_S)
