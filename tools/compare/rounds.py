"""Compare the time to a verdict on the same eight rehearsed hosts: busbar, an Ansible playbook, and a loop of ssh and scp.

    make compare
    BUSY=1 make compare

All three methods do the steps that tools/compare/README.md lists, and run the same commands on the head node. The methods run
in turn, each on hosts that were cleaned up before.
"""

from __future__ import annotations

import json
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.launch import launcher, mpirun, protocol
from tools import half_busy
from tools.stack_changes import settled
from tools.stage import JUMP, ROOT, Finished, standing_hosts

_HOSTS = 8
#: Hosts with four GPUs: with eight each, 64 ranks on a few processors would take longer to start than to measure.
_SHAPE = "BM.GPU.GB200.4"
_JUMP = f"ubuntu@{JUMP}"
_HERE = "/home/ubuntu/compare"
_OURS = Path(__file__).parent
_ANSIBLE = ROOT / ".busbar" / "compare" / "bin" / "ansible-playbook"
#: Removes the files that the three methods leave on a host; line 1 of authorized_keys is the operator's key.
_CLEAN = (
    "sed -i '2,$d' ~/.ssh/authorized_keys; rm -rf ~/.busbar ~/.ansible ~/compare ~/hostlist.txt; "
    "find ~/.ssh -type f ! -name authorized_keys -delete"
)
#: An all-reduce at one size, as in tutorials; the size represents 4 GiB. The all-reduce is repeated, to tell chance from a
#: fault. Two parts of the default plan are left out: the nine other collectives, and the operations that are timed one by one.
#: These parts would take most of the time, and would take equally long with all three methods.
_PLAN: dict[str, Any] = {
    "measure": {
        "collectives": ["all_reduce"],
        "sizes": {"from": "1M", "to": "1M", "othersTo": None},
        "spreadIterations": 0,
        "search": "0 s",
        "looks": 16,
    },
    "accept": {"allowSkipped": ["spread"]},
    "records": {"report": None},  # the other two methods write no report
}
_TRIES = 3
_ROUNDS = ("busbar", "playbook", "loop"), ("loop", "playbook", "busbar"), ("playbook", "busbar", "loop")


class _Bench:
    """Eight running hosts behind a jump host, and the data that the three methods need about them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stage, settings = standing_hosts(folder, _HOSTS, _SHAPE)
        self.addresses = list(settled(settings)["hosts"]["nodes"].values())
        self.settings = _PLAN | settings
        self.config = folder / "ssh_config"
        self.config.write_text(
            f"Host *\n  User ubuntu\n  UserKnownHostsFile {self.stage.world}/operator/known_hosts\n  LogLevel ERROR\n"
            f"Host 10.*\n  ProxyCommand ssh -F {self.config} -W %h:%p {_JUMP}\n"
        )

    def learn(self) -> None:
        """Run the product once, and derive from its requests to the runner what the other methods must run."""
        _timed(self, "a first update, which is not counted", self.busbar)
        state = {one["urn"].rsplit("::", 1)[1]: one for one in self.stage.resources()}
        built = json.loads(state["acceptance-build"]["outputs"]["stdout"])
        request = protocol.load(protocol.Measure, json.loads(state["acceptance-measure"]["inputs"]["stdin"]))
        homes = {"MPI_HOME": built["mpi_home"], "CUDA_HOME": built["cuda_home"], "NCCL_HOME": built["nccl_home"]}
        if homes["MPI_HOME"] == "/usr":
            homes["MPI_HOME"] = "/usr/lib/x86_64-linux-gnu/openmpi"
        words = [f"{key}={value}" for key, value in homes.items()]
        self.limit = float(self.stage.outputs()["measured"]["gate"]["limit_gb_s"])
        self.make = f"make -j $(nproc) MPI=1 {' '.join(words)}"
        (self.folder / "commands.sh").write_text(_commands(request, built["binaries"]))
        (self.folder / "hosts").write_text("".join(f"{address}\n" for address in self.addresses))
        self.steps = len(request.steps)

    def runs_s(self, name: str) -> float:
        """Return how long (s) nccl-tests itself ran in the latest round of method `name`; all methods run the same commands."""
        if name == "busbar":
            state = {one["urn"].rsplit("::", 1)[1]: one for one in self.stage.resources()}
            measured = json.loads(state["acceptance-measure"]["outputs"]["stdout"])
            return sum(float(step["seconds"]) for step in measured["steps"])
        began, ended = _good("times of the runs", self.ssh(self.addresses[0], f"cat {_HERE}/ran")).text.split()[-2:]
        return float(ended) - float(began)

    def clean(self) -> None:
        """Remove from every host the files of a run, and destroy the stack."""
        _good("pulumi destroy", self.stage.destroy())
        for address in self.addresses:
            _good("cleaning", self.ssh(address, _CLEAN))
        _good("cleaning", self.ssh(_JUMP, "rm -rf ~/work ~/.ssh/known_hosts"))

    def ssh(self, address: str, command: str) -> Finished:
        """Run a shell command on a host as the operator; the operator's SSH agent is forwarded only to the jump host."""
        forward = ["-A"] if address == _JUMP else []
        return self.stage.inside("ssh", *forward, "-F", str(self.config), address, command)

    def busbar(self) -> Finished:
        """Run the product's method."""
        return self.stage.up(**self.settings)

    def playbook(self) -> Finished:
        """Run Ansible's method, on the operator's machine."""
        inventory = ["[head]", self.addresses[0], "[nodes]", *self.addresses, "[all:vars]"]
        inventory += ["ansible_user=ubuntu", f"ansible_ssh_common_args=-F {self.config}"]
        (self.folder / "inventory").write_text("\n".join(inventory) + "\n")
        variables = {
            "source": str(ROOT / ".busbar" / "build" / "nccl-tests.tar"),
            "make_words": self.make,
            "here": _HERE,
            "fetched": str(self.folder / "bin.tar"),
            "commands": str(self.folder / "commands.sh"),
            "limit_gb_s": self.limit,
        }
        words = [str(_ANSIBLE), "-i", str(self.folder / "inventory"), "-e", json.dumps(variables), str(_OURS / "playbook.yml")]
        places = [f"ANSIBLE_CONFIG={_OURS / 'ansible.cfg'}", f"ANSIBLE_HOME={self.folder}/ansible"]
        return self.stage.inside("env", *places, *words)

    def loop(self) -> Finished:
        """Run the tutorial's method, on the jump host."""
        words = ["bash", "loop.sh", "hosts", "nccl-tests.tar", self.make, _HERE, "commands.sh", str(self.limit)]
        _good("mkdir on the jump host", self.ssh(_JUMP, "mkdir -p work"))
        given = [_OURS / "loop.sh", ROOT / ".busbar/build/nccl-tests.tar", self.folder / "commands.sh", self.folder / "hosts"]
        _good(
            "files for the jump host",
            self.stage.inside("scp", "-q", "-F", str(self.config), *map(str, given), f"{_JUMP}:work/"),
        )
        return self.ssh(_JUMP, f"cd work && {shlex.join(words)}")


