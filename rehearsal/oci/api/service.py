"""Handles one request to the rehearsed OCI API, from the check of its signature to its answer."""

from __future__ import annotations

import json
import secrets
import sys
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from rehearsal.oci.api import end_point, signatures
from rehearsal.oci.api.core import ROUTES, Call, Core
from rehearsal.oci.api.federation import Federation, Session
from rehearsal.oci.api.signatures import NotAuthenticatedError
from rehearsal.oci.cloud import Cloud
from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.launch import INSTANCE
from rehearsal.plugin.errors import RequestTimeoutError, ServiceError
from rehearsal.plugin.https_service import Answer, Request, Silence

_VERSION = "/20160918"
_TOKENS = "/v1/x509"
_UNAUTHENTICATED = Problem(
    "", "The required information to complete authentication was not provided or was incorrect.", 401, "NotAuthenticated"
)
#: Message of a refusal that has two possible causes. Like the vendor's message, it names neither the cause nor the resource.
_NOT_FOUND = "Authorization failed or requested resource not found."


class Service:
    """The endpoints of one world's region."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._core, self._federation = Core(cloud), Federation(cloud.world)

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request; a refusal is an answer, too.

        Raises:
            Silence: a fault keeps the service from answering.
        """
        try:
            said = self._answer(request)
        except NotAuthenticatedError as wrong:
            sys.stderr.write(f"{request.method} {request.target}: not authenticated: {wrong}\n")
            said = _refusal(_UNAUTHENTICATED)
        except ServiceError as refused:
            said = _refusal(refused.problem)
        except RequestTimeoutError:
            raise Silence from None
        return Answer(said.status, said.body, {"opc-request-id": secrets.token_hex(16).upper(), **said.headers})

    def _answer(self, request: Request) -> Answer:
        place, parts = request.headers.get("host", ""), urlsplit(request.target)
        if place == end_point.AUTH and (request.method, parts.path) == ("POST", _TOKENS):
            self._cloud.faults.before("Auth", "GetToken", attempts=1)
            return Answer(200, {"token": self._federation.token(request)})
        sessions: list[Session] = []

        def key(key_id: str) -> Any:
            sessions.append(self._federation.session(key_id))
            return sessions[-1].key

        signatures.verify(request, key)
        instance = self._cloud.store.read().find(sessions[-1].instance, INSTANCE)
        if instance is None:
            raise NotAuthenticatedError("the token's instance has been terminated.")
        path = parts.path.removeprefix(_VERSION) if place == end_point.CORE and parts.path.startswith(_VERSION) else ""
        for method, pattern, operation, work in ROUTES:
            found = pattern.fullmatch(path)
            if found and method == request.method:
                self._cloud.faults.before("Core", operation, attempts=1)
                query = dict(parse_qsl(parts.query, keep_blank_values=True))
                call = Call(instance, operation, query, request.headers, _body(request))
                said = work(self._core, call, *found.groups())
                if self._cloud.faults.answer_lost(operation):
                    raise Silence
                return said
        raise ServiceError(not_found("", request.target), "Core", "")


def _body(request: Request) -> Any:
    if not request.body:
        return None
    try:
        return json.loads(request.body)
    except ValueError:
        problem = Problem("", "Unable to parse the request's body as JSON.", code="CannotParseRequest")
        raise ServiceError(problem, "Core", "") from None


def _refusal(problem: Any) -> Answer:
    message = _NOT_FOUND if problem.code == "NotAuthorizedOrNotFound" else problem.message
    return Answer(problem.status, {"code": problem.code, "message": message})
