"""Reaches pods through the machine that runs kubectl: programs on that machine run commands in the pods with `kubectl exec`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components import remote_scripts
from components.kubernetes.kubectl_host import KubectlHost
from components.reach import Head, Ran

#: Interface of a pod's default network; the container runtime gives it this name in every pod (CRI).
_FRONT = "eth0"


@dataclass(frozen=True)
class Pods:
    """Reach of a stack's pods: how files are copied to the pods, and how commands run in the pods.

    Attributes:
        host: the machine that runs kubectl.
        ask: what the programs on that machine know of the cluster: `kubectl`, the options with which kubectl finds the cluster;
            `cluster`, the folder of this cluster's measurement files on kubectl's machine; `namespace`; `pods`, the selector of
            the pods; `rails`, the interfaces of the rails in a pod; `gpus`, how many GPUs a pod has; `devices`, the names of
            the RDMA devices; `rdma`, whether pods share these devices.
        node: the first node, whose pod is the head node.
        files: names of files that were copied to that machine for the home folder of the head's pod.
    """

    host: KubectlHost
    ask: dict[str, Any]
    node: str
    files: list[str] = field(default_factory=list)

    @property
    def network(self) -> pulumi.Output[str | None]:
        """The interface of the default network, for MPI's own traffic; a CIDR would differ between nodes."""
        return pulumi.Output.from_input(_FRONT)

    @property
    def copies_transcripts(self) -> bool:
        """Whether transcripts are copied off the nodes during a measurement: here, to the machine that runs kubectl."""
        return True

    def contact(
        self, name: str, nodes: pulumi.Output[Any], ask: dict[str, Any], salt: pulumi.Output[str], opts: pulumi.ResourceOptions
    ) -> pulumi.Output[str]:
        """Contact the pods of `nodes`; return the JSON line with the pods' facts. A changed `salt` causes another contact."""
        look = remote_scripts.read("kubernetes_contact")

        def program(nodes: Sequence[Any], salt: str) -> str:
            mine = self.ask | {"facts": ask["facts"], "mpi": ask["mpi"], "host_key": self._host_key}
            pods = [{"name": node.name, "address": node.address} for node in nodes]
            return f"# {salt}\n{look.call(nodes=pods, ask=mine)}"

        return self.host.run(
            name,
            create=f"exec {remote_scripts.PYTHON}",
            stdin=pulumi.Output.all(nodes=nodes, salt=salt).apply(lambda known: program(**known)),
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
    ) -> pulumi.Resource | None:
        """Copy the local `file` to the machine that runs kubectl; the next call of `run` copies the file into the pod."""
        self.files.append(there)
        # The head's address is known only when the pods exist. As a trigger, it delays the copy to a control plane's host until
        # then. In the update that creates the pods, a check has confirmed before that kubectl uses the right cluster.
        triggers = [*triggers, head.apply(lambda its: its.address)]
        return self.host.copy(name, file=file, there=there, triggers=triggers, opts=opts)

    def run(  # noqa: PLR0913 - the resource's own arguments, by name
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
            ask = {key: self.ask[key] for key in ("kubectl", "namespace", "pods", "cluster")}
            program = in_pod.call(ask=ask | {"node": self.node, "files": files, "command": command})
            return f"exec python3 -IS -c {shlex.quote(program)}"

        return self.host.run(name, create=command.apply(words), stdin=stdin, triggers=triggers, opts=opts)

    def shell(self, head: pulumi.Output[Head]) -> pulumi.Output[str]:
        """Return the command that opens a shell in the head's pod, for a person to paste."""
        its = self.ask["kubectl"]
        given = "".join(f"--{key} {its[key]} " for key in ("kubeconfig", "context") if its[key])
        kubectl = f"kubectl {given}--namespace {self.ask['namespace']}"
        pod = f"$({kubectl} get pods --selector {self.ask['pods']} --output name "
        pod += f"--field-selector spec.nodeName={self.node},status.phase=Running)"
        way = self.host.shell(f"{kubectl} exec --stdin --tty {pod} -- bash")
        return head.apply(lambda _: way)

    def known_hosts(self, head: pulumi.Output[Head]) -> pulumi.Output[str]:
        """Return known_hosts lines with the pinned keys of the machines on the way to the pods."""
        lines = "\n".join(f"{machine.address} {machine.host_key}" for machine in self.host.machines)
        return head.apply(lambda _: lines)

    @property
    def _host_key(self) -> str:
        return self.host.machines[-1].host_key if self.host.machines else ""
