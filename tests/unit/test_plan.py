"""A plan is data and becomes exact commands; ceilings are arithmetic on line rates."""

from __future__ import annotations

import dataclasses

import pytest
from measurement_line import a_plan as small_plan
from measurement_line import place

from benchmarks.launch import launcher
from benchmarks.plan import ceiling, ranks, steps
from benchmarks.plan.collectives import COLLECTIVES, collective
from catalogue import SHAPES
from config.measure import Measure, Sizes
from config.units import size_bytes

GPU4 = SHAPES["BM.GPU4.8"]
PLACE = place()


def a_plan(**changes):
    return small_plan(**{"end_bytes": 1024, "iterations": 20, "warmup": 5} | changes)


def words_of(name: str, shape=GPU4, **changes) -> tuple[str, ...]:
    asked = a_plan(**changes)
    (step,) = [one for one in steps.steps(asked, shape, 2) if one.name == name]
    launch = ranks.launch(PLACE, shape, asked.exports)
    return tuple(launcher.command(launch, PLACE.nodes, [ranks.ranks(step, asked, PLACE, shape)]))


def test_the_command_starts_one_rank_for_each_gpu_on_each_node():
    words = words_of("all_reduce")
    assert words[0] == "/usr/mpi/gcc/openmpi-4.1.2a1/bin/mpirun"
    assert " -np 16 -npernode 8 --hostfile /home/opc/.busbar/plans/plan/hosts " in " ".join(words)
    assert " ".join(words).endswith(
        "all_reduce_perf -b 8 -e 1024 -f 2 -g 1 -n 20 -w 5 -c 1 -J /home/opc/.busbar/plans/plan/all_reduce.json"
    )


def test_each_step_has_its_own_sizes_and_operations_and_a_retest_has_more_looks_and_no_fewer_operations():
    asked = a_plan(end_bytes=4 << 30, iterations=10, warmup=5, looks=17, spread_iterations=9)
    found = steps.steps(asked, SHAPES["BM.GPU.H100.8"], 2)
    again = [steps.repeated(one) for one in found]
    assert [
        (one.name, one.begin_bytes, one.end_bytes, one.iterations, one.warmup, one.cycles, later.iterations, later.cycles)
        for one, later in zip(found, again, strict=True)
    ] == [
        ("node", 1 << 30, 1 << 30, 10, 1, 1, 12, 1),
        ("rails", 1 << 29, 1 << 29, 10, 5, 1, 12, 1),
        ("all_reduce", 8, 4 << 30, 10, 5, 1, 10, 1),
        ("looks_early", 4 << 30, 4 << 30, 5, 1, 9, 5, 27),
        ("spread", 4 << 30, 4 << 30, 9, 1, 1, 9, 1),
        ("free", 4 << 30, 4 << 30, 10, 5, 1, 10, 1),
        ("looks_late", 4 << 30, 4 << 30, 5, 1, 8, 5, 24),
    ]


def test_the_message_size_of_the_step_named_rails_is_at_least_one_float():
    for end_bytes, size in ((8, 4), (32, 4), (64, 8), (1024, 128)):
        (by_rail,) = [one for one in steps.steps(a_plan(end_bytes=end_bytes), GPU4, 2) if one.name == "rails"]
        assert by_rail.begin_bytes == by_rail.end_bytes == size


def test_the_names_of_rails_are_matched_exactly_and_not_as_prefixes_of_other_devices():
    (hca,) = [word for word in words_of("all_reduce") if word.startswith("NCCL_IB_HCA=")]
    assert hca == (
        "NCCL_IB_HCA==mlx5_0,mlx5_2,mlx5_6,mlx5_8,mlx5_10,mlx5_12,mlx5_14,mlx5_16,"
        "mlx5_1,mlx5_3,mlx5_7,mlx5_9,mlx5_11,mlx5_13,mlx5_15,mlx5_17"
    )


