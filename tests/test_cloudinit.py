"""First-boot texts: golden, valid by cloud-init's own schema, and runnable shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from catalogue import IMAGES, SHAPES
from cloudinit import BastionBoot, NodeBoot, render

GOLDEN = Path(__file__).parent / "golden" / "cloudinit"
DOMAIN = "private.busbar.oraclevcn.com"
#: The vendor's limit on all metadata of an instance is 32,000 bytes, base64 included.
METADATA_BYTES = 32_000


def node(family: str, shape: str = "BM.GPU4.8") -> str:
    image = IMAGES[family]
    rails = "192.168.0.0/16" if image.rdma == "ifcfg" else "10.224.0.0/12"
    return render(NodeBoot(image, SHAPES[shape], "Asia/Tokyo", DOMAIN, ("10.0.1.0/24", rails)))


TEXTS = {f"node-{family}": node(family) for family in IMAGES} | {
    f"bastion-{family}": render(BastionBoot(IMAGES[family], "UTC", DOMAIN)) for family in IMAGES
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_the_one_that_was_reviewed(name):
    assert (GOLDEN / f"{name}.yaml").read_text() == TEXTS[name]


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_valid_by_cloud_inits_own_schema(name, tmp_path):
    program = shutil.which("cloud-init")
    if program is None:
        pytest.skip("cloud-init is not installed here")
    path = tmp_path / "user-data"
    path.write_text(TEXTS[name])
    # Debian's launcher is a Python script; ours must not shadow the package of the same name.
    found = subprocess.run([program, "schema", "-c", str(path)], capture_output=True, text=True, check=False, cwd="/")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "Valid cloud-config" in found.stdout


@pytest.mark.parametrize("name", TEXTS)
def test_the_script_inside_is_clean_shell(name):
    files = {file["path"]: file["content"] for file in yaml.safe_load(TEXTS[name])["write_files"]}
    script = files["/var/lib/busbar/first-boot"]
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    program = shutil.which("shellcheck")
    if program is not None:
        found = subprocess.run([program, "-s", "sh", "-"], input=script, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_fits_into_the_metadata_and_holds_no_secret(name):
    assert len(TEXTS[name].encode()) * 4 / 3 < METADATA_BYTES / 2
    assert "PRIVATE KEY" not in TEXTS[name]


def test_only_images_without_an_agent_write_interface_files():
    assert "ifcfg-" in TEXTS["node-ol7"]
    for family in ("ol8", "ol9", "ubuntu2204"):
        assert "ifcfg-" not in TEXTS[f"node-{family}"]


def test_the_sixteen_rails_of_the_seed_are_all_written():
    script = TEXTS["node-ol7"]
    for bus in (12, 22, 72, 76, 138, 148, 195, 209):
        assert f"enp{bus}s0f0" in script
        assert f"enp{bus}s0f1" in script


def test_the_firewall_steps_aside_between_nodes_and_nowhere_else():
    for name, text in TEXTS.items():
        assert "stop firewalld" not in text
        assert "disable firewalld" not in text
        if name.startswith("bastion"):
            assert "--zone=trusted" not in text


def test_disks_are_counted_at_boot_and_never_in_the_text():
    assert "/dev/nvme0n1" not in TEXTS["node-ol8"]
    assert node("ol8", "BM.GPU.H100.8") == node("ol8", "BM.GPU.H200.8")
