"""Checks that a run's report does not contradict itself.

The text must agree with the JSON result, the closing lines with the rows, each row's number of elements with its bytes, and the
ranks with the GPUs.

nccl-tests writes text and JSON from the same variables, so a difference means that the text or the JSON was damaged.
"""

from typing import Iterator, List, Optional

from benchmarks.runner.transcript import Device, Placement, Row, Transcript

#: The largest difference between text and JSON that rounding explains: an absolute part and a relative part. nccl-tests prints
#: JSON with six decimals, and text with two decimals; in text, times of 100,000 us and more have no decimals.
_PRINTED, _SHARE = 0.011, 0.005
#: The only data type that the runner measures, as nccl-tests names it, and the size of one element.
_FLOAT, _FLOAT_BYTES = "float", 4
#: Tests that nccl-tests does not check in place, because they cannot send from and receive into one buffer (see their InitData
#: functions).
_OUT_OF_PLACE_ONLY = ("alltoall", "sendrecv")


def disagreements(text: Transcript, exact: Transcript) -> List[str]:
    """Return a sentence for each way in which the text of a run contradicts its JSON result."""
    found = list(_rows(text.every, exact.every))
    if text.scale != exact.scale:
        found.append(f"the text states scale {text.scale} and the JSON result {exact.scale}")
    if None not in (text.collective, exact.collective) and text.collective != exact.collective:
        found.append(f"the text reports {text.collective} and the JSON result {exact.collective}")
    if [one[:3] for one in text.devices] != [one[:3] for one in exact.devices]:
        found.append("the text and the JSON result list different ranks")
    if None not in (text.nccl, exact.nccl) and _release(text.nccl) != _release(exact.nccl):
        found.append(f"the text reports NCCL {text.nccl} and the JSON result {exact.nccl}")
    if text.out_of_bounds != exact.out_of_bounds:
        found.append(f"the text counts {text.out_of_bounds} values out of bounds and the JSON result {exact.out_of_bounds}")
    if not _close(text.average_busbw_gb_s, exact.average_busbw_gb_s):
        printed, written = text.average_busbw_gb_s, exact.average_busbw_gb_s
        found.append(f"the average is {printed} GB/s in the text and {written} GB/s in the JSON result")
    return found


def contradictions(run: Transcript) -> List[str]:
    """Return a sentence for each way in which a run contradicts itself."""
    found = []
    wrong = sum(place.wrong or 0 for row in run.every for place in (row.out_of_place, row.in_place) if place)
    if run.out_of_bounds is not None and bool(run.out_of_bounds) != bool(wrong):
        found.append(f"its closing lines count {run.out_of_bounds} values out of bounds, but its rows count {wrong}")
    for row in run.every:
        if row.dtype != _FLOAT:
            found.append(f"the row of {row.size_bytes} B has type {row.dtype!r} instead of {_FLOAT}")
        elif row.elements * _FLOAT_BYTES > row.size_bytes or (row.elements and row.size_bytes % (row.elements * _FLOAT_BYTES)):
            found.append(f"the row of {row.size_bytes} B has {row.elements} elements of {_FLOAT_BYTES} B")
        if run.collective not in _OUT_OF_PLACE_ONLY and _unchecked(row.in_place) and not _unchecked(row.out_of_place):
            found.append(f"the values of the row of {row.size_bytes} B were checked only out of place")
    return [*found, *_shared(run.devices)]


def _release(version: Optional[str]) -> str:
    """Return `version` without the CUDA version that NCCL appends: 2.28.9 for 2.28.9+cuda13.0."""
    return (version or "").split("+")[0]


def _unchecked(placement: Optional[Placement]) -> bool:
    return placement is not None and placement.wrong is None


def _rows(text: "tuple[Row, ...]", exact: "tuple[Row, ...]") -> Iterator[str]:
    if [row.size_bytes for row in text] != [row.size_bytes for row in exact]:
        yield "the text and the JSON result contain different sizes"
        return
    for printed, precise in zip(text, exact):
        pairs = ((printed.out_of_place, precise.out_of_place, "out of place"), (printed.in_place, precise.in_place, "in place"))
        for one, other, where in pairs:
            if not _same(one, other):
                yield f"the text and the JSON result differ at {printed.size_bytes} B {where}"
        if (printed.elements, printed.dtype, printed.redop) != (precise.elements, precise.dtype, precise.redop):
            yield f"the text and the JSON result contain different elements at {printed.size_bytes} B"


def _same(one: Optional[Placement], other: Optional[Placement]) -> bool:
    if one is None or other is None:
        return one is other
    return one.wrong == other.wrong and all(_close(mine, its) for mine, its in zip(one[:3], other[:3]))


def _close(printed: Optional[float], precise: Optional[float]) -> bool:
    if printed is None or precise is None:
        return printed is precise
    return abs(printed - precise) <= _PRINTED + _SHARE * precise


def _shared(devices: "tuple[Device, ...]") -> Iterator[str]:
    drives = {}  # type: dict[tuple[str, int], int]
    for one in devices:
        place = (one.host, one.device)
        if place in drives:
            yield f"ranks {drives[place]} and {one.rank} both drive GPU {one.device} of {one.host}"
        drives[place] = one.rank
