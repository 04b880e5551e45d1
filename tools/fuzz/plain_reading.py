"""Reads, in the simplest way, a measurement that passed, and gives reasons why it should not have passed.

The parser and the judge are checked against this module. So this module uses the same plan and the same limits as they do, but
none of their other code.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from benchmarks.plan import ceiling
from benchmarks.plan.collectives import collective
from benchmarks.plan.fractions import ALL_REDUCE, FLOOR, NVLS, fraction, published
from benchmarks.plan.gate import gate
from benchmarks.plan.steps import FREE, LOOKS, NODE, RAILS, SPREAD, Step, nvls_gb_s, steps
from tools.fuzz.bases import LINE, SEARCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.plan.asked import Asked
    from tools.fuzz.bases import Documents

#: The text of nccl-tests is rounded to two decimals. So its numbers may differ from the JSON file by at most `_ROUNDED` plus
#: the share `_SHARE`. The numbers of one row may contradict each other by about the same share.
_ROUNDED, _SHARE = 0.02, 0.011
#: All rails of a node together must have sent at least the first share of a ring's bytes. Each rail must have sent at least the
#: second share of the bytes of any other rail of that node (docs/acceptance.md).
_ENOUGH_BYTES, _IDLE = 0.8, 0.5


def doubts(documents: Documents, line: str, asked: Asked) -> list[str]:
    """Return every reason why a measurement of these documents, whose JSON line is `line`, should not pass."""
    try:
        found = json.loads(line.splitlines()[-1] if LINE in documents else line)
        told = list(_of_line(found, asked))
        if SEARCH in documents:
            search = json.loads(documents[SEARCH].strip().splitlines()[-1])
            told += ["the search names a cause"] if search.get("culprits") else []
            told += ["the search did not complete"] if search["needed"] and search["complete"] is not True else []
        if LINE not in documents:
            told += [one for step in steps(asked.plan, asked.shape, asked.nodes) for one in _of_step(documents, step)]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, StopIteration) as error:
        return [f"it cannot be read plainly: {error!r}"]
    return told


def _of_step(documents: Documents, step: Step) -> Iterator[str]:
    """Yield each contradiction between a step's text and its JSON result, number by number."""
    document = json.loads(documents[f"{step.name}.json"])
    lines = [line.split() for line in documents[f"{step.name}.txt"].replace("\r", "").split("\n")]
    rows = [words for words in lines if len(words) > 8 and words[0].isascii() and words[0].isdigit()]  # noqa: PLR2004
    results = document["results"]
    if len(rows) != len(results) or not results:
        yield f"{step.name}: {len(rows)} rows and {len(results)} results"
        return
    for words, result in zip(rows, results, strict=True):
        printed = [float(words[0]), *(float(word) for word in (*words[-8:-5], *words[-4:-1]))]
        exact = [result["size"]]
        for placement in (result["out_of_place"], result["in_place"]):
            exact += [placement["time"], placement["alg_bw"], placement["bus_bw"]]
        yield from (
            f"{step.name}: the text says {one}, JSON {other}"
            for one, other in zip(printed, exact, strict=True)
            if not abs(one - other) <= _ROUNDED + _SHARE * abs(other)
        )
        wrong = {words[-5], words[-1], str(result["out_of_place"]["nwrong"]), str(result["in_place"]["nwrong"])}
        if not wrong <= {"0", "0.0", "N/A", "None"}:
            yield f"{step.name}: wrong values {wrong}"


def _of_line(line: dict[str, Any], asked: Asked) -> Iterator[str]:
    scale = (line.get("rehearsal") or {}).get("scale") or 1
    if scale != 1:
        return  # its line and its outputs say that it was rehearsed, so nobody can mistake it for a real pass
    planned = {step.name: step for step in steps(asked.plan, asked.shape, asked.nodes)}
    ran = {step["name"]: step for step in line["steps"]}
    if set(planned) - set(ran) or len(ran) != len(line["steps"]):
        yield f"steps {sorted(ran)} of {sorted(planned)}"
    for name, step in planned.items():
        yield from (f"{name}: {why}" for why in _ran(ran[name], step, asked))
    limit = gate(asked.plan, asked.shape, asked.nodes, minimum_gb_s=asked.accept.gate_gb_s).limit_gb_s or 0.0
    decided = ran[asked.plan.collective]["rows"][-1][1][2]
    if decided < limit:
        yield f"the gate's run reached {decided} of {limit}"
    looks = [look for step in planned.values() if step.stage == LOOKS for look in ran[step.name]["looks_gb_s"]]
    slow = sum(look < limit for look in [decided, *looks])
    if looks and slow > 0.2 * len(looks):
        yield f"{slow} of {len(looks)} looks are slow"
    if line["inventory"]["differences"]:
        yield "the nodes differ"
    if asked.nodes > 1:
        yield from _of_rails(line["transport"], asked)


