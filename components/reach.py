"""Runs programs on a cluster's machines and returns the programs' results, over SSH with pinned host keys.

The operator's key stays in an agent. A connection contains neither a private key nor the path of the agent's socket, because
both would enter the state. Besides, the path changes with every session.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

import pulumi
from pulumi_command import local, remote

from components import remote_scripts

#: A Command gives up after this many failed dials. After first contact few dials fail, but a jump host may drop several
#: connections of a burst.
DIAL_ERROR_LIMIT = 30
_T = TypeVar("_T")


@dataclass(frozen=True)
class Machine:
    """A machine that is not a node: where people log in, or where a scheduler runs.

    Attributes:
        name: the machine's name in the outputs.
        address: the address at which the operator reaches the machine.
        user: login user.
        host_key: the machine's public SSH host key, pinned before the first connection.
    """

    name: str
    address: str
    user: str
    host_key: str


@dataclass(frozen=True)
class Access:
    """How the operator's machine reaches the nodes by SSH.

    Attributes:
        user: login user on every node.
        jump: the jump host; None if nodes are reached directly.
        network: CIDR of the nodes' front-end network, which carries SSH and MPI's own traffic; None if the nodes must be asked.
        public_key: the operator's public key; None for machines that the stack did not create. First contact authorizes the key
            on every node, so a change of the key replaces no machine.
    """

    user: str
    jump: Machine | None
    network: str | None
    public_key: str | None = None


@dataclass(frozen=True)
class Head:
    """The head node: the first node of a set, where the runner works."""

    address: str
    host_key: str


class Ran(Protocol):
    """A program that runs as a resource, on which other resources may depend."""

    @property
    def stdout(self) -> pulumi.Output[str]:
        """The program's stdout."""


class Reach(Protocol):
    """A target's way to run programs on its machines."""

    @property
    def network(self) -> pulumi.Output[str | None]:
        """CIDR of the nodes' front-end network (on Kubernetes, the network's interface); None if the nodes must be asked."""

    @property
    def copies_transcripts(self) -> bool:
        """Whether transcripts are copied off the nodes during a measurement."""

    def contact(
        self, name: str, nodes: pulumi.Output[Any], ask: dict[str, Any], salt: pulumi.Output[str], opts: pulumi.ResourceOptions
    ) -> pulumi.Output[str]:
        """Make first contact with `nodes`; return a JSON line with the nodes' facts. A changed `salt` repeats the contact."""

    def copy(  # noqa: PLR0913 - the resource's own arguments, by name
        self,
        name: str,
        *,
        head: pulumi.Output[Head],
        file: str,
        there: str,
        triggers: Sequence[Any],
        opts: pulumi.ResourceOptions,
    ) -> pulumi.Resource | None:
        """Copy the local `file` to the path `there` on the head node; return None if a program that runs later does this.

        A relative path starts in the home folder.
        """

    def run(  # noqa: PLR0913 - the resource's own arguments, by name
        self,
        name: str,
        *,
        head: pulumi.Output[Head],
        command: pulumi.Output[str],
        stdin: pulumi.Output[str],
        triggers: Sequence[Any],
        opts: pulumi.ResourceOptions,
    ) -> Ran:
        """Run `command` on the head node."""

    def shell(self, head: pulumi.Output[Head]) -> pulumi.Output[str]:
        """Return the command that opens a shell on the head node, for a person to paste."""

    def known_hosts(self, head: pulumi.Output[Head]) -> pulumi.Output[str]:
        """Return known_hosts lines with the pinned keys of all machines that a login to the head node connects to."""


