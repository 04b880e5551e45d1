"""Attests a pass with an in-toto statement about a cluster, signed with an ed25519 key.

The same measurement always gives the same certificate, byte for byte, because the time of issue is the start of the run.
`benchmarks.records.verify` checks such a certificate.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

from benchmarks.records.verify import PAYLOAD, PREDICATE, STATEMENT, key_id, moment, pre_authentication

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: By default, a certificate is valid for this many days. It expires because links age and other tenants move in.
VALID_DAYS = 30
_SHA256 = re.compile(r"[0-9a-f]{64}")


class CertificateError(ValueError):
    """Something cannot be attested or signed; the message gives the reason in one sentence."""


@dataclass(frozen=True)
class Acceptance:
    """The facts about one run that a certificate attests.

    Attributes:
        stack: the stack that owns the machines, as organization/project/stack.
        cluster: identity of machines, image and shape; a digest of this identity is the statement's first subject.
        nodes: each node's identity, such as the machine's id or address, by the node's name; digests of these identities are
            the other subjects.
        target: kind of cluster, such as oci.
        shape: the vendor's name of the nodes' shape.
        versions: versions of software, by name.
        plan: the plan that was run, as data.
        inputs: everything that the measurement depends on; only its digest is attested.
        transcript_sha256: sha256 of the complete transcript of the measurement that decided.
        others: the other transcripts as {of, sha256}; `of` is `first` for the measurement that a retest replaced, and `retest`
            for a retest that did not count.
        results: rows by collective, as in the outputs; only their digest is attested.
        verdict: anything but `pass` cannot be attested.
        gate: the limit that busbw had to reach, as in the outputs.
        busbw_gb_s: measured busbw at the gate's size, in GB/s.
        scale: how many times slower rehearsed rails are; 1 on real hardware.
        run_id: id of the measurement.
        started: UTC, such as 2025-11-21T04:49:00Z.
        checks: state of each check by its name; a skipped check proves nothing.
        own_gate: whether the stack file set the gate.
        looks: the separate looks at the gate's size: `of` is their number, and `slow` is the number of slow looks. `places` has
            the slow looks and the busbw in GB/s of every look, by place of the plan. `run_before_gb_s` has the looks of the
            previous run. If a list has more than 128 looks, its length and digest replace it. None if no look was judged.
        retested: whether a retest of short results led to the pass.
        asked: digest of what was requested, as in the outputs.
        valid_days: period of validity.
    """

    stack: str
    cluster: str
    nodes: Mapping[str, str]
    target: str
    shape: str
    versions: Mapping[str, str]
    plan: Mapping[str, Any]
    inputs: Mapping[str, Any]
    transcript_sha256: str
    results: Mapping[str, Sequence[Mapping[str, Any]]]
    verdict: str
    gate: Mapping[str, Any]
    busbw_gb_s: float | None
    scale: int
    run_id: str
    started: str
    checks: Mapping[str, str] = field(default_factory=dict)
    own_gate: bool = False
    looks: Mapping[str, Any] | None = None
    retested: bool = False
    asked: str = ""
    valid_days: int = VALID_DAYS
    others: Sequence[Mapping[str, str]] = ()


def digest(value: Any) -> str:
    """Return the sha256 of plain data, independent of the order of keys."""
    return hashlib.sha256(_canonical(value)).hexdigest()


def statement(one: Acceptance) -> dict[str, Any]:
    """Return the in-toto statement of a pass.

    Raises:
        CertificateError: the measurement was no pass, or a required fact is missing.
    """
    if one.verdict != "pass" or one.busbw_gb_s is None:
        raise CertificateError(f"the verdict is {one.verdict}; only a measured pass is attested")
    for sha256 in (one.transcript_sha256, *(other["sha256"] for other in one.others)):
        if not _SHA256.fullmatch(sha256):
            raise CertificateError(f"{sha256!r} is not the sha256 of a transcript, so there is no evidence")
    if one.retested and not one.others:
        raise CertificateError("the run passed on a retest, but the transcript of the first measurement is not known")
    if one.valid_days < 1 or not one.nodes:
        raise CertificateError(
            f"a certificate needs at least 1 day and 1 node, not {one.valid_days} days and {len(one.nodes)} nodes"
        )
    try:
        expires = moment(one.started) + timedelta(days=one.valid_days)
    except (ValueError, OverflowError) as error:
        raise CertificateError(f"start {one.started!r} and {one.valid_days} days give no date ({error})") from None
    named = [{"name": name, "digest": {"sha256": _hash(identity)}} for name, identity in sorted(one.nodes.items())]
    return {
        "_type": STATEMENT,
        "subject": [{"name": "cluster", "digest": {"sha256": _hash(one.cluster)}}, *named],
        "predicateType": PREDICATE,
        "predicate": {
            "stack": one.stack,
            "target": one.target,
            "shape": one.shape,
            "nodes": dict(one.nodes),
            "versions": dict(one.versions),
            "plan": dict(one.plan),
            "plan_digest": digest(one.plan),
            "inputs_digest": digest(one.inputs),
            "transcript_sha256": one.transcript_sha256,
            "transcripts": [{"of": "decided", "sha256": one.transcript_sha256}, *(dict(other) for other in one.others)],
            "results_digest": digest(one.results),
            "verdict": one.verdict,
            "gate": dict(one.gate),
            "own_gate": one.own_gate,
            "checks": dict(one.checks),
            "looks": None if one.looks is None else dict(one.looks),
            "retested": one.retested,
            "busbw_gb_s": one.busbw_gb_s,
            "rehearsed": one.scale != 1,
            "scale": one.scale,
            "run_id": one.run_id,
            "asked": one.asked,
            "started": one.started,
            "expires": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
    }


def sign(said: dict[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """Return the DSSE envelope of a statement; ed25519 is deterministic, so the same statement gives the same bytes."""
    payload = _canonical(said)
    signature = key.sign(pre_authentication(payload))
    return {
        "payloadType": PAYLOAD,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key_id(key.public_key()), "sig": base64.b64encode(signature).decode()}],
    }


def private_key(path: Path) -> Ed25519PrivateKey:
    """Read an ed25519 private key without a passphrase: PEM (PKCS 8) or OpenSSH's own format.

    Raises:
        CertificateError: there is no such key; the message contains nothing of the file's content.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CertificateError(f"the signing key {path} cannot be read: {error.strerror or error}") from None
    try:
        load = load_ssh_private_key if b"OPENSSH PRIVATE KEY" in data else load_pem_private_key
        key: Any = load(data, None)
    except TypeError:
        raise CertificateError(f"the signing key {path} has a passphrase; keys with a passphrase are not supported") from None
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateError(f"the signing key {path} is neither PEM nor a private key of OpenSSH") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise CertificateError(f"the signing key {path} is not ed25519; `ssh-keygen -t ed25519 -N '' -f FILE` makes such a key")
    return key


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any) -> bytes:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise CertificateError(f"only plain data can be attested ({error})") from None
