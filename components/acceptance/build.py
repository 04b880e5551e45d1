"""Stage `build`: the runner builds nccl-tests on the head node and copies them to every node."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from benchmarks.host import requests
from benchmarks.launch import protocol
from benchmarks.plan.asked import Asked
from benchmarks.plan.ranks import Place
from components.acceptance.runner import Runner
from components.inventory import Launcher, Node
from components.reach import Ran


@dataclass(frozen=True, kw_only=True)
class Source:
    """The nccl-tests archive: its version, the sha256 that pins it, and a URL or the path of a local file."""

    version: str
    sha256: str
    location: str

    @property
    def is_url(self) -> bool:
        """Whether the head node fetches it itself."""
        return self.location.startswith("https://")

    @property
    def file_name(self) -> str:
        """Its name in the head node's home folder, where it is copied there."""
        return f"busbar-nccl-tests-{self.sha256[:16]}.tar"

    @property
    def files(self) -> dict[str, tuple[str, str]]:
        """What is copied to the head node: name there -> (local path, sha256)."""
        return {} if self.is_url else {self.file_name: (self.location, self.sha256)}

    def origin(self) -> protocol.Source:
        """Return where the runner takes it from."""
        place = {"url": self.location} if self.is_url else {"path": self.file_name}
        return protocol.Source(self.version, self.sha256, **place)


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
    nodes: pulumi.Output[tuple[Node, ...]],
    network: pulumi.Output[str],
    asked: pulumi.Output[Asked],
    source: Source,
    launcher: Launcher,
    opts: pulumi.ResourceOptions,
) -> Built:
    """Register the build of what `asked` runs, on `nodes`."""

    def request(nodes: tuple[Node, ...], asked: Asked) -> str:
        origin, homes, reasons = source.origin(), launcher.homes, [runner.digest]
        return requests.build(_machines(nodes), asked, origin, homes, reasons, launcher.container)

    def place(nodes: tuple[Node, ...], network: str, stdout: str, asked: Asked) -> Place:
        return requests.place(_machines(nodes), network, requests.built(stdout), asked)

    wanted = pulumi.Output.all(nodes=nodes, asked=asked).apply(lambda known: request(**known))
    command = runner.run(name, wanted, [], opts)
    # A dataclass, because the engine's SDK makes plain tuples of named ones that pass through an output.
    known = pulumi.Output.all(nodes=nodes, network=network, stdout=command.stdout, asked=asked)
    return Built(command, known.apply(lambda values: place(**values)))


def _machines(nodes: tuple[Node, ...]) -> list[protocol.Node]:
    return [protocol.Node(node.name, node.address) for node in nodes]
