"""The programs that start and end nodes, with the real slurmctld and slurmd: no fault may leave a paid machine behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("elastic")]

ROOT = Path(__file__).parents[2]
#: Gives a session its own folders, network, host name and processes; nothing is left when the shell ends.
SCRIPT = r"""
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


#: Sessions, each with a Slurm cluster of its own; they mostly wait, so they run at the same time.
SESSIONS = (
    ("a_whole_cycle", "a_death_in_a_job", "a_test_before_the_first_job"),
    ("no_capacity", "the_head_reboots_while_nodes_start", "sixty_four"),
    ("nodes_by_ssh", "never_reached", "two_always_run"),
    ("jobs_near_each_other", "capacity_for_some_time"),
)
TIMEOUT_S = 420


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the facts of each part of the sessions, by the part's name."""
    own = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}

    def ran(parts: tuple[str, ...]) -> dict[str, dict[str, Any]]:
        folder = tmp_path_factory.mktemp("elastic")
        folder.chmod(0o777)
        words = [*own, SCRIPT, "bash", sys.executable, str(ROOT / "tests/elastic_head.py"), str(folder), *parts]
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
        return told(done.stdout)

    with ThreadPoolExecutor(len(SESSIONS)) as pool:
        return {part: seen for session in pool.map(ran, SESSIONS) for part, seen in session.items()}


def told(text: str) -> dict[str, dict[str, Any]]:
    """Return the facts of each part; a line with the part's name follows them."""
    found: dict[str, dict[str, Any]] = {}
    seen: dict[str, Any] = {}
    for line in text.splitlines():
        facts = json.loads(line)
        if "part" in facts:
            found[facts["part"]], seen = seen, {}
        else:
            seen |= facts
    return found


def test_a_job_starts_nodes_and_runs_on_them_and_idle_nodes_end(facts):
    cycle = facts["a_whole_cycle"]
    assert cycle["ran"] == [f"gpu-dy-p5-{number}" for number in range(1, 5)]
    assert (cycle["started"], cycle["launches"]) == (4, 1)
    assert (cycle["left"], cycle["waiting"]) == (0, 0)


def test_always_on_nodes_start_without_a_job_stay_when_idle_and_are_started_again_after_they_die(facts):
    out = facts["two_always_run"]
    assert (out["started"], out["idle_ended"], out["repaired"]) == (2, 0, 3)


def test_machines_are_tested_before_the_first_job_and_a_job_whose_machine_fails_returns_to_the_queue(facts):
    out = facts["a_test_before_the_first_job"]
    assert (out["meanwhile"], out["started"], out["tested"]) == ("CONFIGURING", 0, 2)
    assert f"entry test: 6 GB/s with others, 20 wanted|{out['bad']}" in out["reasons"]
    assert (out["ran"], len(out["again"])) == (2, 2)
    assert out["bad"] not in out["again"], "the node stays down until the pause ends"
    assert "Comment=entry test: 24 GB/s with others" in out["shown"]


def test_without_capacity_sinfo_shows_the_reason_and_the_job_runs_once_there_is_capacity(facts):
    out = facts["no_capacity"]
    assert all(reason.startswith("InsufficientInstanceCapacity: there is no capacity") for reason in out["reasons"])
    assert (out["launches_then"], out["running"]) == (1, 0)
    assert out["ran_after_all"] == 2


def test_a_job_whose_machine_ends_returns_to_the_queue_and_sinfo_shows_the_clouds_reason(facts):
    assert "Server.SpotInstanceTermination" in facts["a_death_in_a_job"]["reason"]


def test_a_controller_that_reboots_right_after_it_asked_the_cloud_starts_nothing_twice(facts):
    out = facts["the_head_reboots_while_nodes_start"]
    assert (out["killed_after"], out["started"]) == ("launch", 2)
    assert (out["ran"], out["machines"]) == (["gpu-dy-p5-1", "gpu-dy-p5-2"], 2)


def test_machines_that_are_never_reached_end_and_sinfo_shows_the_last_error(facts):
    assert "was not reached within 120 s: Connection refused" in facts["never_reached"]["unreached"]


def test_machines_join_over_ssh_with_their_nodes_names_and_pinned_host_keys(facts):
    out = facts["nodes_by_ssh"]
    assert out["ran"] == ["gpu-dy-p5-1", "gpu-dy-p5-2"]
    assert len(out["machines"]) == 2
    assert set(out["machines"]) <= set(out["pinned"])


def test_64_nodes_start_with_one_call_and_end_with_few(facts):
    many = facts["sixty_four"]
    assert (many["ran"], many["launches"], many["left"]) == (64, 1, 0)
    assert many["terminates"] <= 4
    assert many["resume_s"] <= 10


def test_jobs_get_nodes_below_one_switch_where_the_cloud_has_such_nodes(facts):
    out = facts["jobs_near_each_other"]
    assert out["pairs"] == [["gpu-dy-p5-1", "gpu-dy-p5-3"], ["gpu-dy-p5-2", "gpu-dy-p5-4"]]
    assert sorted(out["ran"]) == out["pairs"]
    assert out["switches"] == [
        ["SwitchName=cluster-gpu-p5-dynamic", "Nodes=gpu-dy-p5-[5-64]"],
        ["SwitchName=cluster-nn_0-nn_a-nodes", "Nodes=gpu-dy-p5-[1,3]"],
        ["SwitchName=cluster-nn_0-nn_b-nodes", "Nodes=gpu-dy-p5-[2,4]"],
    ]


def test_outside_the_time_of_its_capacity_a_node_set_is_down_with_the_reason_and_jobs_wait_for_it(facts):
    out = facts["capacity_for_some_time"]
    assert (out["waits"], out["down"], out["launches"]) == ("PENDING", ["down~"], 0)
    assert out["after_reboot"] == ["Capacity Block cr-1 begins at 2026-12-01T11:30:00.000Z"]
    assert out["ran"] == 2
