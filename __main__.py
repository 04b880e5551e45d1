"""The program: read the stack, build the cluster of its target, measure and accept it, export."""

from __future__ import annotations

from importlib import import_module

import pulumi

from benchmarks.plan.asked import Asked
from benchmarks.records.keeper import Keeping
from benchmarks.report import outputs
from components.cluster import Cluster
from components.ready import Ready, ReadyArgs
from components.sweep import Source, Sweep, SweepArgs
from config import read

stack = read.load()
# A target's provider SDK costs seconds, so only that of this stack's target is imported.
target = import_module(f"components.{stack.target}.cluster")
cluster: Cluster = getattr(target, f"{stack.target.title()}Cluster")("cluster", stack.wanted, stack.measure)

pulumi.export("schema", outputs.SCHEMA)
pulumi.export("target", stack.target)
pulumi.export("nodes", cluster.nodes.apply(lambda nodes: [{"name": node.name, "address": node.address} for node in nodes]))

if cluster.size:
    ready = Ready("ready", ReadyArgs(cluster=cluster, timeout_s=stack.measure.ready_timeout_s))
    tests = stack.measure.nccl_tests
    sweep = Sweep(
        "sweep",
        SweepArgs(
            asked=ready.shape.apply(lambda shape: Asked.of(stack, shape, cluster.size)),
            source=Source(version=tests.version, sha256=tests.digest, location=tests.source),
            homes=stack.homes,
            container=stack.ranks_run_in,
            cluster=cluster,
            ready=ready,
            search_budget_s=stack.measure.search_s,
            keeping=Keeping.of(stack),
            price=stack.records.price,
        ),
    )
    pulumi.export("ssh", sweep.ssh)
    for name in outputs.EXPECTED:
        pulumi.export(name, sweep.expected[name])
    for name in outputs.MEASURED:
        pulumi.export(name, sweep.measured[name])
    pulumi.export("certificate", sweep.certificate)
    pulumi.export("report", sweep.report)
    pulumi.export("readme", sweep.readme)
