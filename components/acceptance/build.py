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
    """The nccl-tests archive: its source for the runner, and the file to copy to the head node, if any.

    Attributes:
        source: version, sha256, and either a URL that the head node downloads or the name of a file in its home folder.
        files: name in the head node's home folder -> (local path, sha256); empty if the source is a URL.
    """

    source: protocol.Source
    files: dict[str, tuple[str, str]]

    @classmethod
    def of(cls, tests: NcclTests) -> Archive:
        """Return the archive that a stack asks for, with the sha256 that pins it (`NcclTests.digest`)."""
        sha256 = tests.digest
        if tests.is_url:
            return cls(protocol.Source(tests.version, sha256, url=tests.source), {})
        name = f"busbar-nccl-tests-{sha256[:16]}.tar"
        return cls(protocol.Source(tests.version, sha256, path=name), {name: (str(tests.path), sha256)})


@dataclass(frozen=True)
class Built:
    """A finished build.

    Attributes:
        command: the Command; resources that need the programs depend on it.
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
    """Register the build of the programs that `asked` needs, on `nodes`, which are ready."""

    def request(nodes: tuple[Node, ...], asked: Asked, identity: str) -> str:
        # A new machine may have the name and the address of a deleted machine, but it lacks the programs. So `identity`
        # is part of the request's hash, and replaced machines get a new build.
        reasons = [identity, runner.digest]
        return requests.build(machines(nodes), asked, archive.source, launcher.homes, reasons, launcher.container)

    def place(nodes: tuple[Node, ...], network: str, stdout: str, asked: Asked) -> Place:
        return requests.place(machines(nodes), network, stdout, asked, launcher.queue, launcher.remote_shell)

    wanted = pulumi.Output.all(nodes=nodes, asked=asked, identity=runner.identity).apply(lambda known: request(**known))
    command = runner.run(name, wanted, [], opts)
    # Place is a dataclass, because Pulumi's SDK turns named tuples that pass through an output into plain tuples.
    known = pulumi.Output.all(nodes=nodes, network=ready.network, stdout=command.stdout, asked=asked)
    return Built(command, known.apply(lambda values: place(**values)))


def machines(nodes: tuple[Node, ...]) -> list[protocol.Node]:
    """Return the nodes in the form that requests use."""
    return [protocol.Node(node.name, node.address) for node in nodes]
