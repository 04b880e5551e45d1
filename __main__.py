"""The roof: settings, one cluster, one measurement, exports. No shell, no cloud."""

from __future__ import annotations

import pulumi

import settings
from benchmarks import ceiling, outputs
from benchmarks.verdict import Asked
from components.ready import Ready, ReadyArgs
from components.sweep import Source, Sweep, SweepArgs
from targets import build

wanted = settings.load()
asked = Asked(wanted.plan, wanted.node_shape, wanted.nodes, wanted.minimum_gbps)
cluster = build(wanted)
ready = Ready("ready", ReadyArgs(cluster=cluster, timeout_s=wanted.ready_timeout_minutes * 60))
sweep = Sweep(
    "sweep",
    SweepArgs(
        asked=asked,
        source=Source(version=wanted.nccl_tests_version, sha256=wanted.nccl_tests_sha256, location=wanted.nccl_tests_source),
        family=wanted.family,
        cluster=cluster,
        ready=ready,
    ),
)

pulumi.export("schema", outputs.SCHEMA)
pulumi.export("target", wanted.target)
pulumi.export("shape", wanted.shape)
pulumi.export("predicted_busbw_gbps", ceiling.predicted_gbps(asked.shape, asked.nodes))
pulumi.export("nodes", cluster.nodes.apply(lambda nodes: [{"name": node.name, "address": node.address} for node in nodes]))
pulumi.export("ssh", sweep.ssh)
for name in outputs.MEASURED:
    pulumi.export(name, sweep.found[name])
pulumi.export("readme", sweep.page)
