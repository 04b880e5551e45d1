"""Waits, without a login, until a host's SSH version string announces that the host is ready or that its first boot failed."""

import json
import socket
import sys
import time

_PAUSE_S = 0.5
#: How long the host may take to accept a connection, and then to send its version string.
_ANSWER_S = 5
_LONGEST = 256


def main(host: str, announcement: str, failure: str, timeout_s: float) -> None:
    """Print the host's announcement: that it is ready, or the step in which its first boot failed.

    The host's SSH version string ends with `announcement` once it is ready, or with `failure` and the failed step.

    If the host announces neither in time, the program exits with a message that has the host's last state. A failed first boot
    is no error here: the next step of the update logs in and can report the cause.
    """
    deadline = time.monotonic() + timeout_s
    last, said = "nothing was tried", ""
    while time.monotonic() < deadline:
        last = _version(host, deadline)
        if last.endswith(announcement):
            print(json.dumps({"host": host, "announced": announcement}))
            return
        if failure in last:
            print(json.dumps({"host": host, "failed": last.rpartition(failure)[2]}))
            return
        if last != said:
            print(f"waiting for {host}: {last}", file=sys.stderr, flush=True)
            said = last
        time.sleep(_PAUSE_S)
    sys.exit(
        f"{host} did not finish its first boot within {timeout_s:.0f} s; its last state: {last}. "
        "If it never answered, check access.sshFrom, which must contain the address of this machine."
    )


def _version(host: str, deadline: float) -> str:
    """Return the first line that the host's SSH server sends, or why it sent none, after at most ten seconds."""
    try:
        with socket.create_connection((host, 22), timeout=_left(deadline)) as connection:
            said, end = b"", min(deadline, time.monotonic() + _ANSWER_S)
            while b"\n" not in said and len(said) < _LONGEST:
                connection.settimeout(_left(end))
                part = connection.recv(_LONGEST)
                if not part:
                    break
                said += part
            return said.partition(b"\n")[0].decode("ascii", "replace").strip() or "closed without an answer"
    except OSError as error:
        return f"no answer on TCP port 22 ({error})"


def _left(end: float) -> float:
    """Return how long a step may still take before `end`.

    Raises:
        TimeoutError: it is later than `end`.
    """
    left = min(_ANSWER_S, end - time.monotonic())
    if left <= 0:
        raise TimeoutError("timed out")
    return left
