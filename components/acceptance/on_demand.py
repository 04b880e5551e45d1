"""Stage `job`, for nodes that Slurm starts: offers the measurement as a job that people submit, and reads its last result.

Nodes that Slurm starts are billed by the hour, so a person starts these nodes, by submitting the job with `sbatch`. An update
itself submits the job only if at least two nodes always run (`alwaysOn`) outside a Capacity Block.
"""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi

from benchmarks.host import pack, requests
from benchmarks.judge import searched
from benchmarks.judge.verdict import judge
from benchmarks.launch import protocol
from benchmarks.plan.asked import Asked
from benchmarks.plan.ranks import Place
from benchmarks.records.requests import with_history
from components.acceptance.build import Archive
from components.acceptance.entry_tests import entry_tests
from components.acceptance.looks import End
from components.acceptance.nonce import nonce
from components.acceptance.records import Records
from components.inventory import PlannedSet
from components.kept_programs import kept
from components.reach import Head, Reach
from config.stack import Stack

#: Name of the job's script; people type this name after `sbatch`.
SCRIPT = "nccl-test.sh"
#: Time limits in seconds for the nccl-tests build in the job: the first without a container image, and the second if the job
#: must first import a container image.
_BUILD_S, _IMAGE_S = 1800, 5400
#: Time for starting the steps and for writing the result; it is a part of the job's time limit.
_ENDS_S = 600
#: A test job makes no search; the judgement gets this line in place of a search's line.
_NOT_SEARCHED = json.dumps({"kind": "search", "again": None, "trials": None})


@dataclass(frozen=True)
class Ended:
    """The last run of the test job: its judgement, and the nodes that it ran on."""

    end: End
    where: Place


class OnDemand(pulumi.ComponentResource):
    """The test job on the controller, ready to be submitted.

    Creates: copies of the runner and (unless its source is a URL) of the nccl-tests archive in a folder that all machines
    share, a Command that writes the script to the same folder, the Commands of `entry_tests`, and a Command that reads the
    result of the job's last run.
    Outputs: `ended`, the last run (None before the first run); `waits`, the reason why there is no run (empty after a run).
    """

    ended: pulumi.Output[Ended | None]
    waits: pulumi.Output[str]

    def __init__(  # noqa: PLR0913 - what it depends on, by name
        self,
        name: str,
        reach: Reach,
        planned: PlannedSet,
        *,
        controller: pulumi.Output[Head],
        asked: Asked,
        archive: Archive,
        attempt: pulumi.Output[int],
        records: Records,
        tested: Sequence[PlannedSet],
        stack: Stack,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("busbar:acceptance:OnDemand", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        folder, data = planned.job_folder, pack.runner()
        digest, runner = pack.digest(data), pack.file_name(data)
        source = archive.source
        if source.path:
            source = source._replace(path=f"{folder}/{source.path}")
        files = {runner: (kept(data, runner), digest), **archive.files}
        copies = [
            reach.copy(
                f"{name}-{'program' if there == runner else 'archive'}",
                head=controller,
                file=path,
                there=f"{folder}/{there}",
                # A new controller may have mounted another file system, which lacks the file.
                triggers=[sha256, controller.apply(lambda head: head.host_key)],
                opts=mine,
            )
            for there, (path, sha256) in files.items()
        ]
        copied = _after(mine, [one for one in copies if one is not None])
        known = pulumi.Output.all(network=reach.network, nonce=nonce(f"{name}-nonce", mine))
        document: pulumi.Output[str] = known.apply(
            lambda its: requests.job(
                asked,
                source,
                planned.launcher.homes,
                network=its["network"] or "",
                keep=folder,
                reasons=[digest, planned.made_of, its["nonce"]],
                container=planned.launcher.container,
            )
        )
        written = reach.run(
            f"{name}-script",
            head=controller,
            command=document.apply(lambda text: _writes(folder, runner, planned, text, runs_s)),
            stdin=document,
            triggers=[],
            opts=copied,
        )
        tests = entry_tests(
            name,
            reach,
            tested,
            stack,
            controller=controller,
            runner=runner,
            source=source,
            opts=copied,
        )
        runs_s = (_IMAGE_S if planned.launcher.container else _BUILD_S) + asked.plan.timeout_s
        limit_s = planned.start_limit_s and planned.start_limit_s + runs_s
        read = reach.run(
            f"{name}-result",
            head=controller,
            command=document.apply(lambda text: _reads(folder, text, planned.name, limit_s)),
            stdin=pulumi.Output.from_input(""),
            # If the plan changes, for example because `measure.run` was raised, this Command reads the newest result.
            triggers=[asked.plan.digest(), attempt],
            opts=_after(mine, [written, *tests]),
        )
        self.waits = read.stdout.apply(requests.refused)
        measured = read.stdout.apply(_measurement)
        placed = pulumi.Output.all(line=read.stdout, network=reach.network)
        where = placed.apply(lambda its: place(its["line"], its["network"] or "", asked))
        earlier = records.look_up(measured, pulumi.Output.from_input(asked), where)
        known = pulumi.Output.all(line=measured, earlier=earlier, where=where)
        self.ended = known.apply(lambda its: ended(asked=asked, **its))
        self.register_outputs({"waits": self.waits})


def _after(opts: pulumi.ResourceOptions, needed: list[Any]) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=needed))


