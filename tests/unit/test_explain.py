"""A pasted log is explained in a sentence and a picture, and never called a pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogue import SHAPES
from catalogue.aws.instances import INSTANCES
from tools.explain import explain, main

GOLDEN = Path(__file__).parents[1] / "golden" / "transcripts"
GPU4 = SHAPES["BM.GPU4.8"]


def test_the_published_run_of_two_a100_nodes_is_short_and_the_sentence_states_the_gate():
    said = explain((GOLDEN / "oci-2xGPU4.8-ol7.txt").read_text(), GPU4, 2)
    assert said.splitlines()[0].startswith("all_reduce reached 87.18 GB/s at ")  # at the largest size
    assert ": short; the gate requires 1" in said
    assert "is not proven" in said
    assert "# measured, | about what a healthy fabric reaches" in said.splitlines()[-1]


def test_a_busbw_above_the_rings_ceiling_is_explained_by_a_tree_or_another_path():
    said = explain((GOLDEN / "aws-2xp5.48xlarge.txt").read_text(), INSTANCES["p5.48xlarge"].shape(), 2)
    assert "487.1 GB/s" in said
    assert "more than a ring can carry over the rails (400): NCCL chose a tree or the bytes went another way" in said
    assert "the text leaves out rows" in said


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (
            INSTANCES["p5.48xlarge"].shape(),
            "as fast as a healthy run; 0.53 of what rails and NVLink allow in this case (750) is required",
        ),
        (SHAPES["BM.GPU.B200.8"], "no source publishes what a healthy run reaches in this case"),
    ],
)
def test_a_number_above_the_ring_ceiling_is_attributed_to_switches_where_nccl_connected_to_switches(shape, expected):
    connected = "ip-1:1:1 [0] NCCL INFO CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA\n"
    said = explain(connected + (GOLDEN / "aws-2xp5.48xlarge.txt").read_text(), shape, 2).splitlines()[0]
    assert "487.1 GB/s" in said
    assert "more than a ring can carry over the rails (400): switches between nodes did the reduction (CollNet)" in said
    assert said.endswith(expected)


def test_a_log_from_other_machines_than_stated_is_detected_by_its_number_of_ranks():
    said = explain((GOLDEN / "oci-2xGPU4.8-ol7.txt").read_text(), GPU4, 4)
    assert "the run used 16 GPUs, but the given nodes of this shape have 32" in said
    assert "another number of ranks ran" in said


@pytest.mark.parametrize("text", ["", "hello", "# size count busbw\n"])
def test_a_file_that_is_not_a_log_is_reported(text):
    assert explain(text, GPU4, 2).startswith("the log contains no row of nccl-tests")


@given(st.text())
def test_no_text_crashes_the_explanation(text):
    table = (GOLDEN / "k8s-2pods-25G.txt").read_text()
    assert explain(text + table[: len(text) * 40] + text, GPU4, 2)


def test_the_command_reads_a_file_and_refuses_an_unknown_shape(capsys):
    log = str(GOLDEN / "oci-2xGPU4.8-ol7.txt")
    assert main([log, "--shape", "BM.GPU4.8", "--nodes", "2"]) == 0
    assert "87.18 GB/s" in capsys.readouterr().out
    assert main(["/no/log", "--shape", "BM.GPU4.8", "--nodes", "2"]) == 2
    assert capsys.readouterr().err == "/no/log: No such file or directory\n"
    assert main([log, "--shape", "BM.GPU4.9", "--nodes", "2"]) == 2
    assert "BM.GPU4.8" in capsys.readouterr().err
