"""The judgement of this machine's own systemd on every unit that the program writes on machines."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from written_units import UNITS

#: Systemd's remark on a program that only a cluster's machines have; rehearsed updates show that the program starts there.
_ABSENT = re.compile(r".*: Command \S+ is not executable: No such file or directory")


def judged(folder: Path, texts: dict[str, str]) -> list[str]:
    """Return what systemd finds wrong with units."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed here")
    for name, text in texts.items():
        (folder / name).write_text(text)
    # With --recursive-errors=no, errors in this machine's other units do not count.
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *(str(folder / name) for name in texts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if not _ABSENT.fullmatch(line)]
    return said if said or done.returncode == 0 or done.stderr else [f"exit {done.returncode}"]


def test_systemd_finds_nothing_wrong_with_any_unit(tmp_path):
    assert judged(tmp_path, UNITS) == []


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("Description=", "Descriptoin=", "Unknown key 'Descriptoin' in section [Unit]"),
        (r"(?:Type|ExecStart|OnBootSec)=(?=.*\n)", "Tpye=", "Unknown key 'Tpye' in section"),
    ],
)
def test_systemd_reports_an_unknown_key(tmp_path, name, before, after, said):
    text, count = re.subn(before, after, UNITS[name], count=1)
    assert count
    assert any(said in line for line in judged(tmp_path, UNITS | {name: text}))


@pytest.mark.parametrize(("name", "own"), [("slurmd", "slurmd"), ("slurmctld", "slurmctld"), ("slurmdbd", "busbar-slurmdbd")])
def test_busbars_unit_for_a_slurm_daemon_waits_for_all_units_that_the_distributions_unit_waits_for(name, own):
    """If slurmd did not wait, it would accept jobs before the homes are mounted at a later boot."""
    packaged = Path(f"/lib/systemd/system/{name}.service")
    if not packaged.exists():
        pytest.skip("Slurm is not installed here")
    wanted = _after(packaged.read_text()) - {"mysql.service", "mysqld.service"}  # other names of mariadb.service
    assert wanted <= _after(UNITS[f"{own}.service"])


def _after(text: str) -> set[str]:
    return {word for line in re.findall(r"^After=(.*)$", text, re.MULTILINE) for word in line.split()}


def test_every_unit_that_the_program_writes_is_verified():
    """If another module contains a section of a unit, its units must be verified, too; then add the module here."""
    rooms = ("cloudinit", "components", "scheduler", "manifests", "benchmarks")
    having = {
        str(path.relative_to(ROOT))
        for room in rooms
        for path in (ROOT / room).rglob("*.py")
        if re.search(r"^\W*\[(?:Service|Timer|Socket|Mount|Path)\]", path.read_text(), re.MULTILINE)
    }
    assert having == {
        "cloudinit/aws_steps.py",
        "components/remote_scripts/exporter_on_node.py",
        "scheduler/accounting.py",
        "scheduler/elastic/metadata_guard.py",
        "scheduler/programs.py",
        "scheduler/units.py",
        "scheduler/users/directory.py",
    }
