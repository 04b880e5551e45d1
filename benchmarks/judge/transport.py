"""Finds which path the bytes took: compares byte counters with the minimum that the algorithm must have moved.

This detects unused rails, or a fallback to TCP, even if the bandwidth is high enough. NCCL's log must not contradict the
counters: it must name no other path and, if NCCL needs a network plugin, name the plugin (`benchmarks.judge.libfabric`).
"""

from __future__ import annotations

import re
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.judge import gpudirect, libfabric
from benchmarks.judge.checks import PASS, SHORT, SKIPPED, UNKNOWN, Check, check
from benchmarks.plan.ranks import RING, algorithm
from benchmarks.plan.steps import RAILS, Step, repeated, steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.plan.asked import Asked
    from catalogue import Shape
    from config.measure import Measure

#: Counters must show this share of the bytes that had to move; the rest is an allowance for inexact counters.
_ENOUGH = 0.8
#: A rail that carried less than this share of the busiest rail was not used like the other rails.
_USED = 0.5
#: NVLink must have sent this share of a ring's bytes. The share is below 0.5, because an NVLink switch that reduces (NVLS)
#: moves about half of a ring's bytes.
_NVLS_SHARE = 0.4
#: Collectives in which a switch can copy one GPU's bytes to all GPUs (multicast). If NCCL may let the switch copy, each byte
#: needs to be sent only once. In a ring, each byte is sent again at every hop.
_COPIED = frozenset({"all_gather", "broadcast"})
#: Collectives in which each pair of GPUs exchanges its own bytes, which no switch reduces or copies.
_PAIRWISE = frozenset({"alltoall", "sendrecv", "gather", "scatter", "hypercube"})
#: From this NVLink generation on, switches join every pair of GPUs; in earlier generations (V100), some pairs have no NVLink.
_SWITCHED = 3
#: NCCL's names for the paths inside a machine that are neither NVLink nor PCIe peer access.
_SLOW_INSIDE = ("SHM", "NET")
#: NCCL's name for NVLink between nodes: bytes that take this path do not cross the rails.
_NOT_RAILS = re.compile(r"MNNVL", re.IGNORECASE)
#: NCCL's name for connections to switches that reduce. The word "SHARP" in the log does not prove that a switch reduces: a
#: plugin that supports SHARP always calls its devices "mlx5_0:1/IB/SHARP" (NVIDIA/nccl issue 1357).
_SWITCHES = re.compile(r"COLLNET/")


