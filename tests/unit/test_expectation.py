"""A preview is one block of text: machines, price, the healthy busbw, and the gate as the update will apply it."""

from __future__ import annotations

import json

import pytest
from measurement_line import GPU4, a_plan, document

from benchmarks.judge.verdict import judge
from benchmarks.plan import ceiling
from benchmarks.plan.asked import Asked
from benchmarks.report.expectation import expectation
from benchmarks.report.outputs import expected
from catalogue import Price
from config.accept import Accept

PRICE = Price(24.0, "the stack's own records.pricePerNodeHour")


def test_a_preview_of_at_most_100_columns_names_machines_and_price_and_wire_and_healthy_numbers_and_gate():
    lines = expectation(Asked(a_plan(1 << 30, 4 << 30), GPU4, 2), PRICE, rents=True).splitlines()
    assert lines[0] == "2 x BM.GPU4.8, to be rented and measured:"
    assert lines[1].startswith("  price:    48 USD an hour, 0.2526 for each GB/s (")
    assert lines[2] == "  wire:     200 GB/s of all_reduce busbw"
    assert [line.split()[:2] for line in lines[4:-1]] == [["1", "GiB"], ["2", "GiB"], ["4", "GiB"]]
    assert lines[-1] == "  gate:     170 GB/s at 4 GiB: 0.85 of the ring ceiling 200 GB/s (2 x BM.GPU4.8)"
    assert max(map(len, lines)) <= 100


def test_a_preview_shows_healthy_numbers_for_the_six_largest_sizes_only():
    lines = expectation(Asked(a_plan(8, 4 << 30), GPU4, 2), PRICE, rents=True).splitlines()
    sizes = [" ".join(line.split()[:2]) for line in lines[lines.index("  healthy:  about") + 1 : -1]]
    assert sizes == ["128 MiB", "256 MiB", "512 MiB", "1 GiB", "2 GiB", "4 GiB"]


def test_the_expected_busbw_and_the_price_per_busbw_belong_to_the_deciding_collective():
    asked = Asked(a_plan(1 << 30, 4 << 30, collectives=("alltoall",)), GPU4, 2)
    found = expected(asked, PRICE)
    assert found["busbw_gb_s"] == ceiling.predicted_gb_s(GPU4, 2, "alltoall") != ceiling.predicted_gb_s(GPU4, 2)
    assert found["curve"][-1]["busbw_gb_s"] <= found["busbw_gb_s"]
    assert found["cost"]["usd_per_hour_per_gb_s"] == pytest.approx(48 / found["busbw_gb_s"], rel=1e-3)


@pytest.mark.parametrize("accept", [Accept(scale=4000), Accept(scale=4000, gate_gb_s=160)])
def test_a_preview_of_a_rehearsal_shows_the_gate_that_the_update_applies(accept):
    asked = Asked(a_plan(1 << 20, 4 << 20), GPU4, 2, accept)
    lines = expectation(asked, None, rents=True).splitlines()
    judged = judge(json.dumps(document(asked, 0.98, 4000)), asked)
    assert lines[0].endswith(", rehearsed at 1/4000:")
    assert lines[-1] == f"  gate:     {judged.gate.limit_gb_s:.4g} GB/s at 4 MiB: {judged.gate.why}"
    healthy = float(lines[-2].split()[2])
    assert judged.busbw_gb_s == pytest.approx(healthy, rel=0.1)
    assert lines[1] == "  price:    unknown; set records.pricePerNodeHour to include it"


def test_machines_that_exist_are_not_rented_and_have_no_price():
    text = expectation(Asked(a_plan(1 << 30, 1 << 30), GPU4, 2), None, rents=False)
    assert text.startswith("2 x BM.GPU4.8, to be measured:\n  wire: ")


def test_if_a_rehearsals_messages_are_too_small_for_a_gate_the_preview_shows_the_minimum_size_and_the_scale():
    asked = Asked(a_plan(1 << 10, 1 << 10), GPU4, 2, Accept(scale=4000))
    said = expectation(asked, None, rents=False).splitlines()[-1]
    assert said.endswith("but the gate needs at least 512 MiB, or 1/4000 of that in this rehearsal")


def test_a_preview_without_a_gate_shows_why_there_is_no_gate():
    asked = Asked(a_plan(1 << 20, 1 << 20), GPU4, 2)
    assert (
        expectation(asked, None, rents=False)
        .splitlines()[-1]
        .startswith("  gate:     none: the largest size is 1 MiB, but the gate needs at least 512 MiB")
    )
