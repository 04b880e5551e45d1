"""Every systemd unit that the program writes on machines."""

from __future__ import annotations

import re
import sys

from cloudinit import aws_steps
from components.remote_scripts import exporter_on_node
from scheduler import accounting, programs, units
from scheduler.elastic import metadata_guard
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
        **metadata_guard.units(),
        **programs.timers(),
        "busbar-slurmdbd.service": accounting.unit(MARK),
        **{f"busbar-directory-{name}.service": directory.unit(where, "10.0.0.2") for name, where in _DIRECTORIES.items()},
        f"{exporter_on_node.UNIT}.service": exporter_on_node.TEXT.format(python=sys.executable, **_EXPORTER),
        found[1]: found[2] + "\n",
    }


UNITS = _written()