def judge(line: dict[str, Any], asked: Asked, *, rehearsed: bool) -> Check:
    """Return whether the intended path carried the bytes of the deciding run, and of the step `rails` before that run."""
    moved = _mapping(line.get("transport"))
    plan, shape, nodes = asked.plan, asked.shape, asked.nodes
    if nodes == 1:
        return _inside(moved, plan, shape, rehearsed=rehearsed)
    sent = {name: _mapping(counted) for name, counted in _mapping(moved.get("tx_bytes")).items()}
    switches = switches_may_reduce(moved)
    least = least_bytes(plan, shape, nodes, _counted(moved), in_network=switches)
    rails = _rails(asked)
    told = libfabric.told(_mapping(moved.get("said")), shape)
    nccl = str(_mapping(line.get("versions")).get("nccl"))
    other, direct = _another_way(_mapping(moved.get("said"))), gpudirect.told(moved, shape, nccl)
    if told.wrong or other:
        return Check("transport", SHORT if told.wrong else UNKNOWN, told.wrong or (other,))
    if not rails:
        return _anywhere(sent, least)
    counted = {node: {rail: _number(by.get(rail)) for rail in rails} for node, by in sent.items()}
    # With many nodes, the line lists only some of them: the nodes that sent the fewest bytes, and the nodes with the most
    # uneven traffic across their rails. The line also has the number of nodes that were counted. An absent counter is not
    # zero: the bytes of its node are unknown.
    unread = [node for node, by in counted.items() if None in by.values()]
    read_nodes = max(_number(moved.get("counted_nodes")) or 0, len(counted)) - len(unread)
    # If the rails sent too few bytes, the check names the interface that NCCL used instead, such as the front end's. It skips
    # the names in `apart`: the names of each rail's RDMA device and of its interface.
    netdevs = _mapping(moved.get("netdevs"))
    apart = {*rails, *(str(netdevs[rail]) for rail in rails if rail in netdevs)}
    what = "rails" if shape.rdma else "fabric interfaces"
    reasons = [
        reason
        for node, by in counted.items()
        if node not in unread
        for reason in _node(node, what, {rail: value or 0 for rail, value in by.items()}, sent[node], apart, least)
    ]
    # In a broadcast, some nodes may send nothing, but at least one node sends.
    if not least and read_nodes == len(counted) == nodes and not any(value for by in counted.values() for value in by.values()):
        reasons = [f"no node sent a byte over its {what}"]
    # A wrong path matters more than missing GPUDirect RDMA, so the latter is reported only if the path is right.
    reasons = reasons or list(direct.wrong)
    if (read_nodes < nodes or not counted) and not reasons:
        of = f"{', '.join(rails[:3])}{'...' if len(rails) > 3 else ''}"  # noqa: PLR2004
        named = f", not on {_some(unread)}" if unread else ""
        return Check("transport", SKIPPED, (f"byte counters of {of} could be read on {read_nodes} of {nodes} nodes{named}",))
    missing = told.missing or direct.missing
    if missing and not reasons:
        return Check("transport", SKIPPED, (missing, _proof(what, counted, least, moved)))
    by_switches = (
        ("NCCL connected to switches that reduce (CollNet), so fewer bytes had to leave each node",) if switches else ()
    )
    return check("transport", reasons, good=(_proof(what, counted, least, moved), *by_switches, *told.proof, *direct.proof))


def switches_may_reduce(moved: Any) -> bool:
    """Tell whether NCCL connected to reducing switches between the nodes; byte counters show whether NCCL used them."""
    return any(_SWITCHES.match(str(way)) for way in _ways(_mapping(moved)))


def switches_reduced(moved: Any, asked: Asked) -> bool:
    """Tell whether switches between the nodes reduced the deciding all-reduce: its rails sent about half of a ring's bytes."""
    counts = _mapping(moved)
    if asked.plan.collective != "all_reduce" or asked.nodes == 1 or not switches_may_reduce(counts):
        return False
    halved, whole = (
        least_bytes(asked.plan, asked.shape, asked.nodes, _counted(counts), in_network=by_switches)
        for by_switches in (True, False)
    )
    read = [[_number(_mapping(by).get(rail)) for rail in _rails(asked)] for by in _mapping(counts.get("tx_bytes")).values()]
    sent = [sum(value or 0 for value in values) for values in read if None not in values]  # an absent counter is not zero
    return bool(sent) and median(sent) < (halved + whole) / 2


def _rails(asked: Asked) -> tuple[str, ...]:
    return tuple(asked.shape.rdma.hca) if asked.shape.rdma else asked.plan.fabric


def least_bytes(
    plan: Measure, shape: Shape, nodes: int, counted: frozenset[str] | None = None, *, in_network: bool = False
) -> float:
    """Return the least number of bytes that each node must send to other nodes in the runs between the two counter readings.

    These runs are the steps listed in `counted`. If `counted` is None, they are the deciding run and all steps before it.

    An all-reduce of S bytes over k nodes sends at least 2 (k-1)/k S from each node by any algorithm, or S where switches reduce
    (`in_network`). Timed and checked operations count, both out of place and in place; warm-up operations do not.
    """
    total = 0.0
    for step in steps(plan, shape, nodes):
        if step.stage == RAILS and (counted is None or step.name in counted):
            taken = step if counted is None else repeated(step)
            total += _operations_bytes(taken, plan) * 2 * (nodes - 1) / nodes * shape.gpus
        if step.name == plan.collective:
            total += _operations_bytes(step, plan) * _least_share(plan.collective, nodes, in_network=in_network)
            break
    return total


