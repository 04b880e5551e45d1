"""Copy a file, a text or a folder to another machine over SFTP, as command:remote:CopyToRemote does.

Archives are not unpacked, permissions are not kept, and nothing is deleted on the other machine.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from typing import cast

import asyncssh

from .calls import DEBUG, Call, CommandError
from .dial import dialled
from .wire import ASSET, Properties, mark_of

BLOCK_BYTES = 1 << 20
EMPTY_HASH = hashlib.sha256(b"").hexdigest()  # of an empty text; an asset that is not known yet has no such hash


async def copy(call: Call, inputs: Properties) -> None:
    """Copy the file, text or folder in the input `source` to the path in the input `remotePath`. Raises CommandError."""
    connection = cast("Properties", inputs["connection"])
    source, target = cast("Properties", inputs["source"]), str(inputs["remotePath"])
    text, path = str(source.get("text") or ""), str(source.get("path") or "")
    is_text = mark_of(source) == ASSET and not path and (bool(text) or source.get("hash") in ("", EMPTY_HASH))
    what = "text asset" if is_text else f"local file {path}"
    await call.log(DEBUG, f"Creating file: {connection['host']}:{target} from {what}")
    async with dialled(call, connection) as client:
        try:
            async with client.start_sftp_client() as sftp:
                if is_text:
                    await _copy_text(sftp, text, target)
                else:
                    await _copy_path(sftp, path, target)
        except OSError as error:  # an error on this machine; an error on the remote machine is an SFTPError
            raise CommandError(f"open {error.filename}: {os.strerror(error.errno or 0).lower()}") from None
        except asyncssh.Error as error:
            raise CommandError(_words(error)) from None


def _words(error: asyncssh.Error) -> str:
    if isinstance(error, (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath)):
        return "file does not exist"
    if isinstance(error, asyncssh.SFTPPermissionDenied):
        return "permission denied"
    return f'sftp: "{error.reason}" (SSH_FX_FAILURE)' if isinstance(error, asyncssh.SFTPFailure) else str(error)


async def _mode(sftp: asyncssh.SFTPClient, path: str) -> int | None:
    """Return the mode bits of a remote path; None if the path does not exist."""
    try:
        attributes = await sftp.stat(path)
    except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
        return None
    except asyncssh.SFTPError as error:
        raise CommandError(f"failed to stat remote path {path}: {_words(error)}") from None
    return attributes.permissions or 0


async def _make_folders(sftp: asyncssh.SFTPClient, path: str, failing: str) -> None:
    mode = await _mode(sftp, path)
    if mode is not None and stat.S_ISDIR(mode):
        return
    parent = posixpath.dirname(path)
    if parent not in ("", path):
        await _make_folders(sftp, parent, failing)
    try:
        await sftp.mkdir(path)
    except asyncssh.SFTPError as error:
        raise CommandError(f"{failing}: {_words(error)}") from None


async def _make_folder(sftp: asyncssh.SFTPClient, path: str) -> None:
    mode = await _mode(sftp, path)
    if mode is None:
        try:
            await sftp.mkdir(path)
        except asyncssh.SFTPError as error:
            raise CommandError(f"failed to create remote directory {path}: {_words(error)}") from None
    elif not stat.S_ISDIR(mode):
        raise CommandError(f"remote path {path} exists but is not a directory")


async def _copy_text(sftp: asyncssh.SFTPClient, text: str, target: str) -> None:
    mode = await _mode(sftp, target)
    if mode is not None and stat.S_ISDIR(mode):
        raise CommandError(f"remote path {target} is a directory; when using a text asset, remotePath must be a file path")
    await _make_folders(sftp, posixpath.dirname(target) or ".", f"failed to create parent directories for {target}")
    async with await _created(sftp, target) as file:
        await file.write(text.encode())


async def _created(sftp: asyncssh.SFTPClient, path: str) -> asyncssh.SFTPClientFile:
    try:
        return await sftp.open(path, "wb", encoding=None)
    except asyncssh.SFTPError as error:
        raise CommandError(f"failed to create remote file {path}: {_words(error)}") from None


async def _copy_path(sftp: asyncssh.SFTPClient, source: str, target: str) -> None:
    is_folder = _is_folder(source)
    mode = await _mode(sftp, target)
    into = target
    if is_folder:
        if mode is None:
            await _make_folders(sftp, target, f"failed to create remote directory {target}")
        if not source.endswith("/"):
            into = posixpath.join(target, posixpath.basename(source))
            await _make_folder(sftp, into)
        await _copy_folder(sftp, source, into)
        return
    if mode is not None and stat.S_ISDIR(mode):
        into = posixpath.join(target, posixpath.basename(source))
    elif mode is None:
        await _make_folders(sftp, posixpath.dirname(target) or ".", f"failed to create parent directories for {target}")
    await _copy_file(sftp, source, into)


def _is_folder(source: str) -> bool:
    """Tell whether a source is a folder. Raises OSError, before anything is created remotely, if the source is unreadable."""
    os.close(os.open(source, os.O_RDONLY))
    return os.path.isdir(source)  # noqa: PTH112 - a trailing slash has a meaning here, and Path drops it


async def _copy_folder(sftp: asyncssh.SFTPClient, source: str, target: str) -> None:
    await _make_folder(sftp, target)
    with os.scandir(source) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        into = posixpath.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False):
            await _copy_folder(sftp, entry.path, into)
        else:
            await _copy_file(sftp, entry.path, into)


async def _copy_file(sftp: asyncssh.SFTPClient, source: str, target: str) -> None:
    with open(source, "rb") as local:  # noqa: ASYNC230, PTH123 - small files; a thread would not read them faster
        async with await _created(sftp, target) as remote:
            while block := local.read(BLOCK_BYTES):
                await remote.write(block)
