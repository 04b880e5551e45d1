"""List pagination: `limit`, `page` and `opc-next-page` ("List Pagination", usingapi.htm)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from rehearsal.oci.errors import Problem
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.https_service import Answer

_USUAL, _MOST = 100, 1000


def page(found: Sequence[Mapping[str, Any]], query: Mapping[str, str]) -> Answer:
    """Return one page of a list; if there is a next page, the headers contain its token.

    Raises:
        ServiceError: the query's `limit` or `page` is invalid.
    """
    text = query.get("limit", str(_USUAL))
    if not text.isdecimal() or not 1 <= int(text) <= _MOST:
        raise ServiceError(Problem("limit", f"limit is {text!r}, but must be a number from 1 to {_MOST}."), "Core", "")
    start, limit = _start(query.get("page", "")), int(text)
    more = {"opc-next-page": _token(start + limit)} if start + limit < len(found) else {}
    return Answer(200, list(found[start : start + limit]), more)


def _token(start: int) -> str:
    return base64.urlsafe_b64encode(f"from {start}".encode()).decode()


def _start(token: str) -> int:
    if not token:
        return 0
    try:
        return int(base64.urlsafe_b64decode(token).decode().removeprefix("from "))
    except (ValueError, binascii.Error):
        raise ServiceError(Problem("page", "page is not a token of this list."), "Core", "") from None
