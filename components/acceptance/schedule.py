"""Stage `schedule`: the runner sets up a Slurm cluster. All nodes run jobs, and the head node is also the controller."""

from __future__ import annotations

import pulumi

from benchmarks.host import requests
from benchmarks.plan.asked import Asked
from components.acceptance.build import machines
from components.acceptance.runner import Runner
from components.inventory import Node
from components.reach import Ran


def schedule(  # noqa: PLR0913 - what a cluster depends on, by name
    name: str,
    runner: Runner,
    *,
    nodes: pulumi.Output[tuple[Node, ...]],
    asked: pulumi.Output[Asked],
    queue: str,
    opts: pulumi.ResourceOptions,
) -> Ran:
    """Register the Command that sets up the Slurm cluster of `nodes`; measurements in Slurm jobs depend on the Command."""

    def request(nodes: tuple[Node, ...], asked: Asked, identity: str) -> str:
        return requests.schedule(machines(nodes), asked, queue, [identity, runner.digest])

    wanted = pulumi.Output.all(nodes=nodes, asked=asked, identity=runner.identity).apply(lambda known: request(**known))
    return runner.run(name, wanted, [], opts)
