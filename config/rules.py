"""Rules that apply to every stack: the measurement, its limits, and the pool that is measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from catalogue.nccl_tests import LEAST, SHA256, too_old
from config.rule import ERROR, Breach, nearest, rule
from config.units import MESSAGE

if TYPE_CHECKING:
    from config.stack import Stack

_Breaches = Iterator[Breach]


@rule("sizes", ERROR, "nccl-tests: -b, -e", guard=True)
def sizes(stack: Stack, _facts: None) -> _Breaches:
    """A last size below the first size, or one that the factor skips; the gate needs a measurement at the last size."""
    found, least = stack.measure.sizes, MESSAGE.show(stack.measure.begin_bytes)
    for key, last in (("to", found.to_bytes), ("othersTo", found.others_to_bytes)):
        if last is None:
            continue
        path, given, reached = f"measure.sizes.{key}", MESSAGE.show(last), found.up_to(last)
        if not reached:
            yield Breach(path, f"is {given}, below measure.sizes.from, {least}")
        elif reached[-1] != last:
            near = f"{MESSAGE.show(reached[-1])} or {MESSAGE.show(reached[-1] * found.factor)}"
            yield Breach(
                path, f"is {given}, but sizes grow from {least} by a factor of {found.factor} and never reach it; take {near}"
            )


@rule("source-sum", ERROR, "nodes build only an archive with a known checksum", guard=True)
def source_sum(stack: Stack, _facts: None) -> _Breaches:
    """An archive that nodes download from a URL, and for which no checksum is known."""
    tests = stack.measure.nccl_tests
    if tests.is_url and tests.sha256 is None and tests.source not in SHA256:
        yield Breach(
            "measure.ncclTests.sha256",
            f"is not set, and the checksum of {tests.source} is not in catalogue/nccl_tests.py; give the sha256 of the archive "
            "that you trust",
        )


@rule("tests-version", ERROR, "NVIDIA/nccl-tests: ad956f1 (-J), 0fdb00a (-I)", guard=True)
def tests_version(stack: Stack, _facts: None) -> _Breaches:
    """A version of nccl-tests without an option that every run uses."""
    source = stack.measure.nccl_tests.source
    if too_old(source):
        yield Breach(
            "measure.ncclTests.source",
            f"is {source}; a measurement needs {'.'.join(map(str, LEAST))} or later, because "
            "earlier versions print no JSON or no times of individual operations",
        )


@rule("limits", ERROR, "a limit applies to a size that is measured", guard=True)
def limits(stack: Stack, _facts: None) -> _Breaches:
    """A limit on a collective or size that is never measured."""
    measure = stack.measure
    for limit in stack.accept.own_limits:
        path = f"accept.limits.{limit.collective}"
        if limit.collective not in measure.collectives:
            yield Breach(path, "is set, but this collective is not in measure.collectives; name a collective that is measured")
        elif limit.size_bytes not in measure.sizes_of(limit.collective):
            size = MESSAGE.show(limit.size_bytes)
            yield Breach(path, f"has a limit at {size}, which measure.sizes never runs; name a size that is measured")


#: Where each target lists its pools.
_POOLS = {"oci": "oci.pools", "aws": "aws.queues", "hosts": "hosts.nodes", "kubernetes": "kubernetes.nodes"}


@rule("pool", ERROR, "one pool is measured", guard=True)
def pool(stack: Stack, _facts: None) -> _Breaches:
    """A chosen pool that is unknown or empty, or no chosen pool although several pools have nodes."""
    where, nodes, chosen = _POOLS[stack.target], stack.sizes, stack.measure.pool
    filled = [name for name, count in nodes.items() if count]
    if chosen is None:
        if len(filled) > 1:
            yield Breach(
                "measure.pool", f"is not set, but several of {where} have nodes: {', '.join(filled)}; name the pool to measure"
            )
    elif chosen not in nodes:
        yield Breach("measure.pool", f"is {chosen!r}, which is none of {where}; {nearest(chosen, nodes)}")
    elif not nodes[chosen] and chosen not in stack.startable:
        yield Breach("measure.pool", f"is {chosen!r}, which has no nodes; these have nodes: {', '.join(filled) or 'none'}")
