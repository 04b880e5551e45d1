"""Builds nccl-tests and measures in the Slurm job that runs this program, on the nodes of the job.

The program runs on the job's first node. It starts commands on the other nodes with `srun` in the same job, in place of ssh, so
no node needs another node's key. The result is kept on a file system that outlives the nodes.
"""

import gzip
import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import time
from typing import Dict, List, Mapping, NamedTuple

from benchmarks.launch import lines, placeholders
from benchmarks.launch.protocol import Build, BuildLine, Job, Measure, Node, data, load
from benchmarks.runner import build, jobs, measure, pyxis_image, slurm_command
from benchmarks.runner.refusal import Refusal

#: Environment variable with the job's nodes; this program sets the variable before it restarts itself.
_NODES = "BUSBAR_JOB_NODES"


class Allocation(NamedTuple):
    """The job that this program runs in: its id and its nodes, first the node that runs this program."""

    job: str
    nodes: List[Node]


def main(path: str) -> int:
    """Do the work that the job's document at `path` describes; return the exit status.

    Raises:
        Refusal: the program does not run in a Slurm job, the job does not have the planned number of nodes, or building or
            measuring is refused.
    """
    with jobs.text(path) as source:
        job = load(Job, json.load(source))
    if placeholders.REMOTE_SHELL not in os.environ:
        _again(allocation(os.environ), job)  # does not return
    nodes = [Node(*each) for each in json.loads(os.environ[_NODES])]
    return work(job, Allocation(os.environ[pyxis_image.JOB], nodes), os.path.dirname(os.environ[placeholders.REMOTE_SHELL]))


def allocation(environment: Mapping[str, str]) -> Allocation:
    """Return the Slurm job that this process runs in.

    Raises:
        Refusal: the process does not run in a job, or Slurm does not answer.
    """
    if "SLURM_JOB_ID" not in environment or "SLURM_JOB_NODELIST" not in environment:
        raise Refusal("this program must run in a Slurm job; submit it with sbatch")
    names = _scontrol("show", "hostnames", environment["SLURM_JOB_NODELIST"]).split()
    addresses = dict(re.findall(r"NodeName=(\S+).*?NodeAddr=(\S+)", _scontrol("--oneliner", "show", "node", ",".join(names))))
    mine = environment.get("SLURMD_NODENAME", names[0])
    ordered = [mine, *(name for name in names if name != mine)]
    return Allocation(environment["SLURM_JOB_ID"], [Node(name, addresses[name]) for name in ordered])


def remote_shell(its: Allocation) -> str:
    """Return the program that replaces ssh: it runs a command on another node of the job. Arguments: ADDRESS COMMAND...

    The program starts the command with `srun`, as a step that has all of the job's resources on that node. The program removes
    Slurm's variables, so that Open MPI does not notice the Slurm job. Otherwise Open MPI would ask Slurm where its ranks are,
    and Slurm would answer with the nodes' names, although busbar's host file has their addresses.
    """
    arms = [f"  {node.address}) node={node.name} ;;" for node in its.nodes]
    unset = 'for name in $(env | sed -n "s/^\\(SLURM[A-Z0-9_]*\\)=.*/\\1/p"); do unset "$name"; done; exec sh -c "$0"'
    return "\n".join(
        [
            "#!/bin/sh",
            f"# Runs a command on another node of job {its.job}: ADDRESS COMMAND...",
            "case $1 in",
            *arms,
            f'  *) echo "$1 is no node of job {its.job}" >&2; exit 255 ;;',
            "esac",
            "shift",
            f'exec srun --jobid={its.job} --overlap --quiet --nodes=1 --ntasks=1 --nodelist="$node" --cpu-bind=none \\',
            f"  sh -c '{unset}' \"$*\"",
            "",
        ]
    )


def _again(its: Allocation, job: Job) -> None:
    """Restart this program with an environment that has the job's nodes and lacks Slurm's variables."""
    if len(its.nodes) != job.nodes:
        raise Refusal(
            f"the test is planned for {job.nodes} nodes, but job {its.job} has {len(its.nodes)}; submit the job without "
            "--nodes, or set testNodes in the stack file"
        )
    shell = os.path.join(jobs.fresh(os.path.join(jobs.root(), "jobs", its.job)), "shell")
    _lay(its, shell)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    kept.update({placeholders.REMOTE_SHELL: shell, _NODES: json.dumps(its.nodes), pyxis_image.JOB: its.job})
    os.execve(sys.executable, [sys.executable, "-IS", *sys.argv], kept)  # noqa: S606 - this program itself


