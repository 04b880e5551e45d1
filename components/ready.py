"""First contact as a resource: everything else depends on it, and its failure names who was missing.

It deliberately waits on the nearest machine in one Command, however many nodes there are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pulumi
from pulumi_command import remote

from components import onsite
from components.cluster import Access, Cluster, Node
from components.connection import to_bastion


@dataclass(frozen=True, kw_only=True)
class ReadyArgs:
    """What to wait for.

    Attributes:
        cluster: whose nodes.
        timeout_s: bound on the whole wait.
    """

    cluster: Cluster
    timeout_s: int


class Ready(pulumi.ComponentResource):
    """All nodes answer, have finished their first boot, have all rails up, and know each other's host keys.

    Creates: one Command on the bastion.
    Outputs: `host_keys`, public host key by node name.
    """

    host_keys: pulumi.Output[dict[str, str]]

    def __init__(self, name: str, args: ReadyArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:ready:Ready", name, None, opts)
        rdma = args.cluster.shape.rdma
        hcas = sorted(rdma.hca) if rdma else []

        def program(values: tuple[tuple[Node, ...], Access, str]) -> str:
            nodes, access, identity = values
            machines = [{"name": node.name, "address": node.address} for node in nodes]
            call = onsite.text("gather", nodes=machines, user=access.user, hcas=hcas, timeout_s=args.timeout_s)
            return f"# {identity}\n{call}"  # other machines at the same addresses are another first contact

        known = pulumi.Output.all(args.cluster.nodes, args.cluster.access, args.cluster.identity)
        contact = remote.Command(
            f"{name}-contact",
            connection=args.cluster.access.apply(to_bastion),
            create="python3 -",
            stdin=known.apply(lambda values: program((values[0], values[1], values[2]))),
            logging=remote.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.host_keys = contact.stdout.apply(_host_keys)
        self.register_outputs({"host_keys": self.host_keys})


def _host_keys(stdout: str) -> dict[str, str]:
    line = json.loads(stdout.splitlines()[-1])
    return {node["name"]: node["host_key"] for node in line["nodes"]}
