"""Parses the text that nccl-tests prints, and the JSON file that nccl-tests writes.

The header of a table in the text has the names of the columns, by which each row is parsed.
Whatever cannot be read is listed in `problems`; `benchmarks.judge.verdict` decides what a problem means.
Formats: nccl-tests 2.0 to 2.19.6 (columns `error` or `#wrong`, timings out of place or in place or both, with or without
per-iteration columns).
"""

import json
import math
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

#: The line with which a rehearsal identifies itself; its number is the divisor of every line rate.
_REHEARSAL = re.compile(r"^#\s*busbar rehearsal: .*\bscaled by 1/(\d+)")
#: The line in which a rehearsal states how long ranks waited for processors; real benchmarks never print such a line.
_WAITED = re.compile(r"^#\s*busbar rehearsal: waited for processors (0\.\d+|1\.0+) of the time")
_NETWORK = re.compile(r"^#\s*busbar rehearsal: (NET/.+)$|NCCL INFO Using network (.*\S)")
_DEVICE = re.compile(r"^#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S+)\s+device\s+(\d+)\s+\[[^\]]*\]\s+(.*\S)")
_VERSION = re.compile(r"^# nccl-tests version (\S+).*?(?:nccl-library=(\d+))?\s*$")
_NCCL_VERSION = re.compile(r"^NCCL version (\S+)")
_STARTING = re.compile(r"^# Collective test starting: (?:.*/)?(\w+?)(?:_perf)?(?:_mpi)?\s*$")
_AVERAGE = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*(\S+)")
_BOUNDS = re.compile(r"^#\s*Out of bounds values\s*:\s*(\d+)")
#: A number as printf writes it; Python's float accepts other forms, too, such as `00` and `1_0`.
_PRINTED = re.compile(r"(0|[1-9][0-9]*)(\.[0-9]+)?(e[+-][0-9]+)?$")
#: A row anywhere in the output: size, count and the name of a type.
_ROW = re.compile(r"^\d+\s+\d+\s+(?:u?int|half|float|double|bfloat|f8)")
#: Every valid closing field of a JSON result is smaller than this. Larger numbers are ignored, because an integer in a JSON
#: file may be too large for a float.
_LARGEST = 1e300
_TIMES = ("time", "cputime")
_WRONGS = ("#wrong", "error")


class Placement(NamedTuple):
    """One timing, out of place or in place: time of an operation, decimal GB/s, number of wrong elements (None: unchecked)."""

    time_us: float
    algbw_gb_s: float
    busbw_gb_s: float
    wrong: Optional[int]


class Spread(NamedTuple):
    """Times of `iterations` operations timed one by one (`-I 1`), in us; `rank_us` has the median time of each rank."""

    iterations: int
    p50_us: float
    p99_us: float
    cv_pct: float
    rank_us: Tuple[float, ...]


class Row(NamedTuple):
    """One row, for one message size: `size_bytes`, `elements`, and the two timings (None for a timing that is not printed).

    The spread of operations timed one by one comes only from the JSON file.
    """

    size_bytes: int
    elements: int
    dtype: str
    redop: str
    out_of_place: Optional[Placement]
    in_place: Optional[Placement]
    out_of_place_spread: Optional[Spread] = None


class Device(NamedTuple):
    """One rank and the GPU that it drove."""

    rank: int
    host: str
    device: int
    name: str


class Transcript(NamedTuple):
    """One run of one collective.

    `rows` has one row for each size; `every` has the rows of all cycles as they were printed. `scale` is the divisor of line
    rates that a rehearsal states (None on real hardware). `waited` is the largest share of a rehearsal's time during which a
    rank was ready to run but had no processor. `nccl` is a version such as 2.28.9. `problems` are sentences about what could
    not be read.
    """

    collective: Optional[str]
    rows: Tuple[Row, ...]
    devices: Tuple[Device, ...]
    nccl_tests: Optional[str]
    nccl: Optional[str]
    scale: Optional[int]
    network: Optional[str]
    average_busbw_gb_s: Optional[float]
    out_of_bounds: Optional[int]
    problems: Tuple[str, ...]
    every: Tuple[Row, ...] = ()
    waited: Optional[float] = None


