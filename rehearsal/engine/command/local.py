"""Run a command on this machine, as command:local:Command and command:local:run do."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from pathlib import Path
from typing import cast

from .calls import Call, Transcript, previous_outputs
from .wire import Properties


async def run(call: Call, command: str, inputs: Properties, state: dict[str, str]) -> tuple[str, str]:
    """Run a command and return its output; `inputs` are plain values.

    Raises CommandError if the command cannot start or fails.
    """
    interpreter = cast("list[str]", inputs.get("interpreter") or ["/bin/sh", "-c"])
    transcript = Transcript(call, cast("str | None", inputs.get("logging")))
    environment = {**os.environ, **cast("dict[str, str]", inputs.get("environment") or {})}
    environment |= previous_outputs(state, wanted=inputs.get("addPreviousOutputInEnv") is not False)
    directory = str(inputs.get("dir") or Path.cwd())
    try:
        if call.over.is_set():
            raise transcript.failed(call.reason, command, call.ended().code)
        cause = _cannot_start(interpreter[0], directory)
        if cause:
            raise transcript.failed(cause, command)
        try:
            process = await asyncio.create_subprocess_exec(
                *interpreter,
                command,
                # Go looks for the program in the plugin's PATH, not in the command's PATH.
                executable=shutil.which(interpreter[0]) if "/" not in interpreter[0] else None,
                cwd=directory,
                env=environment,
                stdin=asyncio.subprocess.PIPE if inputs.get("stdin") else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise transcript.failed(f"fork/exec {interpreter[0]}: {(error.strerror or '').lower()}", command) from error
        await _attend(call, process, transcript, str(inputs.get("stdin") or ""))
        if transcript.too_long.is_set():
            raise transcript.too_long_a_line()
        if process.returncode:
            raise transcript.failed(_ending(process.returncode), command)
        return transcript.outputs()
    finally:
        await transcript.close()


def _cannot_start(program: str, directory: str) -> str:
    """Return why a program cannot start, in Go's words; "" if none of these reasons applies."""
    if not Path(directory).is_dir():
        return f"chdir {directory}: {'not a directory' if Path(directory).exists() else 'no such file or directory'}"
    if "/" not in program:
        return "" if shutil.which(program) else f'exec: "{program}": executable file not found in $PATH'
    if not Path(directory, program).exists():
        return f"fork/exec {program}: no such file or directory"
    return "" if os.access(Path(directory, program), os.X_OK) else f"fork/exec {program}: permission denied"


def _ending(code: int) -> str:
    if code > 0:
        return f"exit status {code}"
    return f"signal: {(signal.strsignal(-code) or str(-code)).lower()}"


async def _attend(call: Call, process: asyncio.subprocess.Process, transcript: Transcript, stdin: str) -> None:
    async def read(stream: asyncio.StreamReader | None, name: str) -> None:
        while stream is not None and (data := await stream.read(1 << 16)):
            transcript.write(name, data)

    async def kill_at(event: asyncio.Event) -> None:
        await event.wait()
        if process.returncode is None:
            process.kill()

    watches = [asyncio.ensure_future(kill_at(event)) for event in (call.over, transcript.too_long)]
    if process.stdin is not None:
        process.stdin.write(stdin.encode())
        process.stdin.close()
    try:
        await asyncio.gather(read(process.stdout, "stdout"), read(process.stderr, "stderr"), process.wait())
    finally:
        for watch in watches:
            watch.cancel()
