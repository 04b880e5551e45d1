"""HTTPS server for a cloud's own endpoints: one process, with one thread per connection, that serves until it is killed."""

from __future__ import annotations

import contextlib
import json
import ssl
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any

from typing_extensions import override

from rehearsal.host import authority
from rehearsal.net import services
from rehearsal.world.world import World

_LONGEST_BYTES = 4 << 20
#: An idle connection is closed after this long; no vendor keeps an idle connection open for longer.
_PATIENCE_S = 60


@dataclass(frozen=True)
class Request:
    """One request; `target` is path and query as sent, and header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    """One answer. A `body` of bytes is sent unchanged, text as XML, other values as JSON; None means no body."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def content(self) -> tuple[bytes, str]:
        """Return the body's bytes and type."""
        if isinstance(self.body, bytes):
            return self.body, "application/octet-stream"
        if isinstance(self.body, str):
            return self.body.encode(), "text/xml;charset=UTF-8"
        return (b"" if self.body is None else json.dumps(self.body).encode()), "application/json"


class Silence(Exception):  # noqa: N818 - not an error: the service does not answer
    """The service does not answer this request."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    @override
    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's method looks up the server's host name, but no name service is reachable


def serve(
    world: World, cloud: str, answer: Callable[[Request], Answer], plain: Callable[[Request], Answer] | None = None
) -> None:
    """Serve at the cloud's announced address until the process is killed; `plain`, if given, handles requests over http.

    Raises:
        OSError: another program listens at this address.
    """
    service = services.announced(world, cloud)
    if plain:
        by_http = _Server((service.address, services.PLAIN_PORT), _handler(plain))
        threading.Thread(target=by_http.serve_forever, daemon=True).start()
    server = _Server((service.address, services.PORT), _handler(answer))
    context = _context(world, service.names)
    context.sni_callback = _by_name(world, cloud, {})
    # Each connection's own thread does the handshake, so that no client can block the others.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with services.listening(world, cloud):
        server.serve_forever()


def _context(world: World, names: tuple[str, ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = authority.issue(world, names, Path(folder))
        context.load_cert_chain(certificate, key)
    return context


def _by_name(
    world: World, cloud: str, known: dict[str, ssl.SSLContext]
) -> Callable[[ssl.SSLObject, str, ssl.SSLContext], None]:
    """Return a callback that presents the certificate for the name that a client requests.

    The name may have been announced after the server started.
    """

    def choose(calling: ssl.SSLObject, name: str, _: ssl.SSLContext) -> None:
        if name in services.announced(world, cloud).names:  # a caller that sends no known name keeps the first certificate
            known[name] = known.get(name) or _context(world, (name,))
            calling.context = known[name]

    return choose


def _handler(answer: Callable[[Request], Answer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _PATIENCE_S

        def _do(self) -> None:
            length = self.headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > _LONGEST_BYTES:
                self.send_error(413)
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, self.rfile.read(int(length)))
            try:
                said = answer(request)
            except Silence:
                self.close_connection = True
                with contextlib.suppress(OSError):
                    self.rfile.read(1)  # wait until the caller gives up or the connection times out
                return
            except Exception:  # noqa: BLE001 - a service continues after an internal error
                traceback.print_exc(file=sys.stderr)
                said = Answer(500, {"code": "InternalServerError", "message": "An internal server error has occurred."})
            content, kind = said.content()
            self.send_response(said.status)
            for name, value in {**said.headers, "Content-Type": kind, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _do  # noqa: N815 - http.server looks for these names

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class uses this name
            """Do not log requests; unexpected errors are written to standard error."""

    return Handler
