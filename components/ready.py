"""First contact as a resource: everything else depends on it, and its failure names who was missing.

It deliberately waits on the nearest machine in one Command, however many nodes there are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_command import local, remote

from catalogue import Shape
from catalogue.detection import Facts, complete, recognise
from components import onsite
from components.cluster import Access, Cluster, Contact, Node
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

    Creates: one Command, on the bastion or on the operator's machine.
    Outputs: `host_key`, the head's public host key; `shape`, the catalogue's row or what the machines say of themselves
    (known at preview where the stack names a whole row); `network`, CIDRs of the front end with commas.
    """

    host_key: pulumi.Output[str]
    shape: pulumi.Output[Shape]
    network: pulumi.Output[str]

    def __init__(self, name: str, args: ReadyArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:ready:Ready", name, None, opts)
        cluster = args.cluster
        known = pulumi.Output.all(cluster.nodes, cluster.access, cluster.identity)
        program = known.apply(lambda values: _program(values[0], values[1], values[2], cluster, args.timeout_s))
        self._mine = pulumi.ResourceOptions(parent=self)
        contact = self._here(name, program) if not cluster.contact.on_bastion else self._there(name, program, cluster.access)
        said: pulumi.Output[dict[str, Any]] = contact.stdout.apply(_line)
        self.host_key = said.apply(lambda line: str(line["host_key"]))
        row = cluster.shape
        if row is not None and complete(row, cluster.size):
            self.shape = pulumi.Output.from_input(row)
        else:
            self.shape = said.apply(lambda line: _shape(line, row))
            self.shape.apply(self._say, run_with_unknowns=True)
        if cluster.contact.ask:
            both = pulumi.Output.all(cluster.access, said)
            self.network = both.apply(lambda values: values[0].network or ",".join(values[1]["networks"]))
        else:
            self.network = cluster.access.apply(lambda access: str(access.network))
        self.register_outputs({"host_key": self.host_key})

    def _there(self, name: str, program: pulumi.Output[str], access: pulumi.Output[Access]) -> remote.Command:
        return remote.Command(
            f"{name}-contact",
            connection=access.apply(to_bastion),
            create=onsite.PYTHON,
            stdin=program,
            logging=remote.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=self._mine,
        )

    def _here(self, name: str, program: pulumi.Output[str]) -> local.Command:
        return local.Command(
            f"{name}-contact",
            create=f"exec {onsite.PYTHON}",
            stdin=program,
            logging=local.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=self._mine,
        )

    def _say(self, shape: Any) -> None:
        if not isinstance(shape, Shape):
            pulumi.log.info("the machines have not been asked yet what they are; the update says shape and prediction", self)


def _program(nodes: tuple[Node, ...], access: Access, identity: str, cluster: Cluster, timeout_s: int) -> str:
    contact: Contact = cluster.contact
    ask: dict[str, Any] = {
        "user": access.user,
        "hcas": sorted(cluster.shape.rdma.hca) if cluster.shape and cluster.shape.rdma and cluster.size > 1 else [],
        "timeout_s": timeout_s,
        "first_boot": contact.first_boot,
    }
    if contact.ask:
        ask |= {"facts": onsite.source("facts"), "mpi": list(contact.mpi)}
        if cluster.shape is not None:
            ask["row"] = [cluster.shape.name, cluster.shape.gpus, cluster.shape.gpu]
    if not contact.on_bastion and access.through is not None:
        ask["jump"] = {"user": access.through_user, "address": access.through, "host_key": access.through_host_key}
    call = onsite.text("gather", nodes=[_machine(node) for node in nodes], ask=ask)
    return f"# {identity}\n{call}"  # other machines at the same addresses are another first contact


def _machine(node: Node) -> dict[str, str]:
    return {"name": node.name, "address": node.address} | ({"host_key": node.host_key} if node.host_key else {})


def _line(stdout: str) -> dict[str, Any]:
    return dict(json.loads(stdout.splitlines()[-1]))


def _shape(line: dict[str, Any], row: Shape | None) -> Shape:
    try:
        return recognise(Facts.read(line["groups"][0]["facts"]), line["count"], row, line["fronts"])
    except ValueError as error:
        raise pulumi.RunError(f"{error}.") from None
