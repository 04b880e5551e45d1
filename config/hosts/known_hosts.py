"""Host keys that the operator already trusts, read from a known_hosts file as sshd(8) describes it, hashed names included."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
from dataclasses import dataclass
from pathlib import Path

#: Types of host keys, best first. RSA is left out: with RSA, the SSH client of Pulumi's Command
#: resources would use SHA-1, which sshd refuses.
_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")


@dataclass(frozen=True)
class KnownHosts:
    """The host keys of one file, in the file's order; each row has host names as written, key type, and key."""

    path: str
    rows: tuple[tuple[str, str, str], ...]

    def key(self, address: str) -> str:
        """Return the pinned key of `address`; if there is no such key, raise ValueError with the command to type."""
        mine = [(kind, key) for names, kind, key in self.rows if _matches(names, address)]
        for wanted in _TYPES:
            for kind, key in mine:
                if kind == wanted:
                    return f"{kind} {key}"
        has = f"holds only an {mine[0][0]} key of {address}" if mine else f"holds no host key of {address}"
        raise ValueError(
            f"is {self.path}, which {has}; nothing is trusted on first use, so type "
            f"'ssh-keyscan -t ed25519 {address} >> {self.path}' on a network that you trust, and compare the key with the "
            "host's own"
        )


def read(path: str) -> KnownHosts:
    """Return the keys in the file `path`; raise ValueError if the file exists but cannot be read."""
    try:
        text = Path(path).expanduser().read_text(errors="replace")
    except FileNotFoundError:
        text = ""  # a missing file counts as an empty file, so that the error names the host that has no key
    except OSError as error:
        raise ValueError(f"is {path}, which cannot be read ({error.strerror})") from None
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    revoked = {(words[2], words[3]) for words in lines if words[0] == "@revoked" and len(words) > 3}  # noqa: PLR2004 - the key
    plain = [words for words in lines if not words[0].startswith("@") and len(words) > 2]  # noqa: PLR2004 - the key
    rows = tuple((names, kind, key) for names, kind, key, *_ in plain)
    return KnownHosts(path, tuple(row for row in rows if (row[1], row[2]) not in revoked))


def _matches(names: str, address: str) -> bool:
    """Tell whether the first field of a line matches `address` on port 22; a negated pattern wins."""
    if names.startswith("|1|"):
        return _hashed(names, address)
    patterns = names.split(",")
    if any(pattern.startswith("!") and fnmatch.fnmatchcase(address, pattern[1:]) for pattern in patterns):
        return False
    return any(fnmatch.fnmatchcase(address, pattern.removesuffix("]:22").removeprefix("[")) for pattern in patterns)


def _hashed(names: str, address: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in names.split("|")[2:4])
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, address.encode(), hashlib.sha1).digest(), digest)
