"""Checks a busbar certificate offline: who signed it, what it attests, and whether it still holds.

    python -m benchmarks.records.verify CERT.json --key KEY.pub [--inputs-digest HEX] [--allow-rehearsed] [--json]

CERT.json is the stack output `measured.certificate` (`-` reads standard input). Exit status: 0 if the certificate holds, 1 if
it does not, 2 if it could not be checked. This file needs only the standard library and `cryptography`, so that other projects
can copy this file beside their program.

Formats: in-toto Statement v1 in a DSSE envelope v1, ed25519.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
    load_ssh_public_key,
)

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:busbar:acceptance:v1"
PAYLOAD = "application/vnd.in-toto+json"
#: Clocks of two machines may differ by this much before a certificate counts as issued in the future.
SKEW = timedelta(minutes=5)


class UnusableError(ValueError):
    """A key or file is unusable for a check; the message gives the reason in one sentence."""


@dataclass(frozen=True)
class Failure:
    """One reason why a certificate does not hold: a stable `name` and a sentence."""

    name: str
    why: str


@dataclass(frozen=True)
class Verification:
    """`failures` is empty if the certificate holds; `statement` is set only if the signature is good."""

    failures: tuple[Failure, ...]
    statement: dict[str, Any] | None

    @property
    def holds(self) -> bool:
        """Whether the certificate holds."""
        return not self.failures

    @property
    def predicate(self) -> dict[str, Any]:
        """Return what is attested; empty if the signature is not good."""
        return self.statement["predicate"] if self.statement else {}


def public_key(text: str | bytes) -> Ed25519PublicKey:
    """Read an ed25519 public key: PEM, or a line `ssh-ed25519 AAAA...`.

    Raises:
        UnusableError: `text` is not an ed25519 public key.
    """
    data = text.encode() if isinstance(text, str) else text
    try:
        key: Any = load_pem_public_key(data) if b"-----BEGIN" in data else load_ssh_public_key(data.strip())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UnusableError(f"the public key is neither PEM nor a line of OpenSSH ({error})") from None
    if not isinstance(key, Ed25519PublicKey):
        raise UnusableError("the public key is not ed25519, and certificates are signed only with ed25519")
    return key


def key_id(key: Ed25519PublicKey) -> str:
    """Return the key's fingerprint as `ssh-keygen -l` shows it."""
    line = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def pre_authentication(payload: bytes) -> bytes:
    """Return the bytes that are signed (DSSE's PAE)."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)


def verify(
    envelope: Any,
    key: Ed25519PublicKey,
    now: datetime,
    *,
    inputs_digest: str | None = None,
    allow_rehearsed: bool = False,
) -> Verification:
    """Check `envelope` (the parsed JSON) at the time `now`. Invalid content becomes a failure and raises no exception.

    With `inputs_digest`, the certificate must be for exactly these inputs. Names of failures: malformed, bad_signature,
    expired, not_yet_valid, other_inputs, not_a_pass, rehearsed.
    """
    try:
        payload, signatures = _opened(envelope)
    except (ValueError, KeyError, TypeError) as error:
        return _failed("malformed", f"it is not a certificate: {error}")
    if not any(_signed(key, payload, *each) for each in signatures):
        return _failed("bad_signature", f"it has no valid signature by the key {key_id(key)}")
    try:
        statement = json.loads(payload)
        failures = tuple(_failures(statement, now, inputs_digest, allow_rehearsed))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        return _failed("malformed", f"what was signed is not a busbar acceptance ({error!r})")
    return Verification(failures, statement)


def _failed(name: str, why: str) -> Verification:
    return Verification((Failure(name, why),), None)


def _opened(envelope: Any) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Return the payload and signatures of a DSSE envelope; refuse any other field, because it is not signed."""
    if not isinstance(envelope, dict) or set(envelope) != {"payload", "payloadType", "signatures"}:
        raise ValueError("its fields are not exactly payload, payloadType and signatures")
    if envelope["payloadType"] != PAYLOAD:
        raise ValueError(f"its payload is not {PAYLOAD}")
    if not isinstance(envelope["signatures"], list) or any(set(each) != {"keyid", "sig"} for each in envelope["signatures"]):
        raise ValueError("its signatures are not a list of keyid and sig")
    signatures = [(str(each["keyid"]), _decoded(each["sig"])) for each in envelope["signatures"]]
    return _decoded(envelope["payload"]), signatures


