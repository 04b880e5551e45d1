"""The real slurmctld reads the files that are rendered for every GPU shape of the catalogue."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from catalogue import SERVERS, SHAPES, Shape
from scheduler import files, names

pytestmark = pytest.mark.rehearsal

ROWS = [row for row in [*SHAPES.values(), *SERVERS.values()] if row.gpus]
#: Its own network, host name and folders; it ends with the shell. An address that is not lo's lets getaddrinfo answer at all.
SCRIPT = r"""
hostname head
ip link set lo up
ip link add v0 type veth peer name v1; ip address add 10.255.0.1/8 dev v0; ip link set v0 up; ip link set v1 up
for folder in /etc/slurm /run /var/lib/slurm /var/log/slurm; do mkdir -p $folder; mount -t tmpfs tmpfs $folder; done
printf '10.255.0.1 head\n' > /run/hosts; mount --bind /run/hosts /etc/hosts
: > /run/resolv; mount --bind /run/resolv /etc/resolv.conf
cp "$1"/*.conf /etc/slurm/
mkdir -p /var/lib/slurm/slurmctld /run/munge
chown slurm /var/lib/slurm/slurmctld /var/log/slurm; chown munge /run/munge
head -c 1024 /dev/urandom > /run/key; chown munge /run/key; chmod 400 /run/key
setpriv --reuid munge --regid munge --clear-groups /usr/sbin/munged -F --num-threads 1 --key-file /run/key \
  --seed-file /run/munge/seed --log-file /run/munge/log > /run/munge/out 2>&1 < /dev/null & munged=$!
slurmctld -D > /run/out 2>&1 < /dev/null & slurmctld=$!
for attempt in $(seq 200); do
  timeout 5 sinfo --noheader --format '%D %G %P' > /run/said 2> /run/why && break
  kill -0 $slurmctld 2> /run/gone || break
  sleep 0.1
done
cat /run/said
grep -E 'error|fatal' /run/out >&2
kill $slurmctld $munged
for attempt in $(seq 50); do kill -0 $slurmctld 2> /run/gone || break; sleep 0.1; done
kill -9 $slurmctld $munged 2> /run/gone
exit 0
"""
#: What slurmctld says of a controller that begins anew, and of a machine that sends no mail.
USUAL = ("MailProg", "state file", "NOTE: Trying backup", "High latency for")  # the last one where this machine is busy


def node(number: int, row: Shape) -> files.Node:
    device = f"/dev/dri/renderD[128-{127 + row.gpus}]" if "AMD" in row.gpu else f"/dev/nvidia[0-{row.gpus - 1}]"
    gpus = files.Gpus(names.gpu_type(row.gpu), row.gpus, device)
    address = f"10.0.{number // 250}.{number % 250 + 1}"
    return files.Node(f"n{number}", f"host{number}", address, files.Cores(2, 96, 2), (row.memory_gib or 1024) * 1024, gpus)


@pytest.mark.parametrize("count", [1, len(ROWS), 1000])
def test_slurmctld_takes_the_files_of_every_gpu_shape_at_any_number_of_nodes(tmp_path: Path, count):
    nodes = [node(number, ROWS[number % len(ROWS)]) for number in range(count)]
    cluster = files.Cluster("busbar", "head", "10.255.0.1", "compute", nodes, cgroups=True)
    for name, text in files.files(cluster).items():
        (tmp_path / name).write_text(text)
    words = ["unshare", "--mount", "--net", "--uts", "bash", "-c", SCRIPT, "bash", str(tmp_path)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert not [line for line in ran.stderr.splitlines() if not any(usual in line for usual in USUAL)]
    said = Counter[str]()
    for line in ran.stdout.splitlines():
        number, gpus, queue = line.split()
        assert queue == "compute*"
        said[gpus] += int(number)
    assert said == Counter(f"gpu:{one.gpus.kind}:{one.gpus.number}" for one in nodes)
