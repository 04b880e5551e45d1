"""Issues and verifies the certificates by which the federation service identifies instances.

This is a program: `python -m rehearsal.oci.api.identity HOST_ID` writes a host's identity, which the host's metadata service
serves, and starts the API. Sources: oci-python-sdk 2.189, auth/auth_utils.py (a certificate's subject contains the tenancy) and
auth/certificate_retriever.py; "Calling Services from an Instance" (certificates and keys are rotated several times a day).
"""

from __future__ import annotations

import json
import sys
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from rehearsal.net import wires
from rehearsal.oci.api import end_point
from rehearsal.oci.launch import INSTANCE
from rehearsal.oci.places import TENANCY
from rehearsal.plugin.store import Record, Store
from rehearsal.world.world import World, write_whole

_FOLDER = "identities"
_AUTHORITY = timedelta(days=3650)
_LEAF = timedelta(hours=8)
_PEM = serialization.Encoding.PEM
_PLAIN = (serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
_ROOT, _BETWEEN = "PKISVC Identity Root rehearsed", "PKISVC Identity Intermediate rehearsed"
_INSTANCE = "opc-instance:"


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _signed(
    subject: x509.Name, public: rsa.RSAPublicKey, issuer: str, key: rsa.RSAPrivateKey, life: timedelta
) -> x509.Certificate:
    now = datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(_name(issuer)).public_key(public)
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(minutes=5))
    return made.not_valid_after(now + life).sign(key, hashes.SHA256())


def _name(common: str, *units: str) -> x509.Name:
    # The vendor's names are longer than the 64 characters that X.520 allows. The warning about the length is ignored, as in
    # the vendor's SDK.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, common, _validate=False)]
    return x509.Name([*parts, *(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in units)])


def _authority(world: World) -> tuple[x509.Certificate, x509.Certificate, rsa.RSAPrivateKey]:
    """Return the root certificate, and the intermediate certificate with its key; create all three if they do not exist."""
    folder = world.folder(_FOLDER)
    kept = folder / "authority.pem"
    with wires.locked(world, "identities"):
        if not kept.exists():
            folder.chmod(0o700)
            root_key, key = _new_key(), _new_key()
            root = _signed(_name(_ROOT), root_key.public_key(), _ROOT, root_key, _AUTHORITY)
            between = _signed(_name(_BETWEEN), key.public_key(), _ROOT, root_key, _AUTHORITY)
            parts = [root.public_bytes(_PEM), between.public_bytes(_PEM), key.private_bytes(_PEM, *_PLAIN)]
            write_whole(kept, b"".join(parts).decode())
    text = kept.read_bytes()
    root, between = x509.load_pem_x509_certificates(text)
    loaded = serialization.load_pem_private_key(text[text.index(b"-----BEGIN RSA") :], None)
    if not isinstance(loaded, rsa.RSAPrivateKey):
        raise TypeError(f"{kept} contains a key that is not an RSA key.")
    return root, between, loaded


def issue(world: World, instance: Record) -> dict[str, str]:
    """Return an instance's new certificate and key and the intermediate certificate, under their file names in the metadata."""
    _, between, authority = _authority(world)
    key = _new_key()
    units = ("opc-certtype:instance", f"opc-compartment:{instance.inputs['compartmentId']}")
    subject = _name(instance.id, *units, f"{_INSTANCE}{instance.id}", f"opc-tenant:{TENANCY}")
    leaf = _signed(subject, key.public_key(), _BETWEEN, authority, _LEAF)
    return {
        "cert.pem": leaf.public_bytes(_PEM).decode(),
        "key.pem": key.private_bytes(_PEM, *_PLAIN).decode(),
        "intermediate.pem": between.public_bytes(_PEM).decode(),
    }


def verified(world: World, leaf: x509.Certificate, between: list[x509.Certificate]) -> str:
    """Check that this tenancy's authority signed a certificate; return the instance that the certificate identifies.

    Raises:
        ValueError: another authority signed the certificate, or the certificate is not valid now.
    """
    root, _, _ = _authority(world)
    now = datetime.now(UTC)
    for issuer in between:
        try:
            issuer.verify_directly_issued_by(root)
            leaf.verify_directly_issued_by(issuer)
        except (InvalidSignature, TypeError, ValueError):
            continue
        if all(one.not_valid_before_utc <= now <= one.not_valid_after_utc for one in (leaf, issuer)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                units = [str(one.value) for one in leaf.subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)]
            return next(unit.removeprefix(_INSTANCE) for unit in units if unit.startswith(_INSTANCE))
    raise ValueError("this tenancy's authority did not issue the certificate, or the certificate has expired.")


def main(host_id: str) -> None:
    """Write the identity of a host for its metadata service."""
    world = World.current()
    end_point.start(world)
    records = Store(world, end_point.CLOUD).read().of(INSTANCE)
    instance = next(one for one in records if one.short == host_id)
    write_whole(Path(world.folder(_FOLDER), f"{host_id}.json"), json.dumps(issue(world, instance)))


if __name__ == "__main__":
    main(sys.argv[1])
