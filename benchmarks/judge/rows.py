"""Unpacks the rows of a measurement's line, and finds what is missing or malformed in them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.plan.collectives import collective

if TYPE_CHECKING:
    from collections.abc import Iterable

_PAIR = 2
_NAMES = ("time_us", "algbw_gb_s", "busbw_gb_s", "wrong")


def all_steps(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of `line` that are mappings."""
    found = line.get("steps")
    return [step for step in found if isinstance(step, dict)] if isinstance(found, list) else []


def step(line: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return the step of that name."""
    return next((one for one in all_steps(line) if one.get("name") == name), None)


def whole(step: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return the step's rows {size_bytes, out_of_place, in_place}, each placement {time_us, algbw_gb_s, busbw_gb_s, wrong}."""
    found = step.get("rows")
    rows = [_row(packed) for packed in found] if isinstance(found, list) else []
    return tuple(row for row in rows if row is not None)


def problems(  # noqa: PLR0913, PLR0917 - what a run must be
    step: dict[str, Any], name: str, sizes_bytes: tuple[int, ...], ranks: int, nodes: int, all_ranks: int | None = None
) -> Iterable[str]:
    """Yield every reason why `step` is not a complete run of collective `name`.

    Args:
        step: as the line has it.
        name: the collective that was asked for.
        sizes_bytes: the sizes that were asked for.
        ranks: ranks of one group.
        nodes: nodes that had to take part.
        all_ranks: ranks of all groups together; None where there is one group.
    """
    if step.get("failed"):
        yield str(step["failed"])
        return
    named = step.get("problems")
    yield from (str(problem) for problem in named if problem) if isinstance(named, list) else ("no list of problems",)
    packed = step.get("rows")
    if not isinstance(packed, list) or not packed:
        yield "no row was measured"
        return
    rows = whole(step)
    if len(rows) != len(packed):
        yield f"{len(packed) - len(rows)} of {len(packed)} rows have no out-of-place numbers or no measurement"
        return
    if step.get("program") != name:
        yield f"the run was of {step.get('program')}, expected {name}"
    if [row["size_bytes"] for row in rows] != [collective(name).row_bytes(size, ranks) for size in sizes_bytes]:
        yield f"the plan asks for {len(sizes_bytes)} sizes to {sizes_bytes[-1]} B; measured were {len(rows)}"
    if step.get("ranks") != (all_ranks or ranks):
        yield f"{step.get('ranks')} ranks ran instead of {all_ranks or ranks}"
    if step.get("hosts") != nodes:
        yield f"the ranks ran on {step.get('hosts')} hosts instead of {nodes}"
    if any(row["out_of_place"]["wrong"] is None for row in rows):
        yield "the values were not checked"


@dataclass(frozen=True)
class Groups:
    """What groups of ranks reached at once: how many they are, (index, GB/s) slowest first, and the fastest's GB/s.

    Of many groups only the slowest are listed.
    """

    count: int
    slowest: tuple[tuple[int, float], ...]
    most: float


def groups(found: Any, count: int) -> Groups | None:
    """Return what `count` groups reached; None if the line does not have all of them."""
    if isinstance(found, list) and len(found) == count and all(is_number(one) for one in found) and found:
        return Groups(count, tuple(sorted(enumerate(found), key=lambda one: one[1])), max(found))
    if not isinstance(found, dict) or found.get("count") != count or not is_number(found.get("most")):
        return None
    listed = found.get("slowest")
    pairs = [pair for pair in listed if isinstance(pair, list) and len(pair) == _PAIR] if isinstance(listed, list) else []
    if not pairs or not isinstance(listed, list) or len(pairs) != len(listed):
        return None
    if not all(isinstance(index, int) and 0 <= index < count and is_number(value) for index, value in pairs):
        return None
    return Groups(
        count, tuple(sorted(((index, float(value)) for index, value in pairs), key=lambda one: one[1])), found["most"]
    )


def busbw(row: dict[str, Any]) -> float:
    """Return the row's out-of-place busbw in GB/s."""
    return float(row["out_of_place"]["busbw_gb_s"])


def wrong(row: dict[str, Any]) -> int:
    """Return how many elements arrived wrong, both placements together."""
    return sum(int((row.get(placement) or {}).get("wrong") or 0) for placement in ("out_of_place", "in_place"))


def is_number(value: Any) -> bool:
    """Tell whether `value` is a finite number that is not negative."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= sys.float_info.max


def _row(packed: Any) -> dict[str, Any] | None:
    if not isinstance(packed, list) or len(packed) != 3 or not isinstance(packed[0], int) or isinstance(packed[0], bool):  # noqa: PLR2004
        return None
    size, first, second = packed
    placements = [_placement(first), None if second is None else _placement(second)]
    if size < 0 or placements[0] is None or (second is not None and placements[1] is None):
        return None
    return {"size_bytes": size, "out_of_place": placements[0], "in_place": placements[1]}


def _placement(packed: Any) -> dict[str, Any] | None:
    if not isinstance(packed, list) or len(packed) != len(_NAMES):
        return None
    timing = dict(zip(_NAMES, packed, strict=True))
    numbers = [timing[name] for name in _NAMES[:3]]
    whole_numbers = timing["wrong"] is None or (is_number(timing["wrong"]) and float(timing["wrong"]).is_integer())
    return timing if all(is_number(number) for number in numbers) and whole_numbers else None