def test_the_libraries_that_the_tests_were_linked_against_are_found_on_every_node():
    assert (
        "LD_LIBRARY_PATH=/usr/mpi/gcc/openmpi-4.1.2a1/lib:/usr/mpi/gcc/openmpi-4.1.2a1/lib64:/usr/lib:/usr/lib64:"
        "/usr/local/cuda-11.6/lib64"
    ) in words_of("all_reduce")


def test_the_ring_is_forced_on_two_nodes_but_not_on_four():
    h100 = SHAPES["BM.GPU.H100.8"]
    assert ranks.exports(h100, 2, PLACE)["NCCL_ALGO"] == "Ring"
    assert "NCCL_ALGO" not in ranks.exports(h100, 4, PLACE)


def test_a_shape_without_a_published_environment_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"the catalogue has no NCCL environment for BM\.GPU4\.8"):
        ranks.exports(dataclasses.replace(GPU4, environment=None), 2, PLACE)


def test_on_two_nodes_nccl_chooses_the_algorithm_of_the_step_named_free():
    assert not [word for word in words_of("free", SHAPES["BM.GPU.H100.8"]) if word.startswith("NCCL_ALGO")]
    assert "free" not in {step.name for step in steps.steps(a_plan(), GPU4, 4)}


def test_only_the_steps_named_node_and_rails_run_before_the_deciding_step():
    names = [step.name for step in steps.steps(a_plan(collectives=("all_reduce", "alltoall")), GPU4, 4)]
    assert names == ["node", "rails", "all_reduce", "looks_early", "alltoall", "spread", "looks_late"]


def test_one_machine_is_measured_without_steps_between_nodes():
    assert [step.name for step in steps.steps(a_plan(), GPU4, 1)] == ["all_reduce", "looks_early", "spread", "looks_late"]


def test_ranks_are_grouped_by_gpu_index_in_the_step_named_rails_and_by_node_in_the_step_named_node():
    assert "NCCL_TESTS_SPLIT=MOD 8" in words_of("rails")
    assert "NCCL_TESTS_SPLIT=DIV 8" in words_of("node")


def test_nccl_writes_its_log_to_a_file_and_only_in_the_deciding_run():
    words = words_of("all_reduce")
    assert "NCCL_DEBUG_FILE=/home/opc/.busbar/nccl/nccl.%h.%p" in words
    assert not [word for word in words_of("spread") if word.startswith("NCCL_DEBUG")]


def test_every_run_checks_values_and_the_step_named_spread_times_individual_operations():
    for name in ("node", "rails", "all_reduce", "spread", "free"):
        words = words_of(name)
        assert words[words.index("-c") + 1] == "1"
    assert " -I 1 " in " ".join(words_of("spread"))


def test_without_rdma_nccl_gets_the_exact_name_of_its_socket_interface():
    plain = dataclasses.replace(SHAPES["BM.GPU.H200.8"], rdma=None, environment="generic")
    where = dataclasses.replace(PLACE, fabric=("fab0",))
    assert ranks.exports(plain, 2, where)["NCCL_SOCKET_IFNAME"] == "=fab0"
    assert "NCCL_IB_HCA" not in ranks.exports(plain, 2, where)
    assert "NCCL_SOCKET_IFNAME" not in ranks.exports(plain, 1, where)


def test_variables_of_the_stack_file_override_variables_of_the_shape():
    assert "NCCL_IB_TC=0" in words_of("all_reduce", exports={"NCCL_IB_TC": "0"})
    assert "NCCL_IB_TC=41" not in words_of("all_reduce", exports={"NCCL_IB_TC": "0"})


def test_the_number_of_cycles_is_passed_to_nccl_tests():
    assert " -N 3 " in " ".join(words_of("all_reduce", cycles=3))


def test_hypercube_is_left_out_unless_the_number_of_ranks_is_a_power_of_two():
    asked = a_plan(collectives=("all_reduce", "hypercube"))
    assert "hypercube" not in {step.name for step in steps.steps(asked, GPU4, 3)}
    assert "hypercube" in {step.name for step in steps.steps(asked, GPU4, 4)}


