"""Temporary credentials of an instance's role: the metadata service issues them, and the rehearsed API verifies them.

No session is stored: the world's own key authenticates each session token, and each secret is derived from the world's key and
the access key id. Source of the format: EC2 user guide, "Retrieve security credentials from instance metadata". This module
imports only the standard library.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import string
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

LIFE_S = 6 * 3600
_FOLDER, _KEY = "identities", "sts.key"
_ID = string.ascii_uppercase + "234567"


@dataclass(frozen=True)
class Session:
    """Issued credentials: the instance, the role's name, the secret, and when the credentials expire (Unix time)."""

    instance: str
    role: str
    secret: str
    end: float


def _key(world: Path) -> bytes:
    """Return the world's key; create it if it does not exist."""
    folder = world / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    file = folder / _KEY
    if not file.exists():
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f"{_KEY}.") as fresh:  # mode 0600
            fresh.write(secrets.token_bytes(32))
            fresh.flush()
            with contextlib.suppress(FileExistsError):  # another process was faster; the other process's key is used
                os.link(fresh.name, file)
    return file.read_bytes()


def _secret(key: bytes, key_id: str) -> str:
    return base64.b64encode(hmac.digest(key, f"secret of {key_id}".encode(), hashlib.sha256)).decode()[:40]


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def issue(world: Path, instance: str, role: str, now: float) -> str:
    """Return new credentials in the form that the metadata service returns."""
    key = _key(world)
    key_id = f"ASIA{''.join(secrets.choice(_ID) for _ in range(16))}"
    text = json.dumps({"instance": instance, "role": role, "key": key_id, "end": now + LIFE_S})
    sealed = base64.b64encode(text.encode() + hmac.digest(key, text.encode(), hashlib.sha256)).decode()
    shown = {
        "Code": "Success", "LastUpdated": _time(now), "Type": "AWS-HMAC", "AccessKeyId": key_id,
        "SecretAccessKey": _secret(key, key_id), "Token": sealed, "Expiration": _time(now + LIFE_S),
    }  # fmt: skip
    return json.dumps(shown, indent=2)


def opened(world: Path, key_id: str, token: str) -> Session | None:
    """Return the session of a key id and a token, even if the session has expired; None if this world did not issue them."""
    key = _key(world)
    try:
        data = base64.b64decode(token, validate=True)
    except ValueError:
        return None
    text, seal = data[:-32], data[-32:]
    if not hmac.compare_digest(seal, hmac.digest(key, text, hashlib.sha256)):
        return None
    found = json.loads(text)
    return Session(found["instance"], found["role"], _secret(key, key_id), found["end"]) if found["key"] == key_id else None
