"""The real slurmctld reads the files that are rendered for every GPU shape of the catalogue."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from catalogue import SERVERS, SHAPES, Shape
from catalogue.aws.instances import INSTANCES
from scheduler import names
from scheduler.cluster import Cluster, Cores, Gpus, Hardware, Node, NodeSet, Queue, dynamic_names
from scheduler.files import files

pytestmark = pytest.mark.rehearsal

AWS = [one.shape(efa=one.efa > 0) for one in INSTANCES.values() if one.gpu]
ROWS = [row for row in [*SHAPES.values(), *SERVERS.values(), *AWS] if row.gpus]
#: Runs slurmctld with its own network, host name and folders. getaddrinfo works only if there is an address besides lo's.
SCRIPT = r"""
hostname head
ip link set lo up
ip link add v0 type veth peer name v1; ip address add 10.255.0.1/8 dev v0; ip link set v0 up; ip link set v1 up
for folder in /etc/slurm /run /var/lib/slurm /var/log/slurm /usr/local/sbin; do
  mkdir -p $folder; mount -t tmpfs -o mode=755 tmpfs $folder
done
for name in resume suspend resume-failed; do printf '#!/bin/sh\n' > /usr/local/sbin/busbar-$name; done
chmod 755 /usr/local/sbin/*
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
shift
"$@"
grep -E 'error|fatal' /run/out >&2
kill $slurmctld $munged
for attempt in $(seq 50); do kill -0 $slurmctld 2> /run/gone || break; sleep 0.1; done
kill -9 $slurmctld $munged 2> /run/gone
exit 0
"""
#: Usual messages of slurmctld on a controller without a saved state, and on a machine that sends no mail.
USUAL = ("MailProg", "state file", "NOTE: Trying backup", "High latency for")  # a busy machine prints the last message


def hardware(row: Shape) -> Hardware:
    device = f"/dev/dri/renderD[128-{127 + row.gpus}]" if "AMD" in row.gpu else f"/dev/nvidia[0-{row.gpus - 1}]"
    return Hardware(Cores(2, 96, 2), (row.memory_gib or 1024) * 1024, Gpus(names.gpu_type(row.gpu), row.gpus, device))


def members(prefix: str, first: int, count: int) -> list[Node]:
    numbers = range(first, first + count)
    return [
        Node(
            f"{prefix}{one}",
            f"host{one}",
            f"10.0.{one // 250}.{one % 250 + 1}",
            ("island", f"block {one // 16}", f"leaf/{one // 4}"),
        )
        for one in numbers
    ]


def ran(folder: Path, cluster: Cluster, *question: str) -> list[str]:
    """Start slurmctld on the cluster's files; return the lines that `sinfo` and then the command `question` print."""
    for name, text in files(cluster).items():
        (folder / name).write_text(text)
    words = ["unshare", "--mount", "--net", "--uts", "bash", "-c", SCRIPT, "bash", str(folder), *(question or ("true",))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert not [line for line in done.stderr.splitlines() if not any(usual in line for usual in USUAL)]
    return done.stdout.splitlines()


def counted(lines: list[str]) -> Counter[tuple[str, str]]:
    """Return the number of nodes for each combination of GPUs and queue in the lines of `sinfo`."""
    found = Counter[tuple[str, str]]()
    for line in lines:
        number, gpus, queue = line.split()
        found[gpus, queue] += int(number)
    return found


def label(row: Shape) -> str:
    return f"gpu:{names.gpu_type(row.gpu)}:{row.gpus}"


@pytest.mark.parametrize("count", [1, len(ROWS), 1000])
def test_slurmctld_accepts_the_files_of_every_gpu_shape_at_any_number_of_existing_nodes(tmp_path: Path, count):
    each = [(row, len(range(at, count, len(ROWS)))) for at, row in enumerate(ROWS)]
    sets = [NodeSet(f"set{at}", hardware(row), members("n", at * 1000, size)) for at, (row, size) in enumerate(each) if size]
    cluster = Cluster("busbar", "head", "10.255.0.1", [Queue("compute", sets, default=True)], cgroups=True)
    wanted = Counter[tuple[str, str]]()
    for row, size in each:
        wanted[label(row), "compute*"] += size
    assert counted(ran(tmp_path, cluster)) == +wanted


@pytest.mark.parametrize("most", [1, 1000])
def test_slurmctld_accepts_the_files_of_every_gpu_shape_in_a_queue_of_static_and_dynamic_nodes(tmp_path: Path, most):
    queues = []
    wanted = Counter[tuple[str, str]]()
    for at, row in enumerate(ROWS):
        count = most if at == 0 else max(1, most // len(ROWS))
        static = min(count, 2)
        still = members(f"q{at}-st-gpu-", 1 + at * 2, static)
        queues.append(
            Queue(
                f"q{at}",
                [
                    NodeSet("gpu", hardware(row), still, count, ("efa",)),
                    NodeSet("cpu", Hardware(Cores(1, 4, 1), 16_000, Gpus("", 0, "")), [], 3),
                ],
                default=at == 1,
                idle_min=at + 1,
            )
        )
        where = f"q{at}*" if at == 1 else f"q{at}"
        wanted[label(row), where] += static + count
        wanted["(null)", where] += 3
    cluster = Cluster("busbar", "head", "10.255.0.1", queues, True, memory=True, topology=True, scripts=True)
    said = ran(tmp_path, cluster, "scontrol", "--oneliner", "show", "partition", "q2")
    assert counted(said[:-1]) == wanted
    assert said[-1].endswith("SuspendTime=180")
    assert "ResumeTimeout=1800 " in said[-1]


def test_slurmctld_knows_which_nodes_it_may_power_down_and_which_are_near_each_other(tmp_path: Path):
    row = SHAPES["BM.GPU.H100.8"]
    static = [Node(f"gpu-st-h100-{at}", f"a{at}", f"10.0.0.{at}", ("island", f"block{at // 4}")) for at in range(1, 8)]
    queue = Queue("gpu", [NodeSet("h100", hardware(row), static, 40, ("rdma",))], default=True, idle_min=7)
    cluster = Cluster("busbar", "head", "10.255.0.1", [queue], cgroups=False, topology=True)
    script = "scontrol show config | grep -E '^SuspendExcNodes'; scontrol show topology; scontrol -o show node gpu-dy-h100-40"
    said = "\n".join(ran(tmp_path, cluster, "sh", "-c", script))
    assert "SuspendExcNodes         = gpu-st-h100-[1-7]" in said
    assert "SwitchName=cluster-island-block0-nodes Level=0 LinkSpeed=1 Nodes=gpu-st-h100-[1-3]" in said
    assert "SwitchName=cluster-gpu-h100-dynamic Level=0 LinkSpeed=1 Nodes=gpu-dy-h100-[1-40]" in said
    assert "State=IDLE+CLOUD+POWERED_DOWN" in said
    assert "AvailableFeatures=dynamic,gpu_nodes,h100,rdma" in said
    assert dynamic_names("gpu", "h100", 40)[-1] == "gpu-dy-h100-40"