def test_a_plans_sizes_are_the_sizes_that_nccl_tests_runs():
    assert a_plan(end_bytes=100).sizes_bytes == (8, 16, 32, 64)


@pytest.mark.parametrize(
    ("text", "size"), [("8", 8), ("64M", 64 * 1024**2), ("8G", 8 * 1024**3), ("16K", 16384), ("4 MiB", 4 << 20)]
)
def test_sizes_are_parsed_with_binary_units(text, size):
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "0", "1.5G", "64MB"])
def test_an_invalid_size_is_refused(text):
    with pytest.raises(ValueError, match="write bytes, or a whole number"):
        size_bytes(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"iterations": 0},
        {"warmup": -1},
        {"cycles": 0},
        {"collectives": ()},
        {"collectives": ("all_reduce", "all_reduce")},
        {"collectives": ("all_reduse",)},
        {"spread_iterations": 2},
        {"exports": {"AWS_SECRET_ACCESS_KEY": "x"}},
        {"exports": {"NCCL_DEBUG": "a b"}},
        {"sizes": {"factor": 1}},
        {"sizes": {"from": 6}},
    ],
)
def test_an_invalid_plan_is_refused_with_the_name_of_the_wrong_field(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        a_plan(**changes)


def test_other_collectives_may_stop_at_a_smaller_size_than_the_deciding_collective():
    asked = a_plan(collectives=("all_reduce", "alltoall"), sizes=Sizes(to_bytes=1024, others_to_bytes=64))
    assert (asked.sizes_of("all_reduce")[-1], asked.sizes_of("alltoall")[-1]) == (1024, 64)


def test_raising_the_run_number_changes_the_digest_of_a_plan():
    assert a_plan().digest() == a_plan().digest()
    assert a_plan().digest() != a_plan(run=2).digest()


def test_the_ring_ceiling_is_the_summed_line_rate_of_a_nodes_rails():
    assert ceiling.ring_gb_s(SHAPES["BM.GPU4.8"], 2) == 200
    assert ceiling.ring_gb_s(SHAPES["BM.GPU4.8"], 2, 4000) == 0.05
    assert ceiling.ring_gb_s(SHAPES["BM.GPU4.8"], 1) is None


@pytest.mark.parametrize(("nodes", "factor"), [(2, 1.875), (4, 31 / 24), (8, 1.125)])
def test_on_few_nodes_a_tree_may_exceed_the_ring(nodes, factor):
    assert ceiling.hierarchical_gb_s(SHAPES["BM.GPU.H100.8"], nodes) == pytest.approx(400 * factor)


@pytest.mark.parametrize(("ranks", "factor"), [(8, 1.75), (16, 1.875), (32, 1.9375)])
def test_busbw_divided_by_algbw_follows_from_the_number_of_ranks(ranks, factor):
    assert collective("all_reduce").busbw_factor(ranks) == factor
    assert collective("all_gather").busbw_factor(ranks) == factor / 2


def test_all_gather_sizes_are_rounded_down_to_16_bytes_for_each_rank():
    assert [collective("all_gather").row_bytes(size, 16) for size in (8, 255, 256, 1000)] == [0, 0, 256, 768]
    assert collective("broadcast").row_bytes(8, 16) == 8


@pytest.mark.parametrize("name", sorted(COLLECTIVES))
def test_no_collective_has_a_ceiling_above_15_eighths_of_the_line_rate(name):
    bound = ceiling.collective_gb_s(name, GPU4, 2)
    assert bound is None or 0 < bound <= 200 * 15 / 8  # the busbw of gather may count bytes inside a node, too


def test_alltoall_between_two_nodes_is_limited_by_the_half_of_the_message_that_crosses_between_the_nodes():
    # Each of a node's 8 GPUs sends 8/16 of its message over rails of 200 GB/s in all; busbw counts 15/16 of the message.
    assert ceiling.collective_gb_s("alltoall", GPU4, 2) == pytest.approx(200 / (8 * 8 / 16) * 15 / 16)


def test_the_predicted_busbw_grows_with_the_message_size_to_the_healthy_share_of_the_ceiling():
    curve = ceiling.predicted_curve(GPU4, 2, (8, 1024**2, 1024**3, 16 * 1024**3))
    assert list(curve.values()) == sorted(curve.values())
    assert 0.9 * 190 < curve[16 * 1024**3] < 190


#: MiB -> measured out-of-place busbw in GB/s: 2 x H200 of one host over NVLink, NCCL 2.28.3, nccl-tests 2.19.6, no NVLS.
H200_PAIR = {1: 68, 16: 216, 256: 300, 1024: 328, 4096: 346}


@pytest.mark.parametrize(("mib", "measured"), H200_PAIR.items())
def test_the_prediction_is_within_a_third_of_real_measurements(mib, measured):
    pair = dataclasses.replace(SHAPES["BM.GPU.H200.8"], gpus=2)
    (found,) = ceiling.predicted_curve(pair, 1, (mib * 1024**2,)).values()
    assert found == pytest.approx(measured, rel=0.34)


def test_if_the_networks_switches_reduce_fast_rails_are_limited_by_what_each_gpu_sends_over_nvlink():
    h100 = SHAPES["BM.GPU.H100.8"]
    rdma = dataclasses.replace(h100.rdma, port_gbit_s=10 * h100.rdma.port_gbit_s)
    assert ceiling.in_network_gb_s(dataclasses.replace(h100, rdma=rdma), 2) == pytest.approx(450 / (9 / 8) * 15 / 8)
    old = dataclasses.replace(GPU4, rdma=dataclasses.replace(GPU4.rdma, port_gbit_s=10 * GPU4.rdma.port_gbit_s))
    assert ceiling.in_network_gb_s(old, 2) == pytest.approx(300 / (14 / 8) * 15 / 8)


def test_one_rehearsed_node_has_no_highest_busbw_because_memory_replaces_nvlink():
    h100 = SHAPES["BM.GPU.H100.8"]
    assert ceiling.most_gb_s("all_reduce", h100, 1, ring=True) == 450
    assert ceiling.most_gb_s("all_reduce", h100, 1, 4000, ring=True) is None


def test_every_collective_in_the_configuration_exists_in_nccl_tests():
    assert Measure().collectives == tuple(COLLECTIVES)


def test_in_a_rack_only_the_step_named_nvl_uses_nvlink_between_nodes():
    row, plan = SHAPES["BM.GPU.GB200.4"], Measure(exports={"NCCL_MNNVL_ENABLE": "1"})
    found = {step.name: ranks.ranks(step, plan, place(), row) for step in steps.steps(plan, row, 2)}
    over = found.pop("nvl")
    assert over.environment["NCCL_MNNVL_ENABLE"] == "1"
    assert "NCCL_ALGO" not in over.environment, "the switches reduce only if NCCL may choose the algorithm"
    assert over.arguments[:4] == ["-b", str(16 * 1024**3), "-e", str(16 * 1024**3)]
    assert {one.environment["NCCL_MNNVL_ENABLE"] for one in found.values()} == {"0"}
    off = Measure(exports={"NCCL_MNNVL_ENABLE": "0"})
    small = Measure(sizes=Sizes(to="64M"))
    exact = Measure(sizes=Sizes(to="512M"))
    for measure, nodes in ((plan, 18), (exact, 2)):
        assert "nvl" in {step.name for step in steps.steps(measure, row, nodes)}
    for measure, nodes in ((plan, 1), (off, 2), (plan, 19), (small, 2)):
        assert "nvl" not in {step.name for step in steps.steps(measure, row, nodes)}
