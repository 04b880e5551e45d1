"""A plan is the exact command; ceilings are arithmetic on line rates."""

from __future__ import annotations

import pytest

from benchmarks import ceiling, plan
from catalogue import SHAPES

LAUNCH = plan.Launch(
    addresses=("10.0.1.2", "10.0.1.3"),
    network="10.0.1.0/24",
    mpi_home="/usr/mpi/gcc/openmpi-4.1.2a1",
    cuda_home="/usr/local/cuda-11.6",
    binaries="/home/opc/.busbar/tests/x",
    hostfile="/home/opc/h",
    result="/home/opc/r.json",
)


def a_plan(**changes):
    return plan.Plan(**({"begin_bytes": 8, "end_bytes": 1024, "factor": 2, "iterations": 20, "warmup": 5} | changes))


def test_the_command_starts_one_rank_for_each_gpu_on_each_node():
    words = plan.argv(a_plan(), LAUNCH, SHAPES["BM.GPU4.8"])
    assert words[:5] == ("/usr/mpi/gcc/openmpi-4.1.2a1/bin/mpirun", "-np", "16", "-npernode", "8")
    assert (
        words[-14:]
        == ("-b", "8", "-e", "1024", "-f", "2", "-g", "1", "-n", "20", "-w", "5", "-c", "1", "-J", "/home/opc/r.json")[-14:]
    )


def test_every_rail_is_named_exactly_so_that_no_prefix_adds_another():
    words = plan.argv(a_plan(), LAUNCH, SHAPES["BM.GPU4.8"])
    (hca,) = [word for word in words if word.startswith("NCCL_IB_HCA=")]
    assert hca == (
        "NCCL_IB_HCA==mlx5_0,mlx5_2,mlx5_6,mlx5_8,mlx5_10,mlx5_12,mlx5_14,mlx5_16,"
        "mlx5_1,mlx5_3,mlx5_7,mlx5_9,mlx5_11,mlx5_13,mlx5_15,mlx5_17"
    )


def test_the_libraries_that_the_tests_were_linked_against_are_found_on_every_node():
    words = plan.argv(a_plan(), LAUNCH, SHAPES["BM.GPU4.8"])
    assert (
        "LD_LIBRARY_PATH=/usr/mpi/gcc/openmpi-4.1.2a1/lib:/usr/mpi/gcc/openmpi-4.1.2a1/lib64:/usr/local/cuda-11.6/lib64"
        in words
    )


def test_below_four_nodes_the_ring_is_forced_on_every_shape():
    assert plan.exports(SHAPES["BM.GPU.H100.8"], 2)["NCCL_ALGO"] == "Ring"
    assert "NCCL_ALGO" not in plan.exports(SHAPES["BM.GPU.H100.8"], 4)


def test_the_sizes_of_a_plan_are_those_that_the_program_will_step_through():
    assert a_plan(end_bytes=100).sizes_bytes == (8, 16, 32, 64)


@pytest.mark.parametrize(("text", "size"), [("8", 8), ("64M", 64 * 1024**2), ("8G", 8 * 1024**3), ("16K", 16384)])
def test_sizes_are_written_as_the_program_writes_them(text, size):
    assert plan.size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "0", "1.5G", "64MB", "8 G"])
def test_what_is_not_a_size_is_refused(text):
    with pytest.raises(ValueError, match="is not a size"):
        plan.size_bytes(text)


@pytest.mark.parametrize("changes", [{"begin_bytes": 2048}, {"factor": 1}, {"iterations": 0}, {"warmup": -1}])
def test_a_plan_that_would_measure_nothing_is_refused(changes):
    with pytest.raises(ValueError, match=r"sizes run from|a plan needs"):
        a_plan(**changes)


def test_the_digest_changes_with_the_cycle_alone():
    assert a_plan().digest() == a_plan().digest()
    assert a_plan().digest() != a_plan(cycle=2).digest()


def test_the_ring_ceiling_is_the_nodes_summed_line_rate():
    assert ceiling.ring_gbps(SHAPES["BM.GPU4.8"], 2) == 200
    assert ceiling.ring_gbps(SHAPES["BM.GPU4.8"], 2, 4000) == 0.05
    assert ceiling.ring_gbps(SHAPES["BM.GPU4.8"], 1) is None


@pytest.mark.parametrize(("nodes", "factor"), [(2, 1.875), (4, 31 / 24), (8, 1.125)])
def test_a_tree_may_beat_the_ring_on_few_nodes(nodes, factor):
    assert ceiling.hierarchical_gbps(SHAPES["BM.GPU.H100.8"], nodes) == pytest.approx(400 * factor)


@pytest.mark.parametrize(("ranks", "factor"), [(8, 1.75), (16, 1.875), (32, 1.9375)])
def test_busbw_over_algbw_counts_the_ranks(ranks, factor):
    assert ceiling.busbw_factor("all_reduce", ranks) == factor
