"""Build, measure, accept: three Commands, so that a failing gate still leaves its evidence in the outputs.

It deliberately contains no benchmark and no threshold: the runner does the work and `benchmarks.verdict` judges its line.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
from pulumi_command import local, remote

from benchmarks import outputs, pack, plan
from benchmarks.gate import gate
from benchmarks.verdict import PASS, Asked, judge
from catalogue import ImageFamily
from components.cluster import Access, Cluster, Node
from components.connection import to_node
from components.ready import Ready

_BUILD_TIMEOUT_S = 1800
_PACKED = Path(".busbar/build")


@dataclass(frozen=True, kw_only=True)
class Source:
    """The nccl-tests archive: its version, the sha256 that pins it, and a URL or the path of a file here."""

    version: str
    sha256: str
    location: str

    @property
    def is_url(self) -> bool:
        """Whether the head fetches it itself."""
        return self.location.startswith("https://")


@dataclass(frozen=True, kw_only=True)
class SweepArgs:
    """What is measured where.

    Attributes:
        asked: plan, shape, node count and the user's limit.
        source: what is built.
        family: where MPI, CUDA and NCCL lie on the image.
        cluster: the nodes.
        ready: their host keys.
    """

    asked: Asked
    source: Source
    family: ImageFamily
    cluster: Cluster
    ready: Ready


class Sweep(pulumi.ComponentResource):
    """A measured bus bandwidth and its verdict.

    Creates: the runner's and, for an archive here, the source's copy on the head; Commands `build`, `measure`, `accept`.
    Outputs: `found`, the measured part of version 1 by name (GB/s decimal, us); `ssh`, a command for a shell on the head;
    `page`, Markdown.
    """

    found: pulumi.Output[dict[str, Any]]
    ssh: pulumi.Output[str]
    page: pulumi.Output[str]

    def __init__(self, name: str, args: SweepArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:sweep:Sweep", name, None, opts)
        self._mine = pulumi.ResourceOptions(parent=self)
        expected = gate(args.asked.plan, args.asked.shape, args.asked.nodes, minimum_gbps=args.asked.minimum_gbps)
        if pulumi.runtime.is_dry_run():
            pulumi.log.info(outputs.expectation(args.asked, expected.why, expected.limit_gbps), self)
        known = pulumi.Output.all(args.cluster.nodes, args.cluster.access, args.ready.host_keys)
        head = known.apply(lambda values: to_node(values[1], values[0][0].address, values[2][values[0][0].name]))
        runner = pack.digest(pack.runner())
        copies = [
            self._copy(f"{name}-runner", head, args.cluster.identity, _packed_runner(), f"busbar-runner-{runner}.pyz", runner)
        ]
        if not args.source.is_url:
            there, digest = _archive_name(args.source), args.source.sha256
            copies.append(self._copy(f"{name}-source", head, args.cluster.identity, args.source.location, there, digest))
        build = self._command(
            f"{name}-build",
            head,
            runner,
            args.cluster.nodes.apply(lambda nodes: _build_request(nodes, args, runner)),
            args.cluster.identity,
            copies,
        )
        measure = self._command(
            f"{name}-measure",
            head,
            runner,
            pulumi.Output.all(args.cluster.nodes, args.cluster.access, build.stdout, args.cluster.identity).apply(
                lambda values: _measure_request(values[0], values[1], values[2], values[3], args.asked, runner)
            ),
            args.cluster.identity,
            [build],
        )
        # A pure function of two lines. Nothing exported may depend on `accept`: a failed resource takes such outputs along.
        judged = measure.stdout.apply(lambda line: judge(line, args.asked))
        local.Command(
            f"{name}-accept",
            create=judged.apply(lambda found: "cat" if found.verdict == PASS else "cat >&2; exit 1"),
            stdin=judged.apply(outputs.table),
            logging=local.Logging.NONE,  # a pass is shown below, and a failure quotes the table in its error
            add_previous_output_in_env=False,
            opts=self._mine,
        )
        versions = build.stdout.apply(lambda line: dict(json.loads(line)["versions"]))
        self.found = pulumi.Output.all(judged, versions).apply(lambda both: outputs.measured(both[0], both[1]))
        self.ssh = pulumi.Output.all(args.cluster.nodes, args.cluster.access).apply(lambda both: _ssh(both[0][0], both[1]))
        self.page = pulumi.Output.all(judged, self.ssh).apply(lambda both: outputs.page(both[0], both[1]))
        judged.apply(lambda found: pulumi.log.info(f"\n{outputs.table(found)}", self) if found.verdict == PASS else None)
        self.register_outputs({"found": self.found, "ssh": self.ssh})

    def _copy(  # noqa: PLR0913, PLR0917 - one private place where the two copies are alike
        self,
        name: str,
        head: pulumi.Output[remote.ConnectionArgs],
        identity: pulumi.Output[str],
        source: str,
        there: str,
        digest: str,
    ) -> pulumi.Resource:
        """Copy the file `source` to `there` in the head's home.

        A changed connection alone copies nothing: the plugin compares content and path. Other machines are another identity.
        """
        return remote.CopyToRemote(
            name,
            connection=head,
            source=pulumi.FileAsset(source),
            remote_path=there,
            triggers=[digest, identity],
            opts=self._mine,
        )

    def _command(  # noqa: PLR0913, PLR0917 - one private place where the two Commands are alike
        self,
        name: str,
        head: pulumi.Output[remote.ConnectionArgs],
        runner: str,
        request: pulumi.Output[str],
        identity: pulumi.Output[str],
        after: list[pulumi.Resource],
    ) -> remote.Command:
        """Hand `request` to the runner on the head.

        The runner works detached under the request's own hash, so a Command that is cut off, or that runs again for another
        reason than its request, finds the work where it stands.
        """
        return remote.Command(
            name,
            connection=head,
            create=f"python3 busbar-runner-{runner}.pyz run",
            stdin=request,
            triggers=[identity],
            logging=remote.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )


def _packed_runner() -> str:
    """Write the runner where the engine can read it; return its path."""
    data = pack.runner()
    path = _PACKED / f"runner-{pack.digest(data)}.pyz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whole or not at all: two stacks of one checkout may be updated at once.
        fresh = path.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(data)
        fresh.replace(path)
    return str(path)


def _archive_name(source: Source) -> str:
    return f"busbar-nccl-tests-{source.sha256[:16]}.tar"


def _request(kind: str, timeout_s: int, body: dict[str, Any], *reasons: str) -> str:
    """Return a request whose run id is a hash of all that could change its answer."""
    request = {"schema": 1, "kind": kind, "timeout_s": timeout_s, **body}
    text = json.dumps([request, *reasons], sort_keys=True)
    return json.dumps(request | {"run_id": hashlib.sha256(text.encode()).hexdigest()[:16]}, sort_keys=True)


def _machines(nodes: tuple[Node, ...]) -> list[dict[str, str]]:
    return [{"name": node.name, "address": node.address} for node in nodes]


def _build_request(nodes: tuple[Node, ...], args: SweepArgs, runner: str) -> str:
    source = args.source
    origin = {"url": source.location} if source.is_url else {"path": _archive_name(source)}
    body = {
        "nodes": _machines(nodes),
        "program": f"{args.asked.plan.collective}_perf",
        "source": {"version": source.version, "sha256": source.sha256} | origin,
        "homes": {
            "MPI_HOME": args.family.mpi_home,
            "CUDA_HOME": args.family.cuda_home,
            "NCCL_HOME": args.family.nccl_home,
        },
    }
    return _request("build", _BUILD_TIMEOUT_S, body, runner)


def _measure_request(  # noqa: PLR0913, PLR0917 - the values of one Output.all
    nodes: tuple[Node, ...], access: Access, built: str, identity: str, asked: Asked, runner: str
) -> str:
    line = json.loads(built)
    here = f"{line['home']}/.busbar/plans/{asked.plan.digest()[:16]}"
    launch = plan.Launch(
        addresses=tuple(node.address for node in nodes),
        network=access.network,
        mpi_home=line["mpi_home"],
        cuda_home=line["cuda_home"],
        binaries=line["binaries"],
        hostfile=f"{here}/hosts",
        result=f"{here}/result.json",
    )
    body = {
        "nodes": _machines(nodes),
        "collective": asked.plan.collective,
        "gpus": asked.shape.gpus,
        "argv": list(plan.argv(asked.plan, launch, asked.shape)),
        "hostfile": {"path": launch.hostfile, "text": plan.hostfile(launch, asked.shape)},
        "result": launch.result,
    }
    return _request(
        "measure", asked.plan.timeout_s, body, identity, asked.plan.digest(), json.dumps(line["hashes"], sort_keys=True), runner
    )


def _ssh(head: Node, access: Access) -> str:
    """Return a command that a person can paste; the bastion's key must be in their agent or their SSH configuration."""
    jump = f"-J {access.through_user}@{access.through} " if access.through else ""
    return f"ssh {jump}{access.user}@{head.address}"