def _measurement(text: str) -> str:
    """Return the measurement's line from the job's line `text`; empty if no job has run."""
    return "" if requests.refused(text) else json.dumps(json.loads(text.splitlines()[-1])["measure"])


def place(text: str, network: str, asked: Asked) -> Place | None:
    """Return where the job that wrote the line `text` ran; None if no job has run."""
    if requests.refused(text):
        return None
    line: dict[str, Any] = json.loads(text.splitlines()[-1])
    nodes = [protocol.Node(str(name), "") for name in line["nodes"]]
    return requests.place(nodes, network, json.dumps(line["build"]), replace(asked, names=tuple(node.name for node in nodes)))


def ended(line: str, earlier: str, where: Place | None, asked: Asked) -> Ended | None:
    """Return the judgement of `line`, the measurement of the job that ran at `where`; None if no job has run."""
    if where is None:
        return None
    found = with_history(replace(asked, names=tuple(node.name for node in where.nodes)), earlier)
    return Ended(End(found, judge(line, found), searched.read(_NOT_SEARCHED)), where)


def submits(folder: str) -> str:
    """Return the command that submits the test job, for a person on the login node."""
    return f"cd {folder} && sbatch {SCRIPT}"


def script(folder: str, runner: str, planned: PlannedSet, document: str, runs_s: float) -> str:
    """Return the job's script; its sbatch options can be overridden on the command line, except the number of nodes.

    Slurm ends the job after `runs_s` and some minutes, so that a job that hangs does not keep its nodes, which are billed.
    """
    asks = {
        "job-name": "nccl-test",
        "partition": planned.launcher.queue,
        "nodes": planned.job_nodes,
        "ntasks-per-node": 1,
        "gres": f"gpu:{planned.shape.gpus if planned.shape else 0}",
        "constraint": planned.name,
        "output": "%x-%j.out",
        "time": math.ceil((runs_s + _ENDS_S) / 60),
    }
    lines = [
        "#!/bin/bash",
        "# Written by busbar: measures the nodes of this job as `pulumi up` measures nodes that always run.",
        *(f"#SBATCH --{name}={value}" for name, value in asks.items()),
        "#SBATCH --exclusive",
        f"exec python3 -IS {folder}/{runner} job {folder}/{document}",
    ]
    return "\n".join(lines) + "\n"


def _writes(folder: str, runner: str, planned: PlannedSet, text: str, runs_s: float) -> str:
    """Return the command that writes the document from stdin and then the script, both atomically."""
    document = f"job-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    body = shlex.quote(script(folder, runner, planned, document, runs_s))
    return (
        f"cd {folder} && cat > {document}.new && mv {document}.new {document} && "
        f"printf %s {body} > {SCRIPT}.new && chmod 755 {SCRIPT}.new && mv {SCRIPT}.new {SCRIPT}"
    )


def _reads(folder: str, text: str, pool: str, limit_s: float) -> str:
    """Return the command that prints the job's line from its file or, if the file is missing, a line that says why.

    If `limit_s` is not 0, the command first submits the job, on the nodes of `pool` that always run, and waits up to `limit_s`
    seconds until the job has ended.
    """
    run_id = json.loads(text)["run_id"]
    why = f"no test job has run yet; on the login node: {submits(folder)}"
    submit = ""
    if limit_s:
        why = f"the test job on the nodes that always run kept no result (time limit {limit_s:.0f} s); its log is in {folder}, "
        why += "and `sinfo -R` on the login node shows which nodes are down and why"
        asks = f"sbatch --parsable --constraint={shlex.quote(f'{pool}&static')} {SCRIPT}"
        # The job has ended if squeue lists nothing, or no longer knows the job. After any other error of squeue, the job may
        # still run. A job that nobody waits for any more is cancelled, because it would block the nodes for other jobs.
        submit = (
            f"cd {folder} && rm -f {run_id}.json && job=$({asks}) && end=$(($(date +%s) + {limit_s:.0f})) && "
            'until said=$(squeue --noheader --jobs="$job" 2>&1) && [ -z "$said" ]; do '
            'case $said in *"Invalid job id"*) break ;; esac; '
            '[ "$(date +%s)" -lt "$end" ] || { scancel "$job"; break; }; sleep 2; done; '
        )
    none = json.dumps(protocol.data(protocol.Refused(run_id, why, "job")), sort_keys=True)
    return f"{submit}cat {folder}/{run_id}.json 2> /dev/null || echo {shlex.quote(none)}"
