"""The federation service: issues a security token for a certificate, and returns a token's key and instance.

Source: oci-python-sdk 2.189, auth/federation_client.py (request and answer), auth/security_token_container.py (claims). A token
is a JWT; it is signed with HMAC here, because only this service ever checks the signature.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from rehearsal.oci.api import identity, signatures
from rehearsal.oci.api.signatures import NotAuthenticatedError
from rehearsal.oci.places import TENANCY
from rehearsal.plugin.https_service import Request
from rehearsal.world.world import World

_LIFE_S = 20 * 60
_SESSION = "ST$"
_NO_HOST: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Session:
    """A token's instance, and the public key of the key pair that signs the requests that use the token."""

    instance: str
    key: rsa.RSAPublicKey


class Federation:
    """The federation service of one world; its secret is lost when the process exits, which invalidates every token."""

    def __init__(self, world: World) -> None:
        self._world, self._secret = world, secrets.token_bytes(32)

    def token(self, request: Request) -> str:
        """Return a token for the certificate in a request; the certificate's key must have signed the request.

        Raises:
            NotAuthenticatedError: the certificate or the signature is not accepted.
        """
        try:
            asked = json.loads(request.body)
            leaf = _certificate(asked["certificate"])
            between = [_certificate(one) for one in asked.get("intermediateCertificates") or []]
            public = serialization.load_der_public_key(base64.b64decode(asked["publicKey"]))
            instance = identity.verified(self._world, leaf, between)
        except (ValueError, KeyError, TypeError, binascii.Error, StopIteration) as wrong:
            raise NotAuthenticatedError("the request has no certificate and key that can be accepted.") from wrong
        key = leaf.public_key()
        fingerprint = ":".join(f"{one:02X}" for one in leaf.fingerprint(hashes.SHA1()))  # noqa: S303 - as the vendor's SDK

        def own(key_id: str) -> rsa.RSAPublicKey:
            if key_id != f"{TENANCY}/fed-x509/{fingerprint}" or not isinstance(key, rsa.RSAPublicKey):
                raise NotAuthenticatedError("the key's id names another tenancy or certificate.")
            return key

        signatures.verify(request, own, _NO_HOST)
        if not isinstance(public, rsa.RSAPublicKey):
            raise NotAuthenticatedError("publicKey is not an RSA key.")
        return self._issued(instance, public)

    def _issued(self, instance: str, public: rsa.RSAPublicKey) -> str:
        numbers, now = public.public_numbers(), int(time.time())
        jwk = {"kty": "RSA", "alg": "RS256", "use": "sig", "n": _number(numbers.n), "e": _number(numbers.e)}
        claims = {
            "sub": instance, "opc-instance": instance, "opc-tenant": TENANCY, "tenant": TENANCY, "ptype": "instance",
            "ttype": "x509", "iss": "authService.oracle.com", "aud": "oci", "iat": now, "exp": now + _LIFE_S,
            "jti": secrets.token_hex(16), "jwk": json.dumps(jwk),
        }  # fmt: skip
        head = {"alg": "HS256", "typ": "JWT"}
        text = ".".join(_base64(json.dumps(one).encode()) for one in (head, claims))
        return f"{text}.{_base64(self._sum(text))}"

    def session(self, key_id: str) -> Session:
        """Return the session of a request's key id.

        Raises:
            NotAuthenticatedError: the key id is not a token of this service, or the token has expired.
        """
        text, _, signature = key_id.removeprefix(_SESSION).rpartition(".")
        if not key_id.startswith(_SESSION) or not hmac.compare_digest(signature, _base64(self._sum(text))):
            raise NotAuthenticatedError("the key's id is not a token of this service.")
        claims: dict[str, Any] = json.loads(_bytes(text.partition(".")[2]))
        if claims["exp"] < time.time():
            raise NotAuthenticatedError("the token has expired.")
        jwk = json.loads(claims["jwk"])
        e, n = (int.from_bytes(_bytes(jwk[name]), "big") for name in ("e", "n"))
        return Session(claims["opc-instance"], rsa.RSAPublicNumbers(e, n).public_key())

    def _sum(self, text: str) -> bytes:
        return hmac.digest(self._secret, text.encode(), hashlib.sha256)


def _certificate(bare: str) -> x509.Certificate:
    return x509.load_der_x509_certificate(base64.b64decode(bare))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))
