"""Verifies the Signature Version 4 of a request.

Source: IAM user guide, "Create a signed AWS API request"; botocore, auth.SigV4Auth.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from rehearsal.aws.errors import refused
from rehearsal.aws.sessions import Session, opened
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.https_service import Request

_SKEW = timedelta(minutes=5)
_PROOF = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([A-Z0-9]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?SignedHeaders=([^,]+), ?Signature=(\w+)"
)
_NEEDED = {"host", "x-amz-date", "x-amz-security-token"}
_INVALID = "AWS was not able to validate the provided access credentials"


def _refused(code: str, message: str, status: int) -> ServiceError:
    return ServiceError(refused("", code, message, status), "EC2", "")


def verified(world: Path, request: Request, region: str, now: datetime | None = None) -> Session:
    """Return the session whose secret signed a request.

    Raises:
        ServiceError: the signature is missing or wrong, or the credentials are expired or not for this world and region.
    """
    found = _PROOF.fullmatch(request.headers.get("authorization", ""))
    if found is None:
        raise _refused("MissingAuthenticationToken", "Request is missing Authentication Token", 403)
    key_id, day, signed_region, service, listed, signature = found.groups()
    session = opened(world, key_id, request.headers.get("x-amz-security-token", ""))
    names = listed.split(";")
    if session is None or not set(names) >= _NEEDED or (signed_region, service) != (region, "ec2"):
        raise _refused("AuthFailure", _INVALID, 401)
    at = request.headers["x-amz-date"]
    scope = f"{day}/{region}/ec2/aws4_request"
    digest = hashlib.sha256(_canonical(request, names).encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{digest}"
    key = f"AWS4{session.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), hashlib.sha256)
    if not hmac.compare_digest(signature, hmac.digest(key, text.encode(), hashlib.sha256).hex()) or not at.startswith(day):
        raise _refused("AuthFailure", _INVALID, 401)
    today = now or datetime.now(UTC)
    if abs(today - datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)) > _SKEW or session.end < today.timestamp():
        raise _refused("RequestExpired", "Request has expired.", 400)
    return session


def _canonical(request: Request, names: list[str]) -> str:
    parts = urlsplit(request.target)
    query = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parse_qsl(parts.query, keep_blank_values=True)
    )
    headers = "".join(f"{name}:{' '.join(request.headers.get(name, '').split())}\n" for name in names)
    payload = hashlib.sha256(request.body).hexdigest()
    asked = "&".join(f"{name}={value}" for name, value in query)
    return "\n".join([request.method, parts.path or "/", asked, headers, ";".join(names), payload])
