"""One call by the engine: the call's log messages and early end, and the wording of failures.

A call ends early if the engine cancels the call or the call's time limit is reached. As in Pulumi's own command plugin (the
genuine plugin), an early end stops dialling and local commands, but does not interrupt a running remote command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

DEBUG, INFO, WARNING, ERROR = 0, 1, 2, 3
LINE_LIMIT_BYTES = 64 * 1024  # limit of Go's bufio.Scanner: at a line of this length, the genuine plugin stops reading


class CommandError(Exception):
    """The failure of a call; the exception's text is what the engine shows."""

    def __init__(self, message: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> None:
        super().__init__(message)
        self.code = code


@dataclass(eq=False)
class Call:
    """One running call of the engine: sends log messages to the engine, and can end early.

    Attributes:
        over: set when the call ends early.
        reason: why the call ended early, in Go's words.
    """

    urn: str
    engine: engine_pb2_grpc.EngineStub | None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = "context canceled"

    def end(self, reason: str) -> None:
        """Make the call end early."""
        if not self.over.is_set():
            self.reason = reason
            self.over.set()

    def ended(self) -> CommandError:
        """Return the failure of a call that ended early."""
        timed_out = self.reason == "context deadline exceeded"
        return CommandError(self.reason, grpc.StatusCode.DEADLINE_EXCEEDED if timed_out else grpc.StatusCode.CANCELLED)

    async def until_over(self, work: Awaitable[None]) -> bool:
        """Wait for the work or for the early end of the call; return whether the call has ended early."""
        task, end = asyncio.ensure_future(work), asyncio.ensure_future(self.over.wait())
        await asyncio.wait({task, end}, return_when=asyncio.FIRST_COMPLETED)
        for one in (task, end):
            one.cancel()
        return self.over.is_set()

    async def log(self, severity: int, message: str, *, passing: bool = False) -> None:
        """Send a message to the engine; if `passing` is true, the engine shows the message only in the live view."""
        if self.engine is None:
            return
        request = engine_pb2.LogRequest(severity=cast("Any", severity), message=message, urn=self.urn, ephemeral=passing)
        try:
            await self.engine.Log(request, timeout=10)
        except grpc.RpcError:
            return  # an engine that no longer listens will terminate this process soon


class Transcript:
    """A command's output: each stream by itself, and both streams together in order of arrival.

    Lines of the streams that `logging` selects (by default, both) are also sent live to the engine.
    """

    def __init__(self, call: Call, logging: str | None) -> None:
        self.stdout, self.stderr, self.both = bytearray(), bytearray(), bytearray()
        self._call = call
        self._shown = {"stdout": logging in (None, "stdout", "stdoutAndStderr")}
        self._shown["stderr"] = logging in (None, "stderr", "stdoutAndStderr")
        self._line = bytearray()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._shower = asyncio.ensure_future(self._show())
        self.too_long = asyncio.Event()

    async def _show(self) -> None:
        while (line := await self._lines.get()) is not None:
            await self._call.log(INFO, line, passing=True)

    def write(self, stream: str, data: bytes) -> None:
        """Add data that arrived on a stream to the transcript."""
        (self.stdout if stream == "stdout" else self.stderr).extend(data)
        self.both.extend(data)
        if not self._shown[stream]:
            return
        self._line.extend(data)
        *lines, rest = bytes(self._line).split(b"\n")
        self._line = bytearray(rest)
        for line in lines:
            self._lines.put_nowait(line.removesuffix(b"\r").decode(errors="replace"))
        if max(len(line) for line in (*lines, rest)) >= LINE_LIMIT_BYTES:
            self.too_long.set()

    async def close(self) -> None:
        """Send the unfinished last line, and wait until the engine has received every line."""
        if self._line:
            self._lines.put_nowait(bytes(self._line).decode(errors="replace"))
        self._lines.put_nowait(None)
        await self._shower

    def outputs(self) -> tuple[str, str]:
        """Return both streams, each without one trailing newline."""
        try:
            stdout, stderr = (bytes(one).removesuffix(b"\n").decode() for one in (self.stdout, self.stderr))
        except UnicodeDecodeError:
            message = "grpc: error while marshaling: string field contains invalid UTF-8"
            raise CommandError(message, grpc.StatusCode.INTERNAL) from None
        return stdout, stderr

    def failed(self, cause: str, command: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN) -> CommandError:
        """Return the failure of a command: its cause, the command and all its output."""
        return CommandError(f"{cause}: running {quoted(command)}:\n{self.both.decode(errors='replace')}", code)

    def too_long_a_line(self) -> CommandError:
        """Return the failure of a command that wrote a line too long for the log."""
        return CommandError(
            f"a line of {LINE_LIMIT_BYTES} bytes or more was written while output is logged: the genuine command plugin "
            "would wait for ever here; write shorter lines or set `logging` to `none`"
        )


_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def quoted(text: str) -> str:
    """Return text as Go's %q formats it."""
    shown = []
    for one in text:
        point = ord(one)
        if one in '"\\':
            shown.append("\\" + one)
        elif one.isprintable():
            shown.append(one)
        elif point < 0x80:  # noqa: PLR2004 - ASCII
            shown.append(_ESCAPES.get(one, f"\\x{point:02x}"))
        else:
            shown.append(f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}")  # noqa: PLR2004 - 16 bits
    return '"' + "".join(shown) + '"'


def previous_outputs(state: dict[str, str], *, wanted: bool) -> dict[str, str]:
    """Return the environment variables with the previous command's output; an empty dict if `wanted` is false."""
    names = {"PULUMI_COMMAND_STDOUT": "stdout", "PULUMI_COMMAND_STDERR": "stderr"}
    return {name: state[key] for name, key in names.items() if wanted and state.get(key)}