def _counted(moved: dict[str, Any]) -> frozenset[str] | None:
    """Return the steps between the counter readings of a retest; None for the first measurement."""
    named = moved.get("steps")
    return frozenset(str(name) for name in named) if isinstance(named, list) else None


def _least_share(name: str, nodes: int, *, in_network: bool) -> float:
    """Return the share of a message that each node must send.

    `in_network` says that switches reduce. Such switches can also copy bytes to all nodes.
    """
    if in_network and name in {"all_reduce", "all_gather"}:
        return 1.0 if name == "all_reduce" else 1 / nodes
    if name == "all_reduce":
        return 2 * (nodes - 1) / nodes
    if name == "sendrecv":  # the last rank of each node sends its message to the next node
        return 1.0
    # In broadcast, reduce, gather and scatter, a node may send nothing at all.
    return (nodes - 1) / nodes if name in {"all_gather", "reduce_scatter", "alltoall", "hypercube"} else 0.0


def _operations_bytes(step: Step, plan: Measure) -> float:
    """Return the summed sizes of all timed and checked operations of `step`."""
    size, total = step.begin_bytes, 0
    while size <= step.end_bytes:
        total += size * 2 * (step.iterations * step.cycles + 1)
        size *= plan.sizes.factor
    return float(total)


def _node(  # noqa: PLR0913, PLR0917 - one sentence's parts
    node: str, what: str, rails: dict[str, int], sent: dict[str, Any], apart: set[str], least: float
) -> Iterable[str]:
    total = sum(rails.values())
    if total < _ENOUGH * least:
        others = {name: value for name, value in sent.items() if name not in apart and _number(value) is not None}
        busiest = max(others, key=lambda name: others[name], default=None)
        instead = ""
        if busiest and others[busiest] > total:
            instead = f"; {busiest} sent {_gb(others[busiest])}, so NCCL used {busiest}"
        yield f"{node}: its {what} ({_some(rails)}) sent {_gb(total)} of the {_gb(least)} that had to leave the node{instead}"
        return
    top = max(rails.values())
    idle = [rail for rail, value in rails.items() if value < _USED * top]
    if idle:
        yield (
            f"{node}: {len(rails) - len(idle)} of {len(rails)} {what} carried the bytes; {', '.join(idle)} sent less than "
            f"{_USED:.0%} of what the busiest sent"
        )


def _anywhere(sent: dict[str, dict[str, Any]], least: float) -> Check:
    """Report the interface that carried the bytes; the shape expects no particular interface."""
    totals: dict[str, int] = {}
    for by in sent.values():
        for name, value in by.items():
            totals[name] = totals.get(name, 0) + (_number(value) or 0)
    if not any(totals.values()) or max(totals.values()) < _ENOUGH * least:
        return Check("transport", SKIPPED, ("summed over all nodes, no interface counted as much as one node had to send",))
    busiest = max(totals, key=lambda name: totals[name])
    return Check("transport", PASS, (f"no fabric is configured for this shape; {busiest} carried {_gb(totals[busiest])}",))


