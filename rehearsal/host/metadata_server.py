"""HTTP server of the instance metadata services: one request at a time on a loopback port (standard library only)."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import NoReturn

PATIENCE_S = 5
LONGEST_BYTES = 65_536
OK, CREATED, BAD, UNAUTHORIZED, FORBIDDEN, NOT_FOUND, NOT_ALLOWED, CONFLICT = 200, 201, 400, 401, 403, 404, 405, 409
WORDS = {
    OK: "OK", CREATED: "Created", BAD: "Bad Request", UNAUTHORIZED: "Unauthorized", FORBIDDEN: "Forbidden",
    NOT_FOUND: "Not Found", NOT_ALLOWED: "Method Not Allowed", CONFLICT: "Conflict",
}  # fmt: skip

#: Handler of a request: takes method, path, headers with lower-case names, and body; returns status and text.
Answers = Callable[[str, str, dict[str, str], bytes], tuple[int, str]]


def read(calling: socket.socket) -> tuple[str, str, dict[str, str], bytes]:
    """Read one request; return method, path, headers with lower-case names, and body.

    Raises:
        ValueError: the request is invalid or too long.
    """
    data = b""
    while b"\r\n\r\n" not in data:
        got = calling.recv(LONGEST_BYTES)
        data += got
        if not got or len(data) > LONGEST_BYTES:
            raise ValueError("no complete request arrived.")
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = int(headers.get("content-length", "0"))
    while len(body) < min(length, LONGEST_BYTES):
        got = calling.recv(LONGEST_BYTES)
        if not got:
            raise ValueError("the body ended early.")
        body += got
    return method, path, headers, body


def serve(answers: Answers, port: int, server: str) -> NoReturn:
    """Answer requests until this process is killed; `server` is the text of the header Server in each answer."""
    listening = socket.create_server(("127.0.0.1", port), backlog=64)
    while True:
        calling, _ = listening.accept()
        with calling:
            calling.settimeout(PATIENCE_S)
            try:
                status, text = answers(*read(calling))
                lines = [
                    f"HTTP/1.1 {status} {WORDS[status]}",
                    "Content-Type: text/plain",
                    f"Server: {server}",
                    "Connection: close",
                ]
                body = text.encode()
                calling.sendall("\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)
            except (OSError, ValueError, KeyError):
                continue
