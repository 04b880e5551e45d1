"""Values that several groups share: networks, public keys, time zones, checksums, who may log in."""

from __future__ import annotations

import base64
import binascii
import difflib
import ipaddress
import re
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field

from config.model import Model
from config.rule import Breach

_T = TypeVar("_T")
_WORLD = ipaddress.IPv4Network("0.0.0.0/0")
_KEY_TYPES = ("ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
#: Where ssh-keygen writes a key by default.
_USUAL_KEY = "~/.ssh/id_ed25519.pub"


def _network(value: str) -> str:
    try:
        return str(ipaddress.IPv4Network(value))
    except ValueError as error:
        if re.match(r"ocid1\.|vpc-|subnet-", str(value)):
            raise ValueError(
                f"is {value!r}, the id of an existing network: name it in network.existing, and write addresses here, like "
                "10.0.0.0/16"
            ) from None
        raise ValueError(f"is {value!r}, which is no IPv4 network ({error}); write it like 10.0.0.0/16") from None


def _public_key(value: str) -> str:
    """Return type and base64 text of a key, which is set as text or as the path of a .pub file."""
    text = value.strip()
    if text.endswith(".pub") and "\n" not in text:
        try:
            text = Path(text).expanduser().read_text().strip()
        except OSError as error:
            raise ValueError(
                f"is {value!r}, a file that cannot be read ({error.strerror}); give a public key, or the path of a .pub file"
            ) from None
    if "PRIVATE KEY" in text:
        raise ValueError("is a private key, which must never leave its owner; give the public half (the .pub file)")
    words = text.split()
    if len(words) < 2 or words[0] not in _KEY_TYPES or not _is_key(words[0], words[1]):  # noqa: PLR2004 - type and key
        raise ValueError(
            f"is not an OpenSSH public key; it must look like '{_KEY_TYPES[0]} AAAA...', and its type must be one of "
            f"{', '.join(_KEY_TYPES)}"
        )
    return " ".join(words[:2])  # the comment often names a person and a machine, and nodes do not need it


def _is_key(kind: str, encoded: str) -> bool:
    """Tell whether the base64 text `encoded` contains a key of the type `kind` (RFC 4253, section 6.6)."""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return False
    return raw[4 : 4 + int.from_bytes(raw[:4], "big")] == kind.encode()


def _timezone(value: str) -> str:
    if not _is_timezone(value):
        near = difflib.get_close_matches(value, zoneinfo.available_timezones(), n=2)
        hint = f"the nearest are {' and '.join(near)}" if near else "write a name such as UTC or Asia/Tokyo"
        raise ValueError(f"is {value!r}, which the tz database does not know; {hint}")
    return value


def _is_timezone(value: str) -> bool:
    """Tell whether `value` is in zoneinfo.available_timezones(), without building that list, which takes 50 ms."""
    if value in {"localtime", "posixrules"} or value.startswith(("posix/", "right/")):
        return False
    try:
        return bool(zoneinfo.ZoneInfo(value).key)
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError):
        return False


def _globs(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or not all(pattern.startswith("/") for pattern in value):
        raise ValueError(f"is {', '.join(value) or 'empty'}; it must be a list of absolute paths or globs")
    return value


def three_numbers(example: str) -> AfterValidator:
    """Return a validator that accepts only versions of three numbers, such as 2.2.0; its message shows `example`."""

    def check(value: str) -> str:
        if not re.fullmatch(r"\d+\.\d+\.\d+", value):
            raise ValueError(f"is {value!r}; it must be a version of three numbers, such as {example}")
        return value

    return AfterValidator(check)


#: Folders, in order of preference; the newest match of a glob is used.
Globs = Annotated[tuple[str, ...], AfterValidator(_globs)]
Cidr = Annotated[str, AfterValidator(_network)]
SHA256_PATTERN = "^[0-9a-f]{64}$"
Sha256 = Annotated[str, Field(pattern=SHA256_PATTERN)]


def _fingerprint(value: str) -> str:
    plain = "".join(str(value).split()).upper()
    if re.fullmatch("[0-9A-F]{40}", plain) is None:
        raise ValueError(
            f"is {value!r}; an OpenPGP fingerprint has 40 hexadecimal digits, as `gpg --show-keys FILE` prints it, with or "
            "without spaces"
        )
    return plain


#: Fingerprint of an OpenPGP key; without spaces, in capitals.
Fingerprint = Annotated[str, AfterValidator(_fingerprint)]
PublicKey = Annotated[str, AfterValidator(_public_key)]
Timezone = Annotated[str, AfterValidator(_timezone)]
#: What a destroy of the stack does about data: the destroy fails, leaves the data, or deletes the data.
OnDestroy = Literal["refuse", "retain", "delete"]

#: The key `allowReplace`.
AllowReplace = Annotated[
    int,
    Field(
        ge=0,
        description="Number of GPU machines that an update may replace because their image, shape or launch settings "
        "changed, because their entry is gone, or because of --replace. Nodes that Slurm started are counted separately, and "
        "their count may not exceed the same number. If the login node is replaced, all of them count; otherwise only those "
        "that the update removes while jobs run on them. Remove this key after the update.",
        examples=[2],
    ),
]

#: The key `allowReplace` of a file system.
AllowReplaceData = Annotated[
    tuple[str, ...],
    Field(
        description="Allows an update to replace this file system (on AWS, also the bucket of its mirrors) and so to delete "
        "its data; list their ids. Only needed with `onDestroy: delete`. Remove this key afterwards.",
    ),
]


def some(value: tuple[_T, ...]) -> tuple[_T, ...]:
    """Return the list `value`; refuse an empty list."""
    if not value:
        raise ValueError("is empty; it needs at least one entry")
    return value


class Access(Model):
    """Who may log in, and from where."""

    public_key: PublicKey = Field(
        default=_USUAL_KEY,
        validate_default=True,
        description="Your OpenSSH public key, or the path of its .pub file; the private half stays in your agent.",
        examples=["~/.ssh/id_ed25519.pub", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"],
    )
    ssh_from: tuple[Cidr, ...] = Field(
        description="Networks that may open SSH to the login node; at least one.", examples=[["203.0.113.7/32"]]
    )
    allow_world: bool = Field(
        default=False, description="Must be true before sshFrom may contain the whole Internet.", examples=[True]
    )

    def broken(self, path: str) -> Iterator[Breach]:
        """Yield what is wrong with `sshFrom`; `path` is the path of this group in the stack file."""
        networks = tuple(ipaddress.IPv4Network(cidr) for cidr in self.ssh_from)
        if not networks:
            yield Breach(
                f"{path}.sshFrom", "is empty; name at least one network that may reach the login node, such as your office's"
            )
        elif not self.allow_world and _WORLD in ipaddress.collapse_addresses(networks):
            yield Breach(
                f"{path}.sshFrom",
                "contains 0.0.0.0/0, the whole Internet; name your networks, or set allowWorld: true if you want this",
            )
