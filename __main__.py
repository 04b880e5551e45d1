"""The program: read the stack, build the cluster of its target, measure and accept it, export."""

from __future__ import annotations

from functools import partial
from importlib import import_module

import pulumi

from benchmarks.plan.asked import Asked
from benchmarks.records.requests import Keeping
from benchmarks.report import outputs
from components.acceptance.acceptance import Acceptance, AcceptanceArgs
from components.acceptance.build import Source
from components.inventory import Cluster, named
from config import read

stack = read.load()
# A target's provider SDK costs seconds, so only that of this stack's target is imported.
target = import_module(f"components.{stack.target}.cluster")
cluster: Cluster = getattr(target, f"{stack.target.title()}Cluster")("cluster", stack.wanted, stack.measure)
tests = stack.measure.nccl_tests
acceptance = Acceptance(
    "acceptance",
    AcceptanceArgs(
        cluster=cluster,
        planned=named(cluster.planned, stack.pool),
        ask=partial(Asked.of, stack),
        source=Source(version=tests.version, sha256=tests.digest, location=tests.source),
        search_budget_s=stack.measure.search_s,
        keeping=Keeping.of(stack),
        price=stack.records.price,
        ready_timeout_s=stack.measure.ready_timeout_s,
    ),
)

pulumi.export("schema", outputs.SCHEMA)
pulumi.export("target", stack.target)
pulumi.export("nodes", cluster.inventory.apply(lambda inventory: inventory.nodes()))
pulumi.export("ssh", acceptance.ssh)
pulumi.export("known_hosts", acceptance.known_hosts)
pulumi.export("expected", acceptance.expected)
pulumi.export("measured", acceptance.measured)
pulumi.export("readme", acceptance.readme)
