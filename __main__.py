"""The program: read the stack, build the cluster of its target, measure and accept it, and export the outputs."""

# ruff: noqa: E402  garbage collection is disabled first

from __future__ import annotations

import atexit
import gc
from importlib import import_module

# This process runs for a few seconds, and garbage collection took a fifth of that time, mostly while the SDK's modules loaded.
# At exit, Python would search all modules for memory to free, although the kernel frees the memory of a process that exits;
# `gc.freeze` prevents this search.
gc.disable()
atexit.register(gc.freeze)

import pulumi

from benchmarks.plan.passable import unpassable
from benchmarks.records.signing_key import unusable
from benchmarks.report import outputs
from components.acceptance.acceptance import Acceptance
from components.inventory import Cluster
from components.monitoring import monitored
from config import read

#: Exit status of Pulumi's Python executor after an error that has been shown
#: (pulumi: sdk/python/cmd/pulumi-language-python-exec). After any other status the engine adds "an unhandled error occurred",
#: which would then be the last line of a refusal.
_SHOWN = 32


def main() -> None:
    """Register the resources of the stack and export the outputs.

    Raises:
        pulumi.RunError: a refusal, with one sentence for each cause.
    """
    stack = read.load()
    if never := "\n".join([*unpassable(stack), *unusable(stack.records)]):
        raise pulumi.RunError(never)
    # A target's provider SDK takes half a second or more to import, so only the SDK of this stack's target is imported.
    target = import_module(f"components.{stack.target}.cluster")
    cluster: Cluster = getattr(target, f"{stack.target.title()}Cluster")("cluster", stack.wanted, stack.measure)
    acceptance = Acceptance("acceptance", cluster, stack)
    scrape = monitored("monitoring", cluster, acceptance.head, stack)

    pulumi.export("schema", outputs.SCHEMA)
    pulumi.export("target", stack.target)
    pulumi.export("nodes", cluster.inventory.apply(lambda inventory: inventory.nodes()))
    pulumi.export("login_nodes", cluster.inventory.apply(lambda inventory: inventory.login_nodes()))
    pulumi.export("ssh", acceptance.ssh)
    pulumi.export("known_hosts", acceptance.known_hosts)
    pulumi.export("expected", acceptance.expected)
    pulumi.export("measured", acceptance.measured)
    pulumi.export("monitoring", scrape)
    pulumi.export("readme", acceptance.readme)


try:
    main()
except pulumi.RunError as refusal:
    pulumi.log.error(str(refusal))
    raise SystemExit(_SHOWN) from refusal
