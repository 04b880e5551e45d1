"""Open an SSH connection as the genuine plugin does: with keys, pinned host keys, an agent, a proxy, and the same retries.

The genuine plugin is Pulumi's own command plugin. This module does not forward an agent, reads neither ssh configuration nor
known_hosts, and never prompts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar, cast

import asyncssh

from .calls import INFO, Call, CommandError
from .wire import Properties

T = TypeVar("T")
UNLIMITED = -1
FIRST_DELAY_S, DELAY_FACTOR, LONGEST_DELAY_S = 0.1, 1.5, 5.0
REJECTIONS = {1: "administratively prohibited", 2: "connect failed", 3: "unknown channel type", 4: "resource shortage"}


class DialError(Exception):
    """The failure of one attempt to connect; the exception's text is Go's message."""


@dataclass(frozen=True)
class Endpoint:
    """Address and user of a connection."""

    host: str
    port: int
    user: str
    limit: int  # number of failed attempts that are retried; UNLIMITED: every failed attempt is retried
    timeout_s: int  # for opening one TCP connection; 0: no timeout
    host_key: asyncssh.SSHKey | None
    key: asyncssh.SSHKey | None
    password: str | None
    agent_path: str | None

    @classmethod
    def of(cls, connection: Properties) -> Endpoint:
        """Read a connection or a proxy. Raises CommandError if a key cannot be read or the agent does not answer."""
        host_key = None
        if "hostKey" in connection:
            try:
                host_key = asyncssh.import_public_key(str(connection["hostKey"]))
            except asyncssh.KeyImportError:
                raise CommandError("failed to parse host key: ssh: no key found") from None
        key = _private_key(connection)
        agent_path = str(connection.get("agentSocketPath") or os.environ.get("SSH_AUTH_SOCK") or "") or None
        if agent_path is not None:
            _reach_agent(agent_path)
        return cls(
            host=str(connection["host"]),
            port=int(cast("float", connection.get("port", 22.0))),
            user=str(connection.get("user", "root")),
            limit=int(cast("float", connection.get("dialErrorLimit", 10.0))),
            timeout_s=int(cast("float", connection.get("perDialTimeout", 15.0))),
            host_key=host_key,
            key=key,
            password=cast("str | None", connection.get("password")),
            # Go tries each authentication method once: if there is a private key, Go never asks the agent for another key.
            agent_path=None if key is not None else agent_path,
        )


def _private_key(connection: Properties) -> asyncssh.SSHKey | None:
    if "privateKey" not in connection:
        return None
    text, passphrase = str(connection["privateKey"]), cast("str | None", connection.get("privateKeyPassword"))
    try:
        key = asyncssh.import_private_key(text)
    except asyncssh.KeyEncryptionError:
        passphrase = passphrase or ""
    except asyncssh.KeyImportError as error:
        if "passphrase" not in str(error).lower():
            raise CommandError("ssh: no key found") from None
    else:
        if passphrase is not None:
            raise CommandError("ssh: key is not password protected")
        return key
    if passphrase is None:
        raise CommandError("ssh: this private key is passphrase protected")
    try:
        return asyncssh.import_private_key(text, passphrase)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError):
        raise CommandError("x509: decryption password incorrect") from None


def _reach_agent(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as agent:
        try:
            agent.connect(path)
        except OSError as error:
            raise CommandError(f"dial unix {path}: connect: {_words(error)}") from None


def _words(error: OSError) -> str:
    return (os.strerror(error.errno) if error.errno else str(error)).lower()


@dataclass
class _Answers(asyncssh.SSHClient):
    """Answers the server's authentication requests; records the methods tried, because a refusal's message names them."""

    endpoint: Endpoint
    attempted: list[str] = field(default_factory=lambda: ["none"])

    def public_key_auth_requested(self) -> None:
        if self.endpoint.key is not None or self.endpoint.agent_path is not None:
            self.attempted.append("publickey")

    def password_auth_requested(self) -> str | None:
        return self._password("password")

    def kbdint_auth_requested(self) -> str | None:
        return "" if self._password("keyboard-interactive") is not None else None

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str]:
        del name, instructions, lang
        return [self.endpoint.password or ""] * len(prompts)

    def _password(self, method: str) -> str | None:
        if self.endpoint.password is None or method in self.attempted:
            return None
        self.attempted.append(method)
        return self.endpoint.password


async def _tcp(endpoint: Endpoint) -> socket.socket:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        raise DialError(f"dial tcp: lookup {endpoint.host}: no such host") from None
    last = DialError(f"dial tcp: lookup {endpoint.host}: no such host")
    for family, kind, protocol, _, address in found:
        tcp = socket.socket(family, kind, protocol)
        tcp.setblocking(False)
        host, port = str(address[0]), cast("int", address[1])
        where = f"[{host}]:{port}" if family == socket.AF_INET6 else f"{host}:{port}"
        try:
            await asyncio.wait_for(loop.sock_connect(tcp, address), endpoint.timeout_s or None)
        except TimeoutError:
            last = DialError(f"dial tcp {where}: i/o timeout")
        except OSError as error:
            last = DialError(f"dial tcp {where}: connect: {_words(error)}")
        else:
            return tcp
        tcp.close()
    raise last


@asynccontextmanager
async def _keys(endpoint: Endpoint) -> AsyncIterator[list[asyncssh.SSHKey | asyncssh.SSHKeyPair]]:
    """Yield the keys to try. The agent is queried here, because asyncssh itself would add the user's key files."""
    if endpoint.agent_path is None:
        yield [] if endpoint.key is None else [endpoint.key]
        return
    async with await asyncssh.connect_agent(endpoint.agent_path) as agent:
        yield list(await agent.get_keys())


