"""Certificates: what they attest, who signed them, when they expire, and that other programs refuse invalid certificates."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pulumi
import pytest
from consumer_program import Reader, demand
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.records import verify as verifier
from benchmarks.records.certificate import Acceptance, CertificateError, digest, private_key, sign, statement
from benchmarks.records.signing_key import unusable
from benchmarks.records.verify import UnusableError, public_key, verify
from config.records import Records

ROOT = Path(__file__).parents[2]
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key()
LINE = PUBLIC.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33))).public_key()
STARTED = datetime(2025, 11, 21, 4, 49, tzinfo=UTC)
ACCEPTANCE = Acceptance(
    stack="organization/busbar/dev",
    cluster="image-1 BM.GPU4.8 i0 i1",
    nodes={"inst-0": "i0@10.0.1.0", "inst-1": "i1@10.0.1.1"},
    target="oci",
    shape="BM.GPU4.8",
    versions={"nccl": "2.28.9"},
    plan={"collective": "all_reduce", "end_bytes": 8 << 30},
    inputs={"image": "image-1", "plan": "x"},
    transcript_sha256="ab" * 32,
    results={"all_reduce": [{"size_bytes": 8, "out_of_place": {"busbw_gb_s": 1.0}}]},
    verdict="pass",
    gate={"collective": "all_reduce", "size_bytes": 8 << 30, "limit_gb_s": 85.0, "why": "0.85 of the wire"},
    busbw_gb_s=93.5,
    scale=1,
    run_id="abc123",
    started="2025-11-21T04:49:00Z",
    checks={"bandwidth": "pass", "transport": "pass", "spread": "skipped", "history": "skipped"},
    looks={"slow": 0, "of": 17},
)


def envelope(**changes: Any) -> dict[str, Any]:
    return sign(statement(replace(ACCEPTANCE, **changes)), KEY)


def names(found: verifier.Verification) -> list[str]:
    return [each.name for each in found.failures]


def check(document: Any, **asked: Any) -> list[str]:
    asked = {"key": PUBLIC, "now": STARTED + timedelta(days=1)} | asked
    return names(verify(document, asked.pop("key"), asked.pop("now"), **asked))


def test_a_signed_certificate_verifies_and_states_what_was_measured():
    found = verify(envelope(), PUBLIC, STARTED + timedelta(days=1), inputs_digest=digest(ACCEPTANCE.inputs))
    assert found.holds
    assert found.predicate["busbw_gb_s"] == 93.5
    assert found.predicate["plan"] == ACCEPTANCE.plan
    assert found.predicate["results_digest"] == digest(ACCEPTANCE.results)
    assert [one["name"] for one in found.statement["subject"]] == ["cluster", "inst-0", "inst-1"]
    assert all(len(one["digest"]["sha256"]) == 64 for one in found.statement["subject"])


def test_two_certificates_of_one_run_have_the_same_bytes():
    backwards = {"nodes": {"inst-1": "i1@10.0.1.1", "inst-0": "i0@10.0.1.0"}, "inputs": {"plan": "x", "image": "image-1"}}
    assert envelope() == envelope() == envelope(**backwards)


def test_the_envelope_conforms_to_dsse_and_in_toto():
    document = envelope()
    payload = base64.b64decode(document["payload"])
    assert document["payloadType"] == "application/vnd.in-toto+json"
    assert json.loads(payload)["_type"] == "https://in-toto.io/Statement/v1"
    signed = b"DSSEv1 28 application/vnd.in-toto+json " + str(len(payload)).encode() + b" " + payload
    PUBLIC.verify(base64.b64decode(document["signatures"][0]["sig"]), signed)


@pytest.mark.parametrize("verdict", ["short", "unknown", "skipped", ""])
def test_only_a_pass_is_attested(verdict):
    with pytest.raises(CertificateError, match="only a measured pass is attested"):
        statement(replace(ACCEPTANCE, verdict=verdict))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"busbw_gb_s": None}, "only a measured pass"),
        ({"transcript_sha256": ""}, "so there is no evidence"),
        ({"valid_days": 0}, "needs at least 1 day and 1 node"),
        ({"valid_days": 10**7}, "give no date"),
        ({"nodes": {}}, "needs at least 1 day and 1 node"),
        ({"started": "yesterday"}, "give no date"),
        ({"plan": {"x": float("nan")}}, "only plain data"),
        ({"plan": {"x": object()}}, "only plain data"),
    ],
)
def test_a_result_that_cannot_be_attested_is_refused_in_a_sentence(changes, why):
    with pytest.raises(CertificateError, match=why):
        statement(replace(ACCEPTANCE, **changes))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for name in value for leaf in leaves(value[name], (*path, name))]
    if isinstance(value, list):
        return [leaf for index, each in enumerate(value) for leaf in leaves(each, (*path, index))]
    return [path]


@pytest.mark.parametrize("path", leaves(statement(ACCEPTANCE)), ids=lambda path: "/".join(map(str, path)))
def test_the_signature_is_bad_whichever_field_of_the_statement_is_changed(path):
    said = copy.deepcopy(statement(ACCEPTANCE))
    place: Any = said
    for step in path[:-1]:
        place = place[step]
    value = place[path[-1]]
    place[path[-1]] = (not value) if isinstance(value, bool) else value + 1 if isinstance(value, (int, float)) else value + "x"
    document = envelope()
    document["payload"] = base64.b64encode(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).decode()
    assert check(document) == ["bad_signature"]


@given(data=st.data())
def test_any_changed_byte_of_the_file_invalidates_the_certificate(data):
    text = bytearray(json.dumps(envelope(), separators=(",", ":")).encode())
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= data.draw(st.integers(1, 255))
    try:
        document = json.loads(bytes(text))
    except ValueError:
        return  # not even JSON: the file cannot be parsed
    assert check(document) in (["bad_signature"], ["malformed"])


@given(place=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_any_changed_byte_of_the_signed_payload_makes_the_signature_bad(place, flip):
    document = envelope()
    payload = bytearray(base64.b64decode(document["payload"]))
    payload[place % len(payload)] ^= flip
    assert check(document | {"payload": base64.b64encode(payload).decode()}) == ["bad_signature"]


@given(place=st.integers(0, 63), flip=st.integers(1, 255))
def test_any_changed_byte_of_the_signature_makes_the_signature_bad(place, flip):
    document = envelope()
    signature = bytearray(base64.b64decode(document["signatures"][0]["sig"]))
    signature[place] ^= flip
    document["signatures"][0]["sig"] = base64.b64encode(signature).decode()
    assert check(document) == ["bad_signature"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON, _JSON, _JSON)
def test_no_input_crashes_the_check_and_no_invalid_input_passes_the_check(whole, payload, signatures):
    assert check(whole) == ["malformed"]
    typed = {"payloadType": verifier.PAYLOAD, "payload": payload, "signatures": signatures}
    assert check(typed) in (["malformed"], ["bad_signature"])


@given(_JSON)
def test_a_malformed_statement_is_refused_although_the_right_key_signed_it(said):
    assert check(sign_anything(said)) == ["malformed"]


def test_a_signed_statement_about_a_run_in_the_year_1_is_malformed():
    said = {
        "started": "0001-01-01T00:00:00Z",
        "expires": "2025-12-21T04:49:00Z",
        "verdict": "pass",
        "rehearsed": False,
        "scale": 1,
    }
    whole = {"_type": verifier.STATEMENT, "predicateType": verifier.PREDICATE, "predicate": said}
    assert check(sign_anything(whole)) == ["malformed"]


def sign_anything(said: Any) -> dict[str, Any]:
    payload = json.dumps(said).encode()
    return {
        "payloadType": verifier.PAYLOAD,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [
            {
                "keyid": verifier.key_id(PUBLIC),
                "sig": base64.b64encode(KEY.sign(verifier.pre_authentication(payload))).decode(),
            }
        ],
    }


@pytest.mark.parametrize("where", ["payload", "signature"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: f"{text[:4]}!{text[4:]}", "base64 is broken"),
        (lambda text: f"{text}\n", "base64 is broken"),
        (lambda text: re.sub("(.)(=+)$", lambda end: chr(ord(end[1]) + 1) + end[2], text), "base64 is not in canonical form"),
    ],
    ids=["a foreign character", "a line feed", "another base64 text of the same bytes"],
)
def test_a_payload_or_signature_is_refused_if_its_base64_is_not_exactly_what_the_signer_wrote(where, change, why):
    documents = [envelope(stack=name) for name in ("a", "bb", "ccc")]
    document = next(one for one in documents if one["payload"].endswith("="))
    (signature,) = document["signatures"]
    old = document["payload"] if where == "payload" else signature["sig"]
    new = change(old)
    assert new != old
    document |= {"payload": new} if where == "payload" else {"signatures": [signature | {"sig": new}]}
    (failure,) = verify(document, PUBLIC, STARTED).failures
    assert failure.name == "malformed"
    assert why in failure.why


def test_the_signature_is_bad_if_it_is_checked_with_a_key_that_is_not_the_key_of_the_signer():
    assert check(envelope(), key=OTHER) == ["bad_signature"]


def test_a_signature_is_bad_if_it_names_a_key_that_is_not_the_key_of_the_signer():
    (signature,) = envelope()["signatures"]
    assert check(envelope() | {"signatures": [signature | {"keyid": verifier.key_id(OTHER)}]}) == ["bad_signature"]


def test_a_certificate_without_a_signature_is_reported_as_bad_signature():
    assert check(envelope() | {"signatures": []}) == ["bad_signature"]


def test_a_certificate_of_an_unknown_payload_type_is_malformed():
    assert check(envelope() | {"payloadType": "text/plain"}) == ["malformed"]


def test_a_signed_statement_of_an_unknown_predicate_type_is_malformed():
    said = statement(ACCEPTANCE) | {"predicateType": "https://slsa.dev/provenance/v1"}
    assert check(sign(said, KEY)) == ["malformed"]


def test_a_certificate_expires_at_the_exact_second_of_its_expiry_time():
    end = STARTED + timedelta(days=30)
    assert check(envelope(), now=end - timedelta(seconds=1)) == []
    assert check(envelope(), now=end) == ["expired"]
    assert check(envelope(valid_days=31), now=end) == []


def test_a_certificate_from_more_than_five_minutes_in_the_future_is_not_yet_valid():
    assert check(envelope(), now=STARTED - timedelta(minutes=4)) == []
    assert check(envelope(), now=STARTED - timedelta(minutes=6)) == ["not_yet_valid"]


def test_a_changed_input_invalidates_the_certificate():
    assert check(envelope(), inputs_digest=digest(ACCEPTANCE.inputs)) == []
    assert check(envelope(), inputs_digest=digest(ACCEPTANCE.inputs | {"image": "image-2"})) == ["other_inputs"]


def test_a_certificate_of_a_rehearsal_is_valid_only_where_rehearsals_are_allowed():
    assert check(envelope(scale=4000)) == ["rehearsed"]
    assert check(envelope(scale=4000), allow_rehearsed=True) == []


def test_a_signed_failure_is_not_a_pass():
    said = statement(ACCEPTANCE)
    said["predicate"]["verdict"] = "short"
    assert check(sign(said, KEY)) == ["not_a_pass"]


def test_all_failures_of_a_check_are_reported_at_once():
    found = check(envelope(scale=2), now=STARTED + timedelta(days=99), inputs_digest="0" * 64)
    assert found == ["expired", "other_inputs", "rehearsed"]


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.OpenSSH])
def test_private_keys_in_pkcs8_and_openssh_format_can_sign(tmp_path, form):
    path = tmp_path / "key"
    path.write_bytes(KEY.private_bytes(Encoding.PEM, form, NoEncryption()))
    assert sign(statement(ACCEPTANCE), private_key(path)) == envelope()


def test_a_key_with_a_passphrase_is_refused(tmp_path):
    path = tmp_path / "pem"
    path.write_bytes(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    with pytest.raises(CertificateError, match="passphrase"):
        private_key(path)


def test_a_configured_key_that_cannot_sign_is_refused_with_its_path(tmp_path):
    path = tmp_path / "key"
    for text, says in (
        (
            KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")),
            f"{path} has a passphrase; ",
        ),
        (KEY.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH), f"{path} is neither PEM nor"),
        (KEY.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()), None),
    ):
        path.write_bytes(text)
        path.chmod(0o600)
        found = list(unusable(Records.model_validate({"certificate": {"key": str(path)}})))
        assert len(found) == (says is not None)
        assert all(one.startswith(f"records.certificate.key: the signing key {says}") for one in found), found
    assert not list(unusable(Records()))


def test_an_openssh_key_with_a_passphrase_is_refused(tmp_path):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("there is no ssh-keygen here")
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(path)], check=True)
    with pytest.raises(CertificateError, match="passphrase"):
        private_key(path)


def test_a_missing_key_file_or_a_file_without_an_ed25519_key_is_refused_without_showing_the_files_text(tmp_path):
    path = tmp_path / "key"
    with pytest.raises(CertificateError, match="cannot be read: No such file"):
        private_key(path)
    path.write_text("hunter2-not-a-key")
    with pytest.raises(CertificateError, match="neither PEM nor") as refused:
        private_key(path)
    assert "hunter2" not in str(refused.value)
    path.write_bytes(generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(CertificateError, match="is not ed25519"):
        private_key(path)


def test_public_keys_in_pem_and_openssh_format_are_read():
    pem = PUBLIC.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for text in (pem, pem.decode(), LINE, LINE + " a comment\n"):
        assert check(envelope(), key=public_key(text)) == []


def test_a_file_that_is_not_a_public_key_is_refused_in_a_sentence():
    elliptic = generate_private_key(SECP256R1()).public_key()
    for text in ("", "ssh-ed25519", "hello", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"):
        with pytest.raises(UnusableError, match="neither PEM nor a line of OpenSSH"):
            public_key(text)
    with pytest.raises(UnusableError, match="is not ed25519"):
        public_key(elliptic.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def test_a_key_made_by_ssh_keygen_can_sign_and_its_key_id_is_the_fingerprint_that_ssh_keygen_shows(tmp_path):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("there is no ssh-keygen here")
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    key = public_key((tmp_path / "key.pub").read_bytes())
    document = sign(statement(ACCEPTANCE), private_key(path))
    assert check(document, key=key) == []
    shown = subprocess.run(["ssh-keygen", "-l", "-f", str(path)], capture_output=True, text=True, check=True).stdout
    assert verifier.key_id(key) in shown


@pytest.fixture
def files(tmp_path):
    """Write a certificate of a run that began an hour ago, the public key of its signer, and another public key.

    Returns the paths of the certificate and of the signer's key.
    """
    moment = datetime.now(UTC) - timedelta(hours=1)
    made = envelope(started=moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
    (tmp_path / "cert.json").write_text(json.dumps(made))
    (tmp_path / "key.pub").write_text(LINE)
    (tmp_path / "other.pub").write_bytes(OTHER.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    return str(tmp_path / "cert.json"), str(tmp_path / "key.pub")


def test_the_verify_command_exits_with_status_0_or_1_or_2_and_says_why(files, capsys, tmp_path):
    certificate, key = files
    assert verifier.main([certificate, "--key", key]) == 0
    assert "93.5 GB/s on 2 nodes" in capsys.readouterr().out
    assert verifier.main([certificate, "--key", str(tmp_path / "other.pub")]) == 1
    assert capsys.readouterr().out.startswith("does not hold, bad_signature:")
    assert verifier.main([certificate, "--key", key, "--inputs-digest", "0" * 64]) == 1
    assert "other_inputs" in capsys.readouterr().out
    typed = [sys.executable, "-m", "benchmarks.records.verify", certificate, "--key", str(tmp_path / "other.pub")]
    assert subprocess.run(typed, cwd=ROOT, capture_output=True, check=False).returncode == 1
    for wrong in (
        [certificate, "--key", "/nowhere"],
        ["/nowhere", "--key", key],
        [key, "--key", key],
        [certificate, "--key", certificate],
    ):
        assert verifier.main(wrong) == 2
        assert capsys.readouterr().err.startswith("cannot be checked:")
    with pytest.raises(SystemExit) as ended:
        verifier.main([certificate])
    assert ended.value.code == 2
    assert "--key" in capsys.readouterr().err, "the command has no default key"


def test_the_verify_command_reads_a_certificate_from_standard_input(files):
    certificate, key = files
    typed = [sys.executable, "-m", "benchmarks.records.verify", "-", "--key", key]
    given = Path(certificate).read_bytes()
    assert subprocess.run(typed, cwd=ROOT, input=given, capture_output=True, check=False).stdout.startswith(b"holds until")
    assert subprocess.run(typed, cwd=ROOT, input=b"{}", capture_output=True, check=False).returncode == 1


def test_with_the_option_json_the_verify_command_prints_json(files, capsys):
    certificate, key = files
    assert verifier.main([certificate, "--key", key, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["statement"]["predicate"]["busbw_gb_s"] == 93.5
    assert verifier.main([certificate, "--key", key, "--json", "--inputs-digest", "0"]) == 1
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["failures"]] == ["other_inputs"]
    assert verifier.main(["/nowhere", "--key", key, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["holds"] is None


def test_the_verifier_is_one_file_that_needs_nothing_else_of_this_repository(files, tmp_path):
    certificate, key = files
    shutil.copy(ROOT / "examples" / "consumer" / "busbar_verify.py", tmp_path / "busbar_verify.py")
    argv = [sys.executable, "-I", str(tmp_path / "busbar_verify.py"), "-", "--key", key]
    text = Path(certificate).read_text()
    found = subprocess.run(argv, input=text, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (found.returncode, found.stderr) == (0, "")


def stack_outputs(days_ago: float = 1, **changes: Any) -> dict[str, Any]:
    moment = datetime.now(UTC) - timedelta(days=days_ago)
    nodes = [{"name": name, "address": f"10.0.1.{index}", "pool": "gpu"} for index, name in enumerate(ACCEPTANCE.nodes)]
    certificate = envelope(**{"started": moment.strftime("%Y-%m-%dT%H:%M:%SZ")} | changes)
    # Nodes of another pool are not part of the measurement.
    measured = {"pool": "gpu", "certificate": certificate, "verdict": "pass", "run": ACCEPTANCE.run_id}
    measured["evidence"] = {"sha256": ACCEPTANCE.transcript_sha256}
    return {"nodes": [*nodes, {"name": "other", "address": "10.0.1.99", "pool": "spare"}], "measured": measured}


def beside(**changes: Any) -> dict[str, Any]:
    """Return a stack's outputs; `changes` replace fields of `measured`, but not what the stack's certificate attests."""
    found = stack_outputs(asked="request1")
    return found | {"measured": found["measured"] | changes}


@pytest.mark.parametrize("preview", [True, False])
def test_a_program_that_reads_the_outputs_gets_what_was_attested(monkeypatch, preview):
    (said,) = demand(monkeypatch, stack_outputs(), key=LINE, preview=preview, collective="all_reduce", min_busbw_gb_s=93.0)
    assert said["busbw_gb_s"] == 93.5


@pytest.mark.parametrize("preview", [True, False])
@pytest.mark.parametrize(
    ("outputs", "asked", "why"),
    [
        ({"measured": {"pool": "gpu", "certificate": None}, "nodes": []}, {}, "has no certificate; only an update that passed"),
        ({}, {}, "has no certificate"),
        (stack_outputs(31), {}, "it expired at"),
        (stack_outputs(scale=4000), {}, "rehearsal at 1/4000"),
        (
            stack_outputs(),
            {"key": OTHER.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()},
            "it has no valid signature",
        ),
        (stack_outputs(), {"key": "nonsense"}, "the public key is neither"),
        (stack_outputs(), {"min_busbw_gb_s": 94.0}, "it attests 93.5 GB/s, but this work needs 94 GB/s"),
        (stack_outputs(), {"collective": "alltoall"}, "it attests all_reduce, but this work needs alltoall"),
        (stack_outputs(), {"inputs_digest": "0" * 64}, "it is for other inputs"),
        (
            stack_outputs() | {"nodes": [{"name": "inst-0", "pool": "gpu"}, {"name": "inst-9", "pool": "gpu"}]},
            {},
            "it attests other nodes",
        ),
        (
            stack_outputs() | {"measured": {"pool": "gpu", "certificate": {"payload": "x"}, "verdict": "pass"}},
            {},
            "it is not a certificate",
        ),
        (beside(verdict="short"), {}, "the verdict of stack organization/busbar/dev is short, not pass"),
        (beside(run="another"), {}, "it is for run abc123, but the stack's outputs are from run another"),
        (beside(evidence={"sha256": "cd" * 32}), {}, "its transcript is not the evidence that the stack's outputs name"),
        (beside(evidence=None), {}, "its transcript is not the evidence"),
        (beside(), {"asked": "request2"}, "it is for the request request1, not for request2"),
        (stack_outputs(nodes={"inst-0": "i0@10.0.1.0", "inst-1": "i1@10.9.9.9"}), {}, "than the stack now has for inst-1"),
        (stack_outputs(stack="organization/busbar/other"), {}, "it is for stack organization/busbar/other"),
        (stack_outputs(stack="dev"), {}, "it is for stack dev"),
        (stack_outputs(stack=""), {}, "it does not say which stack it is for"),
        (stack_outputs(checks={"transport": "skipped", "spread": "skipped"}), {}, "these checks were skipped: transport"),
        (stack_outputs(), {"allow_skipped": frozenset()}, "these checks were skipped: spread"),
    ],
)
def test_a_program_that_reads_the_outputs_stops_with_one_sentence_if_its_requirements_are_not_met(
    monkeypatch, outputs, asked, why, preview
):
    with pytest.raises(pulumi.RunError, match=why) as refused:
        demand(monkeypatch, outputs, preview=preview, **{"key": LINE} | asked)
    assert "\n" not in str(refused.value)
    assert str(refused.value).endswith(".")


def test_a_certificate_that_meets_the_requirements_is_accepted(monkeypatch):
    assert demand(monkeypatch, beside(), key=LINE, preview=True, asked="request1")


def test_a_required_busbw_is_divided_by_the_scale_of_a_rehearsal(monkeypatch):
    outputs = stack_outputs(scale=4000, busbw_gb_s=0.0235)
    asked = {"allow_rehearsed": True, "preview": True, "key": LINE}
    assert demand(monkeypatch, outputs, min_busbw_gb_s=93.0, **asked)
    with pytest.raises(pulumi.RunError, match=r"this work needs 0\.02375 GB/s"):
        demand(monkeypatch, outputs, min_busbw_gb_s=95.0, **asked)


def consumer(monkeypatch: pytest.MonkeyPatch, **config: str) -> None:
    """Run the unchanged example program on outputs that contain the certificate of a rehearsal."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "consumer"))
    asyncio.set_event_loop(asyncio.new_event_loop())
    outputs = stack_outputs(scale=4000, busbw_gb_s=0.0235) | {"schema": 1}
    outputs["measured"] |= {"verdict": "pass", "busbw_gb_s": 0.0235, "scale": 4000}
    pulumi.runtime.set_mocks(Reader(outputs), project="busbar-consumer", stack="dev", preview=True)
    values = {"cluster": "organization/busbar/dev", "needGbS": "90"} | config
    pulumi.runtime.set_all_config({f"busbar-consumer:{name}": value for name, value in values.items()})

    @pulumi.runtime.test
    def program() -> None:
        runpy.run_path(str(ROOT / "examples" / "consumer" / "__main__.py"))

    program()