def _lay(its: Allocation, shell: str) -> None:
    """Put ssh's replacement on every node, where Open MPI's daemons look for it. This works with shared home folders, too."""
    folder, count = shlex.quote(os.path.dirname(shell)), str(len(its.nodes))
    own, there = shlex.quote(shell) + ".$$.$SLURM_NODEID", shlex.quote(shell)
    takes = f"umask 077 && mkdir -p {folder} && cat > {own} && chmod 700 {own} && mv {own} {there}"
    words = ["srun", "--overlap", "--quiet", "--nodes", count, "--ntasks", count, "--ntasks-per-node", "1", "sh", "-c", takes]
    slurm_command.said(words, "srun does not reach the job's nodes", remote_shell(its).encode())


def work(job: Job, its: Allocation, here: str) -> int:
    """Build, measure, print what nccl-tests printed, and keep the result."""
    nodes = {placeholders.name(number): node.name for number, node in enumerate(its.nodes)}
    nodes.update({placeholders.address(number): node.address for number, node in enumerate(its.nodes)})
    asked = load(Build, placeholders.filled(data(job.build), nodes))
    built = build.work(asked, here, _say)
    line = measure.work(measurement(job, built, nodes)._replace(run_id=_run(job, its)), here, _say)
    _show(line, job.measure.deciding)
    share(job, line)
    kept = lines.JobLine(job.run_id, its.job, [node.name for node in its.nodes], built, line)
    _keep(job, json.dumps(data(kept), sort_keys=True))
    return 0


def _run(job: Job, its: Allocation) -> str:
    """Return an id that no other run has.

    All runs of one job document share `job.run_id`, and Slurm may use a job's id again.
    """
    return hashlib.sha256(f"{job.run_id} {its.job} {time.time()}".encode()).hexdigest()[:16]


def measurement(job: Job, built: BuildLine, nodes: Dict[str, str]) -> Measure:
    """Return the measurement with its placeholders filled in: the nodes, and the folders that the build found."""
    found = load(Measure, placeholders.filled(data(job.measure), {**nodes, **placeholders.built(built)}))
    if built.container:
        found = found._replace(launch=found.launch._replace(start=built.container.start))
    # The entry `image` is left out: it has the sha256 of the container image, which is no file in the folder of the programs.
    return found._replace(programs={name: hashed for name, hashed in built.hashes.items() if name != "image"})


def _show(line: Dict[str, object], deciding: str) -> None:
    """Print the deciding step's output: nccl-tests' well-known table, with the busbw."""
    evidence = line["evidence"]
    with gzip.open(evidence["path"]) as source:  # type: ignore[index]
        text = source.read().decode("utf-8", "replace")
    steps = re.split(r"^# busbar step (\S+)\n", text, flags=re.MULTILINE)
    for name, printed in zip(steps[1::2], steps[2::2]):
        if name == deciding:
            print(printed, flush=True)


def share(job: Job, line: Dict[str, object]) -> None:
    """Copy the transcript to the folder that all machines share, as this node may be deleted; put the copy's path in `line`."""
    evidence = line["evidence"]
    path = os.path.join(job.keep, os.path.basename(evidence["path"]))  # type: ignore[index]
    try:
        shutil.copyfile(evidence["path"], path)  # type: ignore[index]
    except OSError as error:
        _say(f"the transcript stays on this node ({error})")
    else:
        line["evidence"] = dict(evidence, path=path)  # type: ignore[call-overload]


def _keep(job: Job, text: str) -> None:
    if len(text.encode()) > 2 * jobs.LINE_LIMIT_BYTES:
        raise Refusal("the result of the job is too long to be kept")
    path = os.path.join(job.keep, job.run_id + ".json")
    try:
        jobs.write(path, text)
    except OSError as error:
        _say(f"the result is not kept for the next update ({error}); only the results of the login user's jobs are kept")
    else:
        _say(f"the result is kept; the next `pulumi up` exports it ({path})")


def _say(text: str) -> None:
    print(text.rstrip("\n"), flush=True)


def _scontrol(*words: str) -> str:
    return slurm_command.said(["scontrol", *words], "Slurm does not say which nodes the job has")
