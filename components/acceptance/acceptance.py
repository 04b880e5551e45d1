"""A cluster's acceptance: the stages in their order, and the records that a stack exports of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pulumi

from benchmarks.host import requests
from benchmarks.judge import retest
from benchmarks.judge.checks import PASS
from benchmarks.judge.verdict import Judgement, judge
from benchmarks.launch import protocol
from benchmarks.plan.asked import Asked
from benchmarks.plan.ranks import Place
from benchmarks.records import requests as records_requests
from benchmarks.records.requests import Keeping, Kept
from benchmarks.report import outputs, summary
from catalogue import Price, Shape
from components.acceptance.accept import Accept
from components.acceptance.ready import Ready, ReadyArgs
from components.acceptance.records import Records
from components.acceptance.runner import Runner
from components.inventory import Cluster, Node, PlannedSet
from components.reach import last_line


@dataclass(frozen=True, kw_only=True)
class Source:
    """The nccl-tests archive: its version, the sha256 that pins it, and a URL or the path of a local file."""

    version: str
    sha256: str
    location: str

    @property
    def is_url(self) -> bool:
        """Whether the head node fetches it itself."""
        return self.location.startswith("https://")

    @property
    def file_name(self) -> str:
        """Its name in the head node's home folder, where it is copied there."""
        return f"busbar-nccl-tests-{self.sha256[:16]}.tar"

    @property
    def files(self) -> dict[str, tuple[str, str]]:
        """What is copied to the head node: name there -> (local path, sha256)."""
        return {} if self.is_url else {self.file_name: (self.location, self.sha256)}

    def origin(self) -> protocol.Source:
        """Return where the runner takes it from."""
        place = {"url": self.location} if self.is_url else {"path": self.file_name}
        return protocol.Source(self.version, self.sha256, **place)


@dataclass(frozen=True, kw_only=True)
class AcceptanceArgs:
    """What is measured, and what decides.

    Attributes:
        cluster: whose nodes.
        planned: the node set to measure.
        ask: returns what is asked of so many nodes of a shape.
        source: the test programs to build.
        search_budget_s: how long the cause of a short fabric may be looked for; 0 leaves that out.
        keeping: what is kept beside the stack.
        price: what a node costs, where the stack says so.
        ready_timeout_s: bound on first contact.
    """

    cluster: Cluster
    planned: PlannedSet
    ask: Callable[[Shape, int], Asked]
    source: Source
    search_budget_s: int
    keeping: Keeping
    price: Price | None
    ready_timeout_s: int