def _ran(its: dict[str, Any], step: Step, asked: Asked) -> Iterator[str]:
    if its.get("failed") or its["problems"] or its["ranks"] != asked.ranks or its["hosts"] != asked.nodes:
        yield f"failed, or with problems, or {its['ranks']} ranks on {its['hosts']} hosts"
    if its["program"] != step.collective:
        yield f"{its['program']} ran"
    members, test = asked.ranks // step.groups, collective(step.collective)
    sizes = asked.plan.sizes_of(step.collective) if step.begin_bytes != step.end_bytes else (step.end_bytes,)
    if [row[0] for row in its["rows"]] != [test.row_bytes(size, members) for size in sizes]:
        yield "other sizes"
    yield from _rows(its, step, members)
    yield from _slow(its, step, asked)


def _rows(its: dict[str, Any], step: Step, members: int) -> Iterator[str]:
    """Yield wrong values, and contradictory numbers of a row."""
    test = collective(step.collective)
    for size, *placements in its["rows"]:
        for time_us, algbw, busbw, wrong in [placement for placement in placements if placement is not None]:
            if wrong:
                yield f"{wrong} wrong values"
            if size and abs(algbw - size * test.algbw_share(members) / (time_us * 1e3)) > 0.001 + _SHARE * algbw:
                yield f"algbw {algbw} at {time_us} us"
            if abs(busbw - test.busbw_factor(members) * algbw) > 0.001 + _SHARE * busbw:
                yield f"busbw {busbw} at algbw {algbw}"


def _slow(its: dict[str, Any], step: Step, asked: Asked) -> Iterator[str]:
    """Yield the numbers below a limit of their step."""
    reached = its["rows"][-1][1][2]
    bound, share = ceiling.bound_gb_s(step.collective, asked.shape, asked.nodes), fraction(step.end_bytes, FLOOR)
    if step.name in asked.plan.collectives and reached < (share or 0.0) * (bound or 0.0):
        yield f"{reached} is below the floor"
    usual, least = nvls_gb_s(asked.shape, asked.plan), fraction(asked.plan.end_bytes, NVLS)
    if step.stage == FREE and asked.nodes == 1 and usual and least and reached < least * usual:
        yield f"{reached} is too low for a reduction in the switch"
    if step.stage == SPREAD and not its["spread"]["cv_pct"] <= 5.0:  # noqa: PLR2004 - docs/acceptance.md
        yield "unsteady"
    if step.stage in {NODE, RAILS}:
        yield from _groups(its["groups_gb_s"], step, asked)


def _groups(reached: list[float], step: Step, asked: Asked) -> Iterator[str]:
    if len(reached) != step.groups:
        yield f"{len(reached)} groups of {step.groups}"
    if step.stage == NODE:
        bound, share = (
            ceiling.nvlink_gb_s(asked.shape),
            fraction(step.end_bytes, published("all_reduce", ceiling.NVLINK, asked.shape)),
        )
    else:
        ring = ceiling.ring_gb_s(asked.shape, asked.nodes)
        bound = None if ring is None else ring / step.groups
        share = fraction(step.end_bytes * asked.shape.gpus, ALL_REDUCE)
    if bound and share and min(reached) < share * bound:
        yield f"a group reached {min(reached)}"


def _of_rails(transport: dict[str, Any], asked: Asked) -> Iterator[str]:
    """Yield a sentence for each node whose rails, by the byte counters, did not carry their share of a ring's bytes."""
    rails = asked.shape.rdma.hca if asked.shape.rdma else ()
    deciding = next(step for step in steps(asked.plan, asked.shape, asked.nodes) if step.name == asked.plan.collective)
    sizes = sum(asked.plan.sizes_of(asked.plan.collective))
    least = 2 * (asked.nodes - 1) / asked.nodes * sizes * 2 * (deciding.iterations * deciding.cycles + 1)
    counted = [{rail: sent[rail] for rail in rails} for sent in transport["tx_bytes"].values()]
    if len(counted) < asked.nodes:
        yield f"{len(counted)} nodes were counted"
    for sent in counted:
        if sum(sent.values()) < _ENOUGH_BYTES * least or min(sent.values()) < _IDLE * max(sent.values()):
            yield f"rails sent {sum(sent.values()):.3g} of {least:.3g} bytes, the least {min(sent.values())}"