async def _handshake(
    endpoint: Endpoint, *, tcp: socket.socket | None = None, proxy: asyncssh.SSHClientConnection | None = None
) -> asyncssh.SSHClientConnection:
    answers = _Answers(endpoint)
    pinned = [] if endpoint.host_key is None else [endpoint.host_key.get_algorithm()]
    where = {"sock": tcp} if tcp is not None else {"tunnel": proxy}
    try:
        async with _keys(endpoint) as keys:
            return await asyncssh.connect(
                endpoint.host,
                endpoint.port,
                username=endpoint.user,
                client_factory=lambda: answers,
                client_keys=keys or None,
                agent_path=None,
                agent_identities=None,
                agent_forwarding=False,
                known_hosts=None if endpoint.host_key is None else ([endpoint.host_key], [], []),
                server_host_key_algs=pinned or (),
                preferred_auth="publickey,password,keyboard-interactive",
                gss_host=None,
                config=None,
                login_timeout=0,
                connect_timeout=None,
                **where,
            )
    except asyncssh.ChannelOpenError as error:
        raise DialError(f"ssh: rejected: {REJECTIONS.get(error.code, 'unknown reason')} ({error.reason})") from None
    except asyncssh.HostKeyNotVerifiable:
        cause = "ssh: host key mismatch"
    except asyncssh.PermissionDenied:
        tried = " ".join(answers.attempted)
        cause = f"ssh: unable to authenticate, attempted methods [{tried}], no supported methods remain"
    except asyncssh.ConnectionLost:
        cause = "EOF"
    except (asyncssh.Error, OSError) as error:
        cause = str(error)
    raise DialError(f"ssh: handshake failed: {cause}")


async def _with_retry(call: Call, what: str, limit: int, attempt: Callable[[], Awaitable[T]]) -> T:
    delay_s, failed = FIRST_DELAY_S, 0
    while True:  # the first attempt is made even if the call has ended, as in the genuine plugin
        try:
            return await attempt()
        except DialError as error:
            last = error
        failed += 1
        if limit > UNLIMITED and failed > limit:
            raise CommandError(f"after {failed - 1} failed attempts: {last}")
        shown = "inf" if limit == UNLIMITED else str(limit)
        await call.log(INFO, f"{what} {failed}/{shown} failed: retrying", passing=True)
        if await call.until_over(asyncio.sleep(delay_s)):
            break
        delay_s = min(delay_s * DELAY_FACTOR, LONGEST_DELAY_S)
    raise call.ended()


async def _direct(endpoint: Endpoint) -> asyncssh.SSHClientConnection:
    return await _handshake(endpoint, tcp=await _tcp(endpoint))


@asynccontextmanager
async def dialled(call: Call, connection: Properties) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Connect, through a proxy if one is configured; disconnect at the end of the `async with` block. Raises CommandError."""
    endpoint = Endpoint.of(connection)
    if "proxy" not in connection:
        client = await _with_retry(call, "Dial", endpoint.limit, lambda: _direct(endpoint))
        async with _hanging_up(client):
            yield client
        return
    try:
        bastion = Endpoint.of(cast("Properties", connection["proxy"]))
        proxy = await _with_retry(call, "Dial proxy", bastion.limit, lambda: _direct(bastion))
    except CommandError as error:
        raise CommandError(f"proxy: {error}", error.code) from None
    async with _hanging_up(proxy):
        try:
            client = await _through(call, proxy, endpoint)
        except CommandError as error:
            raise CommandError(f"proxy: {error}", error.code) from None
        async with _hanging_up(client):
            yield client


async def _through(call: Call, proxy: asyncssh.SSHClientConnection, endpoint: Endpoint) -> asyncssh.SSHClientConnection:
    """Connect from the proxy to the endpoint.

    If the proxy fails to open a channel to the endpoint, the next attempt opens a new channel. As in the genuine plugin, a
    failed handshake is retried on the channel that the first handshake has used up, so the retries fail as well.
    """
    spent: list[DialError] = []

    async def hop() -> asyncssh.SSHClientConnection | None:
        try:
            return await _handshake(endpoint, proxy=proxy)
        except DialError as error:
            if not str(error).startswith("ssh: handshake failed"):
                raise
            spent.append(error)
            return None

    client = await _with_retry(call, "Dial from proxy", endpoint.limit, hop)

    async def handshake() -> asyncssh.SSHClientConnection:
        if client is not None:
            return client
        raise spent.pop() if spent else DialError("ssh: handshake failed: EOF")

    return await _with_retry(call, "Dial", endpoint.limit, handshake)


@asynccontextmanager
async def _hanging_up(connection: asyncssh.SSHClientConnection) -> AsyncIterator[None]:
    try:
        yield
    finally:
        connection.abort()
        with contextlib.suppress(asyncssh.Error, OSError, TimeoutError):
            await asyncio.wait_for(connection.wait_closed(), 2)
