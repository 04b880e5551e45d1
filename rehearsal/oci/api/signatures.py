"""The signature of a request: OCI's use of draft-cavage-http-signatures-08.

Source: "Request Signatures" (signingrequests.htm): which headers must be signed, the body's hash, five minutes of clock skew;
oci-python-sdk 2.189, signer.py and auth/federation_client.py (the federation's own calls do not sign `host`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from rehearsal.plugin.https_service import Request

_SKEW = timedelta(minutes=5)
_WITH_BODY = {"POST", "PUT", "PATCH"}
_OF_BODY = {"content-length", "content-type", "x-content-sha256"}
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class NotAuthenticatedError(Exception):
    """The request is not correctly signed."""


def verify(request: Request, key_of: Callable[[str], rsa.RSAPublicKey], needed: frozenset[str] = frozenset(("host",))) -> str:
    """Check a request's signature; return the id of the key that signed it.

    `key_of` returns the public key for a key id; `needed` are headers that must be signed besides the date and the target.

    Raises:
        NotAuthenticatedError: the signature is missing, incomplete, too old, or wrong.
    """
    scheme, _, parameters = request.headers.get("authorization", "").partition(" ")
    found: dict[str, str] = dict(_PARAMETER.findall(parameters))
    if scheme.lower() != "signature" or not {"keyId", "algorithm", "headers", "signature"} <= set(found):
        raise NotAuthenticatedError("there is no signature.")
    if found["algorithm"] != "rsa-sha256" or found.get("version", "1") != "1":
        raise NotAuthenticatedError("the algorithm or the version of the signature is not supported.")
    names = found["headers"].lower().split()
    _complete(request, set(names), needed)
    lines = []
    for name in names:
        value = f"{request.method.lower()} {request.target}" if name == "(request-target)" else request.headers.get(name)
        if value is None:
            raise NotAuthenticatedError(f"the signed header {name} is missing.")
        lines.append(f"{name}: {value}")
    try:
        signature = base64.b64decode(found["signature"], validate=True)
        key_of(found["keyId"]).verify(signature, "\n".join(lines).encode(), padding.PKCS1v15(), hashes.SHA256())
    except (binascii.Error, InvalidSignature) as wrong:
        raise NotAuthenticatedError("the signature is wrong.") from wrong
    return found["keyId"]


def _complete(request: Request, signed: set[str], needed: frozenset[str]) -> None:
    """Check that all required headers are signed, that the request is recent, and that its body matches the signed hash."""
    wanted = {"(request-target)"} | needed | (_OF_BODY if request.method in _WITH_BODY else set())
    if wanted - signed or not signed & {"date", "x-date"}:
        raise NotAuthenticatedError(f"{', '.join(sorted(wanted - signed)) or 'the date'} must be signed.")
    try:
        given = parsedate_to_datetime(request.headers.get("x-date") or request.headers.get("date", ""))
    except ValueError as wrong:
        raise NotAuthenticatedError("the date cannot be read.") from wrong
    if given.tzinfo is None or abs(datetime.now(UTC) - given) > _SKEW:
        raise NotAuthenticatedError("the date differs from the service's clock by more than five minutes.")
    digest = base64.b64encode(hashlib.sha256(request.body).digest()).decode()
    if "x-content-sha256" in signed and request.headers.get("x-content-sha256") != digest:
        raise NotAuthenticatedError("x-content-sha256 is not the hash of the body.")
