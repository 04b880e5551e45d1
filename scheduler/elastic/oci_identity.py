"""Signs requests to OCI in the name of this machine (instance principal), with a token from the tenancy and a session key.

openssl computes the RSA signatures, because every image has it and the standard library has no RSA. Sources: OCI documentation,
"Request Signatures" and "Calling Services from an Instance"; oci-python-sdk: auth/federation_client.py, auth/auth_utils.py,
signer.py.
"""

import base64
import hashlib
import json
import os
import re
import subprocess
import time
import urllib.parse
from email.utils import formatdate
from typing import Callable, Dict, NamedTuple, Sequence

from scheduler.elastic.cloud import BusyError, CloudError
from scheduler.elastic.http_client import Answer, Http

_METADATA = "http://169.254.169.254/opc/v2/"
_METADATA_TIMEOUT_S = 3
_TIMEOUT_S = 20
_OPENSSL_TIMEOUT_S = 30
_OK, _TOO_MANY, _SERVER_ERROR = 200, 429, 500
#: Headers to sign; calls with a body also sign the headers of the body.
_PLAIN, _BODY = ("date", "(request-target)", "host"), ("content-length", "content-type", "x-content-sha256")


class Signer(NamedTuple):
    """Signs requests: the key's id, and the private key in PEM."""

    key_id: str
    key: bytes

    def headers(self, method: str, url: str, body: bytes, now: float) -> Dict[str, str]:
        """Return a request's headers, including its signature."""
        parts = urllib.parse.urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        known = {"date": formatdate(now, usegmt=True), "(request-target)": f"{method.lower()} {target}", "host": parts.netloc}
        names = list(_PLAIN)
        if method in {"POST", "PUT"}:
            digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
            known.update({"content-length": str(len(body)), "content-type": "application/json", "x-content-sha256": digest})
            names += _BODY
        text = "\n".join(f"{name}: {known[name]}" for name in names)
        signature = base64.b64encode(signed(text.encode(), self.key)).decode()
        proof = {
            "algorithm": "rsa-sha256",
            "headers": " ".join(names),
            "keyId": self.key_id,
            "signature": signature,
            "version": "1",
        }
        said = "Signature " + ",".join(f'{name}="{value}"' for name, value in proof.items())
        return {**{name: value for name, value in known.items() if name != "(request-target)"}, "authorization": said}


def own(region: str, send: Http, clock: Callable[[], float] = time.time) -> Signer:
    """Return a signer for this machine, with a new token.

    Raises:
        BusyError: the metadata service or the service that issues tokens did not answer, or is too busy.
        CloudError: this machine has no identity, or the tenancy does not accept it.
    """
    leaf, leaf_key, between = (_metadata(send, f"identity/{name}.pem") for name in ("cert", "key", "intermediate"))
    shown = _openssl(["x509", "-noout", "-fingerprint", "-sha1", "-subject", "-nameopt", "multiline"], leaf).decode()
    fingerprint = re.findall(r"Fingerprint=([0-9A-F:]+)", shown)
    tenancy = re.findall(r"opc-(?:tenant|identity):(\S+)", shown)
    if not fingerprint or not tenancy:
        raise CloudError("NoCredentials", "this machine's certificate names no tenancy")
    session = _openssl(["genrsa", "2048"], b"")
    public = _openssl(["rsa", "-pubout"], session)
    asked = {
        "certificate": _bare(leaf),
        "publicKey": _bare(public),
        "intermediateCertificates": [_bare(between)],
    }
    url = f"https://auth.{region}.oraclecloud.com/v1/x509"
    signer = Signer(f"{tenancy[0]}/fed-x509/{fingerprint[0]}", leaf_key)
    body = json.dumps(asked).encode()
    try:
        answer = send("POST", url, signer.headers("POST", url, body, clock()), body, _TIMEOUT_S)
    except OSError as error:
        raise BusyError("NoAnswer", f"token of this machine: {error}") from None
    if answer.status == _TOO_MANY or answer.status >= _SERVER_ERROR:
        raise BusyError(f"HTTP{answer.status}", f"token of this machine: {refusal('no token', answer)}")
    if answer.status != _OK:
        raise refusal("token of this machine", answer)
    return Signer("ST$" + json.loads(answer.body.decode())["token"], session)


def refusal(what: str, answer: Answer) -> CloudError:
    """Return the error of an answer; callers may give it a more specific type."""
    try:
        said = json.loads(answer.body.decode())
        code, message = str(said["code"]), str(said["message"])
    except (KeyError, TypeError, ValueError):
        code, message = f"HTTP{answer.status}", "no message"
    return CloudError(code, f"{what}: {message}")


def _metadata(send: Http, path: str) -> bytes:
    try:
        answer = send("GET", _METADATA + path, {"Authorization": "Bearer Oracle"}, b"", _METADATA_TIMEOUT_S)
    except OSError as error:
        raise BusyError("NoAnswer", f"the metadata service does not answer: {error}") from None
    if answer.status == _TOO_MANY or answer.status >= _SERVER_ERROR:
        raise BusyError("NoAnswer", f"the metadata service answers {answer.status} to {path}")
    if answer.status != _OK:
        raise CloudError("NoCredentials", f"the metadata service answers {answer.status} to {path}")
    return answer.body


def _bare(pem: bytes) -> str:
    return "".join(line for line in pem.decode().splitlines() if not line.startswith("-----"))


def signed(text: bytes, key: bytes) -> bytes:
    """Return the RSA signature of a text (PKCS #1 v1.5, SHA-256). The key goes through a pipe and never into a file."""
    reading, writing = os.pipe()
    os.write(writing, key)
    os.close(writing)
    try:
        return _openssl(["dgst", "-sha256", "-sign", f"/dev/fd/{reading}"], text, keep=[reading])
    finally:
        os.close(reading)


def _openssl(words: Sequence[str], text: bytes, keep: Sequence[int] = ()) -> bytes:
    try:
        done = subprocess.run(
            ["openssl", *words],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_OPENSSL_TIMEOUT_S,
            check=False,
            pass_fds=tuple(keep),
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CloudError("NoCredentials", f"openssl: {error}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no output"]
        raise CloudError("NoCredentials", f"openssl {words[0]}: {said[-1]}")
    return done.stdout
