"""Runs the real slurmctld in this process's namespaces, and the real slurmd of each machine in namespaces of its own.

The program prints JSON lines.

elastic_session.py runs `elastic_head.py FOLDER [PART...]` in new namespaces. The cloud is a fake; Slurm's
programs and `reconcile` are those of a real cluster.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from elastic import FakeCloud, KilledError, Steps
from own_folders import OWN_FOLDERS

from scheduler import programs
from scheduler.cluster import Cluster, Cores, Gpus, Hardware, NodeSet, Queue
from scheduler.elastic import entry, join, reconcile, removed_nodes, settings
from scheduler.elastic.cloud import Launch
from scheduler.elastic.settings import LaunchSet, Settings
from scheduler.elastic.slurm import Slurm
from scheduler.elastic.state import State, only_one
from scheduler.elastic.work import Join, Work
from scheduler.files import files, scripts
from scheduler.slurm_conf import PROGRAMS

SIZE = 64
#: The environment in which slurmctld runs programs.
SLURM = ["env", "-i", "setpriv", "--reuid", "slurm", "--regid", "slurm", "--clear-groups"]
HEAD = "10.255.0.1"
#: Settings of Slurm with long waits, which tests do not need -> the settings that replace them.
SHORTER = {
    "SuspendTimeout=120": "SuspendTimeout=8",
    "SuspendTime=60": "SuspendTime=6",
    ",power_save_min_interval=30": ",power_save_interval=1",
}
#: Starts slurmd on a machine, which has its own network, host name and folders; munge's socket is the controller's.
MACHINE = r"""
set -e
hostname $1; mount --make-rprivate /
mkdir -p /tmp/munge.$1; mount --bind /run/munge /tmp/munge.$1
for folder in /run /var/lib/slurm; do mount -t tmpfs tmpfs $folder; done
mkdir -p /run/munge; mount --move /tmp/munge.$1 /run/munge
exec slurmd -D -b --conf-server 10.255.0.1:6820 > /var/log/slurm/$1.log 2>&1
"""

#: Starts sshd on a machine at first boot. Besides its own network, host name and folders, the machine has its own /etc and
#: /usr/local. The machine has no munge key. A script named `systemctl` starts the machine's daemons.
BOOTED = rf"""
set -e
hostname ip-$1; mount --make-rprivate /
{OWN_FOLDERS}
mount -t tmpfs -o mode=755 tmpfs /run
rm -rf /etc/munge/munge.key /etc/slurm
mkdir -p /run/sshd /run/munge /var/log/slurm /var/lib/slurm; chown munge /run/munge /etc/munge
cat > /usr/local/bin/systemctl <<'END'
#!/bin/sh
case "$*" in
  "restart munge") setpriv --reuid munge --regid munge --clear-groups /usr/sbin/munged --num-threads 1 ;;
  "restart slurmd.service")
    setsid $(sed -n 's/^ExecStart=//p' /etc/systemd/system/slurmd.service) -b > /var/log/slurm/slurmd.out 2>&1 < /dev/null & ;;
  "is-active"*) exit 3 ;;
esac
END
printf '#!/bin/sh\n[ "$1" = -n ] && shift; exec "$@"\n' > /usr/local/bin/sudo
chmod 755 /usr/local/bin/systemctl /usr/local/bin/sudo
ssh-keygen -q -t ed25519 -N '' -f /run/host-key
exec /usr/sbin/sshd -D -h /run/host-key -o PermitRootLogin=yes -o StrictModes=no -o UsePAM=no -o PidFile=none \
  -o AuthorizedKeysFile=$2/identity.pub -o "SetEnv=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
  -E /run/sshd.log
