"""Sets up the database of Slurm's jobs and users on this controller, as root. Correct settings are not rewritten.

Munge must run. Before the first set-up, slurmctld must not run: without a database, its first start fails ("we have no TRES
from it").
"""

import os
import shutil
import sys
import time
from typing import Any, Dict

from scheduler import accounting, commands, node_setup

_UNITS = "/etc/systemd/system"
#: Folders of MariaDB's configuration in Debian's and in Red Hat's packages.
_MARIADB_CONF = ("/etc/mysql/mariadb.conf.d", "/etc/my.cnf.d")
_TIMEOUT_S = 60


def set_up(given: Dict[str, Any]) -> None:
    """Set up the database as the document from `scheduler.accounting.document` describes."""
    client = next((name for name in ("mariadb", "mysql") if shutil.which(name)), "")
    for program, package in ((client, "mariadb-server"), ("slurmdbd", "slurmdbd"), ("sacctmgr", "slurm-client")):
        if not shutil.which(program):
            sys.exit(f"there is no {program or 'mariadb'}, which Slurm's database of jobs needs; install {package}")
    _mariadb(given["mariadb_conf"], client)
    if not os.path.exists("/var/log/slurm"):
        os.makedirs("/var/log/slurm", mode=0o755)
        node_setup.give("/var/log/slurm", "slurm")
    wrote = [
        path
        for path, text, mode, owner in (
            (accounting.CONF, given["slurmdbd_conf"], 0o600, "slurm"),
            (os.path.join(_UNITS, accounting.UNIT), given["unit"], 0o644, "root"),
        )
        if node_setup.put(path, text.encode(), mode, owner)
    ]
    if wrote:
        commands.demand("systemctl", "daemon-reload")
    node_setup.daemon(accounting.UNIT, bool(wrote))
    _await(given["cluster"])


def _mariadb(text: str, client: str) -> None:
    """Start MariaDB with these settings, and create the database."""
    folder = next((path for path in _MARIADB_CONF if os.path.isdir(path)), "")
    if not folder:
        sys.exit("neither {} exists, but MariaDB's package creates one of these folders".format(" nor ".join(_MARIADB_CONF)))
    path = os.path.join(folder, "90-busbar.cnf")
    wrote = node_setup.put(path, text.encode(), 0o644, "root")
    node_setup.daemon("mariadb", wrote)
    end = time.monotonic() + _TIMEOUT_S
    while True:
        done = commands.run([client, "--batch"], accounting.statements())
        if not done.returncode:
            return
        if b"'unix_socket' is not loaded" in done.stdout:  # MariaDB before 10.4 (Oracle Linux 8) does not load this plugin
            commands.run([client, "--batch"], "install soname 'auth_socket';\n")
        if time.monotonic() > end:
            sys.exit(f"MariaDB did not create Slurm's database within {_TIMEOUT_S} s: {commands.last(done)}")
        time.sleep(0.2)


def _await(cluster: str) -> None:
    """Wait until slurmdbd answers, and register the cluster."""
    end = time.monotonic() + _TIMEOUT_S
    while True:
        done = commands.run(["sacctmgr", "--immediate", "add", "cluster", cluster])
        if not done.returncode or b"already exists" in done.stdout:
            return
        if time.monotonic() > end:
            sys.exit(f"slurmdbd did not answer within {_TIMEOUT_S} s: {commands.last(done)}; see /var/log/slurm/slurmdbd.log")
        time.sleep(0.2)
