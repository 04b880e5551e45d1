"""Answers one HTTPS request to EC2's API: checks the signature, runs the action, and renders the answer."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from rehearsal.aws.api import query, signatures
from rehearsal.aws.api.operations import ACTIONS, Ec2, role_named
from rehearsal.aws.api.rights import Call
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.errors import refused
from rehearsal.aws.kinds import INSTANCE
from rehearsal.plugin.errors import RequestTimeoutError, ServiceError
from rehearsal.plugin.https_service import Answer, Request, Silence

_PLACE = re.compile(r"ec2\.([a-z0-9-]+)\.amazonaws\.com")
_VERSION = "2016-11-15"


class Service:
    """The EC2 endpoints of one world."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud, self._ec2 = cloud, Ec2(cloud)

    def answer(self, request: Request) -> Answer:
        """Return the answer to any request.

        Raises:
            Silence: a fault keeps the service from answering.
        """
        ident = str(uuid.uuid4())
        about = {"x-amzn-RequestId": ident}
        try:
            action, value = self._answer(request)
        except ServiceError as error:
            problem = error.problem
            return Answer(problem.status, query.refusal(problem.code, problem.message, ident), about)
        except RequestTimeoutError:
            raise Silence from None
        return Answer(200, query.rendered(action, value, ident), about)

    def _answer(self, request: Request) -> tuple[str, Mapping[str, Any]]:
        place = _PLACE.fullmatch(request.headers.get("host", ""))
        region = place[1] if place else ""
        session = signatures.verified(self._cloud.world.path, request, region)
        given = dict(parse_qsl(request.body.decode(), keep_blank_values=True))
        action = given.get("Action", "")
        if action not in ACTIONS or given.get("Version") != _VERSION:
            known = f"The action {action} is not valid for this web service."
            raise ServiceError(refused("Action", "InvalidAction", known), "EC2", action)
        database = self._cloud.store.read()
        instance, role = database.find(session.instance, INSTANCE), role_named(database, session.role)
        if instance is None or role is None:
            gone = "AWS was not able to validate the provided access credentials"
            raise ServiceError(refused("", "AuthFailure", gone, 401), "EC2", action)
        self._cloud.faults.before("EC2", action, attempts=1)
        value = ACTIONS[action](self._ec2, Call(instance, role, region, action, query.parsed(action, given)))
        if self._cloud.faults.answer_lost(action):
            raise Silence
        return action, value
