"""Parses a measurement's line into types: its runs with their complete rows, and the other fields of the line."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from benchmarks.judge import arithmetic
from benchmarks.judge.outliers import middle_of
from benchmarks.launch.protocol import LINE_SCHEMA
from benchmarks.plan.collectives import collective
from benchmarks.plan.size_text import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable

_PAIR = 2
#: At most this many contradictions in the rows of a run are listed.
_NAMED = 4
_NAMES = ("time_us", "algbw_gb_s", "busbw_gb_s", "wrong")
#: Device counters have 64 bits.
_MOST = 1 << 64
#: Formats of a run's id and start; both are part of record names.
_RUN, _STARTED = re.compile(r"[0-9A-Za-z]{1,128}"), re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class LineError(ValueError):
    """A line is not a measurement; the message gives the reason."""


@dataclass(frozen=True)
class Run:
    """One run of one test program, as the line reports it.

    Attributes:
        name: the name of the step that ran.
        program: the collective that ran.
        rows: complete rows only, as {size_bytes, out_of_place, in_place}; each of `out_of_place` and `in_place` is {time_us,
            algbw_gb_s, busbw_gb_s, wrong}.
        listed: how many rows the line lists, complete or not; None if the line has no list of rows.
        ranks, hosts: numbers of ranks and of hosts, as reported.
        problems: what the runner found wrong; None if the line has no list of problems.
        failed: why the run returned nothing.
        groups: the busbw of its groups of ranks, as reported.
        spread: how the times of individual operations vary, as reported.
        looks: busbw of each look in GB/s, as reported.
    """

    name: str
    program: Any = None
    rows: tuple[dict[str, Any], ...] = ()
    listed: int | None = None
    ranks: Any = None
    hosts: Any = None
    problems: tuple[str, ...] | None = None
    failed: str = ""
    groups: Any = None
    spread: Any = None
    looks: Any = None

    @property
    def wrong(self) -> int:
        """Number of elements that arrived wrong: the sum over all rows, out of place and in place."""
        placements = [row.get(placement) or {} for row in self.rows for placement in ("out_of_place", "in_place")]
        return sum(int(placement.get("wrong") or 0) for placement in placements)

    def at(self, size_bytes: int) -> dict[str, Any] | None:
        """Return the row of the size `size_bytes`; None if no row has this size."""
        return next((row for row in self.rows if row["size_bytes"] == size_bytes), None)


@dataclass(frozen=True)
class Measurement:
    """A runner's line, parsed.

    Attributes:
        line: the line itself.
        runs: runs by the name of their step.
        scale: how many times slower the rehearsed rails are, as the run states it; 1 on real hardware.
        differences: how nodes differ; None if the line does not compare the nodes.
    """

    line: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    scale: int = 1
    differences: tuple[str, ...] | None = None

    @property
    def refused(self) -> str:
        """Why nothing was run; empty if the line has a measurement."""
        said = self.line.get("failed")
        return said if isinstance(said, str) else ""

    @property
    def is_named(self) -> bool:
        """Whether the line has the id and the start time of its run."""
        run, started = self.line.get("run_id"), self.line.get("started")
        return bool(isinstance(run, str) and _RUN.fullmatch(run) and isinstance(started, str) and _STARTED.fullmatch(started))

    @property
    def is_scaled(self) -> bool:
        """Whether the scale is known: the line either does not mention a rehearsal, or states the rehearsal's scale."""
        said = self.line.get("rehearsal")
        scale = said.get("scale") if isinstance(said, dict) else None
        return said is None or (isinstance(scale, int) and not isinstance(scale, bool) and scale > 0)

    def rows(self, name: str) -> tuple[dict[str, Any], ...]:
        """Return the rows of the step `name`; empty if the line lacks this step."""
        return self.runs[name].rows if name in self.runs else ()


def read(text: str) -> Measurement:
    """Return the measurement in the last JSON line of `text`.

    Raises:
        LineError: the last line is not JSON, or not a measurement of the version that this module reads.
    """
    line = last_json(text)
    if not isinstance(line, dict) or line.get("kind") != "measure" or line.get("schema") != LINE_SCHEMA:
        raise LineError(f"the runner's line is not a measurement of version {LINE_SCHEMA}")
    return of(line)


def last_json(text: str) -> Any:
    """Return the JSON value in the last line of `text`.

    Raises:
        LineError: the last line is not JSON, or has a number that is not finite or an integer of more than 64 bits.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise LineError("the runner printed nothing")
    try:
        return json.loads(lines[-1], parse_constant=_no_number, parse_float=_finite, parse_int=_counted)
    except (ValueError, RecursionError) as error:
        raise LineError(f"the runner's line is not JSON: {error}") from None


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _finite(word: str) -> float:
    number = float(word)
    return number if math.isfinite(number) else _no_number(word)


def _counted(word: str) -> int:
    number = int(word)
    return number if abs(number) < _MOST else int(_no_number(f"a number of {len(word)} digits"))


def of(line: dict[str, Any]) -> Measurement:
    """Return the measurement that `line` describes; the caller must have checked the kind and version of the line."""
    runs: dict[str, Run] = {}
    for step in steps(line):
        run = _run(step)
        twice = ("the line lists this step twice",) if run.name in runs else ()
        runs[run.name] = replace(run, problems=(*(run.problems or ()), *twice)) if twice else run
    rehearsal, inventory = line.get("rehearsal"), line.get("inventory")
    scale = rehearsal.get("scale") if isinstance(rehearsal, dict) else None
    differences = inventory.get("differences") if isinstance(inventory, dict) else None
    return Measurement(
        line=line,
        runs=runs,
        scale=scale if isinstance(scale, int) and scale > 1 else 1,
        differences=tuple(str(one) for one in differences) if isinstance(differences, list) else None,
    )


def steps(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of `line` that are mappings."""
    found = line.get("steps")
    return [step for step in found if isinstance(step, dict)] if isinstance(found, list) else []


