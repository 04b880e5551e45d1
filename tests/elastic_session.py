"""Runs parts of elastic_head.py in new namespaces; `elastic_session.py PART...` prints the facts of those parts as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent.parent
#: Gives a session its own folders, network, host name and processes; all of them are gone when the shell exits.
_SCRIPT = r"""
set -e
hostname head
ip link set lo up
ip link add br0 type bridge; ip address add 10.255.0.1/8 dev br0; ip link set br0 up
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/pristine; mount --bind / /run/pristine
for folder in /etc /usr/local /var/lib /var/log; do
  mkdir -p /run/own$folder/upper /run/own$folder/work
  mount -t overlay -o lowerdir=$folder,upperdir=/run/own$folder/upper,workdir=/run/own$folder/work overlay $folder
done
mkdir -p /etc/slurm /var/lib/slurm /var/log/slurm
printf '10.255.0.1 head\n' > /run/hosts; mount --bind /run/hosts /etc/hosts
: > /run/resolv; mount --bind /run/resolv /etc/resolv.conf
mkdir -p /var/lib/slurm/slurmctld /run/munge /run/netns
chown slurm /var/lib/slurm/slurmctld /var/log/slurm; chown munge /run/munge
mkdir -p /etc/munge; head -c 1024 /dev/urandom > /etc/munge/munge.key; chown -R munge /etc/munge; chmod 400 /etc/munge/munge.key
setpriv --reuid munge --regid munge --clear-groups /usr/sbin/munged -F --num-threads 1 --key-file /etc/munge/munge.key \
  --seed-file /run/munge/seed --log-file /run/munge/log > /run/munge/out 2>&1 < /dev/null & munged=$!
for attempt in $(seq 100); do [ -S /run/munge/munge.socket.2 ] && break; sleep 0.05; done
set +e
"$@"
code=$?
kill $munged
exit $code
"""
_OWN = ("unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
_TIMEOUT_S = 420


def facts(*parts: str) -> dict[str, dict[str, Any]]:
    """Run parts of elastic_head.py, one after the other on one controller; return each part's facts, by its name.

    Raises:
        RuntimeError: a part failed; the message is the session's output.
    """
    environment = {**os.environ, "PYTHONPATH": f"{_ROOT}:{_ROOT / 'tests'}"}
    with tempfile.TemporaryDirectory(prefix="busbar-elastic-") as folder:
        Path(folder).chmod(0o777)  # Slurm's user writes there, too
        words = [*_OWN, "bash", "-c", _SCRIPT, "bash", sys.executable, str(_ROOT / "tests/elastic_head.py"), folder, *parts]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{done.stdout}\n{done.stderr[-4000:]}")
    return _told(done.stdout)


def _told(text: str) -> dict[str, dict[str, Any]]:
    """Return the facts of each part; in `text`, the facts of a part are followed by a line with the part's name."""
    found: dict[str, dict[str, Any]] = {}
    seen: dict[str, Any] = {}
    for line in text.splitlines():
        seen |= json.loads(line)
        if "part" in seen:
            found[seen["part"]], seen = seen, {}
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(facts(*sys.argv[1:])) + "\n")
