"""Reach by kubectl on the control plane's host: SSH goes there and no further, and `kubectl exec` goes into the pods."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi_command import remote

from components import remote_scripts
from components.reach import Head, Machine, Ran

#: The interface of a pod's default network; the container runtime gives every pod's that name (CRI).
_FRONT = "eth0"


@dataclass(frozen=True)
class Pods:
    """Reach into the pods of a stack.

    Attributes:
        control_plane: the host that kubectl works on.
        jump: the jump host; None if it is reached directly.
        connection: how a Command gets onto it.
        ask: what every program there is told: kubeconfig, namespace, selector of the pods, rails.
        node: the first node, whose pod is the head.
        files: what was copied to the control plane's host for the head's home folder.
    """

    control_plane: Machine
    jump: Machine | None
    connection: remote.ConnectionArgs
    ask: dict[str, Any]
    node: str
    files: list[str] = field(default_factory=list)

    @property
    def network(self) -> pulumi.Output[str | None]:
        """The default network's interface, for MPI's own traffic: nodes have different networks for their pods."""
        return pulumi.Output.from_input(_FRONT)

    def contact(
        self, name: str, nodes: pulumi.Output[Any], ask: dict[str, Any], salt: pulumi.Output[str], opts: pulumi.ResourceOptions
    ) -> pulumi.Output[str]:
        """Look into the pods of `nodes`; return the JSON line that says what they are. Another `salt` looks again."""
        look = remote_scripts.read("kubernetes_contact")

        def program(nodes: Sequence[Any], salt: str) -> str:
            mine = self.ask | {"facts": ask["facts"], "mpi": ask["mpi"], "host_key": self.control_plane.host_key}
            pods = [{"name": node.name, "address": node.address} for node in nodes]
            return f"# {salt}\n{look.call(nodes=pods, ask=mine)}"

        return remote.Command(
            name,
            connection=self.connection,
            create=f"exec {remote_scripts.PYTHON}",
            stdin=pulumi.Output.all(nodes=nodes, salt=salt).apply(lambda known: program(**known)),
            logging=remote.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=opts,
        ).stdout

    def copy(  # noqa: PLR0913 - a resource's own, by name
        self,
        name: str,
        *,
        head: pulumi.Output[Head],
        file: str,
        there: str,
        triggers: Sequence[Any],
        opts: pulumi.ResourceOptions,
    ) -> pulumi.Resource:
        """Copy the local `file` to the control plane's host; the next run copies it into the pod."""
        self.files.append(there)
        return remote.CopyToRemote(
            name,
            connection=self.connection,
            source=pulumi.FileAsset(file),
            remote_path=there,
            # No pod yet, no copy: the host is not ours before the pods are.
            triggers=[*triggers, head.apply(lambda its: its.address)],
            opts=opts,
        )

    def run(  # noqa: PLR0913 - a resource's own, by name
        self,
        name: str,
        *,
        head: pulumi.Output[Head],  # noqa: ARG002 - the head is the first node's pod
        command: pulumi.Output[str],
        stdin: pulumi.Output[str],
        triggers: Sequence[Any],
        opts: pulumi.ResourceOptions,
    ) -> Ran:
        """Run `command` in the head's pod."""
        files, in_pod = list(self.files), remote_scripts.read("kubernetes_run")

        def words(command: str) -> str:
            ask = {key: self.ask[key] for key in ("kubeconfig", "namespace", "pods")}
            program = in_pod.call(ask=ask | {"node": self.node, "files": files, "command": command})
            return f"exec python3 -IS -c {shlex.quote(program)}"

        return remote.Command(
            name,
            connection=self.connection,
            create=command.apply(words),
            stdin=stdin,
            triggers=list(triggers),
            logging=remote.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=opts,
        )

    def shell(self, head: pulumi.Output[Head]) -> pulumi.Output[str]:
        """Return the command that opens a shell in the head's pod, for a person to paste."""
        jump = f"-J {self.jump.user}@{self.jump.address} " if self.jump else ""
        given = f"--kubeconfig {self.ask['kubeconfig']} " if self.ask["kubeconfig"] else ""
        pod = f"$(kubectl {given}--namespace {self.ask['namespace']} get pods --selector {self.ask['pods']} --output name "
        pod += f"--field-selector spec.nodeName={self.node},status.phase=Running)"
        there = f"kubectl {given}--namespace {self.ask['namespace']} exec --stdin --tty {pod} -- bash"
        way = f"ssh -t {jump}{self.control_plane.user}@{self.control_plane.address} {shlex.quote(there)}"
        return head.apply(lambda _: way)

    def known_hosts(self, head: pulumi.Output[Head]) -> pulumi.Output[str]:
        """Return known_hosts lines with the pinned keys of the machines on the way to the pods."""
        machines = [machine for machine in (self.jump, self.control_plane) if machine]
        return head.apply(lambda _: "\n".join(f"{machine.address} {machine.host_key}" for machine in machines))
