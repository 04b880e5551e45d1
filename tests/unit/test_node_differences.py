"""Nodes that should be alike are compared; every difference is one sentence with the node's name."""

from __future__ import annotations

import copy
import json

import pytest

from benchmarks.launch.protocol import Node
from benchmarks.runner import jobs, line_size, node_differences, traffic

NODES = [Node(f"n{index}", f"10.0.0.{index}") for index in range(4)]
RAILS = ["mlx5_0", "mlx5_1"]
ONE = {
    "clock": 1000.0,
    "interfaces": {"eth0": {"mtu": 9000, "up": True, "tx_bytes": 10, "rx_bytes": 10}},
    "hca": {
        name: {
            "netdev": "r0",
            "active": True,
            "rate": "100 Gb/sec",
            "tx_bytes": 100,
            "rx_bytes": 100,
            "events": {"cnp_sent": 0},
        }
        for name in RAILS
    },
    "nvlink_tx_bytes": None,
}
ASKED_AT = [(999.0, 1001.0)] * 4


@pytest.fixture
def found():
    return [copy.deepcopy(ONE) for _ in NODES]


def differences(found) -> list[str]:
    return node_differences.differences(NODES, found, ASKED_AT, RAILS)


def test_equal_nodes_have_no_difference(found):
    assert differences(found) == []


def test_a_rail_that_is_down_or_missing_is_named(found):
    found[1]["hca"]["mlx5_0"]["active"] = False
    del found[2]["hca"]["mlx5_1"]
    assert differences(found) == ["n1: rail mlx5_0 is not active", "n2 has no RDMA device mlx5_1"]


def test_a_rail_at_an_unusual_rate_is_named_with_the_usual_rate(found):
    found[3]["hca"]["mlx5_1"]["rate"] = "50 Gb/sec"
    assert differences(found) == ["n3: mlx5_1 has link rate 50 Gb/sec, but 100 Gb/sec is usual"]


def test_a_rail_slower_than_the_other_rails_of_its_node_is_named_even_if_that_rail_is_slow_on_every_node(found):
    for each in found:
        each["hca"]["mlx5_1"]["rate"] = "100 Gb/sec"
        each["hca"]["mlx5_2"] = dict(each["hca"]["mlx5_0"], rate="50 Gb/sec")
    said = node_differences.differences(NODES, found, ASKED_AT, [*RAILS, "mlx5_2"])
    assert said == [f"n{index}: mlx5_2 has link rate 50 Gb/sec, but 100 Gb/sec is usual" for index in range(4)]


H100 = {"power_limit_w": "700.00", "clock_limit_mhz": "1980", "pcie_width": "16", "pcie_generation": "5"}


def test_a_gpu_with_less_power_or_clock_or_pcie_than_most_gpus_is_named_with_both_values(found):
    for each in found:
        each["gpu_limits"] = {"gpu0": dict(H100), "gpu1": dict(H100)}
    assert differences(found) == []
    found[1]["gpu_limits"]["gpu1"]["power_limit_w"] = "500.00"
    found[2]["gpu_limits"]["gpu0"] |= {"pcie_width": "8", "clock_limit_mhz": "1200"}
    assert differences(found) == [
        "n1: gpu1 has power limit (W) 500.00, but 700.00 is usual",
        "n2: gpu0 has clock limit (MHz) 1200, but 1980 is usual",
        "n2: gpu0 has PCIe width 8, but 16 is usual",
    ]


def test_a_gpu_with_less_power_than_the_other_gpus_of_its_node_is_named_even_if_that_gpu_has_less_power_on_every_node(found):
    for each in found:
        each["gpu_limits"] = {f"gpu{number}": dict(H100) for number in range(3)}
        each["gpu_limits"]["gpu1"]["power_limit_w"] = "500.00"
    assert differences(found) == [f"n{node}: gpu1 has power limit (W) 500.00, but 700.00 is usual" for node in range(4)]


def test_limits_that_a_nodes_driver_does_not_report_are_no_difference(found):
    found[0]["gpu_limits"] = {"gpu0": dict(H100)}
    found[1]["gpu_limits"] = {"gpu0": {}}
    assert differences(found) == []


def test_a_rail_whose_pcie_link_was_trained_narrower_is_named(found):
    for each in found:
        for rail in each["hca"].values():
            rail["pcie"] = "16.0 GT/s x16"
    assert differences(found) == []
    found[3]["hca"]["mlx5_0"]["pcie"] = "16.0 GT/s x8"
    assert differences(found) == ["n3: mlx5_0 has PCIe link 16.0 GT/s x8, but 16.0 GT/s x16 is usual"]


