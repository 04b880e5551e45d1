"""Implements Pulumi's provider protocol for a stand-in cloud."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2
from typing_extensions import override

from rehearsal.plugin import check, wire
from rehearsal.plugin.cloud import Cloud
from rehearsal.plugin.diff import Changes
from rehearsal.plugin.errors import PartlyCreatedError, Problem, RequestTimeoutError, ServiceError
from rehearsal.plugin.sdk import Sdk
from rehearsal.plugin.store import Record
from rehearsal.protocol import StopSignals

T = TypeVar("T")

#: Number of threads. The engine runs 4 operations per core at a time, and an operation that waits for a host keeps its thread.
_WORKERS = 32
_MESSAGE_BYTES = 400 << 20  # the engine's own limit
_PARENT_POLL_S = 0.5


class Provider(provider_pb2_grpc.ResourceProviderServicer, ABC):
    """The methods of the protocol, in the order of the protocol's definition; each cloud adds its vendor's part."""

    #: Version of the vendor's provider that this provider replaces.
    version = ""
    sdk: Sdk
    problem: type[Problem] = Problem

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    @abstractmethod
    def rules(self, token: str, inputs: Mapping[str, Any]) -> Iterable[Problem]:
        """Yield each violation of the vendor's documented rules that can be seen from the inputs without other resources.

        The types of the inputs are already checked.
        """

    def misconfigured(self, variables: Mapping[str, Any]) -> Iterable[Problem]:  # noqa: ARG002
        """Yield the problems for which the vendor's provider would refuse its own settings."""
        return ()

    def configure(self, variables: Mapping[str, Any]) -> None:
        """Apply the provider's own settings."""

    def defaults(self, token: str) -> Mapping[str, str | int | bool]:  # noqa: ARG002
        """Return the defaults of the vendor's provider for a type's missing inputs, by path.

        A path such as `rules[].options.code` applies to every item. If the parent of a path is missing, nothing is added.
        """
        return {}

    @abstractmethod
    def answer(self, token: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the result of a data source.

        Raises:
            KeyError: this cloud has no such data source.
            ServiceError: the service refused the arguments.
        """

    def outputs(self, record: Record) -> Mapping[str, Any]:
        """Return the outputs of a resource."""
        return self._cloud.kinds[record.token].outputs(record)

    @abstractmethod
    def changes(self, token: str, old: Mapping[str, Any], new: Mapping[str, Any], state: Mapping[str, Any]) -> Changes:
        """Return which inputs differ between `old` and `new`, and which of them require a replacement.

        `state` is the resource's last known state.
        """

    def unknown_after(self, token: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[str]:  # noqa: ARG002
        """Return the outputs that a preview of this update cannot know."""
        return ()

    @override
    def Handshake(self, request: Any, context: Any) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    @override
    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version=self.version)

    @override
    def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    @override
    def GetSchema(self, request: Any, context: Any) -> Any:
        return provider_pb2.GetSchemaResponse(schema=f'{{"name":"{self._cloud.name}","version":"{self.version}"}}')

    @override
    def CheckConfig(self, request: Any, context: Any) -> Any:
        problems = self.misconfigured(wire.loads(request.news))
        failures = [provider_pb2.CheckFailure(property=one.path, reason=one.sentence()) for one in problems]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    @override
    def DiffConfig(self, request: Any, context: Any) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    @override
    def Configure(self, request: Any, context: Any) -> Any:
        self.configure(wire.loads(request.args))
        self._guarded(context, self._cloud.recover)
        return provider_pb2.ConfigureResponse(acceptSecrets=False, supportsPreview=True, acceptResources=False)

    @override
    def Invoke(self, request: Any, context: Any) -> Any:
        def found() -> Mapping[str, Any]:
            try:
                return self.answer(request.tok, wire.loads(request.args))
            except KeyError:
                _unserved(context, request.tok)

        return provider_pb2.InvokeResponse(**{"return": wire.dumps(self._guarded(context, found))})

    @override
    def Check(self, request: Any, context: Any) -> Any:
        token = _token(request.urn)
        if token not in self._cloud.kinds:
            _unserved(context, token)
        news = struct_pb2.Struct()
        news.CopyFrom(request.news)
        for path, value in self.defaults(token).items():
            wire.fill(news, path, value)
        inputs = wire.loads(news)
        # Rules rely on types, so if the inputs do not match the SDK's types, only the mismatches are reported.
        problems = list(check.misfits(inputs, self.sdk.inputs(token), self.problem))
        if not problems:
            problems = [*self.rules(token, inputs), *self._cloud.problems(token, inputs, request.urn)]
        failures = [provider_pb2.CheckFailure(property=one.path, reason=one.sentence()) for one in problems]
        return provider_pb2.CheckResponse(inputs=news, failures=failures)

    @override
    def Diff(self, request: Any, context: Any) -> Any:
        news, state = wire.loads(request.news), wire.loads(request.olds)
        found = self.changes(_token(request.urn), wire.loads(request.old_inputs), news, state)
        ignored = set(request.ignoreChanges)
        changed = [path for path in found.changed if path not in ignored]
        replaced = [path for path in found.replaced if path not in ignored]
        kind = provider_pb2.PropertyDiff
        detailed = {path: kind(kind=kind.UPDATE, inputDiff=True) for path in changed}
        detailed |= {path: kind(kind=kind.UPDATE_REPLACE, inputDiff=True) for path in replaced}
        response = provider_pb2.DiffResponse
        return response(
            changes=response.DIFF_SOME if changed or replaced else response.DIFF_NONE,
            diffs=sorted({path.partition(".")[0] for path in [*changed, *replaced]}),
            replaces=sorted(set(replaced)),
            detailedDiff=detailed,
            hasDetailedDiff=bool(detailed),
        )

    @override
    def Create(self, request: Any, context: Any) -> Any:
        token = _token(request.urn)
        inputs = wire.loads(request.properties)
        if request.preview:
            later = dict.fromkeys(self.sdk.output_names(token), wire.UNKNOWN)
            return provider_pb2.CreateResponse(id="", properties=wire.dumps({**later, **inputs}))
        record = self._guarded(context, lambda: self._cloud.create(token, request.urn, inputs))
        return provider_pb2.CreateResponse(id=self._shown(record), properties=self._outputs(record))

    @override
    def Read(self, request: Any, context: Any) -> Any:
        record = self._guarded(context, lambda: self._cloud.read(self._key(request)))
        if record is None or record.token != _token(request.urn):
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(
            id=self._shown(record), properties=self._outputs(record), inputs=wire.dumps(record.inputs)
        )

    @override
    def Update(self, request: Any, context: Any) -> Any:
        inputs = wire.loads(request.news)
        if request.preview:
            later = self.unknown_after(_token(request.urn), wire.loads(request.old_inputs), inputs)
            foreseen = {**wire.loads(request.olds), **inputs, **dict.fromkeys(later, wire.UNKNOWN)}
            return provider_pb2.UpdateResponse(properties=wire.dumps(foreseen))
        record = self._guarded(context, lambda: self._cloud.update(self._key(request), inputs))
        return provider_pb2.UpdateResponse(properties=self._outputs(record))

    @override
    def Delete(self, request: Any, context: Any) -> Any:
        self._guarded(context, lambda: self._cloud.delete(self._key(request), request.timeout))
        return empty_pb2.Empty()

    @override
    def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    @override
    def GetMapping(self, request: Any, context: Any) -> Any:
        return provider_pb2.GetMappingResponse()

    @override
    def GetMappings(self, request: Any, context: Any) -> Any:
        return provider_pb2.GetMappingsResponse()

    def _shown(self, record: Record) -> str:
        return self._cloud.kinds[record.token].shown(record)

    def _key(self, request: Any) -> str:
        """Return the record's id for a request."""
        kind = self._cloud.kinds.get(_token(request.urn))
        return kind.key(request.id) if kind else str(request.id)

    def _outputs(self, record: Record) -> Any:
        return wire.dumps({**self.outputs(record), "id": self._shown(record)})

    def _guarded(self, context: Any, work: Callable[[], T]) -> T:
        """Run a call, and convert the service's errors to gRPC errors for the engine."""
        try:
            return work()
        except PartlyCreatedError as partly:
            _abort_partly(context, partly)
        except (ServiceError, RequestTimeoutError) as refused:
            context.abort(grpc.StatusCode.UNKNOWN, str(refused))
        raise AssertionError("abort does not return")


def _token(urn: str) -> str:
    """Return the resource type in a URN (`urn:pulumi:stack::project::parent$type::name`)."""
    return urn.split("::")[2].rpartition("$")[2] if urn else ""


def _unserved(context: Any, token: str) -> NoReturn:
    context.abort(grpc.StatusCode.UNIMPLEMENTED, f"The rehearsal does not support {token}.")
    raise AssertionError("abort does not return")


def _abort_partly(context: Any, partly: PartlyCreatedError) -> NoReturn:
    """Abort the call with an error after which the engine keeps the resource in the state, to repair or delete it later."""
    failed = provider_pb2.ErrorResourceInitFailed(
        id=partly.resource_id,
        properties=wire.dumps(partly.outputs),
        reasons=[partly.reason],
        inputs=wire.dumps(partly.inputs),
    )
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=partly.reason)
    status.details.add().Pack(failed)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, partly.reason)
    raise AssertionError("abort does not return")


def serve(provider: Provider) -> None:
    """Serve until a stop signal arrives or the engine has exited; print only the port."""
    stop = StopSignals()
    options = [("grpc.max_receive_message_length", _MESSAGE_BYTES), ("grpc.max_send_message_length", _MESSAGE_BYTES)]
    server = grpc.server(ThreadPoolExecutor(_WORKERS), options=options)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    parent = os.getppid()
    while not stop.wait(_PARENT_POLL_S) and os.getppid() == parent:
        pass
    # The next provider process finishes the work in progress, as a real cloud does after its client has gone.
    server.stop(grace=None)
    os._exit(0)