@dataclass(frozen=True)
class Ssh:
    """Reach by SSH from the operator's machine, through a jump host if there is one.

    Nodes launch with only the operator's public key, because no other machine logs in to them before first contact. Dynamic
    nodes also launch with the public key of Slurm's controller.
    Host keys that are not pinned are learned on the jump host, over the private network.

    Attributes:
        access: users, jump host and its pinned key.
    """

    access: pulumi.Output[Access]

    @property
    def network(self) -> pulumi.Output[str | None]:
        """CIDR of the nodes' front-end network; None if the nodes must be asked."""
        return self.access.apply(lambda access: access.network)

    @property
    def copies_transcripts(self) -> bool:
        """Whether transcripts are copied off the nodes during a measurement."""
        return False

    def contact(
        self, name: str, nodes: pulumi.Output[Any], ask: dict[str, Any], salt: pulumi.Output[str], opts: pulumi.ResourceOptions
    ) -> pulumi.Output[str]:
        """Make first contact with `nodes`; return a JSON line with the nodes' facts. A changed `salt` repeats the contact."""
        first_contact = remote_scripts.read("first_contact")
        program = pulumi.Output.all(nodes=nodes, access=self.access, salt=salt).apply(
            # New machines with the addresses of old machines need another first contact.
            lambda known: f"# {known['salt']}\n{first_contact.call(**_asked(known['nodes'], known['access'], ask))}"
        )
        return local.Command(
            name,
            create=f"exec {remote_scripts.PYTHON}",
            stdin=program,
            logging=local.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=opts,
        ).stdout

    def copy(  # noqa: PLR0913 - the resource's own arguments, by name
        self,
        name: str,
        *,
        head: pulumi.Output[Head],
        file: str,
        there: str,
        triggers: Sequence[Any],
        opts: pulumi.ResourceOptions,
    ) -> pulumi.Resource:
        """Copy the local `file` to the path `there` on the head node; a relative path starts in the home folder.

        If only the connection changes, the file is not copied again: the plugin compares content and remote path.
        """
        return remote.CopyToRemote(
            name,
            connection=self._to(head),
            source=pulumi.FileAsset(file),
            remote_path=there,
            triggers=list(triggers),
            opts=opts,
        )

    def run(  # noqa: PLR0913 - the resource's own arguments, by name
        self,
        name: str,
        *,
        head: pulumi.Output[Head],
        command: pulumi.Output[str],
        stdin: pulumi.Output[str],
        triggers: Sequence[Any],
        opts: pulumi.ResourceOptions,
    ) -> Ran:
        """Run `command` on the head node."""
        return remote.Command(
            name,
            connection=self._to(head),
            create=command,
            stdin=stdin,
            triggers=list(triggers),
            logging=remote.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=opts,
        )

    def shell(self, head: pulumi.Output[Head]) -> pulumi.Output[str]:
        """Return the command that opens a shell on the head node, for a person to paste.

        The private key that the jump host accepts must be in the person's agent or SSH configuration.
        """

        def command(access: Access, head: Head) -> str:
            jump = f"-J {access.jump.user}@{access.jump.address} " if access.jump else ""
            return f"ssh {jump}{access.user}@{head.address}"

        return self._way(head, command)

    def known_hosts(self, head: pulumi.Output[Head]) -> pulumi.Output[str]:
        """Return known_hosts lines with the pinned keys of all machines that a login to the head node connects to."""

        def lines(access: Access, head: Head) -> str:
            jump = [f"{access.jump.address} {access.jump.host_key}"] if access.jump else []
            return "\n".join([*jump, f"{head.address} {head.host_key}"])

        return self._way(head, lines)

    def _to(self, head: pulumi.Output[Head]) -> pulumi.Output[remote.ConnectionArgs]:
        return self._way(head, _to_node)

    def _way(self, head: pulumi.Output[Head], make: Callable[[Access, Head], _T]) -> pulumi.Output[_T]:
        return pulumi.Output.all(access=self.access, head=head).apply(lambda known: make(known["access"], known["head"]))


def _asked(nodes: Sequence[Any], access: Access, ask: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of first contact with `nodes`."""
    jump = {}
    if access.jump is not None:
        jump = {"jump": {key: value for key, value in asdict(access.jump).items() if key != "name"}}
    machines = [
        {"name": node.name, "address": node.address} | ({"host_key": node.host_key} if node.host_key else {}) for node in nodes
    ]
    accept = {"accept": access.public_key} if access.public_key else {}
    return {"nodes": machines, "ask": {"user": access.user} | ask | accept | jump}


def to_machine(machine: Machine) -> remote.ConnectionArgs:
    """Return the connection to a machine that the operator reaches directly."""
    return remote.ConnectionArgs(**_end(machine), dial_error_limit=DIAL_ERROR_LIMIT)


def _to_node(access: Access, head: Head) -> remote.ConnectionArgs:
    proxy = remote.ProxyConnectionArgs(**_end(access.jump), dial_error_limit=DIAL_ERROR_LIMIT) if access.jump else None
    machine = Machine("head", head.address, access.user, head.host_key)
    return remote.ConnectionArgs(**_end(machine), dial_error_limit=DIAL_ERROR_LIMIT, proxy=proxy)


def _end(machine: Machine) -> dict[str, Any]:
    return {"host": machine.address, "user": machine.user, "host_key": machine.host_key}


def last_line(stdout: str) -> dict[str, Any]:
    """Return the JSON line that a program prints last."""
    return dict(json.loads(stdout.splitlines()[-1]))
