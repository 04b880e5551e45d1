"""Copies a measurement's transcript from the head node to the history, where the copy outlives the cluster as evidence."""

from __future__ import annotations

import gzip
import hashlib
import re
import shlex
import subprocess
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.records.store import StoreError, store

if TYPE_CHECKING:
    from collections.abc import Callable

#: Folder of the history that contains the transcripts; each is named by the sha256 of its text.
FOLDER = "evidence"
#: A larger file is not copied. Transcripts of hundreds of nodes have only a few megabytes.
_MAX_BYTES = 64 * 1024 * 1024
_TIMEOUT_S = 120
#: The first line of a retest's transcript; this line names the transcript of the first measurement.
_FIRST = re.compile(r"# busbar: measured a second time; the first is ([0-9a-f]{64}) \((/\S+)\)")
#: ssh accepts only keys that the stack pinned, and never prompts.
_CONFIG = """Host *
  UserKnownHostsFile {known}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 10
  LogLevel ERROR
"""


class TranscriptError(RuntimeError):
    """A transcript could not be copied; the message gives the reason in one sentence."""


def bring(
    shell: str, known_hosts: str, evidence: dict[str, str], history: str, read: Callable[[str, str, str], bytes] | None = None
) -> str:
    """Copy the transcript `evidence` to the history; return the copy's path.

    With the transcript of a retest, the transcript of the first measurement is copied, too.

    Args:
        shell: the command that opens a shell on the head node; it begins with ssh.
        known_hosts: lines that pin the host keys of the machines on the way.
        evidence: the path on the head node, and the sha256 of the text.
        history: a path or a URL that fsspec knows. Transcripts that the history already has are not copied again.
        read: a function that replaces ssh; its arguments are shell, known_hosts and path.

    Raises:
        TranscriptError: the transcript was not copied.
    """
    name = _name(evidence["sha256"])
    try:
        place = store(history)
        if name.partition("/")[2] not in place.names(FOLDER):
            data = (read or _over_ssh)(shell, known_hosts, evidence["path"])
            text = _checked(data, evidence["sha256"])
            if first := _FIRST.match(text[:1000].decode("utf-8", "replace")):
                bring(shell, known_hosts, {"sha256": first[1], "path": first[2]}, history, read)
            place.add(name, data)
    except StoreError as error:
        raise TranscriptError(str(error)) from None
    return f"{history.rstrip('/')}/{name}"


def _name(sha256: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise TranscriptError(f"{sha256!r} is not the sha256 of a transcript")
    return f"{FOLDER}/{sha256}.txt.gz"


def _checked(data: bytes, sha256: str) -> bytes:
    """Return the text of the compressed transcript `data`; the text must have the given sha256."""
    try:
        text = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise TranscriptError(f"it cannot be read: {error}") from None
    if hashlib.sha256(text).hexdigest() != sha256:
        raise TranscriptError("its sha256 is not the sha256 that the measurement reported")
    return text


def _over_ssh(shell: str, known_hosts: str, path: str) -> bytes:
    """Return the file at `path` of the head node."""
    with tempfile.TemporaryDirectory(prefix="busbar-") as folder:
        known, config = Path(folder) / "known_hosts", Path(folder) / "config"
        known.write_text(f"{known_hosts}\n")
        config.write_text(_CONFIG.format(known=known))
        ssh, *words = shlex.split(shell)
        command = f"head -c {_MAX_BYTES + 1} {shlex.quote(path)}"
        try:
            done = subprocess.run(
                [ssh, "-F", str(config), *words, command],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TranscriptError(f"ssh failed: {error}") from None
    if done.returncode != 0:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[-300:]
        raise TranscriptError(f"ssh ended with {done.returncode}: {said}")
    if len(done.stdout) > _MAX_BYTES:
        raise TranscriptError(f"it is larger than {_MAX_BYTES} bytes")
    return done.stdout
