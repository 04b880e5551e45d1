"""Run a command on another machine over SSH, as command:remote:Command does."""

from __future__ import annotations

import asyncio
from typing import cast

import asyncssh
from asyncssh.channel import SSHClientChannel

from .calls import ERROR, WARNING, Call, CommandError, Transcript, previous_outputs
from .dial import dialled
from .wire import Properties

SIGNALS = {"ABRT": 6, "ALRM": 14, "FPE": 8, "HUP": 1, "ILL": 4, "INT": 2, "KILL": 9, "PIPE": 13, "QUIT": 3}
SIGNALS |= {"SEGV": 11, "TERM": 15}
WINDOW_BYTES, PACKET_BYTES = 2 * 1024 * 1024, 32768


class _Session(asyncssh.SSHClientSession[bytes]):
    """Collects the command's output and exit status."""

    def __init__(self, transcript: Transcript) -> None:
        self.status: int | None = None
        self.signal = self.reason = ""
        self.closed = asyncio.Event()
        self._transcript = transcript

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._transcript.write("stderr" if datatype == asyncssh.EXTENDED_DATA_STDERR else "stdout", data)

    def exit_status_received(self, status: int) -> None:
        self.status = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        del core_dumped, lang
        self.signal, self.reason = signal, msg

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.closed.set()

    def ending(self) -> str:
        """Return how the command failed, in Go's words; "" if the command succeeded."""
        if self.status is None and not self.signal:
            return "wait: remote command exited without exit status or exit signal"
        status = self.status or (128 + SIGNALS.get(self.signal, 0) if self.signal else 0)
        if not status:
            return ""
        by = f" from signal {self.signal}" if self.signal else ""
        return f"Process exited with status {status}{by}" + (f". Reason was: {self.reason}" if self.reason else "")


class _Channel(SSHClientChannel[bytes]):
    """A channel that waits until the server has accepted or refused each environment variable; then the command starts.

    asyncssh sends variables without asking whether the server accepts them; the genuine plugin asks. If the server refuses a
    variable of the input `environment`, the call fails. Other variables contain what the resource's previous command printed;
    if the server refuses one of these, the call only logs a warning.
    """

    def __init__(self, connection: asyncssh.SSHClientConnection, call: Call, optional: set[str]) -> None:
        super().__init__(connection, asyncio.get_running_loop(), "strict", None, "strict", WINDOW_BYTES, PACKET_BYTES)
        self._call, self._optional = call, optional
        self._answers: list[asyncio.Future[bool]] = []

    def _send_request(self, request: bytes, *args: bytes, want_reply: bool = False) -> None:
        if request == b"env":
            answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._request_waiters.append(answer)
            self._answers.append(answer)
            want_reply = True
        super()._send_request(request, *args, want_reply=want_reply)

    async def _make_request(self, request: bytes, *args: bytes) -> bool | None:
        if request == b"exec":
            for name, answer in zip([key.decode() for key in self._env], self._answers, strict=True):
                if not await answer:
                    await self._refused(name)
        return await super()._make_request(request, *args)

    async def _refused(self, name: str) -> None:
        message = (
            f"Unable to set '{name}'. This only works if your SSH server is configured to accept\n"
            "\tthese variables via AcceptEnv. Alternatively, if a Bash-like shell runs the command on the remote host, "
            "you could\n\tprefix the command itself with the variables in the form 'VAR=value command'"
        )
        await self._call.log(WARNING if name in self._optional else ERROR, message)
        if name not in self._optional:
            raise CommandError(f'could not set environment variable "{name}": ssh: setenv failed')


async def run(call: Call, command: str, inputs: Properties, state: dict[str, str]) -> tuple[str, str]:
    """Run a command and return its output; `inputs` are plain values.

    Raises CommandError if the command cannot start or fails.
    """
    environment = cast("dict[str, str]", inputs.get("environment") or {})
    before = previous_outputs(state, wanted=inputs.get("addPreviousOutputInEnv") is not False)
    async with dialled(call, cast("Properties", inputs["connection"])) as connection:
        transcript = Transcript(call, cast("str | None", inputs.get("logging")))
        session = _Session(transcript)
        channel = _Channel(connection, call, set(before) - set(environment))
        try:
            variables = {name.encode(): value.encode() for name, value in {**environment, **before}.items()}
            await channel.create(
                lambda: session,
                command,
                None,
                variables,
                False,
                None,
                None,
                {},
                False,
                None,
                None,
                False,
                False,
            )
            if inputs.get("stdin"):
                channel.write(str(inputs["stdin"]).encode())
            channel.write_eof()
            await _first(session.closed, transcript.too_long)
        except asyncssh.ChannelOpenError as error:
            raise CommandError(f"ssh: rejected: {error.reason}") from None
        except (asyncssh.Error, OSError) as error:
            raise transcript.failed(f"ssh: {error}", command) from None
        finally:
            await transcript.close()
        if transcript.too_long.is_set():
            raise transcript.too_long_a_line()
        ending = session.ending()
        if ending:
            raise transcript.failed(ending, command)
        return transcript.outputs()


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
