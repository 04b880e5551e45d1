"""Downloads text files by URL and sha256, and keeps copies in the user's cache."""

from __future__ import annotations

import hashlib
import http.client
import urllib.request

from components.kept_programs import kept, place

_TIMEOUT_S, _LIMIT_BYTES = 30, 2**20


def fetched(url: str, sha256: str) -> str:
    """Return the text at `url` from the cache; download the file if the cache lacks it or has a copy with another sha256.

    Raises:
        ValueError: the file cannot be downloaded, or has another sha256. The error's text is a clause that can be put into a
            sentence: it has no capital letter at its beginning and no full stop. The text ends with the path at which a person
            can place the file.
    """
    name = f"{sha256[:16]}-{url.rpartition('/')[2]}"
    path = place(name)
    if path.is_file() and _sum(data := path.read_bytes()) == sha256:
        return data.decode()
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - addresses of the catalogue
            data = bytes(answer.read(_LIMIT_BYTES))
    except (OSError, http.client.HTTPException) as problem:
        raise ValueError(
            f"this machine cannot fetch {url} ({problem}); put the file with sha256 {sha256} on this machine as {path}"
        ) from None
    if (found := _sum(data)) != sha256:
        raise ValueError(
            f"{url} has sha256 {found} and not {sha256}, so somebody changed it; put the genuine file on this machine as {path}"
        )
    kept(data, name)
    return data.decode()


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
