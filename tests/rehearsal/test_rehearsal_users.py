"""Users of a cluster on a real slapd, sssd, sshd, slurmctld, slurmd, slurmdbd and MariaDB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("users")]

ROOT = Path(__file__).parents[2]
#: A network and homes that the machines share; nothing is left when the shell, which also reaps what ended, ends.
SCRIPT = r"""
set -e
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/pristine /run/netns; mount --bind / /run/pristine
mount -t tmpfs -o mode=755 tmpfs /home
ip link set lo up
ip link add br0 type bridge; ip address add 10.255.0.254/8 dev br0; ip link set br0 up
set +e
"$@"
exit $?
"""
TIMEOUT_S = 420


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return what was seen, by part."""
    folder = tmp_path_factory.mktemp("users")
    own = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", SCRIPT, "bash"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    words = [*own, sys.executable, str(ROOT / "tests/users_head.py"), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    found: dict[str, dict[str, Any]] = {}
    seen: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        said = json.loads(line)
        if "part" in said:
            found[said["part"]], seen = seen, {}
        else:
            seen |= said
    return found
