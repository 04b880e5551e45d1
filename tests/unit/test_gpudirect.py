"""NCCL's own log of GPUDirect RDMA decides whether the bytes went the intended way, on machines that are built for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from measurement_line import ASKED, document

from benchmarks.judge import gpudirect
from benchmarks.judge.verdict import judge
from catalogue import SHAPES

GPU4 = SHAPES["BM.GPU4.8"]


def judged(**transport: Any) -> tuple[str, str]:
    """Return the verdict of a healthy measurement with `transport` changed, and the reasons of its transport check."""
    line = document()
    line["transport"] |= transport
    found = judge(json.dumps(line), ASKED)
    (check,) = [one for one in found.checks if one.name == "transport"]
    return found.verdict, " ".join(check.why)


def said(**counts: int) -> dict[str, Any]:
    return {"networks": {"IB": 16}, "devices": {}, "channels": {"NET/IB/0": 4}, "gpudirect": counts}


def test_a_run_whose_connections_all_used_it_passes_and_says_so():
    verdict, why = judged(said=said(GDRDMA=64))
    assert verdict == "pass"
    assert "GPUDirect RDMA on all 64 connections" in why


@pytest.mark.parametrize(("counts", "share"), [({"NET": 64}, "64 of 64"), ({"NET": 1, "GDRDMA": 63}, "1 of 64")])
def test_a_run_that_copied_through_host_memory_is_short_with_nodes_and_module_named(counts, share):
    verdict, why = judged(said=said(**counts), through_host_memory=["gpu-2"])
    assert verdict == "short"
    assert f"NCCL used no GPUDirect RDMA for {share} connections on gpu-2" in why
    assert "nvidia_peermem" in why


def test_a_run_in_which_nccl_did_not_report_it_is_not_a_pass():
    verdict, why = judged(said=said())
    assert verdict == "unknown"
    assert "NCCL did not log whether it used GPUDirect RDMA" in why


@pytest.mark.parametrize(
    "shape",
    [SHAPES["BM.Optimized3.36"], *(one for one in SHAPES.values() if one.environment == "aws-efa")],
    ids=lambda shape: shape.name,
)
def test_shapes_without_nvlink_or_with_their_own_plugin_are_not_covered(shape):
    assert gpudirect.told({"said": said(NET=9)}, shape) == gpudirect.Told()


def test_every_nvidia_shape_of_oci_with_rails_is_covered():
    for shape in SHAPES.values():
        if shape.rdma is not None and shape.gpu.startswith("NVIDIA"):
            assert gpudirect.told({"said": said(NET=1)}, shape).wrong, shape.name
    assert gpudirect.told({}, GPU4).missing