class _Draft:
    """A transcript while its lines are being read."""

    def __init__(self) -> None:
        self.values = {}  # type: Dict[str, Any]
        self.rows = []  # type: List[Row]
        self.devices = []  # type: List[Device]
        self.problems = []  # type: List[str]
        self.columns = []  # type: List[str]
        self.in_place_first = False
        self.ended = False

    def finish(self, cycles: int) -> Transcript:
        rows = _in_order(self.rows, cycles, self.problems)
        if not self.ended:
            self.problems.append("the run's closing lines are missing")
        get = self.values.get
        return Transcript(
            get("collective"),
            tuple(rows),
            tuple(self.devices),
            get("nccl_tests"),
            get("nccl"),
            get("scale"),
            get("network"),
            get("average"),
            get("bounds"),
            tuple(self.problems),
            tuple(self.rows),
            get("waited"),
        )


def parse_text(text: str, cycles: int = 1) -> List[Transcript]:
    """Return every run found in `text`, in order; never raises on content.

    Each size is printed `cycles` times (`-N`). If `cycles` is above 1, `rows` has, for each size, the row with the median time,
    or the first row with wrong values if there is such a row.
    """
    drafts = []  # type: List[_Draft]
    draft = _Draft()
    placements = ""
    for raw in text.replace("\r\n", "\n").split("\n"):
        line = raw.strip()
        words = line.lstrip("#").split()
        if "out-of-place" in line or "in-place" in line:
            placements = line
        elif columns_of(line):
            if draft.columns:  # a second table begins, so the first table was another run
                drafts.append(draft)
                draft = _Draft()
            draft.columns = words
            draft.in_place_first = 0 <= placements.find("in-place") < placements.find("out-of-place")
        elif draft.columns and not line.startswith("#"):
            _read_row(draft, line)
        else:
            if draft.ended and _STARTING.match(line):
                drafts.append(draft)
                draft = _Draft()
            if _ROW.match(line):
                draft.problems.append(f"a row before the header of its table: {line}")
            _read_remark(draft, line)
        if not line.startswith("#"):
            _read_network(draft, line)
    if draft.columns or draft.devices:
        drafts.append(draft)
    return [each.finish(cycles) for each in drafts]


def scale_of(line: str) -> int:
    """Return the divisor of line rates that a rehearsal's banner states in `line`; 1 for every other line."""
    found = _REHEARSAL.search(line)
    return int(found.group(1)) if found else 1


def columns_of(line: str) -> List[str]:
    """Return the columns that `line` names if it is a table header, otherwise an empty list."""
    words = line.strip().lstrip("#").split()
    return words if line.lstrip().startswith("#") and words[:2] == ["size", "count"] and "busbw" in words else []


def row_of(line: str, columns: List[str]) -> Optional[Row]:
    """Return `line` as a row under the header `columns`; None if it is not a row."""
    words = line.split()
    if not columns or not words or not words[0].isdigit():
        return None
    words = _with_redop(words, columns)
    try:
        return _row(columns, words, in_place_first=False) if len(words) == len(columns) else None
    except ValueError:
        return None


def _read_row(draft: _Draft, line: str) -> None:
    words = line.split()
    if words == ["..."]:
        draft.problems.append("the text leaves out rows ('...')")
    if not words or not words[0].isdigit():
        return  # NCCL's log lines can be between the rows
    words = _with_redop(words, draft.columns)
    if len(words) != len(draft.columns):
        draft.problems.append(f"a row of {len(words)} fields under a header of {len(draft.columns)}: {line}")
        return
    if draft.ended:
        draft.problems.append(f"a row after the run's closing lines: {line}")
        return
    try:
        row = _row(draft.columns, words, draft.in_place_first)
    except ValueError as error:
        draft.problems.append(f"an unreadable row ({error}): {line}")
        return
    draft.rows.append(row)


def _in_order(rows: List[Row], cycles: int, problems: List[str]) -> List[Row]:
    """Return one row for each size; add to `problems` what is missing or out of order."""
    if not rows:
        problems.append("no row was measured")
        return rows
    if len(rows) % cycles:
        problems.append(f"{len(rows)} rows are not {cycles} whole cycles")
        return rows
    each = len(rows) // cycles
    runs = [rows[start : start + each] for start in range(0, len(rows), each)]
    for run in runs:
        for before, after in zip(run, run[1:]):  # noqa: RUF007 - pairwise came with 3.10
            # Tests that divide a message among ranks print size 0 for every message that is too small to be divided.
            if after.size_bytes <= before.size_bytes and after.size_bytes != 0:
                problems.append(f"sizes do not grow: {after.size_bytes} B after {before.size_bytes} B")
        if [row.size_bytes for row in run] != [row.size_bytes for row in runs[0]]:
            problems.append("the cycles have different sizes")
    return [_median_cycle([run[index] for run in runs]) for index in range(each)]