def _commands(request: protocol.Measure, binaries: str) -> str:
    """Return a script that runs the product's commands in the folder of the other methods, and prints the deciding busbw."""
    lines = [
        "#!/bin/bash",
        "set -e",
        "began=$(date +%s.%N)",
        f"mkdir -p {_HERE}/results",
        f"cat >{_HERE}/hosts <<'END'",
        mpirun.hostfile(request.nodes, request.gpus) + "END",
    ]
    for step in request.steps:
        words = [
            word.replace(binaries, f"{_HERE}/bin")
            .replace(request.launch.hostfile, f"{_HERE}/hosts")
            .replace(request.results, f"{_HERE}/results")
            .replace(request.logs, f"{_HERE}/results")
            for word in launcher.command(request.launch, request.nodes, [step.ranks])
        ]
        # Without </dev/null, mpirun would read the rest of the script.
        lines.append(f"{shlex.join(words)} </dev/null >{_HERE}/results/{step.name}.txt")
        if step.decides:
            ranks = len(request.nodes) * step.ranks.per_node
            lines.append(
                'awk \'$1 ~ /^[0-9]+$/ { size = $1; us = $6 } END { printf "BUSBW %.6f\\n", '
                f"size / us / 1e3 * 2 * {ranks - 1} / {ranks} }}' {_HERE}/results/{step.name}.txt"
            )
    lines.append(f'echo "$began $(date +%s.%N)" >{_HERE}/ran')
    return "\n".join(lines) + "\n"


def _good(what: str, finished: Finished) -> Finished:
    if finished.status != 0:
        sys.exit(f"{what} failed: {finished}")
    return finished


def main() -> None:
    """Print all times and the ratios of their medians, for whole methods and for methods without their runs of nccl-tests.

    The runs of nccl-tests are the same in all three methods.
    """
    with tempfile.TemporaryDirectory(prefix="busbar-compare-") as folder, half_busy.half_taken(wanted=half_busy.asked()):
        bench = _Bench(Path(folder))
        try:
            _compare(bench)
        finally:
            bench.stage.close()


def _compare(bench: _Bench) -> None:
    bench.learn()
    ways: dict[str, Callable[[], Finished]] = {"busbar": bench.busbar, "playbook": bench.playbook, "loop": bench.loop}
    times: dict[str, list[float]] = {name: [] for name in ways}
    around: dict[str, list[float]] = {name: [] for name in ways}
    for order in _ROUNDS:
        for name in order:
            times[name].append(_timed(bench, name, ways[name]))
            around[name].append(times[name][-1] - bench.runs_s(name))
    _say("runs of nccl-tests in each", str(bench.steps))
    for name, taken in around.items():
        _say(f"{name}: time outside these runs, median of {len(_ROUNDS)}", f"{statistics.median(taken):.1f} s")
    for what, all_s in (("to the verdict", times), ("outside the runs", around)):
        middle = {name: statistics.median(taken) for name, taken in all_s.items()}
        for name in ("playbook", "loop"):
            _say(f"{name} / busbar {what}, medians of {len(_ROUNDS)}", f"{middle[name] / middle['busbar']:.2f}")


def _timed(bench: _Bench, name: str, way: Callable[[], Finished]) -> float:
    """Return how long (s) a method took in its first run that passed; on a busy machine, some runs may not pass."""
    for tries_left in range(_TRIES)[::-1]:
        bench.clean()
        began = time.monotonic()
        found = way()
        taken_s = time.monotonic() - began
        if found.status == 0 or not tries_left:
            break
        _say(f"{name}: no pass, not counted, repeated", f"{taken_s:.1f} s")
        print(found.text[-800:], file=sys.stderr)  # noqa: T201 - why it was not a pass
    _good(name, found)
    _say(f"{name}: {_HOSTS} hosts, from the first SSH to a verdict", f"{taken_s:.1f} s")
    return taken_s


def _say(name: str, figure: str) -> None:
    print(f"{name:<58} {figure}", flush=True)  # noqa: T201 - printing is its purpose


if __name__ == "__main__":
    main()
