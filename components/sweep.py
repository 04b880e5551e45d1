"""Build, measure, search, accept: four Commands, so that a failing gate still leaves its evidence in the outputs.

It deliberately contains no benchmark and no threshold: the runner does the work and `benchmarks.judge.verdict` judges its line.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
from pulumi_command import local, remote

from benchmarks.host import pack, requests
from benchmarks.judge.verdict import PASS, Judgement
from benchmarks.plan.asked import Asked
from benchmarks.records import keeper
from benchmarks.report import outputs, summary
from catalogue import Homes, Price
from catalogue.containers import Container
from components.cluster import Access, Cluster, Node
from components.connection import to_node
from components.ready import Ready

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
        asked: plan, shape, node count and limits; known at preview where the stack names its shape.
        source: what is built.
        homes: where MPI, CUDA and NCCL lie.
        container: image that ranks run in, None where they run on the nodes themselves.
        cluster: the nodes.
        ready: first contact with them: the head's host key, their network.
        search_budget_s: how long the cause of a short fabric may be looked for; 0 leaves that out.
        keeping: what is kept beside the stack.
        price: what a node costs, where the stack itself says so.
    """

    asked: pulumi.Input[Asked]
    source: Source
    homes: Homes
    container: Container | None
    cluster: Cluster
    ready: Ready
    search_budget_s: int
    keeping: keeper.Keeping
    price: Price | None


