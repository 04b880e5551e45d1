"""Runs the stages of the acceptance in order, from `ready` to `accept`, and builds the outputs that a stack exports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pulumi

from benchmarks.judge.checks import PASS, UNKNOWN
from benchmarks.launch.protocol import BuildLine
from benchmarks.plan.asked import Asked
from benchmarks.records.requests import Keeping, Kept, Way
from benchmarks.report import outputs
from benchmarks.report.ending import unmeasured
from benchmarks.report.expectation import expectation
from components.acceptance.accept import Accept
from components.acceptance.attempt import attempt, last_measured
from components.acceptance.build import Archive, build
from components.acceptance.looks import End
from components.acceptance.measure import measure
from components.acceptance.on_demand import Ended, OnDemand, submits
from components.acceptance.ready import Ready
from components.acceptance.records import Records, Whole
from components.acceptance.runner import Runner
from components.acceptance.said import Said, said
from components.acceptance.schedule import schedule
from components.acceptance.search import search
from components.inventory import Cluster, Inventory, Node, PlannedSet, named
from components.reach import Head, Reach
from config.stack import Stack


class Acceptance(pulumi.ComponentResource):
    """A measured bus bandwidth, its verdict, and the cause if the bandwidth is short.

    Creates: Ready; Runner with the Commands `build`, `measure` and `search`, and `schedule` if the runner sets up a Slurm
    cluster on the nodes; Records and Accept. If Slurm starts the nodes: OnDemand, Records and Accept. If there are no nodes yet
    and no job may start any: nothing.
    Outputs: `expected`, the values known before any measurement; `measured`, the record of one measurement, always replaced as
    a whole (bandwidths in decimal GB/s, times in us); `ssh` and `known_hosts`, with which a person logs in to the head node,
    or, if Slurm starts the nodes, to the controller; `readme`, Markdown; `head`, the head node as soon as every node is ready
    (None if there are no nodes, or if Slurm starts them). No output depends on Accept, so the outputs keep the evidence if
    Accept fails.
    """

    expected: pulumi.Output[dict[str, Any] | None]
    measured: pulumi.Output[dict[str, Any]]
    ssh: pulumi.Output[str | None]
    known_hosts: pulumi.Output[str | None]
    readme: pulumi.Output[str]
    head: pulumi.Output[Head] | None

    def __init__(self, name: str, cluster: Cluster, stack: Stack, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:acceptance:Acceptance", name, None, opts)
        planned = named(cluster.planned, stack.pool)
        if planned.nodes:
            self._accept(name, cluster, planned, stack)
        elif planned.job_nodes:
            self._await_job(name, cluster, planned, stack)
        else:
            self._postpone(planned)
        self.register_outputs({"measured": self.measured})

    def _postpone(self, planned: PlannedSet) -> None:
        """Export that nothing was measured, because no nodes are rented yet."""
        why = f"{planned.name} has no nodes yet, so nothing was measured"
        nothing = pulumi.Output.from_input(None)
        self.expected = nothing
        self.measured = pulumi.Output.from_input(outputs.nothing_measured(planned.name, why))
        self.ssh = self.known_hosts = nothing
        self.head = None
        self.readme = pulumi.Output.from_input(f"# {why}\n")

    def _await_job(self, name: str, cluster: Cluster, planned: PlannedSet, stack: Stack) -> None:
        """Write the test job, which a user or an update runs, and export the result of its last run."""
        mine, price, shape = pulumi.ResourceOptions(parent=self), stack.records.price, planned.shape
        if shape is None:
            raise pulumi.RunError(f"the shape of {planned.name} is not known, and its nodes do not exist yet")
        asked = Asked.of(stack, shape, planned.job_nodes)
        expected = Whole(outputs.expected(asked, price))
        self.expected = pulumi.Output.from_input(expected).apply(lambda its: its.fields)
        if pulumi.runtime.is_dry_run():
            runs = "these nodes always run" if planned.start_limit_s else "jobs start the nodes that do not always run"
            pulumi.log.info(f"{expectation(asked, price, rents=stack.rents)}\n  runs:     {runs}", self)
        controller = cluster.inventory.apply(_controller)
        records = Records(f"{name}-records", Keeping(stack.target, stack.records), mine)
        last = last_measured()
        number = attempt(last)
        job = OnDemand(
            f"{name}-job",
            cluster.reach,
            planned,
            controller=controller,
            asked=asked,
            archive=Archive.of(stack.measure.nccl_tests),
            attempt=number,
            records=records,
            tested=cluster.planned,
            stack=stack,
            opts=mine,
        )
        end = job.ended.apply(lambda its: its.end if its else None)
        where = job.ended.apply(lambda its: its.where if its else None)

        def record(ended: Ended | None, waits: str, number: int) -> Whole:
            if ended is None:  # marked as refused, so that the next update reads the job's result again
                return Whole(outputs.nothing_measured(planned.name, waits) | {"attempt": number, "refused": True})
            return self._record(ended.end, ended.where.built, number)

        found = pulumi.Output.all(ended=job.ended, waits=job.waits, number=number).apply(lambda known: record(**known))
        flat = pulumi.Output.all(end=end, record=found).apply(
            lambda known: Whole(outputs.flat(expected.fields, known["record"].fields)) if known["end"] else None
        )
        identity = cluster.inventory.apply(lambda inventory: inventory.of(planned.name).identity)
        kept = records.keep(end=end, where=where, identity=identity, outputs=flat, way=_way(cluster.reach, controller))
        self.head = None
        self._conclude(
            name,
            stack,
            cluster.reach,
            head=controller,
            end=end,
            record=found,
            kept=kept,
            last=last,
            waits=job.waits,
            job=submits(planned.job_folder),
            required=bool(planned.start_limit_s),
        )

    def _accept(self, name: str, cluster: Cluster, planned: PlannedSet, stack: Stack) -> None:
        mine, price, rents = pulumi.ResourceOptions(parent=self), stack.records.price, stack.rents
        archive = Archive.of(stack.measure.nccl_tests)
        ready = Ready(f"{name}-ready", cluster, planned, stack.measure.ready_timeout_s, mine)
        self.head = ready.head
        expects = ready.shape.apply(lambda shape: Asked.of(stack, shape, planned.nodes))
        expected = expects.apply(lambda asked: Whole(outputs.expected(asked, price)))
        self.expected = expected.apply(lambda its: its.fields)
        if pulumi.runtime.is_dry_run():
            expects.apply(lambda asked: pulumi.log.info(expectation(asked, price, rents=rents), self))
        found = cluster.inventory.apply(lambda inventory: inventory.of(planned.name))
        nodes: pulumi.Output[tuple[Node, ...]] = found.apply(lambda one: one.nodes)
        identity: pulumi.Output[str] = found.apply(lambda one: one.identity)
        asked: pulumi.Output[Asked] = pulumi.Output.all(asked=expects, nodes=nodes).apply(
            lambda known: replace(known["asked"], names=tuple(node.name for node in known["nodes"]))
        )
        last = last_measured()
        number = attempt(last)
        runner = Runner(f"{name}-runner", cluster.reach, ready.head, identity, number, archive.files, mine)
        records = Records(f"{name}-records", Keeping(stack.target, stack.records), mine)
        built = build(
            f"{name}-build",
            runner,
            ready=ready,
            nodes=nodes,
            asked=asked,
            archive=archive,
            launcher=planned.launcher,
            opts=mine,
        )
        scheduled = []
        if planned.launcher.set_up:
            queue = planned.launcher.queue
            scheduled = [schedule(f"{name}-schedule", runner, nodes=nodes, asked=asked, queue=queue, opts=mine)]
        measured = measure(
            f"{name}-measure",
            runner,
            built=built,
            asked=asked,
            identity=identity,
            records=records,
            after=scheduled,
            opts=mine,
        )
        end = search(f"{name}-search", runner, built=built, measured=measured, budget_s=stack.measure.search_s, opts=mine)
        record = pulumi.Output.all(end=end, where=built.place, number=number).apply(
            lambda known: self._record(known["end"], known["where"].built, known["number"])
        )
        flat = pulumi.Output.all(expected=expected, record=record).apply(
            lambda known: Whole(outputs.flat(known["expected"].fields, known["record"].fields))
        )
        way = _way(cluster.reach, ready.head)
        kept = records.keep(end=end, where=built.place, identity=identity, outputs=flat, way=way)
        self._conclude(name, stack, cluster.reach, head=ready.head, end=end, record=record, kept=kept, last=last)

    def _conclude(  # noqa: PLR0913 - by name
        self,
        name: str,
        stack: Stack,
        reach: Reach,
        *,
        head: pulumi.Output[Head],
        end: pulumi.Output[End | None],
        record: pulumi.Output[Whole],
        kept: pulumi.Output[Kept],
        last: pulumi.Output[dict[str, Any]],
        waits: pulumi.Input[str] = "",
        job: str = "",
        required: bool = False,
    ) -> None:
        """Export and show the result, and fail the update unless the measurement passed.

        If `end` is None, nothing was measured, and `waits` says why. The update then fails only if `required` is true.
        """
        self.measured = pulumi.Output.all(record=record, kept=kept).apply(
            lambda known: known["record"].fields | _beside(known["record"].fields["evidence"], known["kept"])
        )
        self.ssh, self.known_hosts = reach.shell(head), reach.known_hosts(head)
        words = pulumi.Output.all(end=end, waits=waits, ssh=self.ssh, kept=kept).apply(
            lambda its: said(**its, records=stack.records, rents=stack.rents, job=job)
        )
        self.readme = words.apply(lambda its: its.page)
        Accept(
            f"{name}-accept",
            verdict=end.apply(lambda its: its.judged.verdict if its else UNKNOWN if required else PASS),
            headline=words.apply(lambda its: its.headline),
            screen=words.apply(lambda its: its.screen),
            after=[self.measured, self.readme],
            opts=pulumi.ResourceOptions(parent=self),
        )
        known = pulumi.Output.all(end=end, words=words, kept=kept, last=last)
        known.apply(lambda its: self._say(**its))

    @staticmethod
    def _record(end: End, built: BuildLine, number: int) -> Whole:
        return Whole(outputs.measured(end.judged, end.asked, built, end.searched, number))

    def _say(self, end: End | None, words: Said, kept: Kept, last: dict[str, Any]) -> None:
        """Log that the measurement passed, or that nothing was measured.

        Also log that a result was measured before this update, and what changed since the previous run.
        """
        if end is None:
            pulumi.log.info(words.headline, self)
            return
        old = unmeasured(end.judged, last)
        if end.judged.verdict == PASS:
            pulumi.log.info("\n".join(("", words.headline, *old, words.screen)), self)
        elif old:
            pulumi.log.info(old[0], self)
        for change in kept.changes:
            pulumi.log.info(change, self)


def _controller(inventory: Inventory) -> Head:
    if inventory.controller is None:
        raise pulumi.RunError("the cluster has no controller, so no job can start its nodes")
    return Head(inventory.controller.address, inventory.controller.host_key)


def _way(reach: Reach, head: pulumi.Output[Head]) -> pulumi.Output[Way | None]:
    """Return how to read a transcript on `head` over SSH; None if a measurement already copies the transcript elsewhere."""
    if reach.copies_transcripts:
        return pulumi.Output.from_input(None)
    known = pulumi.Output.all(shell=reach.shell(head), known_hosts=reach.known_hosts(head))
    return known.apply(lambda its: Way(its["shell"], its["known_hosts"]))


def _beside(evidence: dict[str, Any] | None, kept: Kept) -> dict[str, Any]:
    """Return the fields of a measurement's record that describe its certificate, its report and its evidence."""
    where = evidence | {"copy": kept.evidence} if evidence else None
    return {"certificate": kept.certificate, "report": kept.report, "evidence": where}
