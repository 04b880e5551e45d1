"""Stores small files in a local folder, or behind a URL through fsspec; files are added, never changed or deleted.

A local folder needs only the standard library. Every call to a URL has a timeout.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Files larger than this count as unreadable, and records larger than this are not written.
MAX_BYTES = 4 * 1024 * 1024
#: Timeout of one call to a URL, in s.
TIMEOUT_S = 30.0

T = TypeVar("T")


class StoreError(RuntimeError):
    """A store cannot be reached, read or written; the message gives the reason in one sentence."""


class Store(Protocol):
    """Files under names such as `folder/file.json`."""

    def add(self, name: str, data: bytes) -> bool:
        """Write the file; return False if it already exists. Local folders and object stores never have an incomplete file."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in `folder`; an empty list if the folder does not exist."""

    def read(self, names: Iterable[str]) -> dict[str, bytes | str]:
        """Return the bytes of each file, or a text with the reason why it cannot be read."""


def store(place: str) -> Store:
    """Return the store at `place`: a path, or a URL such as s3://bucket/folder.

    Raises:
        StoreError: no installed fsspec driver handles this URL, or its store cannot be reached.
    """
    if "://" not in place:
        return _Local(Path(place).expanduser())
    return _Remote(place)


class _Local:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: str, data: bytes) -> bool:
        target = self._folder / name
        if target.exists():
            return False
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".draft")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                Path(draft).chmod(0o644)
                _put(draft, target)
            finally:
                Path(draft).unlink(missing_ok=True)
        except FileExistsError:
            return False
        except OSError as error:
            raise StoreError(f"{target} cannot be written: {error.strerror or error}") from None
        return True

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self._folder / folder).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self._folder} cannot be read: {error.strerror or error}") from None

    def read(self, names: Iterable[str]) -> dict[str, bytes | str]:
        return {name: self._read(self._folder / name) for name in names}

    @staticmethod
    def _read(path: Path) -> bytes | str:
        try:
            if path.stat().st_size > MAX_BYTES:
                return f"it is larger than {MAX_BYTES} bytes"
            return path.read_bytes()
        except OSError as error:
            return f"it cannot be read: {error.strerror or error}"


def _put(draft: str, target: Path) -> None:
    """Make the file `draft` appear as `target`, complete, unless `target` exists.

    Some file systems have no hard links (EPERM in link(2)). There, a file of the same name that another program adds at the
    same instant is replaced; names contain the run's id, so only a program that records the same run could do that.
    """
    try:
        os.link(draft, target)  # unlike a rename, this fails if the file exists by now
    except FileExistsError:
        raise
    except OSError:
        Path(draft).rename(target)  # if the link failed for another reason, this usually fails for it, too


class _Remote:
    """A folder behind a URL, through fsspec. Object stores write atomically; other drivers may leave a part of a file."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._fs, self._root = self._bounded("reach", self._connect)

    def _connect(self) -> tuple[Any, str]:
        import fsspec  # noqa: PLC0415 - most histories are a local folder, which does not need fsspec

        fs, root = fsspec.core.url_to_fs(self._url)
        return fs, str(root).rstrip("/")

    def add(self, name: str, data: bytes) -> bool:
        path = f"{self._root}/{name}"

        def write() -> bool:
            if self._fs.exists(path):
                return False
            self._fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            self._fs.pipe_file(path, data)
            return True

        return self._bounded("write to", write)

    def names(self, folder: str) -> list[str]:
        def listed() -> list[str]:
            self._fs.invalidate_cache()
            try:
                return sorted(str(path).rsplit("/", 1)[-1] for path in self._fs.ls(f"{self._root}/{folder}", detail=False))
            except FileNotFoundError:
                return []

        return self._bounded("list", listed)

    def read(self, names: Iterable[str]) -> dict[str, bytes | str]:
        wanted = list(names)
        paths = [f"{self._root}/{name}" for name in wanted]
        found = self._bounded("read from", lambda: self._fs.cat(paths, on_error="return") if paths else {})
        return {name: self._content(found.get(path)) for name, path in zip(wanted, paths, strict=True)}

    @staticmethod
    def _content(found: Any) -> bytes | str:
        if not isinstance(found, bytes):
            return f"it cannot be read: {found}"
        return found if len(found) <= MAX_BYTES else f"it is larger than {MAX_BYTES} bytes"

    def _bounded(self, what: str, call: Callable[[], T]) -> T:
        """Return what `call` returns; raise StoreError after TIMEOUT_S, because not every driver has a timeout."""
        done: list[T] = []
        failed: list[Exception] = []

        def work() -> None:
            try:
                done.append(call())
            except Exception as error:  # noqa: BLE001 - each driver has errors of its own
                failed.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(TIMEOUT_S)
        if failed:
            raise StoreError(f"cannot {what} {self._url}: {' '.join(str(failed[0]).split()) or type(failed[0]).__name__}")
        if not done:
            raise StoreError(f"cannot {what} {self._url}: no answer within {TIMEOUT_S:.0f} s")
        return done[0]
