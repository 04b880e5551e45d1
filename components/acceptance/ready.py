"""Stage `ready`: first contact with every node. All later stages need it. If it fails, the error names the missing nodes."""

from __future__ import annotations

from typing import Any

import pulumi

from catalogue import Shape
from catalogue.detection import Facts, complete, recognise, remark
from components import remote_scripts
from components.inventory import Cluster, PlannedSet
from components.reach import Head, last_line


class Ready(pulumi.ComponentResource):
    """All nodes answer, have finished their first boot, have all rails up, and have each other's host keys.

    Creates: one Command for all nodes, which runs on the operator's machine, or on the machine that runs kubectl.
    Outputs: `head`, the head node with its pinned host key; `shape`, the catalogue's row if that row is complete (a preview
    knows it then), else what the nodes report; `network`, CIDRs (on Kubernetes, the interface) of the front end.
    """

    head: pulumi.Output[Head]
    shape: pulumi.Output[Shape]
    network: pulumi.Output[str]

    def __init__(
        self, name: str, cluster: Cluster, planned: PlannedSet, timeout_s: int, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("busbar:acceptance:Ready", name, None, opts)
        found = cluster.inventory.apply(lambda inventory: inventory.of(planned.name))
        stdout = cluster.reach.contact(
            f"{name}-contact",
            found.apply(lambda one: one.nodes),
            request(planned, timeout_s),
            found.apply(lambda one: one.identity),
            pulumi.ResourceOptions(parent=self),
        )
        said: pulumi.Output[dict[str, Any]] = stdout.apply(last_line)
        self.head = pulumi.Output.all(found=found, said=said).apply(
            lambda known: Head(known["found"].nodes[0].address, str(known["said"]["host_key"]))
        )
        row = planned.shape
        if row is not None and complete(row, planned.nodes):
            self.shape = pulumi.Output.from_input(row)
        else:
            self.shape = said.apply(lambda line: _shape(line, row, planned.rails))
            self.shape.apply(self._say, run_with_unknowns=True)
        self.network = pulumi.Output.all(given=cluster.reach.network, said=said).apply(
            lambda known: str(known["given"] or ",".join(known["said"]["networks"]))
        )
        self.register_outputs({"shape": self.shape.apply(lambda shape: shape.name)})

    def _say(self, shape: Any) -> None:
        if not isinstance(shape, Shape):
            pulumi.log.info("the shape is detected during the update; shape and prediction are shown then", self)
        elif said := remark(shape):
            pulumi.log.warn(said, self)


def request(planned: PlannedSet, timeout_s: int) -> dict[str, Any]:
    """Return the request for first contact with every node."""
    shape = planned.shape
    ask: dict[str, Any] = {
        "hcas": sorted(shape.rdma.hca) if shape and shape.rdma and planned.nodes > 1 else [],
        "timeout_s": timeout_s,
        "first_boot": planned.first_boot,
    }
    if planned.authenticated:
        ask["authenticated"] = True
    if planned.ask:
        mpi = planned.launcher.homes.mpi if not planned.first_boot else ()
        ask |= {"facts": remote_scripts.read("facts").source, "mpi": list(mpi)}
        if shape is not None:
            ask["row"] = [shape.name, shape.gpus, shape.gpu]
    return ask


def _shape(line: dict[str, Any], row: Shape | None, rails: tuple[str, ...]) -> Shape:
    try:
        return recognise(Facts.read(line["groups"][0]["facts"]), line["count"], row, line["fronts"], rails)
    except ValueError as error:
        raise pulumi.RunError(f"{error}.") from None
