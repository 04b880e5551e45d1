"""Generates the output of nccl-tests 2.19.6 for given numbers, as text and as its JSON file.

The layout is that of h200x2.txt and h200x2.json in tests/golden/transcripts, the output of a real run on one machine with two
H200 GPUs. Parts that nobody reads are left out, and the times of single operations (`per_iter_timing`) are added if asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from benchmarks.plan.collectives import collective

_FLOAT_BYTES = 4
_SIZES = (
    "#                                                              out-of-place                       in-place          \n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong \n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         \n"
)


@dataclass(frozen=True)
class Printed:
    """The printed output of one run.

    Attributes:
        collective: the collective that ran.
        ranks: (host, GPU) of each rank.
        gpu: name of the GPUs.
        rows: (size in bytes, busbw in GB/s) in the order in which they are printed.
        factor_ranks: number of ranks in one group, which determines the factor between algbw and busbw.
        rank_shares: for each rank, the time that the rank takes for one operation, divided by the row's `p50_us`; empty if
            operations are not timed one by one.
        checked: whether values are checked.
    """

    collective: str
    ranks: tuple[tuple[str, int], ...]
    gpu: str
    rows: tuple[tuple[int, float], ...]
    factor_ranks: int
    rank_shares: tuple[float, ...] = ()
    checked: bool = True

    def text(self) -> str:
        """Return the text on standard output."""
        devices = "".join(
            f"#  Rank {rank:2} Group  0 Pid {4000 + rank:6} on {host:>10} device {gpu:2} [0000:{gpu + 6:02x}:00] {self.gpu}\n"
            for rank, (host, gpu) in enumerate(self.ranks)
        )
        rows = "".join(
            f"{size:12} {size // _FLOAT_BYTES:13}     float     sum      -1{2 * self._columns(size, busbw)}\n"
            for size, busbw in self.rows
        )
        return (
            "# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809\n"
            f"# Collective test starting: {self.collective}_perf\n"
            f"#\n# Using devices\n{devices}#\n{_SIZES}{rows}"
            f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {self._average():g} \n#\n"
            f"# Collective test concluded: {self.collective}_perf\n#\n"
        )

    def json(self) -> str:
        """Return the content of the JSON file."""
        document = {
            "version": 3,
            "args": [f"./build/{self.collective}_perf"],
            "env": [],
            "nccl_version": 22809,
            "config": {
                "devices": [
                    {"rank": rank, "group": 0, "hostname": host, "device": gpu, "device_info": self.gpu}
                    for rank, (host, gpu) in enumerate(self.ranks)
                ]
            },
            "results": [self._result(size, busbw) for size, busbw in self.rows],
            "out_of_bounds": {"count": 0, "okay": "true"},
            "average_bus_bandwidth": {"bandwidth": self._average(), "okay": "unchecked"},
            "errors": [""],
        }
        return json.dumps(document)

    def _timing(self, size: int, busbw: float) -> tuple[float, float]:
        test = collective(self.collective)
        algbw = busbw / test.busbw_factor(self.factor_ranks)
        return size * test.algbw_share(self.factor_ranks) / (algbw * 1e3), algbw

    def _columns(self, size: int, busbw: float) -> str:
        time_us, algbw = self._timing(size, busbw)
        wrong = "0" if self.checked else "N/A"
        return f" {time_us:8.2f} {algbw:7.2f} {busbw:7.2f} {wrong:>7}"

    def _result(self, size: int, busbw: float) -> dict[str, Any]:
        time_us, algbw = self._timing(size, busbw)
        timing = {"time": time_us, "alg_bw": algbw, "bus_bw": busbw, "nwrong": 0.0 if self.checked else None}
        found: dict[str, Any] = {"size": size, "count": size // _FLOAT_BYTES, "type": "float", "redop": "sum"}
        found |= {"out_of_place": timing, "in_place": dict(timing)}
        if self.rank_shares:
            found["out_of_place_per_iter"] = {
                "skipped_iterations": 0,
                "times_us": [time_us, time_us, time_us],
                "p50_us": time_us,
                "p99_us": 1.02 * time_us,
                "cv_pct": 1.0,
                "per_process_max_times_us": [[share * time_us] for share in self.rank_shares],
            }
        return found

    def _average(self) -> float:
        return round(sum(busbw for _, busbw in self.rows) / len(self.rows), 6)
