"""Start the command plugin: serve on a free port of the loopback interface, print the port, and stop when the engine exits."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import grpc

sys.path[0] = str(Path(__file__).resolve().parents[3])  # this folder's modules must not hide modules of the standard library

from rehearsal import protocol  # noqa: E402

protocol.start_fast()

from pulumi.runtime.proto import provider_pb2_grpc  # noqa: E402

from rehearsal.engine.command.provider import MESSAGE_SIZE_BYTES, Provider  # noqa: E402


async def serve() -> None:
    """Serve until the engine, which started this process, has exited."""
    sizes = [("grpc.max_receive_message_length", MESSAGE_SIZE_BYTES), ("grpc.max_send_message_length", -1)]
    server = grpc.aio.server(options=sizes)
    provider = Provider(sys.argv[1] if len(sys.argv) > 1 else "")
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 - nothing reports that a parent process exited
        await asyncio.sleep(0.5)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # the genuine plugin also exits at once, without a message
    asyncio.run(serve())
    os._exit(0)
