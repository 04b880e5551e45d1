"""Progress is reported in short lines with the step, the size, the busbw and the time left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from measurement_line import GPU4, a_plan

from benchmarks.launch.protocol import Pace, Ranks, Step
from benchmarks.plan import ceiling
from benchmarks.plan.expected_pace import pace
from benchmarks.plan.steps import steps
from benchmarks.runner.progress import Progress
from catalogue import SHAPES

REAL = (Path(__file__).parents[1] / "golden" / "transcripts" / "h200x2.txt").read_text().splitlines()
HEADER = "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong"
BANNER = "# busbar rehearsal: no GPU; rails are scaled by 1/4000"


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def step(name: str = "all_reduce", end: int = 8 << 20, cycles: int = 1, known: Pace | None = None, stage: str = "all") -> Step:
    return Step(name, stage, "all_reduce", Ranks("p", ["-b", "8", "-e", str(end)], {}, 8), "r", cycles=cycles, pace=known)


def row(size: int, time_us: float, busbw: str) -> str:
    return f" {size} {size // 4} float sum -1 {time_us} {busbw} {busbw} 0 {time_us} {busbw} {busbw} 0"


def said(all_of: list[Step], *lines: str, apart_s: float = 2.0, number: int = 0) -> list[str]:
    clock, heard = Clock(), []
    shown = Progress(all_of, 2, heard.append, clock)
    shown.begin(number)
    for line in lines:
        clock.now += apart_s
        shown.see(line)
    return heard


def test_a_real_run_is_reported_row_by_row_with_its_own_numbers():
    heard = said([step(end=8 << 30)], *REAL)
    assert heard[0] == "1/1 measuring: all_reduce (all_reduce) on 2 nodes"
    assert heard[-1] == "1/1 all_reduce 8 GiB 345.4 GB/s"
    assert len(heard) == 1 + 31


def test_progress_begins_with_step_and_size_and_busbw_and_fits_the_terminal():
    slow = Pace(1.875, 200.0, 90.0)
    every = [step("a"), step("b"), step("reduce_scatter", 1 << 30, known=slow)]
    (_, text) = said(every, HEADER, row(1 << 30, 11000.0, "181.00"), number=2)
    assert text.startswith("3/3 reduce_scatter 1 GiB 181 GB/s (90% of the wire) ")
    assert len(text) <= 76


def test_a_rehearsed_busbw_is_computed_because_two_printed_decimals_are_too_few():
    (_, text) = said([step(known=Pace(1.875, 200.0, 0.1))], BANNER, HEADER, row(8 << 20, 313012.4, "0.05"))
    assert text.startswith("1/1 all_reduce 8 MiB 0.05025 GB/s (100% of the wire)")


@pytest.mark.parametrize(
    ("which", "lines"),
    [
        (step(known=Pace(1.875, 200.0, 0.1)), [HEADER, row(1024, 30.0, "0.07")]),
        (step("node", known=Pace(1.75, 300.0, 0.1), stage="node"), [BANNER, HEADER, row(8 << 20, 12000.0, "1.22")]),
        (step(), [HEADER, row(8 << 20, 90.0, "170.00")]),
    ],
    ids=["latency decides", "memory in place of NVLink", "no line rate is known"],
)
def test_no_share_of_the_line_rate_is_shown_for_small_sizes_or_rehearsed_nvlink_or_an_unknown_rate(which, lines):
    assert "%" not in said([which], *lines)[-1]


def test_a_row_soon_after_a_reported_row_is_reported_only_if_it_has_the_largest_size_of_the_step():
    rows = [row(size, 100.0, "1.00") for size in (8, 16, 32, 8 << 20)]
    assert [text.split()[2] for text in said([step()], HEADER, *rows, apart_s=0.1)[1:]] == ["8"]


def test_the_remaining_time_only_shrinks_and_ends_at_nothing():
    every = [step(str(number), cycles=4, known=Pace(1.875, 200.0, 60.0)) for number in range(3)]
    clock, heard = Clock(), []
    shown = Progress(every, 2, heard.append, clock)
    for number in range(3):
        shown.begin(number)
        shown.see(HEADER)
        for _ in range(4):
            clock.now += 30.0  # twice as slow as expected
            shown.see(row(8 << 20, 90.0, "170.00"))
    left = [60 * int(n) if unit == "min" else int(n) for n, unit in re.findall(r" (\d+) (min|s) left", "\n".join(heard))]
    assert left == sorted(left, reverse=True)
    assert left[0] > 180
    assert left[-1] == 0


@pytest.mark.parametrize(("taken_s", "left"), [(185.0, "30 s"), (450.0, "60 s"), (500.0, "2 min")])
def test_the_time_left_follows_from_the_expected_time_and_the_time_taken_so_far(taken_s, left):
    """Each of two steps is expected to take 105 s. The part that is finished was expected to take 185 s.

    The expected speed counts as much as the measured speed of a part of 21 s, which is a tenth of the 210 s.
    """
    clock, heard = Clock(), []
    clock.now = 1000.0
    known = Pace(1.0, 0.0, 100.0)
    shown = Progress([step("a", known=known), step("b", known=known)], 2, heard.append, clock)
    shown.begin(1)
    clock.now += taken_s
    shown.see(HEADER)
    shown.see(row(6 << 20, 1000.0, "5.00"))
    assert 25 * (taken_s + 21) / (185 + 21) == pytest.approx({"30 s": 25, "60 s": 57.2, "2 min": 63.2}[left], abs=0.1)
    assert heard[-1].endswith(f" {left} left")


def test_output_that_is_not_a_row_is_not_reported():
    lines = ["NCCL INFO 12 whatever", HEADER, " 8 broken", row(0, 5.0, "0.00"), "# Avg bus bandwidth    : 3"]
    assert len(said([step()], *lines, row(8, 1.0, "nan"))) == 1


@pytest.mark.parametrize("shape", ["BM.GPU4.8", "BM.GPU.H100.8", "BM.GPU.H200.8"])
def test_the_expected_time_of_a_step_is_its_bytes_divided_by_the_line_rate(shape):
    plan = a_plan(1 << 30, 1 << 30, iterations=8, looks=0, spread_iterations=0)
    found = {one.name: pace(one, 2, SHAPES[shape], 2) for one in steps(plan, SHAPES[shape], 2)}
    top = ceiling.bound_gb_s("all_reduce", SHAPES[shape], 2)
    assert found["all_reduce"].wire_gb_s == pytest.approx(top)
    assert found["rails"].wire_gb_s == pytest.approx(top / 8, rel=1e-3)
    assert found["all_reduce"].busbw_factor == 1.875
    assert found["all_reduce"].seconds == pytest.approx(2 * (1 + 8 + 1) * 1.875 * (1 << 30) / (top * 1e9), abs=1e-3)


def test_the_expected_time_of_a_run_over_nvlink_between_nodes_follows_from_the_nvlink_rate_of_one_gpu():
    shape, size = SHAPES["BM.GPU.GB200.4"], 16 << 30
    plan = a_plan(size, size, iterations=8, exports={"NCCL_MNNVL_ENABLE": "1"}, looks=0, spread_iterations=0)
    (over,) = [one for one in steps(plan, shape, 2) if one.name == "nvl"]
    found = pace(over, 2, shape, 2)
    assert found.wire_gb_s == shape.nvlink_gbytes_per_s == 900
    assert found.seconds == pytest.approx(2 * over.cycles * (over.warmup + over.iterations + 1) * 1.75 * size / 900e9, abs=1e-3)


def test_a_step_without_a_known_line_rate_has_no_expected_time():
    plan = a_plan(8, 64, collectives=("hypercube",), looks=0, spread_iterations=0)
    (found,) = [pace(one, 2, GPU4, 2) for one in steps(plan, GPU4, 2) if one.name == "hypercube"]
    assert (found.wire_gb_s, found.seconds) == (0.0, 0.0)
