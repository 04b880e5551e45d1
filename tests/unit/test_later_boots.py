"""Units that this machine's systemd generates, as at a later boot, from the lines that first boots add to /etc/fstab."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from written_units import UNITS

_GENERATOR = Path("/usr/lib/systemd/system-generators/systemd-fstab-generator")
_ROOT = "/dev/vda1 / ext4 defaults 0 1"
#: A network manager with the usual dependencies, like NetworkManager's units on Oracle Linux: it starts after the local
#: file systems are mounted, so a local bind mount that waits for the network makes a cycle. Ubuntu has no such cycle,
#: because systemd-networkd.service has no such dependency.
_MANAGER = "[Service]\nType=oneshot\nExecStart=/bin/true\n[Unit]\nBefore=network-online.target\n"
#: The former line for the login user's home, which makes a cycle.
_LOCAL_BIND = "/var/lib/busbar/home/opc /home/opc none bind,x-systemd.requires-mounts-for=/home 0 0"
_HOMES = "10.0.1.9:/files /home nfs defaults,noatime,nconnect=16,_netdev 0 0"


def _tables() -> dict[str, tuple[str, ...]]:
    """Return the lines that each reviewed first boot adds to /etc/fstab, by the name of its golden file."""
    texts = {path.stem: path.read_text() for path in sorted((ROOT / "tests/golden/cloudinit").glob("*.yaml"))}
    return {name: lines for name, text in texts.items() if (lines := tuple(re.findall(r"'([^'\n]+ 0 0)'", text)))}


TABLES = _tables()


@pytest.fixture
def generated(tmp_path):
    """Return a function that takes lines of fstab and returns the folder of units that systemd generates from them."""
    if shutil.which("systemd-analyze") is None or not _GENERATOR.exists():
        pytest.skip("systemd is not installed here")

    def made(*lines: str) -> Path:
        units = tmp_path / "units"
        units.mkdir()
        (tmp_path / "fstab").write_text("\n".join((_ROOT, *lines)) + "\n")
        subprocess.run([_GENERATOR, *[units] * 3], env={"SYSTEMD_FSTAB": str(tmp_path / "fstab")}, check=True)
        (units / "manager.service").write_text(_MANAGER)
        (units / "network-online.target.wants").mkdir()
        (units / "network-online.target.wants/manager.service").symlink_to("../manager.service")
        return units

    return made


def _circles(units: Path) -> list[str]:
    """Return systemd's messages about cycles in an ordinary boot."""
    where = os.environ | {"SYSTEMD_UNIT_PATH": f"{units}:"}
    command = ["systemd-analyze", "verify", "--man=no", "multi-user.target"]
    done = subprocess.run(command, env=where, capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if "ordering cycle" in line]


def test_first_boots_of_both_clouds_mount_file_systems_of_every_kind():
    kinds = {line.split()[2] for lines in TABLES.values() for line in lines}
    assert kinds == {"nfs", "lustre", "xfs", "none"}
    assert {name.startswith("aws-") for name in TABLES} == {True, False}


@pytest.mark.parametrize("name", TABLES)
def test_no_later_boot_has_a_dependency_cycle_that_systemd_breaks_by_dropping_a_mount(generated, name):
    assert _circles(generated(*TABLES[name])) == []


@pytest.mark.parametrize("name", TABLES)
def test_a_file_system_that_is_missing_at_a_later_boot_does_not_end_that_boot_in_emergency_mode(generated, name):
    """local-fs.target has OnFailure=emergency.target: nobody could log in, and the machine would still cost money."""
    needed = generated(*TABLES[name]) / "local-fs.target.requires"
    assert [path.name for path in needed.iterdir()] == ["-.mount"]


def test_no_unit_of_busbar_makes_a_dependency_cycle_with_the_mounts(generated):
    units = generated(*TABLES["aws-login-slurm-containers"])
    for name, text in UNITS.items():
        (units / name).write_text(text)
        for target in re.findall(r"^WantedBy=(\S+)$", text, re.MULTILINE):
            (units / f"{target}.wants").mkdir(exist_ok=True)
            (units / f"{target}.wants" / name).symlink_to(f"../{name}")
    assert _circles(units) == []
    assert (units / "multi-user.target.wants").is_dir()


def test_systemd_reports_the_cycle_of_a_bind_mount_without_netdev(generated):
    units = generated(_HOMES, _LOCAL_BIND)
    assert _circles(units)
    assert (units / "local-fs.target.requires/home-opc.mount").is_symlink()
