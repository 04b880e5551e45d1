"""Reports progress line by line: what is measured, the bandwidth, and the time left; no result depends on these lines.

The most important values come first, because terminals truncate long lines. The file of a step's output has the complete rows.
"""

import math
import time
from typing import Callable, List

from benchmarks.launch.protocol import Step
from benchmarks.runner import jobs, transcript

#: Time to start a step: mpirun, connections, buffers.
_START_S = 5.0
#: The time left is estimated from the expected speed and the measured speed of the finished part. The expected speed counts
#: as much as the measured speed of a part that was expected to take this share of the total time.
_TRUST = 0.1
#: Shortest time between two reported rows; a row of the step's largest size is always reported.
_APART_S = 1.0
#: Below this size on real rails, latency dominates, and a share of the line rate is meaningless.
_LARGE_BYTES = 64 << 20
#: Stage that runs over NVLink; a rehearsal replaces NVLink with memory.
_INSIDE = "node"


class Progress:
    """Progress over `steps`: call `begin` for each step in turn, then pass every line that the step prints to `see`."""

    def __init__(self, steps: List[Step], nodes: int, say: jobs.Say, clock: Callable[[], float] = time.monotonic) -> None:
        self._steps, self._nodes, self._say, self._clock = steps, nodes, say, clock
        self._began = self._said = clock()
        self._number = 0
        self._scale = 1
        self._columns = []  # type: List[str]
        self._cycle = 0

    def begin(self, number: int) -> None:
        """Report that step `number`, counted from 0, begins."""
        step = self._steps[number]
        self._number, self._columns, self._cycle = number, [], 0
        self._say(f"{self._place()} measuring: {step.collective} ({step.name}) on {self._nodes} nodes")

    def see(self, line: str) -> None:
        """Read a line that the step has printed; if the line is a row with a result, report the row."""
        self._scale = max(self._scale, transcript.scale_of(line))
        self._columns = transcript.columns_of(line) or self._columns
        row = transcript.row_of(line, self._columns)
        if row is None or row.out_of_place is None or not row.size_bytes:  # nccl-tests rounds very small sizes down to 0 B
            return
        largest = int(self._steps[self._number].ranks.size or row.size_bytes)
        if row.size_bytes < largest and self._clock() - self._said < _APART_S:
            return
        self._said = self._clock()
        self._say(self._told(row, largest))
        self._cycle += row.size_bytes >= largest

    def _place(self) -> str:
        return f"{self._number + 1}/{len(self._steps)}"

    def _told(self, row: transcript.Row, largest: int) -> str:
        step, busbw_gb_s = self._steps[self._number], self._busbw_gb_s(row)
        rate = f"{_size(row.size_bytes)} {busbw_gb_s:.4g} GB/s{self._share(row, busbw_gb_s)}"
        return f"{self._place()} {step.name} {rate}{self._left(row.size_bytes / largest)}"

    def _share(self, row: transcript.Row, busbw_gb_s: float) -> str:
        """Return the share of the line rate that a message reached; empty for small messages and steps without a line rate."""
        step = self._steps[self._number]
        if step.pace is None or not step.pace.wire_gb_s or row.size_bytes * self._scale < _LARGE_BYTES:
            return ""
        if step.stage == _INSIDE and self._scale != 1:
            return ""
        return f" ({busbw_gb_s * self._scale / step.pace.wire_gb_s:.0%} of the wire)"

    def _busbw_gb_s(self, row: transcript.Row) -> float:
        """Return the row's busbw in GB/s.

        A rehearsal's busbw is computed from the time, because the two printed decimals of busbw are too few.
        """
        pace, timing = self._steps[self._number].pace, row.out_of_place
        assert timing is not None  # noqa: S101 - `see` has checked
        if self._scale == 1 or pace is None or not timing.time_us:
            return timing.busbw_gb_s
        return pace.busbw_factor * row.size_bytes / (timing.time_us * 1e3)

    def _left(self, share: float) -> str:
        """Return how long the remaining steps may take, from the expected time and the time that the finished part took.

        `share` is the finished part of the current step's cycle, measured by message size.
        """
        transfers = [one.pace.seconds * self._scale if one.pace else 0.0 for one in self._steps]
        if not any(transfers):
            return ""
        seen = min((self._cycle + share) / self._steps[self._number].cycles, 1.0)
        done_s = sum(transfers[: self._number]) + _START_S * (self._number + 1) + transfers[self._number] * seen
        all_s = sum(transfers) + _START_S * len(transfers)
        trust_s = _TRUST * all_s
        left_s = (all_s - done_s) * (self._clock() - self._began + trust_s) / (done_s + trust_s)
        return f" {math.ceil(left_s / 60)} min left" if left_s > 60 else f" {math.ceil(left_s / 10) * 10} s left"  # noqa: PLR2004


def _size(size_bytes: int) -> str:
    """Return `size_bytes` in readable form."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes} B"
