"""Keeps a record of each run, sets a limit from earlier comparable runs, and reports what changed since the last of them.

Earlier runs that passed with the same plan and versions set a limit; a run below this limit is short. Until there are enough
of these passes, passes with other versions help to set the limit. A run below a limit that other versions helped to set is not
short: its check `upgrade` is skipped and names the differences, and the verdict is unknown unless the stack allows a skipped
`upgrade`. There is one file for each run; files are only added.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.records.store import MAX_BYTES, StoreError, store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.judge.verdict import Judgement

#: Version of a record.
SCHEMA = 1
#: With fewer passes than this, there is no limit.
NEEDED = 5
#: A run is compared with the first `NEEDED` passes, and with this many of the last passes. If there are fewer than
#: 2 * `NEEDED` passes, the run is compared once, with all passes.
COMPARED = 10
#: The limit is this many robust standard deviations (1.4826 MAD) below the median.
DEVIATIONS = 4.0
#: A deviation counts as at least this share of the median. Otherwise, if a few runs agreed by chance, the limit would be so
#: close to their median that the next healthy run would fail.
FLOOR = 0.01
#: How many of the newest and of the oldest earlier runs are read. Weekly runs reach this number of newest runs only after
#: years; the oldest runs make slow decay visible.
NEWEST, OLDEST = 200, 20
_MAD_TO_SD = 1.4826
_STARTED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_FILE = re.compile(r"(\d{8}T\d{6}Z)-([0-9A-Za-z]{1,128})\.json")


class HistoryError(RuntimeError):
    """The history cannot be read or written; the message gives the reason in one sentence."""


@dataclass(frozen=True)
class Key:
    """Properties that two comparable runs have in common.

    `size_bytes` is the message size of the gate, and `scale` is the divisor of line rates in a rehearsal. `cluster` is a hash
    of the machines' ids: another healthy cluster of the same shape may be a few percent slower.
    """

    target: str
    shape: str
    nodes: int
    collective: str
    size_bytes: int
    algorithm: str = ""
    scale: int = 1
    cluster: str = ""

    def digest(self) -> str:
        """Return the name of the key's folder."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Record:
    """One run.

    Attributes:
        run_id: letters and digits, as the runner names it.
        started: UTC, such as 2025-11-21T04:49:00Z.
        key: what comparable runs have in common with this run.
        verdict: pass, short or unknown.
        busbw_gb_s: busbw at the gate's size, as measured; None if it was not measured.
        peak_busbw_gb_s: highest busbw of the gate's collective.
        latency_us: time at that collective's smallest size.
        versions: versions of software, by name.
        rows: rows of the gate's collective, as the outputs show them.
        plan: parameters of the deciding run, by name; empty in records that older versions of busbar wrote.
    """

    run_id: str
    started: str
    key: Key
    verdict: str
    busbw_gb_s: float | None
    peak_busbw_gb_s: float | None
    latency_us: float | None
    versions: Mapping[str, str]
    rows: tuple[dict[str, Any], ...] = ()
    plan: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a run without a valid name or start."""
        if not re.fullmatch(r"[0-9A-Za-z]{1,128}", self.run_id):
            raise HistoryError(f"run id {self.run_id!r} must be 1 to 128 letters and digits, because it names a file")
        if not _STARTED.fullmatch(self.started):
            raise HistoryError(f"start {self.started!r} is not UTC such as 2025-11-21T04:49:00Z; runs are ordered by start")

    @property
    def order(self) -> tuple[str, str]:
        """Return the key by which runs are sorted."""
        return self.started, self.run_id

    def name(self) -> str:
        """Return the record's path below the history's folder; a run that is recorded twice still has only one file."""
        return f"{self.key.digest()}/{re.sub('[-:]', '', self.started)}-{self.run_id}.json"

    def document(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def of(cls, document: Any) -> Record:
        """Read a record back.

        Raises:
            HistoryError: `document` is not a record; the message gives the reason.
        """
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise HistoryError(f"it is not a record of version {SCHEMA}")
        values = {name: value for name, value in document.items() if name != "schema"}
        try:
            found = cls(**values | {"key": Key(**values["key"]), "rows": tuple(values["rows"])})
        except (KeyError, TypeError) as error:
            raise HistoryError(f"its fields are not a record's ({error})") from None
        numbers = (found.busbw_gb_s, found.peak_busbw_gb_s, found.latency_us)
        if any(not (number is None or _is_number(number)) for number in numbers):
            raise HistoryError(f"its numbers are not valid: {numbers}")
        named = all(isinstance(one, dict) for one in (*found.rows, found.versions, found.plan))
        if not named:
            raise HistoryError("its rows, versions or plan have other types than a record's")
        return found


@dataclass(frozen=True)
class Past:
    """`records` that came before a run, oldest first, and `warnings` about files that could not be read."""

    records: tuple[Record, ...]
    warnings: tuple[str, ...]

    @property
    def last(self) -> Record | None:
        """Return the previous run."""
        return self.records[-1] if self.records else None


@dataclass(frozen=True)
class Limit:
    """The limit from earlier passes.

    Attributes:
        busbw_gb_s: GB/s as measured.
        source: in words, the passes that set the limit.
        since: what changed since those passes and may be why a number is lower without any fault; empty if nothing changed.
    """

    busbw_gb_s: float
    source: str
    since: str = ""


def record(  # noqa: PLR0913, PLR0917 - what a run is compared by
    judged: Judgement,
    target: str,
    shape: str,
    nodes: int,
    versions: Mapping[str, str],
    algorithm: str = "",
    plan: Mapping[str, str] | None = None,
) -> Record | None:
    """Return the record of a judged measurement; None if the line names no run."""
    line = judged.line
    run_id, started = line.get("run_id"), line.get("started")
    if not isinstance(run_id, str) or not isinstance(started, str):
        return None
    gate = judged.gate
    key = Key(
        target,
        shape,
        nodes,
        gate.collective,
        gate.size_bytes,
        algorithm,
        scale=judged.scale,
        cluster=_cluster(line.get("machines")),
    )
    return Record(
        run_id=run_id,
        started=started,
        key=key,
        verdict=judged.verdict,
        busbw_gb_s=judged.busbw_gb_s,
        peak_busbw_gb_s=judged.peak_busbw_gb_s,
        latency_us=judged.latency_us,
        versions=dict(versions),
        rows=tuple(judged.rows.get(gate.collective, ())),
        plan=dict(plan or {}),
    )


def _cluster(machines: Any) -> str:
    return sha256(json.dumps(machines, sort_keys=True).encode()).hexdigest()[:16] if isinstance(machines, dict) else ""


def append(folder: str, one: Record) -> bool:
    """Add a record to `folder` (a path or a URL that fsspec knows); return whether it was new.

    A record that already exists is not changed.

    Raises:
        HistoryError: the record could not be written.
    """
    data = json.dumps(one.document(), sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"
    if len(data) > MAX_BYTES:
        raise HistoryError(f"the record of run {one.run_id} has {len(data)} bytes; at most {MAX_BYTES} bytes are kept")
    try:
        return store(folder).add(one.name(), data)
    except StoreError as error:
        raise HistoryError(f"history: {error}") from None


def load(folder: str, key: Key, before: tuple[str, str]) -> Past:
    """Return the runs of `key` that precede `before` (start and run id).

    If there are very many such runs, only the first `OLDEST` and the last `NEWEST` are returned. Runs after
    `before` are ignored, so judging a run again gives the same result.

    Raises:
        HistoryError: the folder cannot be reached; a folder that does not exist counts as empty.
    """
    prefix = key.digest()
    limit = (re.sub("[-:]", "", before[0]), before[1])
    try:
        kept = store(folder)
        found = [match for name in kept.names(prefix) if (match := _FILE.fullmatch(name))]
        earlier = sorted((match.groups(), match.string) for match in found if match.groups() < limit)
        wanted = earlier if len(earlier) <= OLDEST + NEWEST else [*earlier[:OLDEST], *earlier[-NEWEST:]]
        texts = kept.read([f"{prefix}/{name}" for _, name in wanted])
    except StoreError as error:
        raise HistoryError(f"history: {error}") from None
    records, warnings = [], []
    for name, data in texts.items():
        try:
            records.append(_read(name, data, key))
        except HistoryError as error:
            warnings.append(f"history: {name} is left out: {error}")
    return Past(tuple(sorted(records, key=lambda one: one.order)), tuple(warnings))


def limit(records: Sequence[Record], versions: Mapping[str, str], plan: Mapping[str, str]) -> Limit | None:
    """Return the limit that earlier passes set for a run with `versions` and `plan`; None if there are too few.

    At least `NEEDED` passes must count. First, only passes with the same versions and the same plan count. If there are too few
    of them, every pass counts that has the same plan or that names no plan; otherwise each upgrade would hide earlier decay.
    """
    passed = [one for one in records if one.verdict == "pass" and one.busbw_gb_s is not None]
    passed = [one for one in passed if not one.plan or one.plan == plan]
    alike = [one for one in passed if one.versions == versions and one.plan == plan]
    compared = alike if len(alike) >= NEEDED else passed
    if len(compared) < NEEDED:
        return None
    found, source = _strictest([one.busbw_gb_s for one in compared if one.busbw_gb_s is not None])
    return Limit(found, source, "" if compared == alike else _since(compared, versions))


def _since(compared: Sequence[Record], versions: Mapping[str, str]) -> str:
    """Return in words how a run differs from the passes that it is compared with."""
    found = []
    for name in sorted({*versions, *(name for one in compared for name in one.versions)}):
        new = versions.get(name)
        old = dict.fromkeys(one.versions.get(name) or "nothing" for one in compared if one.versions.get(name) != new)
        if old:
            found.append(f"{name} went from {' and '.join(old)} to {new or 'nothing'}")
    if not all(one.plan for one in compared):
        found.append("some of the earlier passes do not state their plan and launcher")
    return ", ".join(found)


def _strictest(passed: Sequence[float]) -> tuple[float, str]:
    # A fabric that loses a percent with each run is never far below its last runs, but soon far below its first runs.
    if len(passed) < 2 * NEEDED:
        return _limit(passed, "the history of")
    return max(_limit(passed[:NEEDED], "the history of the first"), _limit(passed[-COMPARED:], "the history of the last"))


def _limit(passed: Sequence[float], which: str) -> tuple[float, str]:
    middle = median(passed)
    deviation = max(_MAD_TO_SD * median(abs(number - middle) for number in passed), FLOOR * middle)
    why = f"{which} {len(passed)} passes (median {middle:.4g} GB/s less {DEVIATIONS:g} deviations of {deviation:.2g})"
    return middle - DEVIATIONS * deviation, why


def changes(previous: Record | None, current: Record) -> tuple[str, ...]:
    """Return sentences on what changed since the previous run: verdict, numbers, versions."""
    if previous is None:
        return ("this is the first run of its kind",)
    since = f"since {previous.started}"
    found = []
    if previous.verdict != current.verdict:
        found.append(f"the verdict went from {previous.verdict} to {current.verdict} {since}")
    found.extend(_moved(f"{current.key.collective} busbw", "GB/s", previous.busbw_gb_s, current.busbw_gb_s, since))
    found.extend(_moved("latency", "us", previous.latency_us, current.latency_us, since))
    for name, old, new in _differences(previous.versions, current.versions):
        found.append(f"{name} went from {old} to {new} {since}")
    if previous.plan:
        for name, old, new in _differences(previous.plan, current.plan):
            found.append(f"{name} of the plan went from {old} to {new} {since}: the previous run sets no limit for this run")
    return tuple(found)


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield each name whose value changed, with both values."""
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            yield name, before.get(name) or "nothing", now.get(name) or "nothing"


def _moved(name: str, unit: str, old: float | None, new: float | None, since: str) -> tuple[str, ...]:
    if old == new:
        return ()
    if old is None or new is None:
        return (f"{name} was {'not measured' if old is None else 'measured'} before and is {'not ' if new is None else ''}now",)
    share = f" ({(new - old) / old:+.1%})" if old else ""
    return (f"{name} went from {old:.4g} to {new:.4g} {unit}{share} {since}",)


def _read(name: str, data: bytes | str, key: Key) -> Record:
    if isinstance(data, str):
        raise HistoryError(data)
    try:
        found = Record.of(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise HistoryError(f"it is not JSON ({error})") from None
    if found.key != key or found.name() != name:
        raise HistoryError("it contains the record of another run")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
