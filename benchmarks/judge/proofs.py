"""Judges the tests of individual rails, which run between neighbours in the ring before the collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.judge.checks import PASS, SKIPPED, UNKNOWN, Check, check
from benchmarks.judge.measurement import is_number
from benchmarks.launch.lines import NOT_MEASURED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.plan.asked import Asked

#: Share of the line rate that ib_write_bw must reach. With an MTU of 1024, RoCE v2 carries 1024 payload bytes in 1106 bytes on
#: the wire (82 are for Ethernet, IPv4, UDP, BTH and ICRC, preamble and gap), so at most 0.926 of the line rate is payload.
#: An article by IIJ reports this share (23.14 of 25 Gbit/s). With an MTU of 4096 the share is at most 0.98.
_SHARE = 0.9
_NAMED = 16


def judge(line: dict[str, Any], asked: Asked, scale: int) -> Check:
    """Judge whether every rail was reached and carried its line rate.

    The check is short if a rail is slow or is not reached. Otherwise it is unknown if ib_write_bw ran on a rail but failed.
    Otherwise it is skipped if a rail cannot be tried, or if ib_write_bw cannot run on it.
    """
    if asked.nodes == 1:
        return Check("proofs", PASS, ("there is one node, so no rail is between nodes",))
    said = line.get("proofs")
    names = ("rails", "reached", "measured", "untried")
    counts = [said.get(name) for name in names] if isinstance(said, dict) else [0] * len(names)
    worst = said.get("worst") if isinstance(said, dict) else None
    rails, reached, measured, untried = (count if isinstance(count, int) and count >= 0 else 0 for count in counts)
    wanted = asked.nodes * len(asked.shape.rdma.hca if asked.shape.rdma else asked.interfaces)
    if rails != wanted:
        return Check("proofs", UNKNOWN, (f"the line has proofs of {rails} of {wanted} rails",))
    if not isinstance(worst, list) or not worst or not all(isinstance(one, dict) for one in worst):
        return Check("proofs", UNKNOWN, ("the line does not say which rails were slowest",))
    slow = tuple(_short(worst, asked, scale))[:_NAMED]
    if slow or reached + untried < rails:
        return check("proofs", slow or (f"{rails - reached - untried} of {rails} rails were not reached",))
    failed = tuple(_failed(worst))[:_NAMED]
    if failed or untried:
        skipped = Check("proofs", SKIPPED, (f"{untried} of {rails} rails could not be tried", *_examples(worst)))
        return Check("proofs", UNKNOWN, failed) if failed else skipped
    return _measured(worst, rails, measured, asked, scale)


def _measured(worst: list[dict[str, Any]], rails: int, measured: int, asked: Asked, scale: int) -> Check:
    """Return the check for the case that all rails were reached, none is slow, and ib_write_bw failed on none."""
    unmeasured = [one for one in worst if not is_number(one.get("gbit_s"))]
    if measured < rails or unmeasured:
        # The reason is usually the same for all rails, so one rail is named as an example.
        ways = " or ".join(sorted({str(one.get("reached")) for one in worst}))
        why = f"{_way(unmeasured[0])}: {unmeasured[0].get('why')}" if unmeasured else "no reason is given"
        return Check("proofs", SKIPPED, (f"{rails} rails were reached by {ways}, and {measured} were measured", why))
    if not all(_rate(one, asked, scale) for one in worst):
        return Check("proofs", UNKNOWN, ("no port reports its line rate",))
    least, rate = worst[0], _rate(worst[0], asked, scale)
    slowest = f"the slowest, {_way(least)}, reached {least['gbit_s']:g} Gbit/s of {rate:g}"
    return Check("proofs", PASS, (f"{rails} rails were reached and measured; {slowest}",))


def _examples(worst: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return one untried rail with its reason; the reason is usually the same for all rails."""
    return tuple(f"{_way(one)}: {one.get('why')}" for one in worst if one.get("untried"))[:1]


def _short(worst: list[dict[str, Any]], asked: Asked, scale: int) -> Iterator[str]:
    for one in worst:
        if one.get("reached") is None and one.get("untried") is True:
            continue
        if one.get("reached") is None:
            yield f"{_way(one)} is not reached: {one.get('why') or 'no reason is given'}"
            continue
        rate, reached = _rate(one, asked, scale), one.get("gbit_s")
        if is_number(reached) and rate and float(reached or 0) < _SHARE * rate:
            yield f"{_way(one)}: ib_write_bw reached {reached:g} Gbit/s of {rate:g}; a share of {_SHARE:g} is required"


def _failed(worst: list[dict[str, Any]]) -> Iterator[str]:
    for one in worst:
        without = not is_number(one.get("gbit_s")) and one.get("untried") is not True
        if without and NOT_MEASURED not in str(one.get("why")):
            yield f"{_way(one)}: {one.get('why')}"


def _rate(one: dict[str, Any], asked: Asked, scale: int) -> float:
    """Return the line rate (Gbit/s): the rate of the shape, or else the rate that the port reports."""
    said = one.get("line_gbit_s")
    own = asked.shape.rdma.port_gbit_s if asked.shape.rdma else 0
    return float(own or (said if is_number(said) else 0) or 0) / scale


def _way(one: dict[str, Any]) -> str:
    return f"{one.get('rail')} from {one.get('node')} to {one.get('peer')}"
