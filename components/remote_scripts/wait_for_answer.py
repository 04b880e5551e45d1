"""Waits until a program on this machine answers over HTTP."""

import sys
import time
import urllib.request

_ANSWERS_S = 15


def wait_for_answer(address: str, hint: str) -> None:
    """Return once `address` answers; otherwise exit with the last error and with `hint`, which says where to look next."""
    deadline, last = time.time() + _ANSWERS_S, ""
    # A connection of a machine to itself must not use a proxy from the environment.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.time() < deadline:
        try:
            with opener.open(address, timeout=5) as answer:
                answer.read()
                return
        except OSError as error:
            last = str(error)
        time.sleep(0.2)
    sys.exit(f"the exporter does not answer at {address} within {_ANSWERS_S} s: {last}; {hint}")