def test_a_device_that_is_not_a_rail_is_compared_only_with_its_counterparts_on_other_nodes(found):
    for each in found:
        each["hca"]["mlx5_4"] = dict(each["hca"]["mlx5_0"], rate="50 Gb/sec")
    assert differences(found) == []
    found[1]["hca"]["mlx5_4"]["rate"] = "25 Gb/sec"
    assert differences(found) == ["n1: mlx5_4 has link rate 25 Gb/sec, but 50 Gb/sec is usual"]


def test_an_interface_with_an_unusual_mtu_is_named(found):
    found[0]["interfaces"]["eth0"]["mtu"] = 1500
    assert differences(found) == ["n0: eth0 has MTU 1500, but 9000 is usual"]


def test_two_nodes_that_differ_are_reported_although_neither_value_is_usual(found):
    found[1]["interfaces"]["eth0"]["mtu"] = 1500
    for rail in found[0]["hca"].values():
        rail["rate"] = "50 Gb/sec"
    for order in (slice(0, 2), slice(1, None, -1)):
        said = node_differences.differences(NODES[order], found[order], ASKED_AT[:2], RAILS)
        assert sorted(said) == [
            "n0: eth0 has MTU 9000, but 1500 is as frequent",
            "n0: mlx5_0 has link rate 50 Gb/sec, but 100 Gb/sec is as frequent",
            "n0: mlx5_1 has link rate 50 Gb/sec, but 100 Gb/sec is as frequent",
        ]


def test_a_node_whose_clock_is_off_is_reported_with_the_offset(found):
    found[2]["clock"] = 940.0
    assert differences(found) == ["n2: its clock differs by 59 s from the head node's"]


@pytest.mark.parametrize(("clock", "is_off"), [(994.0, False), (993.9, True), (1006.0, False), (1006.1, True)])
def test_a_clock_may_differ_by_five_seconds_from_the_times_before_and_after_the_inventory(found, clock, is_off):
    found[2]["clock"] = clock
    assert bool(differences(found)) is is_off


def test_at_most_32_differences_are_listed_and_the_others_are_counted():
    many = [copy.deepcopy(ONE) for _ in range(100)]
    for each in many:
        each["hca"]["mlx5_0"]["active"] = False
    nodes = [Node(f"n{index}", "x") for index in range(100)]
    sentences = node_differences.differences(nodes, many, [(999.0, 1001.0)] * 100, RAILS)
    assert len(sentences) == 33
    assert sentences[-1] == "and 68 more differences"
    of_33 = node_differences.differences(nodes[:33], many[:33], [(999.0, 1001.0)] * 33, RAILS)
    assert (len(of_33), of_33[-1]) == (33, "and 1 more differences")
    of_32 = node_differences.differences(nodes[:32], many[:32], [(999.0, 1001.0)] * 32, RAILS)
    assert of_32[-1] == "n31: rail mlx5_0 is not active"


def test_counters_that_do_not_exist_are_absent_from_the_result_and_not_zero(found):
    before, after = found[:2], copy.deepcopy(found[:2])
    before[0]["hca"]["mlx5_0"]["tx_bytes"] = None
    after[0]["hca"]["mlx5_1"]["tx_bytes"] = 160
    after[1]["hca"]["mlx5_1"]["events"]["cnp_sent"] = 7
    moved = traffic.between(NODES[:2], before, after, RAILS)
    assert moved.tx_bytes["n0"] == {"eth0": 0, "mlx5_1": 60}
    assert moved.events == [("n1", "mlx5_1", "cnp_sent", 7)]
    assert moved.nvlink_tx_bytes is None


def test_of_more_than_sixteen_nodes_only_the_nodes_that_sent_least_are_listed():
    many = [copy.deepcopy(ONE) for _ in range(40)]
    after = copy.deepcopy(many)
    for each in after:
        for rail in RAILS:
            each["hca"][rail]["tx_bytes"] += 1000
    after[5]["hca"]["mlx5_0"]["tx_bytes"] = 150  # one rail of this node was hardly used
    for rail in RAILS:
        after[31]["hca"][rail]["tx_bytes"] -= 990  # all rails of this node were hardly used
    nodes = [Node(f"n{index}", "x") for index in range(40)]
    moved = traffic.between(nodes, many, after, RAILS)
    assert moved.counted_nodes == 40
    assert len(moved.tx_bytes) <= 8
    assert {"n5", "n31"} <= set(moved.tx_bytes)
    assert next(iter(moved.tx_bytes)) == "n31"


