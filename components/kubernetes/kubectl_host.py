"""The machine that runs kubectl: the control plane's host over SSH, or the machine that runs Pulumi."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pulumi
from pulumi_command import local, remote

from components.kept_programs import kept
from components.reach import DIAL_ERROR_LIMIT, Machine
from config.kubernetes.model import Kubernetes


class KubectlHost(ABC):
    """The machine that runs kubectl; `named` is what messages call it."""

    named: ClassVar[str]

    @property
    @abstractmethod
    def machines(self) -> tuple[Machine, ...]:
        """The machines on the SSH path, in order; the last machine runs kubectl, and all host keys are pinned."""

    @property
    @abstractmethod
    def _command(self) -> Callable[..., local.Command | remote.Command]:
        """The kind of Command that runs on this machine."""

    def run(  # noqa: PLR0913 - the resource's own arguments, by name
        self,
        name: str,
        *,
        create: pulumi.Input[str],
        stdin: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
        triggers: Sequence[Any] = (),
        delete: str | None = None,
    ) -> local.Command | remote.Command:
        """Register a Command on this machine.

        The update shows the Command's stderr. No run of the Command gets the stdout of the previous run in its environment.
        """
        return self._command(
            name,
            create=create,
            delete=delete,
            stdin=stdin,
            triggers=list(triggers),
            add_previous_output_in_env=False,
            opts=opts,
        )

    @abstractmethod
    def copy(
        self, name: str, *, file: str, there: str, triggers: Sequence[Any], opts: pulumi.ResourceOptions
    ) -> pulumi.Resource | None:
        """Copy the local `file` to this machine, where programs find it as `there`.

        Return None if no resource is needed; then the file is copied at once, even in a preview.
        """

    @abstractmethod
    def shell(self, there: str) -> str:
        """Return the command with which a person runs the command line `there` on this machine, in a terminal."""


@dataclass(frozen=True)
class ControlPlane(KubectlHost):
    """The control plane's host, over SSH, through a jump host if there is one."""

    machine: Machine
    jump: Machine | None
    named = "the control plane's host"

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The jump host and the control plane's host."""
        return (*([self.jump] if self.jump else []), self.machine)

    @property
    def _command(self) -> Callable[..., local.Command | remote.Command]:
        """A Command over SSH."""
        return partial(remote.Command, connection=self._connection, logging=remote.Logging.STDERR)

    def copy(
        self, name: str, *, file: str, there: str, triggers: Sequence[Any], opts: pulumi.ResourceOptions
    ) -> pulumi.Resource | None:
        """Register a copy in the user's home folder."""
        return remote.CopyToRemote(
            name,
            connection=self._connection,
            source=pulumi.FileAsset(file),
            remote_path=there,
            # A new host lacks the file, and a changed connection by itself copies nothing, so the address is a trigger.
            triggers=[*triggers, self.machine.address],
            opts=opts,
        )

    def shell(self, there: str) -> str:
        """Return the ssh command that runs `there` in a terminal."""
        jump = f"-J {self.jump.user}@{self.jump.address} " if self.jump else ""
        return f"ssh -t {jump}{self.machine.user}@{self.machine.address} {shlex.quote(there)}"

    @property
    def _connection(self) -> remote.ConnectionArgs:
        proxy = remote.ProxyConnectionArgs(**_end(self.jump)) if self.jump else None
        return remote.ConnectionArgs(**_end(self.machine), proxy=proxy)


@dataclass(frozen=True)
class Here(KubectlHost):
    """The machine that runs Pulumi; kubeconfig and credentials stay on this machine and never enter a state."""

    named = "this machine"

    @property
    def machines(self) -> tuple[Machine, ...]:
        """No machines: nothing is reached over SSH."""
        return ()

    @property
    def _command(self) -> Callable[..., local.Command | remote.Command]:
        """A local Command."""
        return partial(local.Command, logging=local.Logging.STDERR)

    def copy(
        self,
        name: str,  # noqa: ARG002 - nothing is registered, because the path differs for each operator
        *,
        file: str,
        there: str,
        triggers: Sequence[Any],  # noqa: ARG002
        opts: pulumi.ResourceOptions,  # noqa: ARG002
    ) -> pulumi.Resource | None:
        """Copy `file` at once to the user's cache, where the programs look for the copy."""
        kept(Path(file).read_bytes(), there)
        return None

    def shell(self, there: str) -> str:
        """Return a command that runs `there` in a new local shell; this shell runs the look-ups inside `there`."""
        return f"sh -c {shlex.quote(there)}"


def of(wanted: Kubernetes) -> KubectlHost:
    """Return the machine that runs a stack's kubectl."""
    if wanted.control_plane is None:
        return Here()
    jump = _machine("jump", wanted.jump, wanted) if wanted.jump else None
    return ControlPlane(_machine("control-plane", wanted.control_plane, wanted), jump)


def _machine(name: str, way: str, wanted: Kubernetes) -> Machine:
    user, _, address = way.partition("@")
    return Machine(name, address, user, wanted.host_key(address))


def _end(its: Machine) -> dict[str, Any]:
    return {"host": its.address, "user": its.user, "host_key": its.host_key, "dial_error_limit": DIAL_ERROR_LIMIT}
