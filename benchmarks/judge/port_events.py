"""Judges how much the error counters of RDMA ports grew from the start of the measurement to the end of the deciding run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.judge.checks import UNKNOWN, Check, check

if TYPE_CHECKING:
    from collections.abc import Iterable

#: How far each counter may grow from the start of the measurement to the end of the deciding run. Congestion counters (CNP,
#: ECN, pauses) are not errors and are left out. This project chose the limits. The meanings of the counters are from:
#: - InfiniBand Architecture, PortCounters: the first four counters below show that a link was lost or retrained. A
#:   growing `symbol_error` is normal within limits, because forward error correction repairs such errors.
#: - NVIDIA, "Understanding mlx5 ethtool counters": a timeout stalls a queue for milliseconds; too many retries break the queue.
#: - EC2 user guide, "Monitor an EFA": a connection without a response is dropped.
ALLOWED = {
    "link_downed": 0,
    "link_error_recovery": 0,
    "local_link_integrity_errors": 0,
    "excessive_buffer_overrun_errors": 0,
    "symbol_error": 10_000,
    "port_rcv_errors": 1_000,
    "local_ack_timeout_err": 100,
    "req_transport_retries_exceeded": 0,
    "resp_local_length_error": 0,
    "unresponsive_remote_events": 0,
}
_NAMED = 16


def judge(transport: Any) -> Check:
    """Return the check `ports`: whether ports in the line's `transport` counted more errors than in a healthy run.

    If no port counted too many errors, but the counters of some ports could not be read, the check is unknown.
    """
    events, uncounted = (transport.get(name) if isinstance(transport, dict) else None for name in ("events", "uncounted_ports"))
    if not isinstance(events, list) or not isinstance(uncounted, list):
        return Check("ports", UNKNOWN, ("the line has no error counters of RDMA ports",))
    grown = list(_grown(events))[:_NAMED]
    if uncounted and not grown:
        unread = ", ".join(map(str, uncounted))
        return Check("ports", UNKNOWN, (f"no error counter of {unread} could be read both before and after the run",))
    return check("ports", grown, good=("no error counter of an RDMA port grew more than in a healthy run",))


def _grown(events: list[Any]) -> Iterable[str]:
    for one in events:
        if not isinstance(one, dict):
            continue
        counter, count = str(one.get("counter")), one.get("count")
        allowed = ALLOWED.get(counter)
        if allowed is not None and isinstance(count, int) and count > allowed:
            port = f"{one.get('node')}: {counter} of {one.get('hca')}"
            yield f"{port} grew by {count} during the run; the limit for a healthy run is {allowed}"