def test_a_line_that_is_too_long_keeps_the_nodes_that_sent_least_wherever_they_stand_in_the_list():
    rails = [f"rdmap{number}" for number in range(32)]
    sent = {f"n{number}": dict.fromkeys(rails, 1000) for number in range(16)}
    sent["n7"]["rdmap3"] = 1  # one rail of this node was hardly used
    sent["n11"] = dict.fromkeys(rails, 10)  # all rails of this node were hardly used
    line = {"steps": [], "machines": {}, "transport": {"tx_bytes": sent, "counted_nodes": 16}, "padding": "x" * 60_000}
    kept = line_size.fitting(line, rails)
    assert len(json.dumps(kept).encode()) <= 64 * 1024
    assert {"n7", "n11"} <= set(kept["transport"]["tx_bytes"])


def test_a_line_that_is_too_long_keeps_the_sixteen_slowest_groups_and_a_summary_of_all_groups():
    groups = [100.0 + number for number in range(9000)]
    groups[7000] = 1.0
    line = {"steps": [{"name": "pairs", "groups_gb_s": groups}], "machines": {}}
    (step,) = line_size.fitting(line, [])["steps"]
    kept = step["groups_gb_s"]
    assert kept["slowest"] == [[7000, 1.0], *([number, 100.0 + number] for number in range(15))]
    assert (kept["count"], kept["most"], kept["middle"], kept["mad"]) == (9000, 9099.0, 4598.5, 2250.0)


def test_a_line_of_exactly_the_size_limit_is_not_shortened_and_a_longer_line_loses_its_list_of_machines_first(monkeypatch):
    line = {"machines": {"n0": "a", "n1": "b"}, "steps": [{"groups_gb_s": [1.0] * 40}]}
    monkeypatch.setattr(jobs, "LINE_LIMIT_BYTES", len(json.dumps(line)))
    assert line_size.fitting(line, RAILS) == line
    line["machines"] |= {f"n{number}": "c" for number in range(2, 20)}
    monkeypatch.setattr(jobs, "LINE_LIMIT_BYTES", len(json.dumps(line)) - 1)
    short = line_size.fitting(line, RAILS)
    assert (short["machines"]["count"], short["steps"]) == (20, line["steps"])


def test_rails_that_all_run_at_half_their_rate_are_named(found):
    said = node_differences.differences(NODES[:2], found[:2], ASKED_AT, RAILS, "", 200)
    assert said[0] == "n0: rail mlx5_0 runs at 100 Gb/sec, but the shape's rails run at 200 Gbit/s"
    assert len(said) == 4
    assert not node_differences.differences(NODES[:2], found[:2], ASKED_AT, RAILS, "", 100)


def test_gpus_whose_model_differs_from_the_model_of_the_shape_are_named_even_if_every_node_has_such_gpus(found):
    for one in found:
        one["gpus"] = ["NVIDIA A100-SXM4-80GB"] * 8
    said = node_differences.differences(NODES, found, ASKED_AT, RAILS, "NVIDIA H100 80GB HBM3")
    assert said[0] == "n0 has NVIDIA A100-SXM4-80GB, but its shape has NVIDIA H100 80GB HBM3"
    for one in found:
        one["gpus"] = ["NVIDIA B300 SXM6 AC"] * 8
    assert not node_differences.differences(NODES, found, ASKED_AT, RAILS, "NVIDIA B300")


def test_rails_that_went_down_or_vanished_during_a_run_are_named_but_rails_down_or_missing_before_the_run_are_not(found):
    after = copy.deepcopy(found)
    found[0]["hca"]["mlx5_0"]["active"] = after[0]["hca"]["mlx5_0"]["active"] = False
    after[1]["hca"]["mlx5_1"]["active"] = False
    del after[2]["hca"]["mlx5_0"]
    del found[3]["hca"]["mlx5_0"], after[3]["hca"]["mlx5_0"]
    assert node_differences.lost(NODES, found, after, RAILS) == [
        "n1: rail mlx5_1 was active before the run and is not active any more",
        "n2: rail mlx5_0 was active before the run and is not active any more",
    ]
    assert node_differences.lost(NODES, found, found, RAILS) == []


def test_at_most_32_lost_rails_are_listed_and_the_others_are_counted():
    many = [f"mlx5_{index}" for index in range(40)]
    before = [{"hca": {hca: {"active": True} for hca in many}} for _ in NODES]
    after = [{"hca": {}} for _ in NODES]
    lost = node_differences.lost(NODES, before, after, many)
    assert (len(lost), lost[-1]) == (33, "and 128 more rails")
