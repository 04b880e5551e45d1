"""Makes detached OpenPGP signatures for rehearsed repositories; each key is derived from the name of its owner.

Formats: RFC 4880, sections 4.2, 5.2.3 to 5.5.2 and 6; for Ed25519, draft-ietf-openpgp-rfc4880bis-10, section 13.3. The keys
protect nothing, because anybody with this file can sign with them.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

#: Creation time of keys and signatures: 2024-01-01, before any rehearsal.
_CREATED = (1_704_067_200).to_bytes(4, "big")
_EDDSA, _SHA256 = 22, 8
_CURVE = bytes.fromhex("2b06010401da470f01")
#: Types of packets.
_SIGNATURE, _PUBLIC_KEY, _USER_ID = 2, 6, 13
_TIME, _ISSUER, _FLAGS, _ISSUER_FINGERPRINT = 2, 16, 27, 33
#: Types of signatures: on a document, and on a user id together with the user's key.
_DOCUMENT, _CERTIFICATION = 0x00, 0x13
_MAY_CERTIFY_AND_SIGN = b"\x03"
_ONE_OCTET, _CRC, _CRC_START = 192, 0x1864CFB, 0xB704CE


def detached(owner: str, content: bytes) -> str:
    """Return the armoured signature of a document by the key of `owner`."""
    return _armoured("SIGNATURE", _packet(_SIGNATURE, _signed(owner, _DOCUMENT, content)))


def public_key(owner: str) -> str:
    """Return the armoured public key of `owner`, such as `Ubuntu archive`; the key is self-signed."""
    body, user = _body(owner), f"Rehearsed {owner} <none@invalid>".encode()
    told = b"\x99" + len(body).to_bytes(2, "big") + body + b"\xb4" + len(user).to_bytes(4, "big") + user
    certified = _signed(owner, _CERTIFICATION, told, _subpacket(_FLAGS, _MAY_CERTIFY_AND_SIGN))
    packets = ((_PUBLIC_KEY, body), (_USER_ID, user), (_SIGNATURE, certified))
    return _armoured("PUBLIC KEY BLOCK", b"".join(_packet(kind, content) for kind, content in packets))


def fingerprint(owner: str) -> str:
    """Return the fingerprint of the key of `owner`, in the form that stack files use."""
    return _fingerprint(owner).hex().upper()


def _private(owner: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"busbar rehearsal: {owner}".encode()).digest())


def _body(owner: str) -> bytes:
    point = b"\x40" + _private(owner).public_key().public_bytes_raw()
    return b"\x04" + _CREATED + bytes([_EDDSA, len(_CURVE)]) + _CURVE + _number(point)


def _fingerprint(owner: str) -> bytes:
    body = _body(owner)
    return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).digest()  # noqa: S324 - the format requires SHA-1


def _signed(owner: str, kind: int, content: bytes, more: bytes = b"") -> bytes:
    """Return the body of a signature packet."""
    name = _fingerprint(owner)
    hashed = _subpacket(_ISSUER_FINGERPRINT, b"\x04" + name) + _subpacket(_TIME, _CREATED) + more
    head = bytes([4, kind, _EDDSA, _SHA256]) + len(hashed).to_bytes(2, "big") + hashed
    digest = hashlib.sha256(content + head + b"\x04\xff" + len(head).to_bytes(4, "big")).digest()
    made = _private(owner).sign(digest)
    unhashed = _subpacket(_ISSUER, name[-8:])
    return head + len(unhashed).to_bytes(2, "big") + unhashed + digest[:2] + _number(made[:32]) + _number(made[32:])


def _number(big: bytes) -> bytes:
    value = int.from_bytes(big, "big")
    return value.bit_length().to_bytes(2, "big") + value.to_bytes((value.bit_length() + 7) // 8, "big")


def _subpacket(kind: int, content: bytes) -> bytes:
    return bytes([len(content) + 1, kind]) + content


def _packet(kind: int, content: bytes) -> bytes:
    size = len(content)
    rest = size - _ONE_OCTET
    length = bytes([size]) if rest < 0 else bytes([_ONE_OCTET + (rest >> 8), rest & 0xFF])
    return bytes([0xC0 | kind]) + length + content


def _armoured(what: str, content: bytes) -> str:
    crc = _CRC_START
    for octet in content:
        crc ^= octet << 16
        for _ in range(8):
            crc = (crc << 1) ^ (_CRC if crc & 0x800000 else 0)
    lines = [f"-----BEGIN PGP {what}-----", "", *_lines(content), "=" + base64.b64encode(crc.to_bytes(3, "big")).decode()]
    return "\n".join([*lines, f"-----END PGP {what}-----"]) + "\n"


def _lines(content: bytes) -> Iterator[str]:
    text = base64.b64encode(content).decode()
    return (text[at : at + 64] for at in range(0, len(text), 64))
