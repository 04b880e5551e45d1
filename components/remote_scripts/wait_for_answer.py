"""Waits until a program on this machine answers over HTTP."""

import http.client
import sys
import time
import urllib.request

_ANSWERS_S = 15


def wait_for_answer(address: str, hint: str) -> None:
    """Return once `address` answers with a success status.

    If no such answer comes in time, exit with the last error and `hint`, which says where to look next.
    """
    deadline, last = time.monotonic() + _ANSWERS_S, ""
    # A connection of a machine to itself must not use a proxy from the environment.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline:
        try:
            with opener.open(address, timeout=5) as answer:
                answer.read()
                return
        except (OSError, http.client.HTTPException) as error:
            last = str(error) or type(error).__name__
        time.sleep(0.2)
    sys.exit(f"{address} did not answer with success within {_ANSWERS_S} s: {last}; {hint}")
