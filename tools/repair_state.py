"""Repair a stack's state after an engine was killed, so that `up` and `down` work again: python -m tools.repair_state STACK.

A state file that was truncated (the disk was full) is restored from the backup that the engine makes before each write, and the
lock of an engine that has exited is removed. The lock of a running update stays, and so does everything in a backend that is
not a folder on this machine.
The files are the engine's (pulumi 3.259.0, pkg/backend/diy/state.go: stacks/PROJECT/STACK.json and STACK.json.bak).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

from tools.stack_commands import PROJECT, RefusedError, ended
from tools.unlock import locks, unlock


def restored(backend: str, stack: str) -> list[str]:
    """Restore states of `stack` that were truncated; return a sentence for each.

    Raises:
        RefusedError: the backup is truncated, too, or missing; or a file could not be read.
    """
    said = []
    for path in sorted(_folder(backend).glob(f".pulumi/stacks/{PROJECT}/{stack}.json")):
        if _is_whole(path):
            continue
        backup = path.with_name(f"{path.name}.bak")
        if not _is_whole(backup):
            bad = f"{path} is truncated, and its {backup.name} is {'truncated, too' if backup.exists() else 'missing'}"
            raise RefusedError(f"{bad}; import an older state with `pulumi stack import`")
        written = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(backup.stat().st_mtime))
        fresh = path.with_name(f"{path.name}.new")
        shutil.copyfile(backup, fresh)  # if the disk is still full, this fails and changes nothing
        fresh.replace(path)
        said.append(f"the state of {stack} was truncated (was the disk full?); it is restored from its backup of {written}")
    return said


def unlocked(backend: str, stack: str) -> list[str]:
    """Remove locks of engines that have exited; return a sentence if there were any."""
    try:
        return [unlock(backend, stack)] if locks(backend, stack) else []
    except RefusedError:
        return []  # the engine itself reports who holds the lock, and reading is still possible


def _folder(backend: str) -> Path:
    return Path(backend.removeprefix("file://")).expanduser()


def _is_whole(path: Path) -> bool:
    """Tell whether the file is a JSON object; an unreadable file may be whole, so it is not replaced by an older state."""
    try:
        return isinstance(json.loads(path.read_text()), dict)
    except (FileNotFoundError, ValueError):
        return False
    except OSError as error:
        raise RefusedError(f"{path} could not be read: {error.strerror}") from error


def main(argv: list[str]) -> int:
    """Repair the state of the stack that `argv` names; return an exit status."""
    if len(argv) != 1:
        sys.stderr.write(f"{__doc__}\n")
        return 2

    def work() -> None:
        backend = os.environ["PULUMI_BACKEND_URL"]
        if backend.startswith("file://"):
            for sentence in [*restored(backend, argv[0]), *unlocked(backend, argv[0])]:
                sys.stderr.write(f"busbar: {sentence}\n")

    return ended("repair_state", work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
