"""A client of OCI's API that signs its requests. The signatures are correct unless a test changes what is signed."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from rehearsal.oci.api import identity
from rehearsal.oci.api.service import Service
from rehearsal.oci.places import REGION, TENANCY
from rehearsal.plugin.https_service import Answer, Request
from rehearsal.plugin.store import Record
from rehearsal.world.world import World

AUTH, CORE = f"auth.{REGION}.oraclecloud.com", f"iaas.{REGION}.oraclecloud.com"
Change = Callable[[dict[str, str]], None]


def bare(pem: str | bytes) -> str:
    text = pem.decode() if isinstance(pem, bytes) else pem
    return "".join(line for line in text.splitlines() if not line.startswith("-----"))


class Caller:
    """An instance that calls OCI's API."""

    def __init__(self, world: World, service: Service, instance: Record) -> None:
        self.service, self.papers = service, identity.issue(world, instance)
        self.session = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.key_id = ""

    def signed(self, plain: Request, key_id: str, key: Any, change: Change) -> Request:
        method, target, body = plain.method, plain.target, plain.body
        known = {"date": formatdate(time.time(), usegmt=True), **plain.headers}
        names = ["date", "(request-target)", "host"]
        if method in {"POST", "PUT"}:
            digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
            known |= {"content-length": str(len(body)), "content-type": "application/json", "x-content-sha256": digest}
            names += ["content-length", "content-type", "x-content-sha256"]
        known["names"] = " ".join(names)
        change(known)
        names = known.pop("names").split()
        words = {**known, "(request-target)": f"{method.lower()} {target}"}
        text = "\n".join(f"{name}: {words[name]}" for name in names)
        mark = base64.b64encode(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())).decode()
        about = {"version": "1", "keyId": key_id, "algorithm": "rsa-sha256", "headers": " ".join(names), "signature": mark}
        known["authorization"] = "Signature " + ",".join(f'{name}="{value}"' for name, value in about.items())
        return Request(method, target, known, body)

    def federate(self, change: Change = lambda _: None, **papers: str) -> Answer:
        """Request a token, and use it from now on."""
        own = {**self.papers, **papers}
        leaf = x509.load_pem_x509_certificate(own["cert.pem"].encode())
        fingerprint = ":".join(f"{one:02X}" for one in leaf.fingerprint(hashes.SHA1()))  # noqa: S303
        kind = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        asked = {
            "certificate": bare(own["cert.pem"]),
            "publicKey": bare(self.session.public_key().public_bytes(*kind)),
            "intermediateCertificates": [bare(own["intermediate.pem"])],
        }
        key = serialization.load_pem_private_key(own["key.pem"].encode(), None)
        who = f"{TENANCY}/fed-x509/{fingerprint}"
        plain = Request("POST", "/v1/x509", {"host": AUTH}, json.dumps(asked).encode())
        answer = self.service.answer(self.signed(plain, who, key, change))
        if answer.status == 200:
            self.key_id = f"ST${answer.body['token']}"
        return answer

    def call(
        self, method: str, path: str, body: Any = None, change: Change = lambda _: None, more: Mapping[str, str] | None = None
    ) -> Answer:
        """Call the Core Services API; `change` alters headers before they are signed, and `more` are unsigned headers."""
        if not self.key_id:
            assert self.federate().status == 200
        content = json.dumps(body).encode() if body is not None else b""
        plain = Request(method, f"/20160918{path}", {"host": CORE}, content)
        request = self.signed(plain, self.key_id, self.session, change)
        return self.service.answer(Request(method, request.target, {**request.headers, **(more or {})}, content))
