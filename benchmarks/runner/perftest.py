"""Parses the output of ib_write_bw (perftest) and rping (rdma-core)."""

import re
from typing import List, NamedTuple, Optional

#: A field that perftest prints between its lines of dashes, such as `Mtu             : 1024[B]`; a line has one or two fields.
_SAID = re.compile(r"([A-Za-z][\w./*-]*(?: [\w./*-]+)*) *: (\S+)")
_HEAD = re.compile(r"^ *#bytes +#iterations +BW peak\[(\S+)\] +BW average\[(\S+)\]", re.MULTILINE)
_ROW = re.compile(r"^ *(\d+) +(\d+) +([\d.]+) +([\d.]+)(?: +([\d.]+))? *$")
_PING = re.compile(r"^(?:server )?ping data: rdma-ping-(\d+): ", re.MULTILINE)
#: perftest's units with and without --report_gbits (perftest_parameters.c, RESULT_FMT_G and RESULT_FMT: MB of 2^20 bytes).
_GBIT_S = {"Gb/sec": 1.0, "MB/sec": 8 * 2**20 / 1e9}


class Bandwidth(NamedTuple):
    """One run of a bandwidth test of perftest.

    Attributes:
        device: the RDMA device.
        link: Ethernet or IB.
        mtu_bytes: path MTU of the connection; None if it is not printed.
        size_bytes, iterations: message size and number of iterations in the last row.
        average_gbit_s: average payload rate in the last row, in Gbit/s.
    """

    device: str
    link: str
    mtu_bytes: Optional[int]
    size_bytes: int
    iterations: int
    average_gbit_s: float


def bandwidth(text: str) -> Bandwidth:
    """Return the run that `text` reports, with the last row of its table.

    Raises:
        ValueError: the text has no table of perftest, or the table has no row or an unknown unit.
    """
    head = _HEAD.search(text)
    if head is None:
        raise ValueError(f"it printed no table: {_end(text)}")
    if head.group(2) not in _GBIT_S:
        raise ValueError(f"its table is in {head.group(2)}, which is an unknown unit")
    rows = [row for row in map(_ROW.match, text[head.end() :].splitlines()) if row]
    if not rows:
        raise ValueError(f"its table has no row: {_end(text)}")
    said = dict(_SAID.findall(text[: head.start()]))
    mtu = re.match(r"(\d+)", said.get("Mtu", ""))
    size, iterations, _, average, _ = rows[-1].groups()
    return Bandwidth(
        device=said.get("Device", ""),
        link=said.get("Link type", ""),
        mtu_bytes=int(mtu.group(1)) if mtu else None,
        size_bytes=int(size),
        iterations=int(iterations),
        average_gbit_s=round(float(average) * _GBIT_S[head.group(2)], 3),
    )


def pings(text: str) -> List[int]:
    """Return the numbers of the messages that rping received back intact; rping prints these numbers with -v."""
    return [int(number) for number in _PING.findall(text)]


def _end(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" -*")]
    return lines[-1][:200] if lines else "it printed nothing"
