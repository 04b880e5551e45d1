"""EFA devices on a node: they are ready without an address, each byte is counted once, and a search tries them GPU by GPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.host import requests
from benchmarks.runner import node_facts
from catalogue import SHAPES
from catalogue.aws.instances import INSTANCES
from components.remote_scripts import node_look


def device(root: Path, name: str, driver: str, *, state: str = "4: ACTIVE", **counters: int) -> Path:
    """Create a device below `root` as sysfs shows it; return its folder."""
    folder = root / name
    (folder / "ports/1/hw_counters").mkdir(parents=True)
    (folder / "device").mkdir()
    (root.parent / "drivers" / driver).mkdir(parents=True, exist_ok=True)
    (folder / "device/driver").symlink_to(root.parent / "drivers" / driver)
    (folder / "ports/1/state").write_text(f"{state}\n")
    (folder / "ports/1/rate").write_text("100 Gb/sec (4X EDR)\n")
    for counter, value in counters.items():
        (folder / "ports/1/hw_counters" / counter).write_text(f"{value}\n")
    return folder


def seen(folder: Path) -> dict:
    return node_facts.hca(str(folder))


@pytest.mark.parametrize(
    ("counters", "sent"),
    [
        ({"tx_bytes": 900, "send_bytes": 100, "rdma_write_bytes": 700, "rdma_read_resp_bytes": 90}, 900),
        ({"tx_bytes": 100, "send_bytes": 100, "rdma_write_bytes": 700, "rdma_read_resp_bytes": 90}, 890),
        ({"tx_bytes": 900}, 900),
        ({"rdma_write_bytes": 700}, 700),
        ({}, None),
    ],
    ids=["tx_bytes counts all bytes", "tx_bytes counts only sends", "an older driver", "no tx_bytes", "no counter"],
)
def test_each_byte_that_an_efa_device_sends_is_counted_once(tmp_path, counters, sent):
    assert seen(device(tmp_path / "ib", "rdmap79s0", "efa", **counters))["tx_bytes"] == sent


def test_an_efa_device_has_no_interface_and_its_errors_are_events(tmp_path):
    found = seen(device(tmp_path / "ib", "rdmap79s0", "efa", rx_bytes=5, unresponsive_remote_events=2, rdma_write_wr_err=1))
    assert (found["netdev"], found["active"], found["rx_bytes"]) == (None, True, 5)
    assert found["events"] == {"rdma_write_wr_err": 1, "unresponsive_remote_events": 2}


def test_counters_of_another_driver_that_are_named_like_efas_counters_are_not_read_as_bytes(tmp_path):
    assert seen(device(tmp_path / "ib", "mlx5_0", "mlx5_core", tx_bytes=900))["tx_bytes"] is None


def ready_rails(root: Path, *names: str, booted: bool = True) -> list[str]:
    """Run first contact's program for a node, with sysfs below `root`; return the rails that it reports as healthy."""
    script = node_look.STATE.replace("HCAS", " ".join(names)).replace("SUPPLICANT", "")
    script = script.replace("/sys/class/infiniband", str(root)).replace("/run/cloud-init", str(root.parent))
    if booted:
        (root.parent / "result.json").write_text("{}")
    said = subprocess.run(["sh", "-s"], input=script, capture_output=True, text=True, timeout=60, check=True)
    return said.stdout.splitlines()[-1].split()


def test_an_active_efa_device_is_a_healthy_rail_without_an_address(tmp_path):
    root = tmp_path / "ib"
    device(root, "rdmap79s0", "efa")
    device(root, "rdmap80s0", "efa", state="1: DOWN")
    device(root, "mlx5_0", "mlx5_core")  # active, but without an interface that has an address
    assert ready_rails(root, "rdmap79s0", "rdmap80s0", "rdmap81s0", "mlx5_0") == ["rdmap79s0"]


def test_a_rail_with_an_interface_is_healthy_once_the_interface_has_an_address(tmp_path):
    root = tmp_path / "ib"
    for name, interface in (("mlx5_0", "lo"), ("mlx5_1", "l"), ("mlx5_2", "lo2")):
        (device(root, name, "mlx5_core") / "device/net" / interface).mkdir(parents=True)
    assert ready_rails(root, "mlx5_0", "mlx5_1", "mlx5_2") == ["mlx5_0"], "every machine has lo with an address"


def test_a_node_reports_no_healthy_rail_before_its_first_boot_has_ended(tmp_path):
    device(tmp_path / "ib", "rdmap79s0", "efa")
    assert ready_rails(tmp_path / "ib", "rdmap79s0", booted=False) == []
    assert ready_rails(tmp_path / "ib", "rdmap79s0") == ["rdmap79s0"]


@pytest.mark.parametrize(
    ("name", "count", "first"),
    [
        ("p5.48xlarge", 8, ["rdmap79s0", "rdmap80s0", "rdmap81s0", "rdmap82s0"]),
        ("p5en.48xlarge", 8, ["rdmap85s0", "rdmap86s0"]),
        ("p4d.24xlarge", 4, ["rdmap16s27"]),
    ],
)
def test_a_search_over_efa_tries_the_devices_near_each_gpu(name, count, first):
    found = requests.rails(INSTANCES[name].shape())
    assert (len(found), found[0]) == (count, first)
    assert [device for rail in found for device in rail] == list(INSTANCES[name].hca)


def test_a_search_over_hcas_tries_each_hca():
    shape = SHAPES["BM.GPU4.8"]
    assert requests.rails(shape) == [[hca] for hca in shape.rdma.hca]
