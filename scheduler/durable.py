"""Replaces a file so that it has either its earlier or its new content, whenever the machine loses power.

While a file is written, its name begins with a dot and ends with `.part`.
"""

import os


def replace(path: str, body: bytes, mode: int = 0o644) -> None:
    """Replace a file; when this function returns, the new content survives a power failure.

    Args:
        path: the file.
        body: its new content.
        mode: its permissions, without those that the umask denies.

    Raises:
        OSError: the file could not be written; the earlier file is unchanged.
    """
    folder, name = os.path.split(path)
    part = os.path.join(folder, f".{name}.part")
    if os.path.lexists(part):
        os.unlink(part)  # an earlier call, which was killed, left this file
    number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(number, "wb") as target:
        target.write(body)
        target.flush()
        os.fsync(target.fileno())
    os.rename(part, path)
    sync(folder)


def sync(folder: str) -> None:
    """Make a folder's entries durable."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
