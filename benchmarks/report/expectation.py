"""Writes the part of a preview about what will be rented: the machines, their price, the predicted busbw, the gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.plan import ceiling
from benchmarks.plan.fractions import NVLS, fraction
from benchmarks.plan.gate import gate, nvls_unknown
from benchmarks.plan.size_text import size_text
from benchmarks.plan.steps import may_reduce_inside, nvls_gb_s
from benchmarks.report import outputs

if TYPE_CHECKING:
    from benchmarks.plan.asked import Asked
    from catalogue import Price

#: Only this many of the plan's largest sizes are shown.
_SHOWN_SIZES = 6


def expectation(asked: Asked, price: Price | None, *, rents: bool) -> str:
    """Return the lines of a preview: what a good run looks like and what it costs.

    In a rehearsal, the lines have the numbers that the update will show and require: rates are divided by the scale that the
    stack states. `rents` says whether the stack rents the nodes. If the nodes are rented and their price is unknown, a line
    says so.
    """
    name, scale = asked.plan.collective, asked.accept.scale
    bound = gate(asked.plan, asked.shape, asked.nodes, scale=scale, minimum_gb_s=asked.accept.gate_gb_s)
    top = ceiling.bound_gb_s(name, asked.shape, asked.nodes, scale)
    rehearsed = f", rehearsed at 1/{scale}" if scale != 1 else ""
    at = f" at {size_text(bound.size_bytes)}"
    return "\n".join(
        [
            f"{asked.nodes} x {asked.shape.name}, to be {'rented and ' if rents else ''}measured{rehearsed}:",
            *_paid(asked, price, rents=rents),
            *([f"  wire:     {top:.4g} GB/s of {name} busbw"] if top is not None else []),
            *_healthy(asked),
            f"  gate:     {f'{bound.limit_gb_s:.4g} GB/s{at}: ' if bound.limit_gb_s is not None else 'none: '}{bound.why}",
            *_in_switch(asked),
        ]
    )


def _in_switch(asked: Asked) -> list[str]:
    """Return what one machine must reach, besides the gate, in the run in which its NVLink switch may reduce.

    If this is unknown, the line says so. There is no line for several nodes, in a rehearsal, or if the switch cannot reduce.
    """
    if asked.nodes != 1 or asked.accept.scale != 1 or not may_reduce_inside(asked.shape, asked.plan):
        return []
    if unknown := nvls_unknown(asked.shape, asked.plan):
        return [f"  NVLS:     unknown: {unknown}"]
    usual, share = nvls_gb_s(asked.shape, asked.plan) or 0.0, fraction(asked.plan.end_bytes, NVLS) or 0.0
    return [f"  NVLS:     {share * usual:.4g} GB/s: {share:g} of the {usual:g} that machines reach if their switch reduces"]


def _healthy(asked: Asked) -> list[str]:
    """Return the predicted busbw of the largest sizes, a line for each."""
    curve = outputs.predicted(asked, asked.accept.scale)[-_SHOWN_SIZES:]
    rows = [f"{size_text(int(one['size_bytes'])):>12} {one['busbw_gb_s']:>9.4g} GB/s" for one in curve]
    return ["  healthy:  about", *rows] if rows else ["  healthy:  nothing can be predicted"]


def _paid(asked: Asked, price: Price | None, *, rents: bool) -> list[str]:
    """Return what the nodes cost, or that the price is unknown."""
    costs = outputs.cost(asked, price)
    if costs is None:
        return ["  price:    unknown; set records.pricePerNodeHour to include it"] if rents else []
    each = f", {costs['usd_per_hour_per_gb_s']:g} for each GB/s" if costs["usd_per_hour_per_gb_s"] is not None else ""
    real = " for real machines" if asked.accept.scale != 1 else ""
    return [f"  price:    {costs['usd_per_hour']:g} USD an hour{real}{each} ({costs['source']})"]
