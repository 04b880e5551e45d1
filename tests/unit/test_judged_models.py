"""Faults behind a good busbw are found; healthy collectives, nodes, rails, ports and transports are not blamed."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from measurement_line import ASKED, GPU4, a_plan, document
from measurement_line import place as place_of

from benchmarks.host import requests
from benchmarks.judge.transport import least_bytes, switches_reduced
from benchmarks.judge.verdict import judge
from benchmarks.plan import ceiling, ranks, steps
from benchmarks.plan.asked import Asked
from benchmarks.plan.fractions import published
from benchmarks.plan.gate import gate
from benchmarks.report import summary
from benchmarks.report.expectation import expectation
from catalogue import SERVERS, SHAPES
from catalogue.aws.instances import INSTANCES
from catalogue.shape import Rdma
from config.accept import Accept
from config.measure import Measure, Sizes

GIB = 1024**3
H100, H200 = SHAPES["BM.GPU.H100.8"], SHAPES["BM.GPU.H200.8"]
P4D, P5 = (INSTANCES[name].shape() for name in ("p4d.24xlarge", "p5.48xlarge"))
PLAN = a_plan(end_bytes=8 * GIB, begin_bytes=1024**2)


def judged(line: dict[str, Any], asked: Asked = ASKED):
    return judge(json.dumps(line), asked)


def state(line: dict[str, Any], name: str, asked: Asked = ASKED) -> str:
    (found,) = [one.state for one in judged(line, asked).checks if one.name == name]
    return found


def real(asked: Asked, share: float = 0.95) -> dict[str, Any]:
    """Return the line of a run on real machines in which every step reaches `share` of its ceiling."""
    return document(asked, share, 1)


def step(line: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in line["steps"] if one["name"] == name]
    return found


def slowed(one: dict[str, Any], factor: float, which: slice = slice(None), placement: tuple[int, ...] = (1, 2)) -> None:
    for row in one["rows"][which]:
        for place in placement:
            row[place] = [row[place][0] / factor, row[place][1] * factor, row[place][2] * factor, row[place][3]]


# Message sizes, and all collectives except the deciding one (only the deciding one is judged by the gate)

EVERYTHING = Asked(Measure(sizes=Sizes(from_bytes=1024**2, to_bytes=8 * GIB), iterations=1, warmup=1), H100, 16)


@pytest.mark.parametrize(
    "name", ["all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "gather", "scatter", "sendrecv"]
)
def test_a_collective_that_does_not_decide_has_its_own_floor(name):
    line = real(EVERYTHING, 0.85)
    assert {one.state for one in judged(line, EVERYTHING).checks if one.name.startswith("floor")} == {"pass"}
    slowed(step(line, name), 0.3)
    found = judged(line, EVERYTHING)
    assert found.verdict == "short"
    assert any(f"{name} reached" in reason for reason in found.reasons)


def test_the_floor_also_applies_to_a_size_that_a_program_of_nccl_tests_rounds_down():
    plan = EVERYTHING.plan.model_copy(update={"sizes": Sizes(from_bytes=1024**2, to_bytes=8 * GIB, others_to_bytes=GIB)})
    three = dataclasses.replace(EVERYTHING, plan=plan, nodes=3)
    line = real(three, 0.85)
    assert step(line, "all_gather")["rows"][-1][0] < GIB
    assert [one.state for one in judged(line, three).checks if one.name == "floor all_gather"] == ["pass"]


@pytest.mark.parametrize("name", ["all_reduce", "alltoall"])
def test_a_larger_size_that_is_much_slower_than_a_smaller_size_is_short(name):
    line = real(EVERYTHING, 0.85)
    slowed(step(line, name), 0.4, slice(-3, -2))
    assert state(line, f"curve {name}", EVERYTHING) == "short"
    slowed(step(line, name), 2.4, slice(-3, -2))
    assert state(line, f"curve {name}", EVERYTHING) == "pass"


def test_smaller_sizes_at_a_tenth_of_the_healthy_busbw_are_short_although_the_largest_size_is_fast():
    line = real(EVERYTHING, 0.95)
    slowed(step(line, "all_reduce"), 0.1, slice(0, -1))
    found = judged(line, EVERYTHING)
    assert found.verdict == "short"
    assert "a healthy fabric reaches about" in found.reasons[0]


def test_an_in_place_busbw_at_a_tenth_of_the_healthy_busbw_is_short():
    line = real(EVERYTHING, 0.95)
    slowed(step(line, "all_reduce"), 0.1, slice(-1, None), (2,))
    assert state(line, "curve all_reduce", EVERYTHING) == "short"


# Ports


@pytest.mark.parametrize(("counter", "count", "expected"), [("link_downed", 1, "short"), ("symbol_error", 10**9, "short"),
                                                            ("symbol_error", 12, "pass"), ("rp_cnp_handled", 10**6, "pass"),
                                                            ("local_ack_timeout_err", 500, "short")])  # fmt: skip
def test_port_errors_other_than_congestion_notifications_and_a_few_symbol_errors_make_a_run_short(counter, count, expected):
    line = document()
    line["transport"]["events"] = [{"node": "inst-1", "hca": "mlx5_6", "counter": counter, "count": count}]
    assert state(line, "ports") == expected
    if expected == "short":
        assert f"inst-1: {counter} of mlx5_6 grew by {count}" in judged(line).reasons[0]


@pytest.mark.parametrize("events", [None, "x", 7])
def test_a_line_without_port_counters_leaves_the_state_of_the_ports_unknown(events):
    line = document()
    line["transport"]["events"] = events
    assert state(line, "ports") == "unknown"


@pytest.mark.parametrize(
    ("unread", "expected"), [(["mlx5_6 of inst-1", "and 3 more"], "unknown"), (None, "unknown"), ([], "pass")]
)
def test_ports_are_unknown_if_the_error_counters_of_some_ports_could_not_be_read_and_these_ports_are_named(unread, expected):
    line = document()
    line["transport"]["uncounted_ports"] = unread
    assert state(line, "ports") == expected
    assert not unread or "of mlx5_6 of inst-1, and 3 more" in judged(line).reasons[0]


def test_ports_are_short_if_one_port_lost_its_link_and_another_port_has_no_counters():
    line = document()
    line["transport"] |= {
        "events": [{"node": "inst-1", "hca": "mlx5_6", "counter": "link_downed", "count": 1}],
        "uncounted_ports": ["mlx5_7 of inst-1"],
    }
    assert state(line, "ports") == "short"


# Nodes compared with the other nodes, and rails with the other rails

SIXTEEN = Asked(PLAN, H100, 16)


def test_a_node_that_meets_its_limit_is_short_if_the_busbw_inside_the_node_is_far_below_that_of_the_other_nodes():
    line = real(SIXTEEN, 0.9)
    groups = [360.0 + index * 0.1 for index in range(16)]
    step(line, "node")["groups_gb_s"] = [*groups[:7], 310.0, *groups[8:]]
    found = judged(line, SIXTEEN)
    assert found.verdict == "short"
    assert "node 7: all_reduce inside it reached 310 GB/s, but the median is 360.7" in found.reasons[0]


def test_rails_of_one_gpu_that_are_13_percent_slower_than_the_rails_of_the_other_gpus_are_short():
    line = real(SIXTEEN, 0.99)
    step(line, "rails")["groups_gb_s"] = [49.5, 49.4, 49.6, 43.0, 49.5, 49.4, 49.6, 49.5]
    assert state(line, "rails", SIXTEEN) == "short"
    assert "the rails of GPU 3" in judged(line, SIXTEEN).reasons[0]


@pytest.mark.parametrize("spread", [0.0, 0.01, 0.03])
def test_nodes_pass_if_their_busbw_differs_no_more_than_the_busbw_of_healthy_nodes(spread):
    line = real(SIXTEEN, 0.95)
    step(line, "node")["groups_gb_s"] = [360.0 * (1 + spread * ((index * 7) % 5 - 2) / 2) for index in range(16)]
    assert state(line, "node", SIXTEEN) == "pass"


def test_the_steps_named_node_and_rails_force_the_ring_on_sixteen_nodes():
    from measurement_line import place  # noqa: PLC0415

    for one in steps.steps(PLAN, H100, 16):
        variables = ranks.ranks(one, PLAN, place(ASKED), H100).environment
        if one.name in {"node", "rails"}:
            assert variables["NCCL_ALGO"] == "Ring"


@pytest.mark.parametrize(
    ("plan", "scale", "judged_sizes"),
    [
        (PLAN, 1, "10 of 14"),  # from 16 MiB on
        (a_plan(), 3839, "4 of 24"),  # from 15 GiB on, multiplied by the scale: 8 MiB to 64 MiB
        (a_plan(), 3840, "5 of 24"),  # 4 MiB x 3840 = 15 GiB
    ],
)
def test_a_curve_is_judged_from_16_mib_on_and_in_a_rehearsal_from_15_gib_on(plan, scale, judged_sizes):
    asked = Asked(plan, H100, 4)
    (curve,) = [one for one in judged(document(asked, 0.9, scale), asked).checks if one.name == "curve all_reduce"]
    assert curve.why[0].startswith(f"{judged_sizes} sizes were judged: none is")


@pytest.mark.parametrize(
    ("nodes", "scale", "has_bound"), [(1, 1, True), (4, 1, True), (4, 4000, True), (1, 4000, False), (2, 4000, True)]
)
def test_only_one_rehearsed_node_has_neither_floors_nor_predictions(nodes, scale, has_bound):
    limits = {"begin_bytes": 1024**2, "end_bytes": 8 * GIB} if scale == 1 else {}
    asked = Asked(a_plan(collectives=("all_reduce", "all_gather"), **limits), H100, nodes)
    line = document(asked, 0.95, scale)
    assert ("floor all_gather" in {one.name for one in judged(line, asked).checks}) is has_bound
    first = -10 if scale == 1 else -5  # the smallest size that is judged
    slowed(step(line, "all_reduce"), 0.1, slice(first, first + 1))
    (curve,) = [one for one in judged(line, asked).checks if one.name == "curve all_reduce"]
    assert curve.state == ("short" if has_bound else "pass")
    assert ("but a healthy fabric reaches about" in curve.why[0]) is has_bound


def test_a_floor_is_compared_with_the_number_of_the_largest_size():
    line = real(EVERYTHING, 0.9)
    (last,) = step(line, "all_gather")["rows"][-1:]
    (check,) = [one for one in judged(line, EVERYTHING).checks if one.name == "floor all_gather"]
    assert check.why[0].startswith(f"all_gather reached {last[1][2]:.4g} GB/s at 8 GiB; its floor is ")


def groups(which: str, numbers: list[float], asked: Asked, scale: int = 1) -> tuple[str, tuple[str, ...]]:
    """Return state and reasons of the check of a step of groups that reached `numbers` GB/s."""
    line = document(asked, 0.95, scale)
    step(line, which)["groups_gb_s"] = numbers
    (found,) = [one for one in judged(line, asked).checks if one.name == which]
    return found.state, found.why


def test_slow_groups_are_named_and_if_all_groups_are_slow_one_sentence_reports_all():
    rail_required = "a share of 0.85 is required"
    pair, many = Asked(PLAN, H100, 2), Asked(PLAN, H100, 40)
    required = "a share of 0.68 is required"
    assert groups("node", [300.0, 304.0], pair) == (
        "short",
        (f"inside every node: all_reduce reached 300 to 304 GB/s of 450; {required}",),
    )
    assert groups("node", [300.0, 430.0], pair) == (
        "short",
        (f"{pair.name(0)}: all_reduce inside it reached 300 GB/s of 450; {required}",),
    )
    assert groups("rails", [10.0 + number for number in range(8)], pair) == (
        "short",
        (f"the rails of every GPU between nodes: all_reduce reached 10 to 17 GB/s of 50; {rail_required}",),
    )
    assert groups("rails", [48.0] * 7 + [10.0], pair) == (
        "short",
        (f"the rails of GPU 7 on all nodes together: all_reduce between nodes reached 10 GB/s of 50; {rail_required}",),
    )
    for slow, more in ((16, ()), (17, ("1 or more other groups are slow as well",))):
        state, why = groups("node", [300.0] * slow + [430.0] * (40 - slow), many)
        assert (state, len(why), why[16:]) == ("short", 16 + len(more), more)


def test_groups_that_reach_exactly_their_limit_pass_and_the_check_names_the_limit():
    four = Asked(PLAN, H100, 4)
    assert groups("node", [0.68 * 450] * 4, four) == ("pass", ("all 4 groups are alike; each reached 0.68 of 450 GB/s",))
    assert groups("rails", [0.85 * 50] * 8, four) == ("pass", ("all 8 groups are alike; each reached 0.85 of 50 GB/s",))


def test_an_outlier_above_its_limit_is_short_except_inside_rehearsed_nodes():
    four, rehearsed = Asked(PLAN, H100, 4), Asked(a_plan(), H100, 4)
    state, why = groups("node", [330.0, *[430.0] * 3], four)
    assert state == "short"
    assert why[0].startswith(f"{four.name(0)}: all_reduce inside it reached 330 GB/s, but the median is 430")
    state, why = groups("rails", [44.0, *[49.9] * 7], four)
    assert state == "short"
    assert why[0].startswith(
        "the rails of GPU 0 on all nodes together: all_reduce between nodes reached 44 GB/s, but the median"
    )
    assert groups("node", [0.3, *[0.43] * 3], rehearsed, 4000) == (
        "pass",
        ("no group is below the limit; rehearsed groups are not compared with each other, because they use no NVLink",),
    )


def test_gpus_that_share_a_rail_unevenly_are_judged_by_the_busbw_of_the_rail():
    asked = Asked(PLAN, P4D, 4)
    line = real(asked, 0.95)
    step(line, "rails")["groups_gb_s"] = [6.6, 5.3] * 4
    assert state(line, "rails", asked) == "pass"
    step(line, "rails")["groups_gb_s"] = [6.6, 5.3, 4.1, 4.0, *[6.6, 5.3] * 2]
    assert state(line, "rails", asked) == "short"
    reasons = judged(line, asked).reasons
    assert any(
        reason.startswith(f"rail {P4D.rdma.hca[1]} on all nodes together: all_reduce between nodes reached 8.1 GB/s of 12.5")
        for reason in reasons
    )


def test_a_gpu_with_a_rail_of_its_own_is_judged_by_its_own_number():
    asked = Asked(PLAN, H200, 4)
    assert H200.rdma.ports == H200.gpus
    state, why = groups("rails", [48.0] * 7 + [10.0], asked)
    assert state == "short"
    assert why[0].startswith("the rails of GPU 7 on all nodes together: ")


# Ceilings, fractions and transports


def test_a_busbw_that_only_a_tree_can_reach_is_unknown_if_the_ring_is_forced():
    asked = Asked(PLAN, H100, 2)
    line = real(asked, 0.9)
    slowed(step(line, "all_reduce"), 700 / 360)
    assert state(line, "ceiling", asked) == "unknown"


def test_a_deciding_all_gather_above_the_line_rate_is_unknown():
    asked = Asked(a_plan(end_bytes=8 * GIB, begin_bytes=1024**2, collectives=("all_gather",)), H100, 2)
    assert state(real(asked, 0.9), "ceiling", asked) == "pass"
    assert state(real(asked, 1.75), "ceiling", asked) == "unknown"


@pytest.mark.parametrize("busbw", [500, 2763])
def test_a_single_machines_busbw_above_the_nvlink_ceiling_is_unknown(busbw):
    asked = Asked(PLAN, H100, 1)
    line = real(asked, 0.8)
    assert state(line, "ceiling", asked) == "pass"
    slowed(step(line, "all_reduce"), busbw / 360)
    assert state(line, "ceiling", asked) == "unknown"


@pytest.mark.parametrize(("shape", "nodes", "limit"), [(GPU4, 4, 170), (H100, 4, 324), (H200, 1, 324), (P5, 2, 324),
                                                       (SHAPES["BM.GPU.B300.8"], 4, 630), (P4D, 4, 42.5)])  # fmt: skip
def test_the_gate_is_the_lower_of_the_gates_for_rails_and_for_nvlink(shape, nodes, limit):
    assert gate(PLAN, shape, nodes).limit_gb_s == pytest.approx(limit)


@pytest.mark.parametrize("name", ["g6e.48xlarge", "g7e.48xlarge"])
def test_machines_limited_by_pcie_have_a_ceiling_but_no_gate_except_one_that_the_user_sets(name):
    row = INSTANCES[name].shape()
    shape = dataclasses.replace(row, rdma=Rdma(4, row.unnamed[1], tuple("abcd"), ""))
    assert ceiling.bound_gb_s("all_reduce", shape, 2) == shape.pcie_gbytes_per_s
    assert ceiling.inside_gb_s("all_reduce", shape, 2, 4000) == (shape.pcie_gbytes_per_s / 4000, ceiling.PCIE)
    bound = gate(PLAN, shape, 2)
    assert bound.limit_gb_s is None
    assert "where PCIe is the bottleneck" in bound.why
    assert gate(PLAN, shape, 2, minimum_gb_s=20).limit_gb_s == 20


@pytest.mark.parametrize(("name", "share"), [("all_reduce", 0.81), ("all_gather", 0.80), ("alltoall", 0.75)])
def test_a_deciding_collective_must_reach_its_own_published_share(name, share):
    asked = a_plan(end_bytes=16 * GIB, collectives=(name,))
    bound = ceiling.collective_gb_s(name, P5, 2)
    assert gate(asked, P5, 2).limit_gb_s == pytest.approx(share * bound)


@pytest.mark.parametrize("name", ["reduce_scatter", "broadcast", "reduce", "gather", "scatter", "sendrecv", "hypercube"])
def test_a_collective_without_published_numbers_has_no_gate(name):
    assert gate(a_plan(end_bytes=16 * GIB, collectives=(name,)), P5, 2).limit_gb_s is None


def test_a_rooted_collective_and_a_ring_of_sends_are_bound_by_the_rails_of_one_gpu():
    assert ceiling.bound_gb_s("sendrecv", P5, 2) == 50
    assert ceiling.bound_gb_s("gather", P5, 2) == pytest.approx(50 * 15 / 8)
    assert ceiling.bound_gb_s("sendrecv", P4D, 2) == 12.5


def test_published_fractions_are_listed_from_the_largest_size_to_the_smallest():
    for name in Measure().collectives:
        for part in (ceiling.RAILS, ceiling.NVLINK, ceiling.PCIE):
            for shape in (INSTANCES["p3dn.24xlarge"].shape(), GPU4, H100, SHAPES["BM.GPU.B200.8"]):
                rows = published(name, part, shape)
                assert sorted(rows, reverse=True) == list(rows)


def test_an_absent_counter_is_unknown_and_not_zero():
    line = document()
    line["transport"]["tx_bytes"]["inst-1"] = {"eth0": 10**12}
    found = judged(line)
    assert (found.verdict, state(line, "transport")) == ("unknown", "skipped")
    assert "on 1 of 2 nodes, not on inst-1" in found.reasons[0]
    line["transport"]["tx_bytes"]["inst-0"] = dict.fromkeys(GPU4.rdma.hca, 0)
    assert state(line, "transport") == "short"


@pytest.mark.parametrize(("least", "shown"), [(999 * 10**9, "999 GB"), (10**12, "1 TB"), (2345 * 10**9, "2.35 TB")])
def test_the_proof_of_the_transport_gives_the_bytes_of_the_node_that_sent_the_fewest(least, shown):
    line = document()
    ports = len(GPU4.rdma.hca)
    for sent, node_bytes in zip(line["transport"]["tx_bytes"].values(), (2 * 10**13, least), strict=True):
        sent.update(dict.fromkeys(GPU4.rdma.hca, node_bytes // ports))
    (proof,) = [one.why for one in judged(line).checks if one.name == "transport"]
    assert f" sent {shown} or more from each of 2 nodes (at least " in proof[0]


def test_a_run_over_nvlink_between_nodes_is_unknown_and_not_short():
    line = document()
    line["transport"]["said"]["channels"] = {"P2P/MNNVL": 3}
    for sent in line["transport"]["tx_bytes"].values():
        sent.update(dict.fromkeys(GPU4.rdma.hca, 1000))
    found = judged(line)
    assert found.verdict == "unknown"
    assert "NCCL used P2P/MNNVL" in found.reasons[0]


# Network switches that reduce

EIGHT = Asked(PLAN, H100, 8)


def reduced(asked: Asked, busbw: float, *, bytes_of_a_ring: bool = False, words: str = "COLLNET/SHARP") -> dict[str, Any]:
    """Return the line of an all-reduce at `busbw` GB/s whose reduction NCCL might have left to switches."""
    line = real(asked, 0.9)
    slowed(step(line, "all_reduce"), busbw / (0.9 * ceiling.bound_gb_s("all_reduce", asked.shape, asked.nodes)))
    line["transport"]["said"]["channels"] |= {words: 128}
    sent = least_bytes(asked.plan, asked.shape, asked.nodes, in_network=not bytes_of_a_ring)
    for by in line["transport"]["tx_bytes"].values():
        by.update(dict.fromkeys(asked.shape.rdma.hca, int(1.06 * sent / asked.shape.rdma.ports)))
    return line


def test_a_run_with_reduction_by_switches_may_exceed_the_ceilings_of_ring_and_tree_and_send_fewer_bytes():
    many = Asked(PLAN, H100, 16)
    line = reduced(many, 480)
    assert ceiling.most_gb_s("all_reduce", H100, 16, ring=False) * 1.05 < 480
    found = judged(line, many)
    assert {one.name: one.state for one in found.checks if one.name in {"transport", "ceiling", "bandwidth", "in-network"}} == (
        dict.fromkeys(("transport", "ceiling", "bandwidth", "in-network"), "pass")
    )
    assert found.verdict == "pass"
    (proof,) = [one.why for one in found.checks if one.name == "transport"]
    assert "NCCL connected to switches that reduce (CollNet), so fewer bytes had to leave each node" in proof


def test_bytes_and_busbw_that_need_reduction_in_switches_do_not_pass_unless_nccls_log_shows_collnet():
    many = Asked(PLAN, H100, 16)
    line = reduced(many, 480, words="NET/IB/0")
    assert (state(line, "transport", many), state(line, "ceiling", many)) == ("short", "unknown")


def test_a_busbw_above_what_the_rails_can_carry_is_unknown_even_if_switches_reduce():
    """If switches reduce, each node sends each message once.

    The rails of an H100 node carry 400 GB/s, so 64 ranks reach a busbw of at most 400 x 2 x 63 / 64 GB/s.
    """
    assert ceiling.in_network_gb_s(H100, 8) == pytest.approx(400 * 2 * 63 / 64)
    assert ceiling.in_network_gb_s(GPU4, 8) == pytest.approx(300 / (2 * 7 / 8) * 2 * 63 / 64)
    assert state(reduced(EIGHT, 820), "ceiling", EIGHT) == "pass"
    assert state(reduced(EIGHT, 840), "ceiling", EIGHT) == "unknown"


def test_rails_at_half_their_rate_are_short_where_switches_reduce_although_the_gate_is_reached():
    found = judged(reduced(EIGHT, 200 * 2 * 63 / 64), EIGHT)
    assert [one.state for one in found.checks if one.name == "bandwidth"] == ["pass"]
    assert found.verdict == "short"
    (reason,) = found.reasons
    assert "where switches reduced, all_reduce reached 393.8 GB/s at 8 GiB; 0.53 of what rails and NVLink allow" in reason


def test_a_search_is_requested_for_rails_that_are_slow_where_switches_reduce():
    found = judged(reduced(EIGHT, 200 * 2 * 63 / 64), EIGHT)
    assert json.loads(requests.search(place_of(EIGHT), EIGHT, found, 600, []))["trials"]


def test_a_ring_whose_counters_miss_a_tenth_of_its_bytes_does_not_count_as_a_reduction_by_switches():
    # If switches reduce, the nodes send fewer bytes than in a ring. The limit is halfway, at 0.79 of the bytes of a ring.
    for share, by_switches in ((0.9, False), (0.7, True)):
        line = reduced(EIGHT, 380, bytes_of_a_ring=True)
        for by in line["transport"]["tx_bytes"].values():
            by.update({rail: int(by[rail] * share / 1.06) for rail in H100.rdma.hca})
        assert switches_reduced(line["transport"], EIGHT) is by_switches


def test_a_ring_is_judged_by_the_gate_for_rings_even_where_switches_could_have_reduced():
    found = judged(reduced(EIGHT, 380, bytes_of_a_ring=True), EIGHT)
    assert found.verdict == "pass"
    assert "in-network" not in {one.name for one in found.checks}


def test_without_a_published_number_a_run_with_reduction_by_switches_passes_only_with_the_users_gate():
    rails = Rdma(8, 200, tuple("abcdefgh"), "")
    asked = Asked(PLAN, dataclasses.replace(SERVERS["HGX-A100-80GB.8"], rdma=rails), 8)
    found = judged(reduced(asked, 220), asked)
    assert found.verdict == "unknown"
    assert "no source publishes what a healthy run on HGX-A100-80GB.8 then reaches" in found.reasons[0]
    own = dataclasses.replace(asked, accept=Accept(gate_gb_s=175.0))
    assert judged(reduced(own, 220), own).verdict == "pass"


def test_the_rails_carry_only_each_nodes_own_part_if_switches_do_the_all_gather():
    asked = Asked(a_plan(end_bytes=8 * GIB, begin_bytes=1024**2, collectives=("all_gather",)), H100, 8)
    line = real(asked, 0.9)
    own = least_bytes(asked.plan, H100, 8, in_network=True)
    for by in line["transport"]["tx_bytes"].values():
        by.update(dict.fromkeys(H100.rdma.hca, int(1.06 * own / H100.rdma.ports)))
    assert state(line, "transport", asked) == "short"
    line["transport"]["said"]["channels"] |= {"COLLNET/SHARP": 128}
    assert state(line, "transport", asked) == "pass"


def test_the_bytes_of_a_ring_are_judged_even_if_a_plugin_could_let_switches_reduce():
    """The word `SHARP` in a device's name does not prove that switches reduce.

    nccl-rdma-sharp-plugin adds the word on every InfiniBand network (NVIDIA/nccl issue 1357).
    """
    line = document()
    line["transport"]["said"]["devices"] = {"NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_1:1/IB/SHARP [RO]; OOB ens9": 8}
    assert judged(line).verdict == "pass"


def test_only_machines_without_peer_access_may_use_main_memory():
    plain = dataclasses.replace(H200, gpu="NVIDIA A10G", rdma=None)
    for shape, expected in ((plain, "pass"), (H200, "short")):
        asked = Asked(PLAN, shape, 1, accept=Accept(gate_gb_s=5.0))
        line = real(asked, 0.8)
        line["transport"] |= {"said": {"channels": {"SHM/direct": 16}}}
        assert state(line, "transport", asked) == expected


# One machine whose NVLink switch reduces


@pytest.mark.parametrize(("reached", "expected"), [(482.0, "pass"), (449.0, "pass"), (368.0, "short")])
def test_an_nvlink_switch_that_does_not_reduce_is_short_although_the_ring_is_healthy(reached, expected):
    asked = Asked(PLAN, H200, 1)
    line = real(asked, 0.8)
    slowed(step(line, "free"), reached / step(line, "free")["rows"][-1][1][2])
    assert state(line, "nvls", asked) == expected
    assert state(line, "bandwidth", asked) == "pass"


#: Machines whose NVLink switch can reduce but for which no busbw is published.
UNPUBLISHED = [SHAPES["BM.GPU.GB200.4"], SHAPES["BM.GPU.GB300.4"], INSTANCES["p6-b300.48xlarge"].shape()]


@pytest.mark.parametrize("shape", UNPUBLISHED, ids=lambda shape: shape.gpu)
def test_without_a_published_busbw_for_nvls_the_check_is_skipped_and_preview_and_report_say_unknown(shape):
    asked = Asked(PLAN, shape, 1)
    line = real(asked, 0.75)
    line["transport"] |= {"said": {"channels": {"P2P/CUMEM": 16}}}
    judged_line = judge(json.dumps(line), asked)
    (check,) = [one for one in judged_line.checks if one.name == "nvls"]
    assert (check.state, judged_line.verdict) == ("skipped", "pass")
    words = f"nobody publishes what a healthy machine of {shape.gpus} x {shape.gpu} reaches if its NVLink switch reduces"
    assert words in check.why[0]
    assert "is unknown" in check.why[0]
    assert words in summary.table(judged_line, {})
    assert f"NVLS:     unknown: {words}" in expectation(asked, None, rents=False)


def test_the_preview_of_one_machine_shows_the_busbw_that_nvls_must_reach():
    said = expectation(Asked(PLAN, H200, 1), None, rents=False)
    assert "NVLS:     448.5 GB/s: 0.93 of the 482.3 that machines reach if their switch reduces" in said
    assert "NVLS" not in expectation(Asked(PLAN, H200, 2), None, rents=False)
    small = expectation(Asked(a_plan(end_bytes=GIB, begin_bytes=1024**2), H200, 1), None, rents=False)
    assert "NVLS:     unknown: nobody publishes what a healthy machine of 8 x NVIDIA H200 reaches below 4 GiB" in small


@pytest.mark.parametrize("changes", [{"exports": {"NCCL_NVLS_ENABLE": "0"}}, {"exports": {"NCCL_ALGO": "Ring"}}])
def test_a_plan_that_disables_nvls_has_no_run_for_the_nvlink_switch(changes):
    assert "free" not in {one.name for one in steps.steps(a_plan(**changes), H200, 1)}


def test_a_machine_with_only_two_of_a_boards_eight_gpus_has_no_run_for_the_nvlink_switch():
    pair = dataclasses.replace(H200, gpus=2)
    assert "free" not in {one.name for one in steps.steps(PLAN, pair, 1)}


def test_events_of_links_that_went_down_are_kept_beside_many_congested_ports():
    from benchmarks.launch.protocol import Node  # noqa: PLC0415
    from benchmarks.runner import traffic  # noqa: PLC0415

    def seen(cnp: int, down: int) -> dict[str, Any]:
        events = {"rp_cnp_handled": cnp, "link_downed": down}
        hca = {f"mlx5_{port}": {"netdev": None, "tx_bytes": 0, "events": dict(events)} for port in range(16)}
        return {"hca": hca, "interfaces": {}, "nvlink_tx_bytes": None}

    nodes = [Node(f"n{index}", f"10.0.0.{index}") for index in range(8)]
    before, after = [seen(0, 0)] * 8, [*[seen(10**6, 0)] * 7, seen(10**6, 1)]
    counters = [one.counter for one in traffic.between(nodes, before, after, []).events]
    assert counters.count("rp_cnp_handled") == 4
    assert counters.count("link_downed") == 4
