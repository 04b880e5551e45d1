"""PCIe links are compared with the data sheets of GPUs and the line rates of rails, even if all nodes have equal links."""

from __future__ import annotations

import json

import pytest
from measurement_line import place

from benchmarks.host import requests
from benchmarks.launch import protocol
from benchmarks.plan.asked import Asked
from benchmarks.runner import measure, node_facts, pcie_links
from catalogue import SHAPES, gpus
from config.measure import Measure

GEN5 = (5, 16)
RAIL = "mlx5_0"


def node(*, generation="5", width="16", link="32.0 GT/s x16", virtual=False):
    limits = {key: said for key, said in (("pcie_generation", generation), ("pcie_width", width)) if said}
    hca = {"active": True, "rate": "400 Gb/sec (4X NDR)", "pcie": link}
    return {"clock": 1.0, "virtual": virtual, "gpu_limits": {"gpu0": limits}, "hca": {RAIL: hca}, "interfaces": {}}


def said(its, gpu_pcie=GEN5, port_gbit_s=400):
    return pcie_links.slow("n0", its, gpu_pcie, [RAIL], port_gbit_s)


def test_a_link_that_matches_the_data_sheet_and_the_port_is_no_difference():
    assert said(node()) == []
    assert said(node(generation="6")) == []


@pytest.mark.parametrize(
    ("its", "sentence"),
    [
        (
            {"width": "8"},
            "n0: gpu0 has PCIe generation 5 and width 8, but its data sheet has generation 5 and width 16",
        ),
        (
            {"generation": "4"},
            "n0: gpu0 has PCIe generation 4 and width 16, but its data sheet has generation 5 and width 16",
        ),
        (
            {"generation": "", "width": "4"},
            "n0: gpu0 has PCIe generation unknown and width 4, but its data sheet has generation 5 and width 16",
        ),
        (
            {"link": "16.0 GT/s x16"},
            "n0: rail mlx5_0 has a PCIe link of 16.0 GT/s x16, which carries 252 Gbit/s of the port's 400",
        ),
        (
            {"link": "5.0 GT/s x16"},
            "n0: rail mlx5_0 has a PCIe link of 5.0 GT/s x16, which carries 64 Gbit/s of the port's 400",
        ),
    ],
)
def test_a_link_slower_than_its_data_sheet_or_its_port_is_named_with_both_values(its, sentence):
    assert said(node(**its)) == [sentence]


@pytest.mark.parametrize("virtual", [True, None])
def test_a_virtual_machine_is_not_judged_by_the_links_that_its_hypervisor_shows(virtual):
    assert said(node(width="1", link="2.5 GT/s x1", virtual=virtual)) == []


def test_a_link_is_not_judged_if_no_rate_is_published_or_if_the_node_does_not_report_the_link():
    assert said(node(width="8", link="8.0 GT/s x8"), (), 0) == []
    assert said(node(generation="", width="", link="")) == []


def test_links_that_are_equally_slow_on_every_node_are_reported_as_differences():
    asked = Asked(Measure(), SHAPES["BM.GPU.H200.8"], 2)
    request = protocol.request(json.loads(requests.measure(place(asked), asked, [])))
    found = [node(width="8", link="16.0 GT/s x16") for _ in request.nodes]
    sentences = measure._differences(request, found, [(0.0, 2.0)] * 2)  # noqa: SLF001 - without a run
    told = [one.split(" PCIe ")[0] for one in sentences if " PCIe " in one]
    assert told == [f"inst-{index}: {which}" for index in range(2) for which in ("gpu0 has", "rail mlx5_0 has a")]


@pytest.mark.parametrize(
    ("cpuinfo", "virtual"),
    [
        ("processor : 0\nflags\t\t: fpu vme hypervisor lahf_lm\n", True),
        ("processor : 0\nflags\t\t: fpu vme lahf_lm\n", False),
        ("processor : 0\nFeatures\t: fp asimd\n", None),  # Arm processors have no flag `hypervisor`
        ("", None),
    ],
)
def test_a_node_recognises_a_virtual_machine_by_its_processors_flags(monkeypatch, cpuinfo, virtual):
    monkeypatch.setattr(node_facts, "_read", lambda path: cpuinfo if path == "/proc/cpuinfo" else "")
    monkeypatch.setattr(node_facts, "_rows", lambda _: [])
    assert node_facts.inventory()["virtual"] is virtual


@pytest.mark.parametrize(
    ("gpu", "link"),
    [
        ("NVIDIA H100 80GB HBM3", (5, 16)),
        ("NVIDIA H200", (5, 16)),
        ("NVIDIA A100-SXM4-80GB", (4, 16)),
        ("NVIDIA L40S", (4, 16)),
        ("NVIDIA B200", None),  # some sources publish generation 5, others 6
        ("NVIDIA GB200", None),
        ("Tesla V100-SXM2-16GB", None),
    ],
)
def test_links_of_gpus_come_from_their_data_sheets_and_are_otherwise_unknown(gpu, link):
    assert gpus.pcie_link(gpu) == link


@pytest.mark.parametrize(("shape", "link"), [("BM.GPU.H100.8", [5, 16]), ("BM.GPU.GB200.4", [])])
def test_a_request_contains_the_pcie_link_of_the_shapes_gpus(shape, link):
    asked = Asked(Measure(exports={"NCCL_MNNVL_ENABLE": "0"}), SHAPES[shape], 2)
    assert json.loads(requests.measure(place(asked), asked, []))["gpu_pcie"] == link
