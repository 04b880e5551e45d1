"""The roof: settings, one cluster, one measurement, exports. No shell, no cloud."""

from __future__ import annotations

import pulumi

import settings
from benchmarks.report import outputs
from components.ready import Ready, ReadyArgs
from components.sweep import Source, Sweep, SweepArgs
from targets import build

wanted = settings.load()
cluster = build(wanted)
ready = Ready("ready", ReadyArgs(cluster=cluster, timeout_s=wanted.ready_timeout_minutes * 60))
asked = ready.shape.apply(lambda shape: wanted.asked(shape, cluster.size))
sweep = Sweep(
    "sweep",
    SweepArgs(
        asked=asked,
        source=Source(version=wanted.nccl_tests_version, sha256=wanted.nccl_tests_sha256, location=wanted.nccl_tests_source),
        homes=wanted.homes,
        container=wanted.image_of_ranks,
        cluster=cluster,
        ready=ready,
        search_budget_s=wanted.search_minutes * 60,
        keeping=wanted.keeping,
        price=wanted.own_price,
    ),
)

pulumi.export("schema", outputs.SCHEMA)
pulumi.export("target", wanted.target)
pulumi.export("nodes", cluster.nodes.apply(lambda nodes: [{"name": node.name, "address": node.address} for node in nodes]))
pulumi.export("ssh", sweep.ssh)
for name in outputs.EXPECTED:
    pulumi.export(name, sweep.expected[name])
for name in outputs.MEASURED:
    pulumi.export(name, sweep.measured[name])
pulumi.export("certificate", sweep.certificate)
pulumi.export("report", sweep.report)
pulumi.export("readme", sweep.readme)