def are_numbers(found: Any) -> bool:
    """Tell whether `found` is None or a list of numbers."""
    return found is None or (isinstance(found, list) and all(is_number(one) for one in found))


def problems(  # noqa: PLR0913, PLR0917 - what a run must be
    run: Run,
    name: str,
    sizes_bytes: tuple[int, ...],
    ranks: int,
    nodes: int,
    all_ranks: int | None = None,
    *,
    checked: bool = True,
) -> Iterable[str]:
    """Yield the reasons why `run` is not a complete run of collective `name`.

    If the run has no rows, or if a row is incomplete, nothing else is checked. At most 4 contradictions in the rows are listed.

    Args:
        run: the run, as reported.
        name: the collective that was requested.
        sizes_bytes: the sizes that were requested.
        ranks: number of ranks in one group.
        nodes: number of nodes that had to run ranks.
        all_ranks: number of ranks in all groups together; None if there is only one group.
        checked: whether the run had to check the values that arrived.
    """
    if run.failed:
        yield run.failed
        return
    yield from run.problems if run.problems is not None else ("the step has no list of problems",)
    if not run.listed:
        yield "no row was measured"
        return
    if len(run.rows) != run.listed:
        yield f"{run.listed - len(run.rows)} of {run.listed} rows lack a measurement or its out-of-place numbers"
        return
    if run.program != name:
        yield f"expected {name}, got {run.program}"
    if [row["size_bytes"] for row in run.rows] != [collective(name).row_bytes(size, ranks) for size in sizes_bytes]:
        planned = f"the plan has {len(sizes_bytes)} sizes up to {size_text(sizes_bytes[-1])}"
        yield f"{planned}, but {len(run.rows) if len(run.rows) != len(sizes_bytes) else 'other sizes'} were measured"
    if run.ranks != (all_ranks or ranks):
        yield f"{run.ranks} ranks ran instead of {all_ranks or ranks}"
    if run.hosts != nodes:
        yield f"the ranks ran on {run.hosts} hosts instead of {nodes}"
    if checked and any(row["out_of_place"]["wrong"] is None for row in run.rows):
        yield "the values were not checked"
    yield from islice(arithmetic.problems(run.rows, name, ranks), _NAMED)


def _run(step: dict[str, Any]) -> Run:
    packed, named = step.get("rows"), step.get("problems")
    listed = packed if isinstance(packed, list) else []
    rows = [_row(one) for one in listed]
    return Run(
        name=str(step.get("name")),
        program=step.get("program"),
        rows=tuple(row for row in rows if row is not None),
        listed=len(listed) if isinstance(packed, list) else None,
        ranks=step.get("ranks"),
        hosts=step.get("hosts"),
        problems=tuple(str(one) for one in named) if isinstance(named, list) else None,
        failed=str(step["failed"]) if step.get("failed") else "",
        groups=step.get("groups_gb_s"),
        spread=step.get("spread"),
        looks=step.get("looks_gb_s"),
    )


@dataclass(frozen=True)
class Groups:
    """Results of groups of ranks that ran at the same time: number of groups, and their maximum, median and MAD in GB/s.

    `slowest` has (index, GB/s) of each group, the slowest group first. If there are many groups, only the slowest are listed.
    MAD is the median absolute deviation.
    """

    count: int
    slowest: tuple[tuple[int, float], ...]
    most: float
    middle: float
    mad: float


def groups(found: Any, count: int) -> Groups | None:
    """Return what `count` groups reached; None if the line does not cover all groups."""
    if isinstance(found, list) and len(found) == count and all(is_number(one) for one in found) and found:
        return Groups(count, tuple(sorted(enumerate(found), key=lambda one: one[1])), max(found), *middle_of(found))
    if not isinstance(found, dict) or found.get("count") != count:
        return None
    if not all(is_number(found.get(name)) for name in ("most", "middle", "mad")):
        return None
    listed = found.get("slowest")
    pairs = [pair for pair in listed if isinstance(pair, list) and len(pair) == _PAIR] if isinstance(listed, list) else []
    if not pairs or not isinstance(listed, list) or len(pairs) != len(listed):
        return None
    if not all(isinstance(index, int) and 0 <= index < count and is_number(value) for index, value in pairs):
        return None
    slowest = tuple(sorted(((index, float(value)) for index, value in pairs), key=lambda one: one[1]))
    return Groups(count, slowest, found["most"], found["middle"], found["mad"])


def busbw(row: dict[str, Any]) -> float:
    """Return the row's out-of-place busbw in GB/s."""
    return float(row["out_of_place"]["busbw_gb_s"])


def is_number(value: Any) -> bool:
    """Tell whether `value` is a finite, non-negative number."""
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
