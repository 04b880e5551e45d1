"""A node's report on its GPUs and RDMA devices, in the driver's and the kernel's own words."""

from __future__ import annotations

import pytest
import rdma_trees

from benchmarks.judge.port_events import ALLOWED
from benchmarks.runner import node_facts

#: Output of driver 580.159.04 for two H100s, without the query's first two columns (model and driver).
REAL = [["0", "0", "0", "700.00", "1980", "16", "5"], ["1", "0", "0", "700.00", "1980", "16", "5"]]
H100 = {"power_limit_w": "700.00", "clock_limit_mhz": "1980", "pcie_width": "16", "pcie_generation": "5"}


def test_the_limits_of_each_gpu_are_the_limits_that_the_driver_prints():
    assert node_facts.limits(REAL) == {"gpu0": H100, "gpu1": H100}


def test_values_that_the_driver_does_not_report_are_left_out():
    assert node_facts.limits([["0", "0", "0", "[N/A]", "1980", "[N/A]", "[N/A]"]]) == {"gpu0": {"clock_limit_mhz": "1980"}}
    assert node_facts.limits([["0", "0", "0"]]) == {}


def test_a_driver_that_does_not_know_a_field_is_queried_again_without_the_limit_fields(monkeypatch):
    asked = []

    def rows(query: str) -> list[list[str]]:
        asked.append(query)
        return [] if "enforced.power.limit" in query else [["NVIDIA H200", "570.1", "0", "5", "0"]]

    monkeypatch.setattr(node_facts, "_rows", rows)
    found = node_facts.inventory()
    assert (found["gpus"], found["driver"], found["gpu_limits"]) == (["NVIDIA H200"], "570.1", {})
    queried = [query for query in asked if query.startswith("--query-gpu")]
    assert queried == [f"{queried[1]},enforced.power.limit,clocks.max.sm,pcie.link.width.max,pcie.link.gen.max", queried[1]]


@pytest.mark.parametrize(
    ("speed", "width", "said"),
    [
        ("32.0 GT/s PCIe", "16", "32.0 GT/s x16"),
        ("8.0 GT/s", "8", "8.0 GT/s x8"),  # kernels before 5.7 leave out the word "PCIe"
        ("Unknown", "0", ""),
        ("16.0 GT/s PCIe", "0", ""),
        ("", "", ""),
    ],
)
def test_a_devices_pcie_link_is_reported_if_the_kernel_knows_the_link(tmp_path, speed, width, said):
    (tmp_path / "ports" / "1").mkdir(parents=True)
    (tmp_path / "device").mkdir()
    (tmp_path / "device" / "current_link_speed").write_text(speed + "\n")
    (tmp_path / "device" / "current_link_width").write_text(width + "\n")
    assert node_facts.hca(str(tmp_path))["pcie"] == said


def test_every_judged_counter_is_read_from_every_device_that_has_the_counter(tmp_path):
    found = set()
    for device in sorted(path.stem for path in rdma_trees.LISTS.glob("*.txt")):
        rdma_trees.make(tmp_path, device)
        its = {name.rpartition("/")[2] for name in rdma_trees.files(device) if "counters/" in name} & set(ALLOWED)
        assert its <= set(node_facts.hca(str(tmp_path / device))["events"])
        found |= its
    assert found == set(ALLOWED)
