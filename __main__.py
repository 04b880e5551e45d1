"""The program: configuration, one cluster, one acceptance, exports. No shell, no cloud."""

from __future__ import annotations

import pulumi

import settings
from benchmarks.report import outputs
from components.acceptance.acceptance import Acceptance, AcceptanceArgs, Source
from targets import build

wanted = settings.load()
cluster = build(wanted)
acceptance = Acceptance(
    "acceptance",
    AcceptanceArgs(
        cluster=cluster,
        planned=cluster.planned[0],
        ask=wanted.asked,
        source=Source(version=wanted.nccl_tests_version, sha256=wanted.nccl_tests_sha256, location=wanted.nccl_tests_source),
        search_budget_s=wanted.search_minutes * 60,
        keeping=wanted.keeping,
        price=wanted.own_price,
        ready_timeout_s=wanted.ready_timeout_minutes * 60,
    ),
)

pulumi.export("schema", outputs.SCHEMA)
pulumi.export("target", wanted.target)
pulumi.export("nodes", cluster.inventory.apply(lambda inventory: inventory.nodes()))
pulumi.export("ssh", acceptance.ssh)
pulumi.export("known_hosts", acceptance.known_hosts)
pulumi.export("expected", acceptance.expected)
pulumi.export("measured", acceptance.measured)
pulumi.export("readme", acceptance.readme)