def _inside(moved: dict[str, Any], plan: Measure, shape: Shape, *, rehearsed: bool) -> Check:
    if rehearsed:
        return Check("transport", PASS, ("rehearsed inside one host: memory replaces NVLink",))
    moves = inside_bytes(plan, shape)
    ways = _ways(moved)
    counted = _number(_mapping(moved.get("nvlink_tx_bytes")).get("least"))
    # GPUs without NVLink may have no peer access at all; then NCCL correctly uses main memory.
    wrong = _SLOW_INSIDE if shape.nvlink_gbytes_per_s is not None else _SLOW_INSIDE[1:]
    slow = [way for way in ways if way.split("/")[0] in wrong]
    if slow:
        return Check("transport", SHORT, (f"channels inside the machine used {', '.join(slow)} instead of peer access",))
    if counted is not None and counted < _NVLS_SHARE * moves:
        why = f"NVLink sent {_gb(counted)}, but {_what(plan)} moves {_gb(moves)}: NCCL used another path"
        return Check("transport", SHORT, (why,))
    if counted is None and not ways:
        return Check("transport", SKIPPED, ("NVLink's counters cannot be read, and NCCL named no channel",))
    seen = (
        f"NVLink sent {_gb(counted)} ({_what(plan)} moves {_gb(moves)})"
        if counted is not None
        else "NVLink's counters cannot be read"
    )
    return Check("transport", PASS, (f"{seen}; NCCL's channels used {', '.join(ways) or 'paths that it did not log'}",))


def inside_bytes(plan: Measure, shape: Shape) -> float:
    """Return the bytes that all GPUs of one machine together send in the timed and checked operations of the deciding run.

    By the definition of busbw (nccl-tests' PERFORMANCE.md), n GPUs send for each message of S bytes: 2 (n-1) S in a ring
    all-reduce; (n-1) S in all-gather, reduce-scatter, all-to-all, hypercube, broadcast and reduce; (n-1)/n S in gather and
    scatter; n S in sendrecv. If NCCL may let a switch copy bytes to all GPUs, they send only S in all-gather and broadcast.
    """
    name, ranks = plan.collective, shape.gpus
    if ranks == 1 or (name in _PAIRWISE and (shape.nvlink_generation or 0) < _SWITCHED):
        return 0.0
    share = {"all_reduce": 2.0 * (ranks - 1), "sendrecv": ranks, "gather": 1 - 1 / ranks, "scatter": 1 - 1 / ranks}
    each = share.get(name, ranks - 1.0)
    if name in _COPIED and algorithm(shape, 1, plan.exports) != RING:
        each /= ranks - 1
    return sum(_operations_bytes(step, plan) * each for step in steps(plan, shape, 1) if step.name == name)


def _what(plan: Measure) -> str:
    return "a ring" if plan.collective == "all_reduce" else plan.collective


def _another_way(said: dict[str, Any]) -> str:
    """Return a sentence if NCCL used NVLink between nodes, because then the rails' byte counts prove nothing; else empty."""
    words = [str(word) for kind in ("networks", "devices", "channels") for word in _mapping(said.get(kind))]
    found = next((word for word in words if _NOT_RAILS.search(word)), None)
    if found is None:
        return ""
    return (
        f"NCCL used {found}, so NVLink between nodes carried bytes that the rails did not; no source says how much a healthy "
        "run leaves to the rails"
    )


def _ways(moved: dict[str, Any]) -> list[str]:
    return sorted(_mapping(_mapping(moved.get("said")).get("channels")))


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")  # noqa: PLR2004


def _proof(what: str, counted: dict[str, dict[str, int | None]], least: float, moved: dict[str, Any]) -> str:
    totals = [sum(value or 0 for value in by.values()) for by in counted.values()]
    rails = _some(next(iter(counted.values())))
    networks = ", ".join(sorted(_mapping(_mapping(moved.get("said")).get("networks")))) or "nothing"
    counted_nodes = _number(moved.get("counted_nodes")) or len(totals)
    return (
        f"{what} {rails} sent {_gb(min(totals))} or more from each of {counted_nodes} nodes "
        f"(at least {_gb(least)} had to leave each); NCCL named {networks}"
    )


def _gb(size_bytes: float) -> str:
    return f"{size_bytes / 1e12:.3g} TB" if size_bytes >= 1e12 else f"{size_bytes / 1e9:.3g} GB"  # noqa: PLR2004


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
