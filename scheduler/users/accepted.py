"""Checks names, ids and SSH keys of users and groups; each function returns the reason for a refusal, or nothing."""

import base64
import binascii
import re
import struct
from typing import List, Tuple

#: Names that `useradd` of Debian and Red Hat accepts (shadow's useradd(8)), but only in lower case, because some file
#: systems do not distinguish upper and lower case in the names of home folders.
_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}\Z")
#: UID_MIN and UID_MAX in both distributions' /etc/login.defs; systemd uses larger ids itself.
LEAST, MOST = 1000, 60000
FIRST_UID = 10001
_KEY_TYPES = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)\Z"
)


def refused_name(name: str) -> str:
    """Return why a user or group cannot have the name `name`; empty if it can."""
    if not _NAME.match(name):
        return "a name has 1 to 32 lower-case letters, digits, - and _, and begins with a letter or _"
    return ""


def refused_number(number: int) -> str:
    """Return why a user or group cannot have the id `number`; empty if it can."""
    if not LEAST <= number <= MOST:
        return f"an id is from {LEAST} to {MOST}; other ids belong to the system (/etc/login.defs)"
    return ""


def refused_full_name(text: str) -> str:
    """Return why a user cannot have that full name; empty if the name is valid."""
    if len(text) > 100 or not text.isprintable() or any(letter in text for letter in ":,="):  # noqa: PLR2004 - in the message
        return "a full name has at most 100 characters, and none of : , = or a line break (passwd(5))"
    if text != text.strip():
        return "a full name neither begins nor ends with a space"
    return ""


def public_keys(text: str) -> Tuple[List[str], str]:
    """Return the public keys in a text, one per line, and why the text is refused (empty if it is accepted)."""
    numbered = enumerate(text.replace("\r\n", "\n").split("\n"), 1)
    lines = [(number, line.strip()) for number, line in numbered if line.strip() and not line.startswith("#")]
    if "PRIVATE KEY-----" in text:
        return [], "this is a private key, which must stay secret; give the file whose name ends with .pub"
    if not lines:
        return [], "the text contains no public key"
    bad = next((number for number, line in lines if not _is_key(line)), 0)
    keys = [line for _, line in lines]
    return ([], f"line {bad} is no public key such as `ssh-ed25519 AAAA... name`") if bad else (keys, "")


def _is_key(line: str) -> bool:
    """Return whether a line is TYPE BASE64 [COMMENT], with the same type inside the data (RFC 4253, 6.6)."""
    words = line.split(None, 2)
    if len(words) < 2 or not _KEY_TYPES.match(words[0]) or not line.isprintable():  # noqa: PLR2004 - type and data
        return False
    try:
        data = base64.b64decode(words[1], validate=True)
        (length,) = struct.unpack(">I", data[:4])
    except (binascii.Error, struct.error):
        return False
    return data[4 : 4 + length] == words[0].encode() and len(data) > 4 + length
