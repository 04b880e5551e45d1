"""Sends one HTTP request with a timeout; returns the answer whatever its status."""

import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Callable, Dict, NamedTuple


class Answer(NamedTuple):
    """Status, body and headers of an HTTP answer. Names of headers are in lower case; after an HTTP error, none are kept."""

    status: int
    body: bytes
    headers: Dict[str, str] = {}  # noqa: RUF012 - never changed; a NamedTuple's default is shared


#: Sends (method, URL, headers, body, timeout in seconds) and returns the answer; raises OSError if there is no answer.
Http = Callable[[str, str, Dict[str, str], bytes, float], Answer]


def send(method: str, url: str, headers: Dict[str, str], body: bytes, timeout_s: float) -> Answer:
    """Send one request directly, even if the environment names a proxy: cloud services are reached without a proxy."""
    request = urllib.request.Request(url, data=body or None, headers=headers, method=method)  # noqa: S310 - constant schemes
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            return Answer(answer.status, answer.read(), {name.lower(): value for name, value in answer.headers.items()})
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.read())
    except HTTPException as error:
        raise OSError(str(error)) from None