class Acceptance(pulumi.ComponentResource):
    """A measured bus bandwidth, its verdict, and the cause where it is short.

    Creates: Ready, Runner with the Commands `build`, `measure` and `search`, Records, Accept; only what is expected while the
    node set is empty.
    Outputs: `expected`, what is known before any measurement; `measured`, the record of one measurement, replaced as a whole
    (bandwidths in decimal GB/s, times in us); `ssh` and `known_hosts`, how a person gets onto the head node; `readme`,
    Markdown. None of them depends on Accept, so a failing gate leaves its evidence.
    """

    expected: pulumi.Output[dict[str, Any] | None]
    measured: pulumi.Output[dict[str, Any]]
    ssh: pulumi.Output[str | None]
    known_hosts: pulumi.Output[str | None]
    readme: pulumi.Output[str]

    def __init__(self, name: str, args: AcceptanceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:acceptance:Acceptance", name, None, opts)
        if args.planned.nodes:
            self._accept(name, args)
        else:
            self._postpone(args)
        self.register_outputs({"measured": self.measured})

    def _postpone(self, args: AcceptanceArgs) -> None:
        """Export that nothing is rented, so nothing is measured."""
        planned = args.planned
        why = f"{planned.name} has no nodes yet, so nothing was measured"
        nothing = pulumi.Output.from_input(None)
        self.expected = nothing
        self.measured = pulumi.Output.from_input(outputs.nothing_measured(planned.name, why))
        self.ssh = self.known_hosts = nothing
        self.readme = pulumi.Output.from_input(f"# {why}\n")

    def _accept(self, name: str, args: AcceptanceArgs) -> None:
        mine = pulumi.ResourceOptions(parent=self)
        cluster, planned = args.cluster, args.planned
        ready = Ready(
            f"{name}-ready",
            ReadyArgs(planned=planned, inventory=cluster.inventory, reach=cluster.reach, timeout_s=args.ready_timeout_s),
            mine,
        )
        expects = ready.shape.apply(lambda shape: replace(args.ask(shape, planned.nodes), pool=planned.name))
        self.expected = expects.apply(lambda asked: outputs.expected(asked, args.price))
        if pulumi.runtime.is_dry_run():
            expects.apply(lambda asked: pulumi.log.info(summary.expectation(asked, args.price), self))
        found = cluster.inventory.apply(lambda inventory: inventory.of(planned.name))
        nodes: pulumi.Output[tuple[Node, ...]] = found.apply(lambda one: one.nodes)
        identity: pulumi.Output[str] = found.apply(lambda one: one.identity)
        asked: pulumi.Output[Asked] = pulumi.Output.all(asked=expects, nodes=nodes).apply(
            lambda known: replace(known["asked"], names=tuple(node.name for node in known["nodes"]))
        )
        runner = Runner(
            f"{name}-runner", reach=cluster.reach, head=ready.head, identity=identity, files=args.source.files, opts=mine
        )
        build = runner.run(
            f"{name}-build",
            pulumi.Output.all(nodes=nodes, asked=asked).apply(
                lambda known: requests.build(
                    _machines(known["nodes"]),
                    known["asked"],
                    args.source.origin(),
                    planned.launcher.homes,
                    [runner.digest],
                    planned.launcher.container,
                )
            ),
            [],
            mine,
        )
        # A dataclass: the engine's SDK turns tuples that pass through an output into plain ones.
        where: pulumi.Output[Place] = pulumi.Output.all(
            nodes=nodes, network=ready.network, stdout=build.stdout, asked=asked
        ).apply(
            lambda known: requests.place(
                _machines(known["nodes"]), known["network"], requests.built(known["stdout"]), known["asked"]
            )
        )
        measure = runner.run(
            f"{name}-measure",
            pulumi.Output.all(where=where, asked=asked, identity=identity).apply(
                lambda known: requests.measure(known["where"], known["asked"], [known["identity"], runner.digest])
            ),
            [build],
            mine,
        )
        records = Records(f"{name}-records", args.keeping, mine)
        earlier = records.look_up(
            pulumi.Output.all(line=measure.stdout, asked=asked).apply(
                lambda known: records_requests.look_up(judge(known["line"], known["asked"]), known["asked"], args.keeping)
            )
        )
        # From here on the verdict is a function of what the state holds, so a preview of what is known shows the same one.
        bound: pulumi.Output[Asked] = pulumi.Output.all(asked=asked, answer=earlier).apply(
            lambda known: records_requests.with_history(**known)
        )
        first: pulumi.Output[Judgement] = pulumi.Output.all(line=measure.stdout, asked=bound).apply(
            lambda known: judge(known["line"], known["asked"])
        )
        search = runner.run(
            f"{name}-search",
            pulumi.Output.all(where=where, asked=bound, judged=first).apply(
                lambda known: requests.search(**known, budget_s=args.search_budget_s, reasons=[runner.digest])
            ),
            [measure],
            mine,
        )
        searched: pulumi.Output[dict[str, Any]] = search.stdout.apply(last_line)
        judged: pulumi.Output[Judgement] = pulumi.Output.all(first=first, asked=bound, searched=searched).apply(
            lambda known: retest.settled(**known)
        )
        record = pulumi.Output.all(judged=judged, asked=bound, where=where, searched=searched).apply(
            lambda known: outputs.measured(known["judged"], known["asked"], known["where"].built, known["searched"])
        )
        kept = records.keep(
            pulumi.Output.all(
                judged=judged, asked=bound, where=where, identity=identity, record=record, expected=self.expected
            ).apply(
                lambda known: records_requests.keep(
                    known["judged"],
                    known["asked"],
                    args.keeping,
                    known["identity"],
                    known["where"],
                    outputs.flat(known["expected"], known["record"]),
                    pulumi.get_stack(),
                )
            )
        )
        self.measured = pulumi.Output.all(record=record, kept=kept).apply(
            lambda known: known["record"] | {"certificate": known["kept"].certificate, "report": known["kept"].report}
        )
        self.ssh, self.known_hosts = cluster.reach.shell(ready.head), cluster.reach.known_hosts(ready.head)
        self.readme = pulumi.Output.all(judged=judged, searched=searched, ssh=self.ssh, kept=kept).apply(
            lambda known: summary.page(known["judged"], known["searched"], known["ssh"], known["kept"].changes)
        )
        table = pulumi.Output.all(judged=judged, searched=searched).apply(lambda known: summary.table(**known))
        Accept(
            f"{name}-accept",
            verdict=judged.apply(lambda its: its.verdict),
            table=table,
            after=[self.measured, self.readme],
            opts=mine,
        )
        pulumi.Output.all(judged=judged, table=table, kept=kept).apply(
            lambda known: self._say(known["judged"], known["table"], known["kept"])
        )

    def _say(self, judged: Judgement, table: str, kept: Kept) -> None:
        """Show a pass, and what changed since the run before."""
        if judged.verdict == PASS:
            pulumi.log.info(f"\n{table}", self)
        for change in kept.changes:
            pulumi.log.info(change, self)


def _machines(nodes: tuple[Node, ...]) -> list[protocol.Node]:
    return [protocol.Node(node.name, node.address) for node in nodes]
