"""Checks that a row's numbers are consistent: size over time gives algbw, and algbw times the test's factor gives busbw.

For hypercube, algbw is only a part of size over time (`Collective.algbw_share`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.plan.collectives import collective
from benchmarks.plan.size_text import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Relative and absolute tolerance; the JSON of nccl-tests has six decimals.
_TOLERANCE, _ROUNDING = 0.01, 2e-6


def problems(rows: Iterable[dict[str, Any]], name: str, ranks: int) -> Iterable[str]:
    """Yield a sentence for each placement (out of place or in place) in `rows` whose numbers contradict each other.

    Args:
        rows: {size_bytes, out_of_place, in_place}, as `benchmarks.judge.measurement` reads them.
        name: the collective that ran.
        ranks: number of ranks in one group, which determines the factor.
    """
    test = collective(name)
    expected = test.busbw_factor(ranks)
    for row in rows:
        for placement in ("out_of_place", "in_place"):
            timing = row[placement]
            if timing is None or not row["size_bytes"]:  # a size of 0 moves nothing
                continue
            time_us, algbw, busbw = (float(timing[key]) for key in ("time_us", "algbw_gb_s", "busbw_gb_s"))
            where = f"at {size_text(row['size_bytes'])} {placement.replace('_', ' ')}"
            if time_us <= 0:
                yield f"{where} an operation took {time_us:g} us"
            elif not _close(algbw, row["size_bytes"] * test.algbw_share(ranks) / (time_us * 1e3)):
                yield f"{where} algbw is {algbw:.6g} GB/s, which does not fit {time_us:.6g} us"
            elif not _close(busbw, expected * algbw):
                ratio = busbw / algbw if algbw else 0.0
                yield (
                    f"{where} busbw / algbw is {ratio:.4f}, but {ranks} ranks make it {expected:.4f}: another number of ranks "
                    "ran (as in a build without MPI=1)"
                )


def _close(found: float, expected: float) -> bool:
    return abs(found - expected) <= _TOLERANCE * expected + _ROUNDING
