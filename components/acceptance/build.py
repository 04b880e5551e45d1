"""Stage `build`: the runner builds nccl-tests on the head node and copies them to every node."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from benchmarks.host import requests
from benchmarks.launch import protocol
from benchmarks.plan.asked import Asked
from benchmarks.plan.ranks import Place
from components.acceptance.ready import Ready
from components.acceptance.runner import Runner
from components.inventory import Launcher, Node
from components.reach import Ran
from config.measure import NcclTests


@dataclass(frozen=True)
class Archive:
    """The nccl-tests archive: where the runner takes it from, and what is copied to the head node for that.

    Attributes:
        source: version, sha256, and a URL that the head node fetches or a file in its home folder.
        files: name in the head node's home folder -> (local path, sha256); none for a URL.
    """

    source: protocol.Source
    files: dict[str, tuple[str, str]]

    @classmethod
    def of(cls, tests: NcclTests) -> Archive:
        """Return the archive that a stack asks for; a local file is hashed here."""
        sha256 = tests.digest
        if tests.is_url:
            return cls(protocol.Source(tests.version, sha256, url=tests.source), {})
        name = f"busbar-nccl-tests-{sha256[:16]}.tar"
        return cls(protocol.Source(tests.version, sha256, path=name), {name: (str(tests.path), sha256)})


@dataclass(frozen=True)
class Built:
    """A finished build.

    Attributes:
        command: the Command; what needs the programs comes after it.
        place: the nodes, the programs on them, and where MPI, CUDA and NCCL are.
    """

    command: Ran
    place: pulumi.Output[Place]


def build(  # noqa: PLR0913 - what a build depends on, by name
    name: str,
    runner: Runner,
    *,
    ready: Ready,
    nodes: pulumi.Output[tuple[Node, ...]],
    asked: pulumi.Output[Asked],
    archive: Archive,
    launcher: Launcher,
    opts: pulumi.ResourceOptions,
) -> Built:
    """Register the build of what `asked` runs, on the `nodes` that are ready."""

    def request(nodes: tuple[Node, ...], asked: Asked, identity: str) -> str:
        # A new machine may have the name and the address of one that is gone, and it has no programs yet.
        reasons = [identity, runner.digest]
        return requests.build(machines(nodes), asked, archive.source, launcher.homes, reasons, launcher.container)

    def place(nodes: tuple[Node, ...], network: str, stdout: str, asked: Asked) -> Place:
        return requests.place(machines(nodes), network, stdout, asked, launcher.queue, launcher.remote_shell)

    wanted = pulumi.Output.all(nodes=nodes, asked=asked, identity=runner.identity).apply(lambda known: request(**known))
    command = runner.run(name, wanted, [], opts)
    # A dataclass, because the engine's SDK makes plain tuples of named ones that pass through an output.
    known = pulumi.Output.all(nodes=nodes, network=ready.network, stdout=command.stdout, asked=asked)
    return Built(command, known.apply(lambda values: place(**values)))


def machines(nodes: tuple[Node, ...]) -> list[protocol.Node]:
    """Return the nodes as a request names them."""
    return [protocol.Node(node.name, node.address) for node in nodes]