class Sweep(pulumi.ComponentResource):
    """A measured bus bandwidth, its verdict, and where it is short the cause.

    Creates: the runner's and, for an archive here, the source's copy on the head; Commands `build`, `measure`, `search`,
    `accept`.
    Outputs: `expected`, what is known before any measurement, and `measured`, the measured part of the stack's outputs, both
    by name (GB/s decimal, us); `certificate`, signed, or null; `report`, the page's path, or null; `ssh`, a command for a
    shell on the head; `readme`, Markdown. None of them depends on
    `accept`, for a failed resource takes such outputs along.
    """

    expected: pulumi.Output[dict[str, Any]]
    measured: pulumi.Output[dict[str, Any]]
    certificate: pulumi.Output[dict[str, Any] | None]
    report: pulumi.Output[str | None]
    ssh: pulumi.Output[str]
    readme: pulumi.Output[str]

    def __init__(self, name: str, args: SweepArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:sweep:Sweep", name, None, opts)
        self._mine = pulumi.ResourceOptions(parent=self)
        self._identity = args.cluster.identity
        asked = pulumi.Output.from_input(args.asked)
        self.expected = asked.apply(lambda wanted: outputs.expected(wanted, args.price))
        if pulumi.runtime.is_dry_run():
            asked.apply(lambda wanted: pulumi.log.info(summary.expectation(wanted, args.price), self))
        nodes, access, identity = args.cluster.nodes, args.cluster.access, args.cluster.identity
        known = pulumi.Output.all(nodes, access, args.ready.host_key)
        self._head = known.apply(lambda values: to_node(values[1], values[0][0].address, values[2]))
        self._runner = pack.digest(pack.runner())
        copies = [self._copy(f"{name}-runner", _packed_runner(), f"busbar-runner-{self._runner}.pyz", self._runner)]
        if not args.source.is_url:
            copies.append(self._copy(f"{name}-source", args.source.location, _archive_name(args.source), args.source.sha256))
        wanted = pulumi.Output.all(nodes, asked)
        build = self._command(
            f"{name}-build",
            wanted.apply(
                lambda all_: requests.build(
                    _machines(all_[0]), all_[1], _origin(args.source), args.homes, [self._runner], args.container
                )
            ),
            copies,
        )
        built = build.stdout.apply(_line)
        where = pulumi.Output.all(nodes, args.ready.network, built, asked).apply(
            lambda all_: requests.launch(_machines(all_[0]), all_[1], all_[2], all_[3])
        )
        measure = self._command(
            f"{name}-measure",
            pulumi.Output.all(nodes, where, built, asked, identity).apply(
                lambda all_: requests.measure(_machines(all_[0]), all_[1], all_[2], all_[3], [all_[4], self._runner])
            ),
            [build],
        )
        # A function of lines and of earlier runs, so that a preview of what is known already shows the same verdict.
        looked: pulumi.Output[keeper.Looked] = pulumi.Output.all(measure.stdout, asked).apply(
            lambda both: keeper.looked(both[0], both[1], args.keeping)
        )
        wish = pulumi.Output.all(nodes, where, asked, looked).apply(
            lambda all_: requests.search(
                _machines(all_[0]), all_[1], all_[2], all_[3].judged, args.search_budget_s, [self._runner]
            )
        )
        search = self._command(f"{name}-search", wish, [measure])
        searched = search.stdout.apply(_line)
        kept = pulumi.Output.all(looked, searched, built).apply(lambda all_: _settled(all_[0], all_[1], all_[2], args))
        judged: pulumi.Output[Judgement] = kept.apply(lambda all_: all_.judged)
        self.ssh = pulumi.Output.all(nodes, access).apply(lambda both: _ssh(both[0][0], both[1]))
        self.measured = pulumi.Output.all(judged, built, searched).apply(
            lambda all_: outputs.measured(all_[0], all_[1], all_[2])
        )
        self.certificate = pulumi.Output.all(kept, asked, identity, built, nodes, self.measured).apply(
            lambda all_: keeper.certificate(all_[0], all_[1], args.keeping, all_[2], all_[3], _machines(all_[4]), all_[5])
        )
        self.report = pulumi.Output.all(kept, asked, nodes, self.measured).apply(
            lambda all_: _report(all_[0], all_[1], all_[2], all_[3], args.keeping)
        )
        self.readme = pulumi.Output.all(kept, searched, self.ssh).apply(
            lambda all_: summary.page(all_[0].judged, all_[1], all_[2], all_[0].changes)
        )
        # What is exported is settled before this may fail: the engine keeps only outputs that are known by then.
        exported = pulumi.Output.all(judged, searched, self.measured, self.certificate, self.report, self.readme)
        local.Command(
            f"{name}-accept",
            create=judged.apply(lambda its: "cat" if its.verdict == PASS else "cat >&2; exit 1"),
            stdin=exported.apply(lambda all_: summary.table(all_[0], all_[1])),
            logging=local.Logging.NONE,  # a pass is shown below, and a failure quotes the table in its error
            add_previous_output_in_env=False,
            opts=self._mine,
        )
        pulumi.Output.all(kept, searched).apply(lambda both: self._say(both[0], both[1]))
        self.register_outputs({"verdict": judged.apply(lambda its: its.verdict), "ssh": self.ssh})

    def _say(self, kept: keeper.Kept, searched: dict[str, Any]) -> None:
        """Show a pass, and what changed since the last run."""
        if kept.judged.verdict == PASS:
            pulumi.log.info(f"\n{summary.table(kept.judged, searched)}", self)
        for change in kept.changes:
            pulumi.log.info(change, self)

    def _copy(self, name: str, source: str, there: str, digest: str) -> pulumi.Resource:
        """Copy the file `source` to `there` in the head's home.

        A changed connection alone copies nothing: the plugin compares content and path. Other machines are another identity.
        """
        return remote.CopyToRemote(
            name,
            connection=self._head,
            source=pulumi.FileAsset(source),
            remote_path=there,
            triggers=[digest, self._identity],
            opts=self._mine,
        )

    def _command(self, name: str, request: pulumi.Output[str], after: list[pulumi.Resource]) -> remote.Command:
        """Hand `request` to the runner on the head.

        The runner works detached under the request's own hash, so a Command that is cut off, or that runs again for another
        reason than its request, finds the work where it stands.
        """
        return remote.Command(
            name,
            connection=self._head,
            create=request.apply(self._start),
            stdin=request,
            triggers=[self._identity],
            logging=remote.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )

    def _start(self, request: str) -> str:
        """Return what carries `request` out; one that asks for nothing is its own answer."""
        return f"python3 -IS busbar-runner-{self._runner}.pyz run" if requests.asks(request) else "cat"


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


def _origin(source: Source) -> dict[str, str]:
    place = {"url": source.location} if source.is_url else {"path": _archive_name(source)}
    return {"version": source.version, "sha256": source.sha256} | place


def _machines(nodes: tuple[Node, ...]) -> list[dict[str, str]]:
    return [{"name": node.name, "address": node.address} for node in nodes]


def _settled(looked: keeper.Looked, searched: dict[str, Any], built: dict[str, Any], args: SweepArgs) -> keeper.Kept:
    versions = outputs.versions(looked.judged.line, built)
    return keeper.settled(looked, searched, args.keeping, versions, write=not pulumi.runtime.is_dry_run())


def _report(
    kept: keeper.Kept, asked: Asked, nodes: tuple[Node, ...], measured: dict[str, Any], keeping: keeper.Keeping
) -> str | None:
    whole = measured | outputs.expected(asked, None) | {"target": keeping.target, "nodes": _machines(nodes)}
    return keeper.report(kept, keeping, pulumi.get_stack(), whole, write=not pulumi.runtime.is_dry_run())


def _line(stdout: str) -> dict[str, Any]:
    """Return the one JSON line that a runner prints last."""
    return dict(json.loads(stdout.splitlines()[-1]))


def _ssh(head: Node, access: Access) -> str:
    """Return a command that a person can paste; the bastion's key must be in their agent or their SSH configuration."""
    jump = f"-J {access.through_user}@{access.through} " if access.through else ""
    return f"ssh {jump}{access.user}@{head.address}"
