"""Kinds of values that a stack file holds, each with its one-sentence refusal; knows no target."""

from __future__ import annotations

import base64
import binascii
import difflib
import ipaddress
import re
import zoneinfo
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

_WORLD = ipaddress.IPv4Network("0.0.0.0/0")
_KEY_TYPES = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")


def network(value: str) -> str:
    """Return an IPv4 network in CIDR notation; ValueError if it is none."""
    try:
        return str(ipaddress.IPv4Network(value))
    except ValueError as error:
        msg = f"is {value!r}, which is no IPv4 network ({error}); write it like 10.0.0.0/16"
        raise ValueError(msg) from None


def ocid(kind: str) -> AfterValidator:
    """Return a check for OCIDs of one kind."""

    def check(value: str) -> str:
        if not re.fullmatch(rf"ocid1\.{kind}\.[a-z0-9]+\.[a-z0-9-]*\.[A-Za-z0-9_-]+", value):
            msg = f"is {value!r}; it must be an OCID that begins with ocid1.{kind}."
            raise ValueError(msg)
        return value

    return AfterValidator(check)


def public_key(value: str) -> str:
    """Return type and key of an OpenSSH public key, given itself or by the path of a .pub file; ValueError if it is none."""
    text = value.strip()
    if text.endswith(".pub") and "\n" not in text:
        try:
            text = Path(text).expanduser().read_text().strip()
        except OSError as error:
            msg = f"names the file {value!r}, which cannot be read ({error.strerror}); give a public key or the path of one"
            raise ValueError(msg) from None
    words = text.split()
    if "PRIVATE KEY" in text:
        msg = "is a private key, which must never leave its owner; give the public half (the .pub file)"
        raise ValueError(msg)
    if len(words) < 2 or words[0] not in _KEY_TYPES or not _is_key(words[0], words[1]):  # noqa: PLR2004 - type and key
        msg = f"is not an OpenSSH public key; it must look like '{_KEY_TYPES[0]} AAAA...', with one of {', '.join(_KEY_TYPES)}"
        raise ValueError(msg)
    return " ".join(words[:2])  # the comment often names a person and a machine, and no node needs it


def _is_key(kind: str, encoded: str) -> bool:
    """Tell whether the base64 text holds the key type that it claims (RFC 4253, section 6.6)."""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return False
    return raw[4 : 4 + int.from_bytes(raw[:4], "big")] == kind.encode()


def timezone(value: str) -> str:
    """Return a name of the tz database; ValueError if it is none."""
    if value not in zoneinfo.available_timezones():
        near = difflib.get_close_matches(value, zoneinfo.available_timezones(), n=2)
        msg = f"is {value!r}, which the tz database does not know; like it are {', '.join(near) or 'UTC, Asia/Tokyo'}"
        raise ValueError(msg)
    return value


def narrow(ssh_from: Iterable[str], door: str, *, allow_world: bool) -> None:
    """Refuse networks that leave nobody in, or everybody; `door` is what they reach. ValueError with a sentence."""
    networks = tuple(ipaddress.IPv4Network(cidr) for cidr in ssh_from)
    if not networks:
        raise ValueError(f"sshFrom is empty; name at least one network that may reach the {door}, such as your office's")
    if not allow_world and _WORLD in ipaddress.collapse_addresses(networks):
        raise ValueError(
            "sshFrom contains 0.0.0.0/0, the whole Internet; name your networks, or set allowWorld: true if you mean it"
        )


Cidr = Annotated[str, AfterValidator(network)]
PublicKey = Annotated[str, AfterValidator(public_key)]
Timezone = Annotated[str, AfterValidator(timezone)]
