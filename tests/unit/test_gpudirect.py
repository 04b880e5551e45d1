"""On machines that need GPUDirect RDMA, NCCL's log decides whether a run used it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from measurement_line import ASKED, document

from benchmarks.judge import gpudirect
from benchmarks.judge.verdict import judge
from catalogue import SHAPES, Shape
from catalogue.aws.instances import INSTANCES

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


def test_a_run_whose_connections_all_used_gpudirect_passes_and_the_reason_says_how_many_ends_of_connections_used_it():
    verdict, why = judged(said=said(GDRDMA=64))
    assert verdict == "pass"
    assert "GPUDirect RDMA at all 64 ends of connections" in why


@pytest.mark.parametrize(("counts", "share"), [({"NET": 64}, "64 of 64"), ({"NET": 1, "GDRDMA": 63}, "1 of 64")])
def test_a_run_that_copied_through_host_memory_is_short_and_the_reason_names_nodes_kernel_module_and_version(counts, share):
    verdict, why = judged(said=said(**counts), through_host_memory=["gpu-2", "and 3 more"])
    assert verdict == "short"
    assert f"NCCL used no GPUDirect RDMA at {share} ends of connections on gpu-2, and 3 more: bytes" in why
    assert "is the kernel module nvidia_peermem loaded on the nodes (lsmod), or can NCCL 2.28.3 use DMA-BUF instead?" in why


def test_a_run_in_which_nccl_did_not_report_gpudirect_is_unknown():
    verdict, why = judged(said=said())
    assert verdict == "unknown"
    assert "NCCL did not log whether it used GPUDirect RDMA" in why


def with_rails(name: str) -> Shape:
    """Return an instance type whose RDMA devices are not in the catalogue, because a stack reads them from the machines."""
    return dataclasses.replace(INSTANCES[name].shape(), rdma=INSTANCES["p5.48xlarge"].shape().rdma)


@pytest.mark.parametrize("shape", [SHAPES["BM.Optimized3.36"], with_rails("g6e.48xlarge")], ids=lambda shape: shape.name)
def test_gpudirect_is_not_judged_on_a_shape_without_nvlink(shape):
    assert shape.rdma is not None
    assert gpudirect.told({"said": said(NET=9)}, shape, "2.28.3") == gpudirect.Told()


def test_gpudirect_is_not_judged_on_p3dn_whose_efa_device_cannot_access_gpu_memory():
    """A healthy p3dn never uses GPUDirect RDMA, so it would always be short. A p4d with the same log is short."""
    assert with_rails("p3dn.24xlarge").nvlink_gbytes_per_s is not None
    assert gpudirect.told({"said": said(NET=9)}, with_rails("p3dn.24xlarge"), "2.28.3") == gpudirect.Told()
    assert gpudirect.told({"said": said(NET=9)}, with_rails("p4d.24xlarge"), "2.28.3").wrong


def test_every_nvidia_shape_of_oci_that_has_rails_is_judged_on_gpudirect():
    for shape in SHAPES.values():
        if shape.rdma is not None and shape.gpu.startswith("NVIDIA"):
            assert gpudirect.told({"said": said(NET=1)}, shape, "2.28.3").wrong, shape.name
    assert gpudirect.told({}, GPU4, "2.28.3").missing


@pytest.mark.parametrize("name", ["p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge"])
def test_a_run_through_host_memory_on_an_efa_type_with_nvlink_is_short_and_the_reason_names_efas_kernel_module(name):
    (why,) = gpudirect.told({"said": said(NET=1)}, INSTANCES[name].shape(), "2.28.3").wrong
    assert "is the kernel module efa_nv_peermem loaded on the nodes" in why