def _decoded(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"base64 is broken ({error})") from None
    if base64.b64encode(data).decode() != text:
        raise ValueError("base64 is not in canonical form")
    return data


def _signed(key: Ed25519PublicKey, payload: bytes, identity: str, signature: bytes) -> bool:
    if identity != key_id(key):
        return False
    try:
        key.verify(signature, pre_authentication(payload))
    except InvalidSignature:
        return False
    return True


def _failures(statement: dict[str, Any], now: datetime, inputs_digest: str | None, allow_rehearsed: bool) -> list[Failure]:
    if statement["_type"] != STATEMENT or statement["predicateType"] != PREDICATE:
        raise ValueError(f"it is {statement['predicateType']}")
    said = statement["predicate"]
    found = []
    started, expires = moment(said["started"]), moment(said["expires"])
    if now >= expires:
        found.append(Failure("expired", f"it expired at {said['expires']}; measure again"))
    if now < started - SKEW:
        found.append(Failure("not_yet_valid", f"it was issued at {said['started']}, which is in the future"))
    if inputs_digest is not None and said["inputs_digest"] != inputs_digest:
        found.append(
            Failure(
                "other_inputs", f"it is for other inputs ({said['inputs_digest'][:12]}... instead of {inputs_digest[:12]}...)"
            )
        )
    if said["verdict"] != "pass":
        found.append(Failure("not_a_pass", f"its verdict is {said['verdict']}"))
    if (said["rehearsed"] is not False or said["scale"] != 1) and not allow_rehearsed:
        found.append(Failure("rehearsed", f"it is from a rehearsal at 1/{said['scale']} of the line rates"))
    return found


def moment(text: str) -> datetime:
    """Read a time such as 2025-11-21T04:49:00Z."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def main(argv: list[str] | None = None) -> int:
    """Check one file; return the exit status."""
    parser = argparse.ArgumentParser(prog="verify", description="Check a busbar certificate offline.")
    parser.add_argument("certificate", help="file of the stack output `measured.certificate`, - for standard input")
    parser.add_argument("--key", required=True, help="file of the public key: PEM, or a line of OpenSSH")
    parser.add_argument("--inputs-digest", help="digest of the inputs that the certificate must be for")
    parser.add_argument("--allow-rehearsed", action="store_true", help="accept numbers of a rehearsal")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    asked = parser.parse_args(argv)
    try:
        key = public_key(Path(asked.key).read_bytes())
        data = sys.stdin.buffer.read() if asked.certificate == "-" else Path(asked.certificate).read_bytes()
        envelope = json.loads(data)
    except (OSError, ValueError, RecursionError) as error:
        if asked.json:
            _say(json.dumps({"holds": None, "error": str(error)}))
        sys.stderr.write(f"cannot be checked: {error}\n")
        return 2
    now = datetime.now(UTC)
    found = verify(envelope, key, now, inputs_digest=asked.inputs_digest, allow_rehearsed=asked.allow_rehearsed)
    if asked.json:
        failures = [{"name": each.name, "why": each.why} for each in found.failures]
        _say(json.dumps({"holds": found.holds, "failures": failures, "statement": found.statement}, sort_keys=True))
    elif found.holds:
        said = found.predicate
        measured = f"{said['gate']['collective']} {said['busbw_gb_s']:.4g} GB/s"
        _say(f"holds until {said['expires']}: {measured} on {len(said['nodes'])} nodes")
    else:
        for each in found.failures:
            _say(f"does not hold, {each.name}: {each.why}")
    return 0 if found.holds else 1


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
