"""Every published healthy busbw either passes or is refused with a reason; no published run with a fault passes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from conftest import ROOT
from measurement_line import a_plan, document

from benchmarks.judge.transport import least_bytes
from benchmarks.judge.verdict import judge
from benchmarks.plan.asked import Asked
from benchmarks.plan.ceiling import bound_gb_s
from benchmarks.plan.collectives import COLLECTIVES
from benchmarks.plan.gate import gate
from catalogue import ENVIRONMENTS, SERVERS
from catalogue.aws.instances import INSTANCES
from catalogue.published import ROWS, Published
from tools.published_rows import is_over_nvlink, page, plan, refusal

JUDGED = [row for row in ROWS if not refusal(row) and not is_over_nvlink(row)]
MACHINES = [row for row in JUDGED if row.nodes == 1]
FABRICS = [row for row in JUDGED if row.nodes > 1]
RACKS = [row for row in ROWS if is_over_nvlink(row)]


def name(row: Published) -> str:
    return f"{row.where}, {row.nodes}, {row.collective}, {row.busbw_gb_s:g}"


def over(row: Published) -> str:
    return f"NVLink of generation {row.shape.nvlink_generation}, {row.collective}"


def asked(row: Published) -> Asked:
    return Asked(plan(row), row.shape, row.nodes)


def whole(row: Published, share: float = 1.0) -> dict[str, Any]:
    """Return the whole line of a run that reached `share` of the busbw in `row`."""
    wanted = asked(row)
    bound = bound_gb_s(row.collective, row.shape, row.nodes)
    most = 2.0 if row.exports.get("NCCL_COLLNET_ENABLE") else 1.0
    line = document(wanted, share=min(share * row.busbw_gb_s / bound, most), scale=1)
    if row.nodes == 1:
        line["transport"] |= {"nvlink_tx_bytes": {"least": 10**15}, "said": {"channels": {"P2P/CUMEM": 16}}}
        return line
    if row.exports.get("NCCL_COLLNET_ENABLE"):
        line["transport"]["said"]["channels"]["COLLNET/SHARP"] = 128
        sent = least_bytes(wanted.plan, row.shape, row.nodes, in_network=True)
        for by in line["transport"]["tx_bytes"].values():
            by.update(dict.fromkeys(row.shape.rdma.hca, int(1.06 * sent / row.shape.rdma.ports)))
    for step in line["steps"]:
        if step["stage"] in {"rails", "node"}:
            step["groups_gb_s"] = [one * max(1.0, 0.95 * bound / (share * row.busbw_gb_s)) for one in step["groups_gb_s"]]
    provider = ENVIRONMENTS[row.shape.environment].provider
    if provider:
        found = f"Selected provider is {provider}, fabric is efa-direct (found {row.shape.rdma.ports} nics)"
        line["transport"]["said"] |= {"networks": {"Libfabric": 16}, "devices": {found: 16}, "channels": {"NET/Libfabric/0": 4}}
    return line


def judged(line: dict[str, Any], row: Published):
    return judge(json.dumps(line), asked(row))


def test_the_committed_page_is_the_page_that_is_made_from_the_rows():
    assert (ROOT / "docs" / "published-rows.md").read_text() == page(), (
        "run: python -m tools.published_rows > docs/published-rows.md"
    )


def test_most_rows_are_judged_and_each_refusal_says_why():
    assert len(JUDGED) >= 55
    assert len(ROWS) >= 90
    for row in ROWS:
        if refusal(row):
            assert any(word in refusal(row) for word in ("NCCL", "no gate", "NVLink")), name(row)


@pytest.mark.parametrize("row", JUDGED, ids=name)
def test_a_complete_line_with_a_published_healthy_busbw_passes(row):
    found = judged(whole(row), row)
    assert (found.verdict, found.reasons) == ("pass", ())


@pytest.mark.parametrize("row", FABRICS, ids=name)
def test_a_published_run_that_uses_only_half_of_its_rails_is_short_and_the_reason_names_an_idle_rail(row):
    line = whole(row, 0.5)
    idle = row.shape.rdma.hca[: row.shape.rdma.ports // 2]
    for sent in line["transport"]["tx_bytes"].values():
        sent.update(dict.fromkeys(idle, 0))
        sent.update({rail: 3 * count for rail, count in sent.items() if rail in row.shape.rdma.hca})
    found = judged(line, row)
    assert found.verdict == "short"
    assert any(f"carried the bytes; {idle[0]}" in reason for reason in found.reasons)


@pytest.mark.parametrize("row", FABRICS, ids=name)
def test_a_published_run_over_tcp_is_short_because_nccl_used_eth0(row):
    line = whole(row, 0.16)
    for sent in line["transport"]["tx_bytes"].values():
        moved = sum(sent.values())
        sent.update(dict.fromkeys(row.shape.rdma.hca, 0), eth0=moved)
    found = judged(line, row)
    assert found.verdict == "short"
    assert any("so NCCL used eth0" in reason for reason in found.reasons)


@pytest.mark.parametrize("row", FABRICS, ids=name)
def test_a_published_run_with_one_slow_node_is_short_and_names_that_node(row):
    line = whole(row)
    (inside,) = [step for step in line["steps"] if step["stage"] == "node"]
    inside["groups_gb_s"][1] *= 0.6
    found = judged(line, row)
    assert found.verdict == "short"
    assert any(reason.startswith("node 1: all_reduce inside it reached") for reason in found.reasons)


@pytest.mark.parametrize("row", FABRICS, ids=name)
def test_a_published_run_without_gpudirect_rdma_is_short_for_that_reason(row):
    """Published: without GPUDirect RDMA, all-reduce on two nodes falls from about 180 to 10 GB/s (NVIDIA/nccl issue 1676)."""
    line = whole(row, 10 / 180)
    line["transport"]["said"]["gpudirect"] = {"NET": 64}
    found = judged(line, row)
    assert found.verdict == "short"
    assert any(reason.startswith("NCCL used no GPUDirect RDMA at 64 of 64 ends of connections") for reason in found.reasons)


@pytest.mark.parametrize("row", MACHINES, ids=name)
def test_one_machine_with_half_of_its_nvlinks_is_short_and_the_reason_names_nvlink(row):
    found = judged(whole(row, 0.5), row)
    assert found.verdict == "short"
    assert any(reason.startswith(f"{row.collective} reached") and "of NVLink's" in reason for reason in found.reasons)


@pytest.mark.parametrize("row", MACHINES, ids=name)
def test_a_single_machine_whose_gpus_exchange_through_main_memory_is_short_and_the_reason_names_the_path(row):
    line = whole(row, 0.1)
    line["transport"]["said"]["channels"] = {"SHM/direct": 16}
    found = judged(line, row)
    assert found.verdict == "short"
    assert "channels inside the machine used SHM/direct instead of peer access" in found.reasons


@pytest.mark.parametrize("row", MACHINES, ids=name)
def test_the_gate_of_a_single_machine_is_slightly_below_the_published_number(row):
    """A machine with half of its NVLinks must fail. Other faults cost less busbw, so the gate is near the published number."""
    limit = gate(plan(row), row.shape, 1).limit_gb_s
    assert 0.85 < limit / row.busbw_gb_s < 0.96


def test_a_collective_without_a_published_number_for_the_machines_nvlink_gets_a_reason_instead_of_a_gate():
    known = {over(row) for row in MACHINES}
    for shape in (INSTANCES["p3dn.24xlarge"].shape(), SERVERS["HGX-A100-80GB.8"], SERVERS["DGX-H100"], SERVERS["HGX-B200.8"]):
        for collective in COLLECTIVES:
            found = gate(a_plan(end_bytes=16 * 1024**3, collectives=(collective,)), shape, 1)
            which = f"NVLink of generation {shape.nvlink_generation}"
            assert (found.limit_gb_s is not None) == (f"{which}, {collective}" in known), (shape.name, collective)
            if found.limit_gb_s is None and collective != "hypercube":
                assert f"a healthy {collective} reaches where {which} is the bottleneck" in found.why


SERVER = a_plan(end_bytes=16 * 1024**3)


@pytest.mark.parametrize(
    "shape", [SERVERS["DGX-H100"], SERVERS["DGX-H200"], SERVERS["HGX-B200.8"]], ids=lambda shape: shape.name
)
def test_a_server_whose_nvlink_switch_does_not_reduce_is_short_for_that_reason_although_its_ring_is_healthy(shape):
    single = Asked(SERVER, shape, 1)
    line = document(single, share=0.8, scale=1)
    line["transport"] |= {"nvlink_tx_bytes": {"least": 10**15}, "said": {"channels": {"P2P/CUMEM": 16}}}
    assert judge(json.dumps(line), single).verdict == "pass"
    (ring,) = [step for step in line["steps"] if step["name"] == "all_reduce"]
    (free,) = [step for step in line["steps"] if step["name"] == "free"]
    free["rows"] = [ring["rows"][-1]]
    found = judge(json.dumps(line), single)
    assert found.verdict == "short"
    assert any("if their switches reduce; at least " in reason for reason in found.reasons)


def over_nvlink(row: Published, busbw_gb_s: float):
    """Judge a rack whose rails are healthy and whose run over NVLink reached this busbw."""
    line = document(asked(row), scale=1)
    (step,) = [step for step in line["steps"] if step["stage"] == "nvl"]
    share = busbw_gb_s / step["rows"][-1][1][2]
    step["rows"] = [
        [size, *([time / share, alg * share, bus * share, wrong] for time, alg, bus, wrong in placed)]
        for size, *placed in step["rows"]
    ]
    return judged(line, row)


@pytest.mark.parametrize("row", RACKS, ids=name)
def test_a_published_healthy_rack_passes_by_its_rails_and_by_nvlink_between_its_nodes(row):
    found = over_nvlink(row, row.busbw_gb_s)
    assert (found.verdict, found.reasons) == ("pass", ())
    assert "nvl" in {one.name for one in found.checks}


@pytest.mark.parametrize("row", RACKS, ids=name)
def test_a_rack_is_short_if_its_switches_do_not_reduce_or_if_the_run_over_nvlink_uses_the_rails(row):
    rails = bound_gb_s(row.collective, row.shape, row.nodes)
    half = 0.78 * 900 if row.collective == "all_reduce" else 0.55 * 900
    slow, split = over_nvlink(row, half), over_nvlink(row, 0.95 * rails)
    assert (slow.verdict, split.verdict) == ("short", "short")
    assert [reason for reason in slow.reasons if "nvidia-imex" in reason] == []
    (reason,) = split.reasons
    assert f"over NVLink between nodes {row.collective} reached" in reason
    assert "check nvidia-imex, and whether all nodes are in one rack" in reason
    assert over_nvlink(row, 2000.0).verdict == "unknown"


@pytest.mark.parametrize("row", RACKS, ids=name)
def test_a_busbw_over_nvlink_is_believed_up_to_exactly_1_05_times_the_rate_that_nvlink_can_carry(row):
    ranks = row.nodes * row.shape.gpus
    most = 1.05 * (900 * 2 * (ranks - 1) / ranks if row.collective == "all_reduce" else 900)
    states = []
    for busbw_gb_s in (most, math.nextafter(most, math.inf)):
        line = document(asked(row), scale=1)
        (step,) = [step for step in line["steps"] if step["stage"] == "nvl"]
        size, out_of_place, in_place = step["rows"][-1]
        step["rows"][-1] = [size, [*out_of_place[:2], busbw_gb_s, 0], [*in_place[:2], busbw_gb_s, 0]]
        (check,) = [one for one in judged(line, row).checks if one.name == "nvl"]
        states.append((check.state, "is more than it can carry" in check.why[0]))
    assert states == [("pass", False), ("unknown", True)]
