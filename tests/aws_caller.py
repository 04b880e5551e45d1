"""botocore, the vendor's own client, as a program on an instance uses it; requests go to the stand-in in this process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.session import get_session

from rehearsal.aws import sessions
from rehearsal.aws.api.service import Service
from rehearsal.plugin.https_service import Request
from rehearsal.plugin.store import Record
from rehearsal.world.world import World

REGION = "us-east-1"


class _Raw:
    """The body of an answer, in the form that botocore reads."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> Iterator[bytes]:
        yield self._body


def client(world: World, service: Service, instance: Record, role: str, **changes: str) -> Any:
    """Return a client for EC2 with the instance's credentials; `changes` replaces some of these credentials."""
    given = json.loads(sessions.issue(world.path, instance.id, role, time.time())) | changes
    keys = {"aws_access_key_id": "AccessKeyId", "aws_secret_access_key": "SecretAccessKey", "aws_session_token": "Token"}
    own = {name: given[key] for name, key in keys.items()}
    config = Config(retries={"total_max_attempts": 1})
    made = get_session().create_client("ec2", region_name=REGION, config=config, **own)

    def send(request: Any, **_: Any) -> AWSResponse:
        headers = {
            name.lower(): value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()
        }
        place = urlsplit(request.url)
        body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
        answer = service.answer(Request(request.method, place.path or "/", {"host": place.netloc, **headers}, body))
        return AWSResponse(request.url, answer.status, dict(answer.headers), _Raw(answer.content()[0]))

    made.meta.events.register("before-send.ec2", send)
    return made