def _median_cycle(rows: List[Row]) -> Row:
    whole = [row for row in rows if row.out_of_place is not None]
    if len(whole) != len(rows):
        return rows[0]
    wrongs = [row for row in rows if (row.out_of_place and row.out_of_place.wrong) or (row.in_place and row.in_place.wrong)]
    if wrongs:
        return wrongs[0]  # wrong values must not vanish in a median
    return sorted(whole, key=lambda row: row.out_of_place.time_us)[len(whole) // 2]  # type: ignore[union-attr]


def _with_redop(words: List[str], columns: List[str]) -> List[str]:
    """Return `words`, with an empty redop inserted if the test (hypercube) left that column blank.

    A blank redop is recognised because the root, which is a number, is then in redop's place.
    """
    place = columns.index("redop") if "redop" in columns else len(columns)
    blank = len(words) == len(columns) - 1 and place < len(words) and words[place].lstrip("-").isdigit()
    return [*words[:place], "", *words[place:]] if blank else words


def _row(columns: List[str], words: List[str], in_place_first: bool) -> Row:
    fields = {}  # type: Dict[str, str]
    timings = []  # type: List[Dict[str, str]]
    for name, word in zip(columns, words):
        if name in _TIMES:
            timings.append({})
        (timings[-1] if timings else fields)[name] = word
    placements = [_placement(timing) for timing in timings[:2]] + [None, None]
    first, second = placements[0], placements[1]
    if in_place_first:
        first, second = second, first
    return Row(_count(fields["size"]), _count(fields["count"]), fields.get("type", ""), fields.get("redop", ""), first, second)


def _placement(timing: Dict[str, str]) -> Placement:
    names = [name for name in timing if name in _WRONGS]
    if not names or "algbw" not in timing or "busbw" not in timing:
        raise ValueError("the header lacks algbw, busbw or #wrong")
    time_text = next(timing[name] for name in _TIMES if name in timing)
    wrong = timing[names[0]]
    if wrong != "N/A" and not wrong.isdigit():
        raise ValueError(f"{wrong} is no count of wrong values")
    return Placement(
        _number(time_text),
        _number(timing["algbw"]),
        _number(timing["busbw"]),
        None if wrong == "N/A" else _count(wrong),
    )


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError(f"{value} is not a number")
    number = float(value)
    written = not isinstance(value, str) or _PRINTED.match(value)
    if not written or not math.isfinite(number) or math.copysign(1, number) < 0:  # nothing prints "-0.0"
        raise ValueError(f"{value} is not a measurement")
    return number


def _count(value: Any) -> int:
    """Return a count of elements, which must be an integer."""
    number = _number(value)
    if number != int(number):
        raise ValueError(f"{value} is not a whole number")
    return int(number)


def _read_network(draft: _Draft, line: str) -> None:
    match = _NETWORK.search(line)
    if match:
        draft.values["network"] = match.group(1) or match.group(2)
    match = _NCCL_VERSION.match(line)
    if match:
        draft.values["nccl"] = match.group(1)


def _read_remark(draft: _Draft, line: str) -> None:
    device = _DEVICE.match(line)
    if device:
        draft.devices.append(Device(int(device.group(1)), device.group(2), int(device.group(3)), device.group(4)))
        return
    version = _VERSION.match(line)
    if version:
        draft.values["nccl_tests"] = version.group(1)
        if version.group(2):
            draft.values["nccl"] = nccl_version(int(version.group(2)))
    for key, pattern in (("collective", _STARTING), ("scale", _REHEARSAL), ("network", _NETWORK), ("bounds", _BOUNDS)):
        match = pattern.search(line)
        if match:
            value = match.group(1) or match.group(match.lastindex or 1)
            draft.values[key] = int(value) if key in ("scale", "bounds") else value
    waited = _WAITED.match(line)
    if waited:
        draft.values["waited"] = float(waited.group(1))
    average = _AVERAGE.match(line)
    if average:
        draft.ended = True
        try:
            draft.values["average"] = _number(average.group(1))
        except ValueError as error:
            draft.problems.append(f"the average bus bandwidth: {error}")


def nccl_version(code: int) -> str:
    """Turn NCCL's version code into a version: 22809 is 2.28.9, 2708 (before 2.9) is 2.7.8."""
    base = 10000 if code >= 10000 else 1000  # noqa: PLR2004 - the layout changed with 2.9
    major, rest = code // base, code % base
    return f"{major}.{rest // 100}.{rest % 100}"


def parse_json(text: str, cycles: int = 1) -> Transcript:
    """Return the run in nccl-tests' `-J` file; `cycles` means the same as for `parse_text`.

    The file's `env` list is never read, because this list contains a rank's complete environment.

    Raises:
        ValueError: the text is not a `-J` file; the message gives the reason in one sentence.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the JSON result is cut or broken: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("results"), list):
        raise ValueError("the JSON result has no list named results")
    rows, problems = [], []  # type: List[Row], List[str]
    for entry in document["results"]:
        try:
            row = _json_row(entry)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
            problems.append(f"an unreadable result ({error!r}): {json.dumps(entry):.200}")
            continue
        rows.append(row)
    return _json_transcript(document, _in_order(rows, cycles, problems), problems)._replace(every=tuple(rows))


def _json_row(entry: Dict[str, Any]) -> Row:
    placements = []  # type: List[Optional[Placement]]
    for key in ("out_of_place", "in_place"):
        timing = entry.get(key)
        if timing is None:
            placements.append(None)
            continue
        wrong = timing["nwrong"]
        time_us = timing["time"] if "time" in timing else timing["cpu_time"]
        placements.append(
            Placement(
                _number(time_us),
                _number(timing["alg_bw"]),
                _number(timing["bus_bw"]),
                None if wrong is None else _count(wrong),
            )
        )
    return Row(
        _count(entry["size"]),
        _count(entry["count"]),
        str(entry["type"]),
        str(entry["redop"]),
        placements[0],
        placements[1],
        _spread(entry.get("out_of_place_per_iter")),
    )


def _spread(found: Any) -> Optional[Spread]:
    if found is None:
        return None
    skipped = int(found["skipped_iterations"])
    ranks = []
    for times in found.get("per_process_max_times_us") or ():
        timed = sorted(_number(time_us) for time_us in times[skipped:])
        ranks.append(timed[len(timed) // 2])
    p50_us, p99_us = _number(found["p50_us"]), _number(found["p99_us"])
    if p99_us < p50_us:
        raise ValueError(f"p99 is {p99_us} us and p50 is {p50_us}")
    return Spread(
        len(found["times_us"]) - skipped,
        p50_us,
        p99_us,
        _number(found["cv_pct"]),
        tuple(ranks),
    )


def _json_transcript(document: Dict[str, Any], rows: List[Row], problems: List[str]) -> Transcript:
    config = document.get("config")
    listed = config.get("devices") if isinstance(config, dict) else None
    devices = []  # type: List[Device]
    for entry in listed if isinstance(listed, list) else ():
        try:
            device = Device(int(entry["rank"]), str(entry["hostname"]), int(entry["device"]), str(entry["device_info"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            problems.append(f"an unreadable device: {error!r}")
            continue
        devices.append(device)
    rehearsal = document.get("rehearsal")
    scale = rehearsal.get("scale") if isinstance(rehearsal, dict) else None
    args = document.get("args") or [""]
    program = re.sub(r"(_perf)?(_mpi)?$", "", str(args[0] if isinstance(args, list) and args else "").split("/")[-1])
    average = document.get("average_bus_bandwidth")
    bounds = document.get("out_of_bounds")
    if average is None or bounds is None:
        problems.append("the run's closing fields are missing")
    if isinstance(bounds, dict) and str(bounds.get("okay")).lower() == "false" and not bounds.get("count"):
        problems.append("the JSON result says that values were out of bounds, but counts none")
    errors = document.get("errors")
    said = [str(one) for one in (errors if isinstance(errors, list) else [errors]) if one]
    if said:
        problems.append("nccl-tests reports errors: {}".format("; ".join(said)[:500]))
    if isinstance(config, dict) and config.get("validation") == 0 and not all(map(_is_unchecked, rows)):
        problems.append("the JSON result counts wrong values, but says that none were checked")
    code = document.get("nccl_version")
    return Transcript(
        program or None,
        tuple(rows),
        tuple(devices),
        None,
        nccl_version(code) if isinstance(code, int) else None,
        scale if isinstance(scale, int) else None,
        None,
        _maybe(average, "bandwidth"),
        _maybe_int(bounds, "count"),
        tuple(problems),
    )


def _is_unchecked(row: Row) -> bool:
    return all(placement is None or placement.wrong is None for placement in (row.out_of_place, row.in_place))


def _maybe(holder: Any, key: str) -> Optional[float]:
    value = holder.get(key) if isinstance(holder, dict) else None
    return float(value) if isinstance(value, (int, float)) and abs(value) < _LARGEST else None


def _maybe_int(holder: Any, key: str) -> Optional[int]:
    value = _maybe(holder, key)
    return None if value is None else int(value)
