"""Enables monitoring of the nodes: the exporter of RDMA counters on each node, and Prometheus's configuration to scrape it.

Monitoring is no part of the machines' launch settings, and no stage of the acceptance depends on it. So a change of
`monitoring` replaces no machine and repeats no measurement.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import pulumi

from components import remote_scripts
from components.inventory import Cluster, NodeSet
from components.reach import Head
from config.kubernetes.model import Kubernetes
from config.monitoring import Monitoring as Wanted
from config.stack import Stack
from manifests import scrape as scrape_pods


def monitored(name: str, cluster: Cluster, head: pulumi.Output[Head] | None, stack: Stack) -> pulumi.Output[str | None]:
    """Register the resources for `monitoring`; return Prometheus's configuration, None if there is nothing to scrape."""
    wanted = stack.monitoring
    if head is None or (wanted.exporter is None and not wanted.wanted):
        return pulumi.Output.from_input(None)
    return Monitoring(name, cluster, head, stack).scrape


class Monitoring(pulumi.ComponentResource):
    """The exporter on every node of the measured set.

    Creates: one Command on the head node, which installs or removes the exporter on all nodes; none if `monitoring.exporter` is
    null.
    Outputs: `scrape`, a configuration of Prometheus in YAML; None if there is nothing to scrape.
    """

    scrape: pulumi.Output[str | None]

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        head: pulumi.Output[Head],
        stack: Stack,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("busbar:monitoring:Monitoring", name, None, opts)
        wanted = stack.monitoring
        found: pulumi.Output[NodeSet] = cluster.inventory.apply(lambda inventory: inventory.of(stack.pool))
        done = found.apply(lambda one: one.identity)
        if wanted.exporter is not None:
            each = "exporter_in_pod" if stack.target == "kubernetes" else "exporter_on_node"
            programs = _Programs(*map(remote_scripts.read, ("exporter_on_nodes", each, "rdma_exporter")))
            # A new identity triggers this Command, because new machines have no exporter. Changed programs trigger it, too.
            done = cluster.reach.run(
                f"{name}-exporter",
                head=head,
                command=pulumi.Output.from_input(remote_scripts.PYTHON),
                stdin=found.apply(lambda one: programs.sent(one, wanted)),
                triggers=[found.apply(lambda one: one.identity)],
                opts=pulumi.ResourceOptions(parent=self),
            ).stdout
        stack_name = pulumi.get_stack()

        def text(found: NodeSet) -> str:
            if isinstance(stack.wanted, Kubernetes):
                return scrape_pods.scrape(stack.wanted, wanted, stack_name, found.name)
            return scrape(found, wanted)

        self.scrape = pulumi.Output.all(found=found, done=done).apply(
            lambda known: text(known["found"]) if wanted.wanted else None
        )
        self.register_outputs({"scrape": self.scrape})


class _Programs(NamedTuple):
    """The program for the head node, the program for each node (or pod), and the exporter itself."""

    on_nodes: remote_scripts.Program
    on_node: remote_scripts.Program
    exporter: remote_scripts.Program

    def sent(self, found: NodeSet, wanted: Wanted) -> str:
        """Return the program for the head node.

        That program contains the program for each node, which contains the exporter if the exporter is to be installed.
        """
        exporter = self.exporter.source + '\n\nif __name__ == "__main__":\n    main(sys.argv[1:])\n'
        ask = {"exporter": wanted.exporter, "port": wanted.port, "readers": list(wanted.read_from)}
        each = self.on_node.call(program=exporter if wanted.exporter else "", ask=ask)
        nodes = [{"name": node.name, "address": node.address} for node in found.nodes]
        return self.on_nodes.call(nodes=nodes, program=each, there=bool(wanted.exporter))


def scrape(found: NodeSet, wanted: Wanted) -> str:
    """Return a configuration of Prometheus that scrapes the exporters on the nodes, each under its node's name."""
    jobs = {"busbar-rdma": wanted.port} if wanted.exporter else {}
    jobs |= {"dcgm": wanted.dcgm_port} if wanted.dcgm_port is not None else {}
    lines = [line for job, port in jobs.items() for line in _job(job, port, found)]
    return "\n".join(["scrape_configs:", *lines, *_switches(wanted, found), ""])


def _switches(wanted: Wanted, found: NodeSet) -> Iterator[str]:
    """Yield the scrape job of the collectors that query the switches; a collector labels each counter with its switch."""
    if wanted.switches:
        yield "  - job_name: switches"
        yield "    scrape_interval: 15s"
        yield "    static_configs:"
        yield f"      - targets: {json.dumps(list(wanted.switches))}"
        yield f"        labels: {{pool: {json.dumps(found.name)}}}"


def _job(job: str, port: int, found: NodeSet) -> Iterator[str]:
    yield f"  - job_name: {job}"
    yield "    scrape_interval: 15s"
    yield "    static_configs:"
    for node in found.nodes:
        # A JSON string is also a YAML string, whatever characters a name has.
        yield f"      - targets: [{json.dumps(f'{node.address}:{port}')}]"
        yield f"        labels: {{node: {json.dumps(node.name)}, pool: {json.dumps(found.name)}}}"