"""


class Machines(FakeCloud):
    """The cloud: each machine is a network namespace, in which `boot` starts slurmd."""

    def __init__(self) -> None:
        super().__init__(Steps())
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def _launch(self, wanted: Launch) -> list[str]:
        before = set(self.machines)
        ids = super()._launch(wanted)
        for its in set(self.machines) - before:
            run("ip", "netns", "add", its)
            inner = f"p{its[2:]}"
            run("ip", "link", "add", f"v{its[2:]}", "master", "br0", "up", "type", "veth", "peer", "name", inner)
            run("ip", "link", "set", inner, "netns", its)
            run("ip", "-n", its, "address", "add", f"{self.machines[its].address}/8", "dev", inner)
            run("ip", "-n", its, "link", "set", inner, "up")
            run("ip", "-n", its, "link", "set", "lo", "up")
        return ids

    def power_on(self, machine: str, folder: Path) -> None:
        """Boot a machine that is not a node yet."""
        words = ["nsenter", f"--net=/run/netns/{machine}", "unshare", "--mount", "--uts", "sh", "-c", BOOTED, "sh", machine]
        self.processes[machine] = subprocess.Popen([*words, str(folder)], stdin=subprocess.DEVNULL, start_new_session=True)

    def boot(self, node: str, machine: str, *_: Any) -> str:
        words = ["nsenter", f"--net=/run/netns/{machine}", "unshare", "--mount", "--uts", "sh", "-c", MACHINE, "sh", node]
        self.processes[machine] = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
        return ""

    def die(self, its: str, why: str = "") -> None:
        super().die(its, why)
        process = self.processes.pop(its, None)
        if process:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run(*words: str, check: bool = True) -> str:
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=check, timeout=60).stdout


class Head:
    """The controller; `turn` does what the controller's timer does each time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cloud, self.ahead_s = folder, Machines(), 0.0
        nodes = LaunchSet("gpu", "p5", SIZE, 120, {})
        self.settings = Settings({"gpu/p5": nodes}, {}, {}, {})
        hardware = Hardware(Cores(1, 1, 1), 100, Gpus("h100", 1, "/dev/null"))
        queue = Queue("gpu", [NodeSet("p5", hardware, [], SIZE)], default=True, idle_min=1, start_timeout_s=120)
        cluster = Cluster("busbar", "head", HEAD, [queue], cgroups=False, topology=True, scripts=True)
        for name, text in files(cluster).items():
            for long, short in SHORTER.items():
                text = text.replace(long, short)  # noqa: PLW2901 - one change after the other
            Path("/etc/slurm", name).write_text(text)
        self.names = self.settings.sets["gpu/p5"].nodes
        self.started, self.slurmctld = 0, subprocess.Popen(["true"])
        self.said: list[str] = []
        self.install()
        self.start("-i")

    def start(self, *more: str) -> None:
        self.slurmctld = subprocess.Popen(["slurmctld", "-D", *more], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            if subprocess.run(["sinfo"], capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.1)
        sys.exit("slurmctld does not answer")

    def restart(self) -> None:
        """Stop the controller's daemon as a reboot does, and start it with its saved state."""
        self.slurmctld.terminate()
        self.slurmctld.wait()
        self.start()

    def install(self) -> None:
        for name, text in scripts().items():
            path = Path("/etc/slurm", name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        for path, text in programs.wrappers().items():
            Path(path).write_text(text)
            Path(path).chmod(0o755)
        Path(programs.ARCHIVE).parent.mkdir(parents=True, exist_ok=True)
        Path(programs.ARCHIVE).write_bytes(programs.archive())
        wanted = Path(settings.FOLDER, "wanted")
        wanted.mkdir(parents=True)
        slurm = pwd.getpwnam("slurm")
        os.chown(wanted, slurm.pw_uid, slurm.pw_gid)

    def turn(self) -> None:
        with only_one(f"{settings.FOLDER}/lock") as mine:
            assert mine
            state = State.load(f"{settings.FOLDER}/state.json")
            spool = f"{settings.FOLDER}/wanted"
            clock: Callable[[], float] = lambda: time.time() + self.ahead_s  # noqa: E731
            reach: Join = lambda *_: ""  # noqa: E731
            work = Work(self.settings, state, spool, Slurm(), self.cloud, self.cloud.boot, clock, self.said.append, reach=reach)
            reconcile.once(work)

    def until(self, question: Callable[[], Any], what: str, seconds: float = 60) -> Any:
        """Run `turn` until `question` returns an answer; after a time limit, fail and show Slurm's state."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn()
            found = question()
            if found:
                return found
            time.sleep(0.5)
        shown = run("sinfo", "-R", check=False) + run("sinfo", check=False) + run("squeue", check=False)
        sys.exit("\n".join([f"not within {seconds:.0f} s: {what}", shown, *self.said]))


def states(nodes: Sequence[str]) -> set[str]:
    """Return the states of nodes as `sinfo` shows them."""
    return set(run("sinfo", "-h", "-N", "-n", ",".join(nodes), "-o", "%T").split())


def waiting() -> int:
    return len(list(Path(settings.FOLDER, "wanted").iterdir()))


def tell(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def job(head: Head, nodes: int, command: str, *more: str) -> str:
    out = head.folder / f"job-{time.monotonic_ns()}"
    words = ["sbatch", "--parsable", f"-N{nodes}", "--gres=gpu:1", "-o", str(out), *more, f"--wrap={command}"]
    return run(*words).strip() + f" {out}"


def refusal_of_one_node(head: Head) -> str:
    """Return the refusal of an update that leaves only one node in the set; empty if the update is allowed."""
    fewer = {key: one._replace(dynamic=1) for key, one in head.settings.sets.items()}
    state = State.load(f"{settings.FOLDER}/state.json")
    return removed_nodes.refusal(state, head.settings._replace(sets=fewer), Slurm().states, "aws.allowReplace", 0)


def finished(number: str) -> str:
    return "" if run("squeue", "-h", "-j", number, check=False).strip() else "yes"


def a_whole_cycle(head: Head) -> None:
    number, out = job(head, 4, "srun hostname").split()
    head.until(lambda: finished(number), "a job of 4 nodes has run", 90)
    tell(
        ran=sorted(Path(out).read_text().split()),
        started=head.cloud.started - head.started,
        launches=head.cloud.calls.count("launch"),
        refused=refusal_of_one_node(head),
    )
    head.until(lambda: not head.cloud.running, "the machines of idle nodes have ended")
    head.until(lambda: states(head.names) == {"idle~"}, "all nodes are idle~")
    tell(left=len(head.cloud.running), waiting=waiting())


def no_capacity(head: Head) -> None:
    head.cloud.room, before = 1, head.cloud.calls.count("launch")
    number, out = job(head, 2, "srun hostname").split()
    head.until(lambda: "InsufficientInstanceCapacity" in run("sinfo", "-h", "-R", "-o", "%E|%n"), "the reason is in sinfo -R")
    tell(reasons=run("sinfo", "-h", "-R", "-o", "%E").splitlines())
    head.until(lambda: "PENDING" in run("squeue", "-h", "-j", number, "-o", "%T"), "the job is in the queue again")
    for _ in range(4):
        head.turn()
        time.sleep(0.5)
    tell(launches_then=head.cloud.calls.count("launch") - before, running=len(head.cloud.running))
    head.cloud.room, head.ahead_s = 1000, 601
    head.until(lambda: states(head.names) == {"idle~"}, "the nodes are back after the pause")
    run("scontrol", "update", f"jobid={number}", "starttime=now")
    head.until(lambda: finished(number), "the job has run after all", 90)
    tell(ran_after_all=len(Path(out).read_text().split()))


def capacity_that_begins_and_expires(head: Head) -> None:
    soon, over = "Capacity Block cr-1 begins at 2026-12-01T11:30:00.000Z", "Capacity Block cr-1 is expired"
    before = head.cloud.calls.count("launch")

    def reasons() -> set[str]:
        return {line.strip() for line in run("sinfo", "-h", "-R", "-o", "%200E").splitlines()}

    head.cloud.shut, head.ahead_s = {"gpu/p5": soon}, head.ahead_s + 61
    head.until(lambda: reasons() == {soon}, "the reason is in sinfo -R")
    number, out = job(head, 2, "srun hostname").split()
    for _ in range(6):
        head.turn()
        time.sleep(0.5)
    tell(
        waits=run("squeue", "-h", "-j", number, "-o", "%T").strip(),
        down=sorted(states(head.names)),
        launches=head.cloud.calls.count("launch") - before,
    )
    head.restart()  # the reasons and the waiting job survive a reboot
    tell(after_reboot=sorted(reasons()))
    head.cloud.shut, head.ahead_s = {}, head.ahead_s + 61
    head.until(lambda: finished(number), "the job that waited has run", 120)
    tell(ran=len(Path(out).read_text().split()))
    number, _ = job(head, 2, "srun sleep 60", "--requeue").split()
    head.until(lambda: "RUNNING" in run("squeue", "-h", "-j", number, "-o", "%T"), "another job runs", 90)
    head.cloud.shut, head.ahead_s = {"gpu/p5": over}, head.ahead_s + 61
    head.until(lambda: not head.cloud.running and reasons() == {over}, "the machines have ended, and the reason is shown")
    head.until(lambda: "PENDING" in run("squeue", "-h", "-j", number, "-o", "%T"), "the job is in the queue again")
    run("scancel", number)
    head.cloud.shut, head.ahead_s = {}, head.ahead_s + 61
    head.until(lambda: states(head.names) == {"idle~"}, "all nodes are idle~")


def a_death_in_a_job(head: Head) -> None:
    number, _ = job(head, 2, "srun sleep 60", "--requeue").split()
    # If the machine dies before srun has started the tasks, the job has failed and is not requeued.
    head.until(lambda: f"{number}.0" in run("squeue", "-h", "-s", "-j", number, "-o", "%i"), "a job's tasks run on 2 nodes", 90)
    tell(refused=refusal_of_one_node(head))
    first = run("scontrol", "show", "hostnames", run("squeue", "-h", "-j", number, "-o", "%N").strip()).split()[0]
    state = State.load(f"{settings.FOLDER}/state.json")
    head.cloud.die(state.batch_of(first).machines[first], "Server.SpotInstanceTermination")
    head.ahead_s += 61
    head.until(lambda: "SpotInstanceTermination" in run("sinfo", "-h", "-R", "-o", "%200E"), "the reason is in sinfo -R")
    head.until(lambda: "PENDING" in run("squeue", "-h", "-j", number, "-o", "%T"), "the job is in the queue again")
    tell(died=first, reason=run("sinfo", "-h", "-R", "-o", "%200E").strip())
    run("scancel", number)
    head.ahead_s += 61
    head.until(lambda: not head.cloud.running, "no machine is left")
    head.until(lambda: states(head.names) == {"idle~"}, "all nodes are idle~")


def by_ssh(head: Head) -> Path:
    """From now on, join machines by SSH, as a real cluster does; return the path of known_hosts.

    Over SSH, a machine gets the munge key, the name of its node and slurmd's unit.
    """
    identity, known = head.folder / "identity", head.folder / "known_hosts"
    if not identity.exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(identity))
    given = {"user": "root", "identity": str(identity), "known_hosts": str(known), "controller": HEAD}
    over_ssh, on = join.over_ssh(given), set[str]()

    def boot(node: str, machine: str, *where: Any) -> str:
        if machine not in on:
            on.add(machine)
            head.cloud.power_on(machine, head.folder)
            return "the machine is still booting"
        return over_ssh(node, machine, *where)

    head.cloud.boot = boot  # type: ignore[method-assign]
    return known


def nodes_by_ssh(head: Head) -> None:
    own, known = head.cloud.boot, by_ssh(head)
    number, out = job(head, 2, "srun hostname").split()
    head.until(lambda: finished(number), "a job has run on nodes that joined by SSH", 90)
    tell(ran=sorted(Path(out).read_text().split()), pinned=sorted({line.split()[0] for line in known.read_text().splitlines()}))
    tell(machines=sorted(head.cloud.running))
    head.until(lambda: not head.cloud.running, "the machines of idle nodes have ended")
    head.until(lambda: states(head.names) == {"idle~"}, "all nodes are idle~")
    head.cloud.boot = own  # type: ignore[method-assign]


def the_head_reboots_while_nodes_start(head: Head) -> None:
    head.until(lambda: not head.cloud.running, "the machines of earlier jobs have ended")
    head.until(lambda: states(head.names) == {"idle~"}, "all nodes are idle~")
    own, _ = head.cloud.boot, by_ssh(head)
    number, out = job(head, 2, "srun hostname").split()
    end = time.monotonic() + 30
    while not waiting() and time.monotonic() < end:
        time.sleep(0.2)
    head.cloud.steps.kill_at, head.cloud.steps.after = head.cloud.steps.at + 1, True
    try:
        head.turn()
    except KilledError:
        tell(killed_after="launch", started=len(head.cloud.running))
    head.restart()
    head.until(lambda: finished(number), "a job of 2 nodes has run", 90)
    tell(ran=sorted(Path(out).read_text().split())[:9], machines=head.cloud.started - head.started)
    head.until(lambda: not head.cloud.running, "the machines of idle nodes have ended")
    head.until(lambda: states(head.names) == {"idle~"}, "all nodes are idle~")
    head.cloud.boot = own  # type: ignore[method-assign]


def never_reached(head: Head) -> None:
    boot, head.cloud.boot = head.cloud.boot, lambda *_: "Connection refused"  # type: ignore[method-assign]
    number, _ = job(head, 2, "true").split()
    head.until(lambda: len(head.cloud.running) == 2, "machines run")
    head.ahead_s += 121
    head.until(lambda: "Connection refused" in run("sinfo", "-h", "-R", "-o", "%200E"), "the reason is in sinfo -R")
    head.until(lambda: not head.cloud.running, "no machine is left")
    tell(unreached=run("sinfo", "-h", "-R", "-o", "%200E").strip())
    run("scancel", number)
    head.cloud.boot = boot  # type: ignore[method-assign]
    head.ahead_s += 601
    head.until(lambda: states(head.names) == {"idle~"}, "all nodes are idle~")


def sixty_four(head: Head) -> None:
    before = head.cloud.calls.count("launch")
    began = time.monotonic()
    run(*SLURM, f"{PROGRAMS}/busbar-resume", f"gpu-dy-p5-[1-{SIZE}]")
    tell(resume_s=round(time.monotonic() - began, 2))
    for path in Path(settings.FOLDER, "wanted").iterdir():
        path.unlink()
    number, out = job(head, SIZE, "srun hostname").split()
    head.until(lambda: waiting() or head.cloud.calls.count("launch") > before, "Slurm asks for the nodes")
    head.until(lambda: finished(number), "a job of 64 nodes has run", 180)
    tell(ran=len(set(Path(out).read_text().split())), launches=head.cloud.calls.count("launch") - before)
    ends = head.cloud.calls.count("terminate")
    head.until(lambda: not head.cloud.running, "the machines of idle nodes have ended", 90)
    tell(left=len(head.cloud.running), terminates=head.cloud.calls.count("terminate") - ends)


def a_test_before_the_first_job(head: Head) -> None:
    own = head.settings
    nodes = own.sets["gpu/p5"]._replace(entry_script="/x", entry_timeout_s=60)
    head.settings = own._replace(sets={"gpu/p5": nodes})
    desk = entry.Desk(f"{settings.FOLDER}/{entry.FOLDER}")
    number, out = job(head, 2, "srun hostname").split()
    ((token, _, machines),) = head.until(desk.due, "a test is asked for")
    for _ in range(3):
        head.turn()
    tell(
        meanwhile=run("squeue", "-h", "-j", number, "-o", "%T").strip(), started=len(head.cloud.processes), tested=len(machines)
    )
    first = machines[0][0]
    told = {node: "24 GB/s with gpu-dy-p5-9" for node, _, _ in machines}
    desk.answer(token, entry.Outcome("", {first: "6 GB/s with gpu-dy-p5-9, 20 wanted"}, told))
    head.until(lambda: "6 GB/s" in run("sinfo", "-h", "-R", "-o", "%200E|%n"), "the reason is in sinfo -R")
    head.until(lambda: not head.cloud.running, "the machines have ended")
    shown = run("sinfo", "-h", "-R", "-N", "-o", "%200E|%N").splitlines()
    tell(bad=first, reasons=["|".join(map(str.strip, line.split("|"))) for line in shown])
    head.until(lambda: "PENDING" in run("squeue", "-h", "-j", number, "-o", "%T"), "the job is in the queue again")
    run("scontrol", "update", f"jobid={number}", "starttime=now")
    ((token, _, machines),) = head.until(desk.due, "the job's next machines are tested")
    desk.answer(token, entry.Outcome("", {}, {node: "24 GB/s with gpu-dy-p5-9" for node, _, _ in machines}))
    head.until(lambda: finished(number), "the job has run", 90)
    shown = run("scontrol", "--oneliner", "show", "node", machines[0][0])
    tell(ran=len(Path(out).read_text().split()), again=[node for node, _, _ in machines], shown=shown)
    head.ahead_s += 601
    head.until(lambda: not head.cloud.running, "the machines of idle nodes have ended")
    head.until(lambda: states(head.names) == {"idle~"}, "all nodes are idle~")
    head.settings = own


def two_always_run(head: Head) -> None:
    """Configure two nodes to always run, and restore everything afterwards."""
    own, before, conf = head.settings, head.cloud.started, Path("/etc/slurm/slurm.conf")
    text = conf.read_text()
    kept = head.names[:2]
    conf.write_text(text.replace("ResumeProgram=", f"SuspendExcNodes={','.join(kept)}\nResumeProgram="))
    run("scontrol", "reconfigure")
    head.settings = own._replace(sets={"gpu/p5": own.sets["gpu/p5"]._replace(always_on=2)})
    head.until(lambda: states(kept) == {"idle"}, "both nodes run without any job")
    tell(started=head.cloud.started - before)
    end = time.monotonic() + 20
    while time.monotonic() < end:  # the loop takes longer than SuspendTime
        head.turn()
        time.sleep(1)
    tell(idle_ended=2 - len(head.cloud.running))
    state = State.load(f"{settings.FOLDER}/state.json")
    head.cloud.die(state.batch_of(kept[0]).machines[kept[0]], "Server.InternalError: hardware failed")
    head.ahead_s += 61
    head.until(lambda: "hardware failed" in run("sinfo", "-h", "-R", "-o", "%200E"), "the reason is in sinfo -R")
    head.ahead_s += 61
    head.until(lambda: states(kept) == {"idle"} and len(head.cloud.running) == 2, "the node that died runs again", 90)
    tell(repaired=head.cloud.started - before, calls=head.cloud.calls.count("launch"))
    conf.write_text(text)
    run("scontrol", "reconfigure")
    head.settings = own
    head.until(lambda: not head.cloud.running, "idle nodes are terminated once Slurm's files no longer keep them running")
    head.until(lambda: states(head.names) == {"idle~"}, "all nodes are idle~")


def nodes_of_a_job_near_each_other(head: Head) -> None:
    """Run jobs on two pairs of machines. Each pair is below one switch, and the node numbers of the two pairs alternate."""
    number, _ = job(head, 4, "sleep 1").split()
    head.until(lambda: finished(number), "a job of 4 nodes has run", 90)
    machines = State.load(f"{settings.FOLDER}/state.json").batches.popitem()[1].machines
    pairs = sorted(machines)[::2], sorted(machines)[1::2]
    for spine, pair in zip("ab", pairs, strict=True):
        head.cloud.located.update({machines[node]: ("nn-0", f"nn-{spine}") for node in pair})
    head.ahead_s += 61
    head.until(lambda: "nn_a" in run("scontrol", "show", "topology"), "Slurm knows the switches")
    shown = run("scontrol", "show", "topology").splitlines()
    jobs = [job(head, 2, "srun hostname; sleep 2").split() for _ in pairs]
    for number, _ in jobs:
        head.until(lambda number=number: finished(number), "a job of 2 nodes has run", 60)
    tell(
        pairs=[list(pair) for pair in pairs],
        ran=[sorted(Path(out).read_text().split()) for _, out in jobs],
        switches=[line.split(" ")[::3] for line in shown if "Level=0" in line],
    )
    head.until(lambda: not head.cloud.running, "the machines of idle nodes have ended")
    head.ahead_s += 61
    head.until(lambda: "nn_a" not in run("scontrol", "show", "topology"), "Slurm has forgotten the switches")
    head.until(lambda: states(head.names) == {"idle~"}, "all nodes are idle~")


PARTS = (
    a_whole_cycle,
    nodes_of_a_job_near_each_other,
    two_always_run,
    a_test_before_the_first_job,
    no_capacity,
    capacity_that_begins_and_expires,
    a_death_in_a_job,
    nodes_by_ssh,
    the_head_reboots_while_nodes_start,
    never_reached,
    sixty_four,
)


def main(folder: str, *parts: str) -> None:
    head = Head(Path(folder))
    try:
        for part in (one for one in PARTS if not parts or one.__name__ in parts):
            began, head.started, head.said = time.monotonic(), head.cloud.started, []
            part(head)
            tell(part=part.__name__, seconds=round(time.monotonic() - began, 1), said=head.said)
    finally:
        for its in list(head.cloud.processes):
            head.cloud.die(its)
        head.slurmctld.kill()
        head.slurmctld.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
