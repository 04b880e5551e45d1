"""Output of ib_write_bw and rping from real machines is parsed exactly, and output without a result is reported as such."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.runner import perftest

GOLDEN = Path(__file__).parents[1] / "golden" / "transcripts"


@pytest.mark.parametrize("name", ["k8s-ib_write_bw-server", "k8s-ib_write_bw-client"])
def test_a_published_transcript_is_read_to_the_digit(name):
    found = perftest.bandwidth((GOLDEN / f"{name}.txt").read_text())
    assert found == perftest.Bandwidth("irdma0", "Ethernet", 1024, 65536, 1324156, 23.14)


def test_every_ping_that_came_back_is_listed():
    assert perftest.pings((GOLDEN / "k8s-rping-client.txt").read_text()) == [0, 1, 2]


CLIENT = (GOLDEN / "k8s-ib_write_bw-client.txt").read_text()


def test_megabytes_are_converted_to_gigabits():
    text = CLIENT.replace("[Gb/sec]", "[MB/sec]").replace("23.14 ", "2758.50 ")
    assert perftest.bandwidth(text).average_gbit_s == pytest.approx(23.14, abs=0.001)


def test_with_several_sizes_the_bandwidth_is_read_from_the_last_row():
    row = " 65536      1324156          0.00               23.14              0.044138"
    text = CLIENT.replace(row, f" 2          10          0.00               0.11              0.1\n{row}")
    assert perftest.bandwidth(text).size_bytes == 65536


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it printed no table: it printed nothing"),
        (
            "IB device irdma0 not found\n Unable to find the Infiniband/RoCE device\n",
            "Unable to find the Infiniband/RoCE device",
        ),
        (CLIENT.replace(" 65536 ", " x "), "its table has no row"),
        (CLIENT.replace("[Gb/sec]", "[Furlong/sec]"), "its table is in Furlong/sec"),
    ],
)
def test_output_without_a_result_is_refused_with_the_reason(text, why):
    with pytest.raises(ValueError, match="it") as found:
        perftest.bandwidth(text)
    assert why in str(found.value)