def test_the_example_program_checks_the_certificate_only_if_a_public_key_is_configured(monkeypatch):
    consumer(monkeypatch)
    consumer(monkeypatch, publicKey=LINE, allowRehearsed="true")
    with pytest.raises(pulumi.RunError, match="it is from a rehearsal"):
        consumer(monkeypatch, publicKey=LINE)


def test_a_certificate_has_checks_and_looks_and_both_transcripts_and_says_if_the_gate_is_the_users_own():
    first = {"of": "first", "sha256": "cd" * 32}
    said = statement(replace(ACCEPTANCE, own_gate=True, retested=True, others=[first]))["predicate"]
    assert said["transcripts"] == [{"of": "decided", "sha256": ACCEPTANCE.transcript_sha256}, first]
    assert said["checks"] == ACCEPTANCE.checks
    assert (said["own_gate"], said["retested"], said["looks"]) == (True, True, {"slow": 0, "of": 17})


@pytest.mark.parametrize("others", [[], [{"of": "first", "sha256": ""}], [{"of": "first", "sha256": "none"}]])
def test_a_pass_on_a_retest_is_not_attested_without_the_first_transcript(others):
    with pytest.raises(CertificateError, match="transcript"):
        statement(replace(ACCEPTANCE, retested=True, others=others))


def test_a_certificate_with_a_scale_above_1_counts_as_a_rehearsal_whatever_its_label():
    said = statement(replace(ACCEPTANCE, scale=4000))
    said["predicate"]["rehearsed"] = False
    assert names(verifier.verify(sign(said, KEY), PUBLIC, STARTED + timedelta(days=1))) == ["rehearsed"]
