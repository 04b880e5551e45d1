"""Serve pulumirpc.ResourceProvider with the behaviour of the command plugin 1.2.1.

This plugin implements command:local:Command, command:remote:Command, command:remote:CopyToRemote and command:local:run. It
intentionally differs from Pulumi's own plugin (the genuine plugin) in four points: it refuses `assetPaths`, `archivePaths` and
the deprecated CopyFile; it fails on a logged line of 64 KiB, where the genuine plugin would hang; it closes connections after
use; and its schema has no types. This plugin keeps no state of resources.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2_grpc, plugin_pb2, provider_pb2, provider_pb2_grpc

from . import differences, local, shapes
from .calls import Call, CommandError
from .shapes import Shape
from .wire import UNKNOWN, Properties, has_asset, has_unknown, plain, read, write

VERSION = "1.2.1"
# The genuine plugin writes this version into the provider's inputs. A stack's state must not show which plugin wrote the state.
FRAMEWORK_KEY, FRAMEWORK_VERSION = "__pulumi-go-provider-version", "1.2.0"
MESSAGE_SIZE_BYTES = 400 * 1024 * 1024
SHAPES = {
    "command:local:Command": shapes.LOCAL_COMMAND,
    "command:remote:Command": shapes.REMOTE_COMMAND,
    "command:remote:CopyToRemote": shapes.COPY_TO_REMOTE,
}


class Provider(provider_pb2_grpc.ResourceProviderServicer):
    """The plugin's side of the protocol."""

    def __init__(self, engine_address: str) -> None:
        self._calls: set[Call] = set()
        self._cancelled = False
        self._engine: engine_pb2_grpc.EngineStub | None = None
        if engine_address:
            self.attach(engine_address)

    def attach(self, engine_address: str) -> None:
        """Send log messages to this engine from now on."""
        options = [("grpc.max_send_message_length", MESSAGE_SIZE_BYTES)]
        self._engine = engine_pb2_grpc.EngineStub(grpc.aio.insecure_channel(engine_address, options=options))

    @asynccontextmanager
    async def _call(self, context: grpc.aio.ServicerContext, urn: str = "", timeout_s: float = 0) -> AsyncIterator[Call]:
        """Run one call. The engine can cancel the call, and gets a CommandError with the genuine plugin's status code."""
        call = Call(urn, self._engine)
        if self._cancelled:
            call.end("context canceled")
        timer = None
        if timeout_s > 0:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(int(timeout_s), call.end, "context deadline exceeded")
        self._calls.add(call)
        try:
            yield call
        except CommandError as error:
            await context.abort(error.code, str(error))
        finally:
            self._calls.discard(call)
            if timer:
                timer.cancel()

    async def GetPluginInfo(  # noqa: N802 - the protocol's names
        self, request: empty_pb2.Empty, context: grpc.aio.ServicerContext
    ) -> plugin_pb2.PluginInfo:
        """Return the version of the genuine plugin, which this plugin replaces."""
        del request, context
        return plugin_pb2.PluginInfo(version=VERSION)

    async def Attach(  # noqa: N802
        self, request: plugin_pb2.PluginAttach, context: grpc.aio.ServicerContext
    ) -> empty_pb2.Empty:
        """Take the address of another engine, which gets the log messages from now on."""
        del context
        self.attach(request.address)
        return empty_pb2.Empty()

    async def GetSchema(  # noqa: N802
        self, request: provider_pb2.GetSchemaRequest, context: grpc.aio.ServicerContext
    ) -> provider_pb2.GetSchemaResponse:
        """Return only the package's name and version, because programs get the types from the installed SDK."""
        del request, context
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": "command", "version": VERSION}))

    async def CheckConfig(  # noqa: N802
        self, request: provider_pb2.CheckRequest, context: grpc.aio.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Accept the provider's own inputs."""
        del context
        return provider_pb2.CheckResponse(inputs=write({**read(request.news), FRAMEWORK_KEY: FRAMEWORK_VERSION}))

    async def DiffConfig(  # noqa: N802
        self, request: provider_pb2.DiffRequest, context: grpc.aio.ServicerContext
    ) -> None:
        """Leave the comparison of the provider's own inputs to the engine."""
        del request
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "DiffConfig is not implemented")

    async def Configure(  # noqa: N802
        self, request: provider_pb2.ConfigureRequest, context: grpc.aio.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        """Tell the engine that it may send secrets and preview creations and updates."""
        del request, context
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    async def Check(  # noqa: N802
        self, request: provider_pb2.CheckRequest, context: grpc.aio.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Return the inputs with defaults filled in, and the problems found in them."""
        shape = await _shape(request.urn, context)
        inputs, failures = shapes.check(shape, read(request.news))
        told = [provider_pb2.CheckFailure(property=one.property, reason=one.reason) for one in failures]
        return provider_pb2.CheckResponse(inputs=write(inputs), failures=told)

    async def Diff(  # noqa: N802
        self, request: provider_pb2.DiffRequest, context: grpc.aio.ServicerContext
    ) -> provider_pb2.DiffResponse:
        """Return which inputs changed; the engine decides what follows from that."""
        shape = await _shape(request.urn, context)
        state = read(request.olds)
        new = _ignoring(request.ignoreChanges, state, read(request.news))
        found = differences.differences(shape, read(request.old_inputs), new)
        some = provider_pb2.DiffResponse.DIFF_SOME if found else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=some,
            diffs=sorted({differences.top(path) for path in found}),
            replaces=sorted({differences.top(path) for path, kind in found.items() if kind % 2}),
            detailedDiff={path: provider_pb2.PropertyDiff(kind=cast("Any", kind)) for path, kind in found.items()},
            hasDetailedDiff=True,
        )

    async def Create(  # noqa: N802
        self, request: provider_pb2.CreateRequest, context: grpc.aio.ServicerContext
    ) -> provider_pb2.CreateResponse:
        """Run the `create` command; for CopyToRemote, copy."""
        shape = await _shape(request.urn, context)
        inputs, known = read(request.properties), cast("Properties", plain(read(request.properties)))
        is_copy = shape is shapes.COPY_TO_REMOTE
        identifier = secrets.token_hex(4) if is_copy else request.urn.rpartition("::")[2] + secrets.token_hex(4)
        async with self._call(context, request.urn, request.timeout) as call:
            if request.preview:
                outputs: Properties = {} if is_copy else {"stdout": UNKNOWN, "stderr": UNKNOWN}
                uncertain = {key: UNKNOWN if has_asset(value) else value for key, value in inputs.items()}
                return provider_pb2.CreateResponse(id="" if is_copy else identifier, properties=write({**uncertain, **outputs}))
            if is_copy:
                await _copy(call, known)
                return provider_pb2.CreateResponse(id=identifier, properties=write(inputs))
            written = await _run(call, shape, known.get("create"), known, {})
            return provider_pb2.CreateResponse(id=identifier, properties=write({**inputs, **written}))
        raise AssertionError  # never reached: the block above returns, or answers with an error

    async def Read(  # noqa: N802
        self, request: provider_pb2.ReadRequest, context: grpc.aio.ServicerContext
    ) -> provider_pb2.ReadResponse:
        """Return the state that the engine sent, because nothing can be read back."""
        del context
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    async def Update(  # noqa: N802
        self, request: provider_pb2.UpdateRequest, context: grpc.aio.ServicerContext
    ) -> provider_pb2.UpdateResponse:
        """Run the `update` command, or else `create`; for CopyToRemote, copy again if the content or remote path changed."""
        shape = await _shape(request.urn, context)
        state = read(request.olds)
        inputs = _ignoring(request.ignoreChanges, state, read(request.news))
        known, before = cast("Properties", plain(inputs)), cast("Properties", plain(state))
        is_copy = shape is shapes.COPY_TO_REMOTE
        async with self._call(context, request.urn, request.timeout) as call:
            if request.preview:
                kept: Properties = {} if is_copy else {key: before.get(key, "") for key in ("stdout", "stderr")}
                if _may_change(shape, state, inputs):
                    kept = dict.fromkeys(kept, UNKNOWN)
                uncertain = {key: UNKNOWN if has_asset(value) else value for key, value in inputs.items()}
                return provider_pb2.UpdateResponse(properties=write({**uncertain, **kept}))
            if is_copy:
                if _hash(known) != _hash(before) or known["remotePath"] != before["remotePath"]:
                    await _copy(call, known)
                return provider_pb2.UpdateResponse(properties=write(inputs))
            command = known.get("update", known.get("create"))
            written = await _run(call, shape, command, known, _strings(before))
            return provider_pb2.UpdateResponse(properties=write({**inputs, **written}))
        raise AssertionError  # never reached: the block above returns, or answers with an error

    async def Delete(  # noqa: N802
        self, request: provider_pb2.DeleteRequest, context: grpc.aio.ServicerContext
    ) -> empty_pb2.Empty:
        """Run the `delete` command, if any; what CopyToRemote has copied stays."""
        shape = await _shape(request.urn, context)
        known = cast("Properties", plain(read(request.properties)))
        async with self._call(context, request.urn, request.timeout) as call:
            if shape is not shapes.COPY_TO_REMOTE:
                await _run(call, shape, known.get("delete"), known, _strings(known))
        return empty_pb2.Empty()

    async def Invoke(  # noqa: N802
        self, request: provider_pb2.InvokeRequest, context: grpc.aio.ServicerContext
    ) -> provider_pb2.InvokeResponse:
        """Run a local command now."""
        name = request.tok.partition(":")[2]
        if name != "local:run":
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Invoke '{name}' not found")
        given, failures = shapes.check(shapes.LOCAL_RUN, read(request.args))
        if failures:
            told = [provider_pb2.CheckFailure(property=one.property, reason=one.reason) for one in failures]
            return provider_pb2.InvokeResponse(failures=told)
        known = cast("Properties", plain(given))
        async with self._call(context) as call:
            stdout, stderr = await local.run(call, str(known["command"]), known, {})
            return provider_pb2.InvokeResponse(**{"return": write({**given, "stdout": stdout, "stderr": stderr})})
        raise AssertionError  # never reached: the block above returns, or answers with an error

    async def Cancel(self, request: empty_pb2.Empty, context: grpc.aio.ServicerContext) -> empty_pb2.Empty:  # noqa: N802
        """End running calls early, except calls that already work on a remote machine, and end every later call at once."""
        del request, context
        self._cancelled = True
        for call in list(self._calls):
            call.end("context canceled")
        return empty_pb2.Empty()


async def _shape(urn: str, context: grpc.aio.ServicerContext) -> Shape:
    token = urn.split("::")[2].rpartition("$")[2]
    if token == "command:remote:CopyFile":  # noqa: S105 - a type token
        reason = "this stand-in for the command plugin does not carry out CopyFile: use CopyToRemote"
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, reason)
    if token not in SHAPES:
        await context.abort(grpc.StatusCode.NOT_FOUND, f"Resource '{token.partition(':')[2]}' not found")
    return SHAPES[token]


# The SSH library is imported only when needed: importing it takes longer than the rest of this process's start, and few
# operations use it.
async def _copy(call: Call, known: Properties) -> None:
    from . import copy_to_remote  # noqa: PLC0415

    await copy_to_remote.copy(call, known)


async def _run(call: Call, shape: Shape, command: object, inputs: Properties, before: dict[str, str]) -> dict[str, str]:
    """Run a command and return its outputs; without a command, return the previous outputs in `before`."""
    if command is None:
        return {"stdout": before.get("stdout", ""), "stderr": before.get("stderr", "")}
    if shape is shapes.LOCAL_COMMAND:
        stdout, stderr = await local.run(call, str(command), inputs, before)
    else:
        from . import remote  # noqa: PLC0415

        stdout, stderr = await remote.run(call, str(command), inputs, before)
    return {"stdout": stdout, "stderr": stderr}


def _ignoring(ignored: list[str], state: Properties, inputs: Properties) -> Properties:
    return {**inputs, **{name: state[name] for name in ignored if name in state}}


def _may_change(shape: Shape, state: Properties, inputs: Properties) -> bool:
    """Tell whether outputs may change: an input is unknown, or differs from the state."""
    return any(
        has_unknown(inputs.get(name)) or (name in state and not differences.equal(state[name], inputs.get(name)))
        for name in shape.properties
    )


def _hash(inputs: Properties) -> object:
    source = inputs.get("source")
    return source.get("hash") if isinstance(source, dict) else None


def _strings(state: Properties) -> dict[str, str]:
    return {key: value for key, value in state.items() if isinstance(value, str)}
