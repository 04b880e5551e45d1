"""What the machine's own systemd says of every unit that the program writes on machines."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from cloudinit import aws_steps
from components.remote_scripts import exporter_on_node
from scheduler import accounting, programs, units
from scheduler.slurm_conf import MARK
from scheduler.users import directory
from scheduler.users.directory import Layout

_EXPORTER = {"listen": "10.0.0.5", "port": 9416, "allow": "--allow 10.0.0.2", "user": "busbar-rdma", "program": "/x.py"}
_DIRECTORIES = {"debian": Layout("/etc/ldap", "openldap", "/usr/lib/ldap"), "el": Layout("/etc/openldap", "ldap", "/usr/lib64")}


def _written() -> dict[str, str]:
    """Return every unit by the name of its file."""
    of_lustre = aws_steps.lustre_tuning("/fsx").shell
    found = re.search(r"cat > \S+/(\S+\.service) << END\n(.*?)\nEND\n", of_lustre, re.DOTALL)
    assert found
    return {
        **units.units("10.0.0.2"),
        **programs.timers(),
        "busbar-slurmdbd.service": accounting.unit(MARK),
        **{f"busbar-directory-{name}.service": directory.unit(where, "10.0.0.2") for name, where in _DIRECTORIES.items()},
        f"{exporter_on_node.UNIT}.service": exporter_on_node.TEXT.format(python=sys.executable, **_EXPORTER),
        found[1]: found[2] + "\n",
    }


UNITS = _written()
#: Said of a program that only machines have; what is started there, rehearsed updates show.
_ABSENT = re.compile(r".*: Command \S+ is not executable: No such file or directory")


def judged(folder: Path, texts: dict[str, str]) -> list[str]:
    """Return what systemd finds wrong with units."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed here")
    for name, text in texts.items():
        (folder / name).write_text(text)
    # The other units of a machine would be read too, and are not ours.
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
def test_systemd_would_say_so_of_a_wrong_key(tmp_path, name, before, after, said):
    text, count = re.subn(before, after, UNITS[name], count=1)
    assert count
    assert any(said in line for line in judged(tmp_path, UNITS | {name: text}))


def test_every_unit_that_the_program_writes_is_judged():
    """Sections of units stand in these modules and nowhere else."""
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
        "scheduler/programs.py",
        "scheduler/units.py",
        "scheduler/users/directory.py",
    }
