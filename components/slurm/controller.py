"""Makes a cloud's login node the controller of a Slurm cluster, and terminates Slurm's machines when the stack is destroyed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_command import remote

from cloudinit.steps import MARK as BOOTED
from components.after import after
from components.engine_state import folder_name
from components.kept_programs import kept
from components.reach import Machine, last_line, to_machine
from config.slurm import Scheduler, entry_script
from scheduler import accounting, programs, units
from scheduler.cluster import Cluster, Hardware, NodeSet, Queue
from scheduler.elastic import metadata_guard
from scheduler.elastic.controller import KEY
from scheduler.elastic.entry import GRACE_S
from scheduler.elastic.settings import CONFIGURATION, FOLDER, LaunchSet
from scheduler.files import files
from scheduler.slurm_conf import MARK
from scheduler.slurm_facts import uses_cgroups

_ROOT = "sudo -n"
_PYTHON = "python3 -IS"


@dataclass(frozen=True)
class Submitting:
    """A login node that accepts jobs but is not the controller.

    Attributes:
        machine: how the operator reaches the login node.
        id, address: the login node's id in the cloud, and the address at which the controller reaches the login node.
    """

    machine: pulumi.Output[Machine]
    id: pulumi.Output[str]
    address: pulumi.Output[str]


@dataclass(frozen=True)
class DynamicSet:
    """Nodes of one kind that Slurm may start.

    Attributes:
        queue: the nodes' partition.
        name: name of the set, unique in the queue.
        key: name of the set, unique in the stack; jobs may select the set with --constraint.
        dynamic, always_on: how many nodes Slurm may start, and how many of these nodes are never stopped.
        spec: launch settings, as the cloud's module of `scheduler.elastic` takes them.
    """

    queue: str
    name: str
    key: str
    dynamic: int
    always_on: int
    hardware: Hardware
    spec: pulumi.Output[dict[str, Any]]


class Controller(pulumi.ComponentResource):
    """The login node as Slurm's controller.

    Creates: a copy of the programs, and a Command that creates the controller's key. `install` creates a Command whose deletion
    terminates all machines that Slurm started, and a Command that starts Slurm.
    Outputs: `public_key`, which dynamic nodes must accept; `region`, from the machine's metadata.
    """

    public_key: pulumi.Output[str]
    region: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        machine: pulumi.Output[Machine],
        instance_id: pulumi.Output[str],
        cloud: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("busbar:slurm:Controller", name, None, opts)
        self._name, self._machine, self._instance_id, self._cloud = name, machine, instance_id, cloud
        self._mine = pulumi.ResourceOptions(parent=self)
        self._connection = machine.apply(to_machine)
        data = programs.archive()
        self._digest = hashlib.sha256(data).hexdigest()[:16]
        program = f"busbar-elastic-{self._digest}.pyz"
        self._program = f'{_PYTHON} "$HOME/{program}"'
        copied = remote.CopyToRemote(
            f"{name}-programs",
            connection=self._connection,
            source=pulumi.FileAsset(kept(data, program)),
            remote_path=program,
            triggers=[self._digest, instance_id],
            opts=self._mine,
        )
        said = self._command("identity", f"{_ROOT} {self._program} identity {cloud}", None, [copied]).stdout.apply(last_line)
        self.public_key = said.apply(lambda line: str(line["public_key"]))
        self.region = said.apply(lambda line: str(line["region"]))
        self._facts: pulumi.Output[dict[str, Any]] = said.apply(lambda line: dict(line["facts"]))
        self.register_outputs({"public_key": self.public_key, "region": self.region})

    def install(  # noqa: PLR0913 - what the cluster is made of, by name
        self,
        wanted: Scheduler,
        sets: Sequence[DynamicSet],
        *,
        allowed: int,
        address: pulumi.Output[str],
        cloud: pulumi.Output[dict[str, Any]],
        user: str,
        home: str,
        shared: str,
        logins: Sequence[Submitting],
        needed: Sequence[pulumi.Resource],
    ) -> pulumi.Output[Machine]:
        """Register the Command that starts Slurm; return the controller's machine once Slurm accepts jobs.

        Args:
            wanted: Slurm's settings, such as its timers.
            sets: the cluster's nodes; the queue of the first set is the default queue.
            allowed: the largest number of nodes with running jobs that an update may remove.
            address: address at which the nodes reach the controller.
            cloud: settings of the cloud's module of `scheduler.elastic`, without the cloud's name.
            user: login user on the nodes.
            home: mount point of the home folders on all machines.
            shared: folder below `home` with the files of the test job.
            logins: login nodes that also accept jobs.
            needed: resources that Slurm's calls to the cloud need. These resources are deleted only after the machines that
                Slurm started.
        """
        known = pulumi.Output.all(
            facts=self._facts,
            address=address,
            cloud=cloud,
            specs=pulumi.Output.all(*(one.spec for one in sets)),
            # This output is known once the first boot of every login node has finished.
            logins=pulumi.Output.all(
                *(pulumi.Output.all(machine=one.machine, id=one.id, address=one.address) for one in logins)
            ).apply(lambda found: {its["machine"].name: [its["id"], its["address"]] for its in found}),
        )
        text = known.apply(
            lambda its: self._document(wanted, sets, allowed=allowed, user=user, home=home, shared=shared, **its)
        )
        # This Command exists before Slurm can start a machine: wherever an update stops, the stack has a resource whose
        # deletion terminates all machines. The Command's inputs do not depend on the cluster, so the Command is never replaced.
        # A replacement would delete the Command, and its deletion would end running jobs.
        sweep = remote.Command(
            f"{self._name}-sweep",
            connection=self._connection,
            create=f"{_ROOT} true",
            delete=f"if {_ROOT} test -e {CONFIGURATION}; then {_ROOT} {_PYTHON} {programs.ARCHIVE} sweep; fi",
            logging=remote.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(needed)),
        )
        installed = self._command("install", f"{_ROOT} {self._program} install", text, [sweep, *needed])
        return after(self._machine, installed.stdout)

    def _document(  # noqa: PLR0913 - what the cluster is made of, by name
        self,
        wanted: Scheduler,
        sets: Sequence[DynamicSet],
        *,
        allowed: int,
        user: str,
        home: str,
        shared: str,
        facts: dict[str, Any],
        address: str,
        cloud: dict[str, Any],
        specs: Sequence[dict[str, Any]],
        logins: dict[str, list[str]],
    ) -> str:
        """Return the document that `scheduler.elastic.controller.install` reads."""
        cluster = slurm_cluster(wanted, sets, facts, address)
        launched = {
            f"{one.queue}/{one.name}": LaunchSet(
                one.queue,
                one.name,
                one.dynamic,
                wanted.start_timeout_s,
                dict(spec),
                entry_script(shared, one.key) if wanted.entry_test else "",
                wanted.entry_timeout_s,
                one.always_on,
            )._asdict()
            for one, spec in zip(sets, specs, strict=True)
        }
        join = {
            "user": user,
            "identity": KEY,
            "known_hosts": f"{FOLDER}/known_hosts",
            "controller": address,
            "booted": BOOTED,
        }
        document: dict[str, Any] = {
            "files": files(cluster),
            "units": {"slurmctld.service": units.units(address)["slurmctld.service"], **metadata_guard.units()},
            "settings": {"sets": launched, "cloud": {"name": self._cloud, **cloud}, "join": join, "static": {}},
            "shared": shared,
            "jobs": {"home": home, "folder": f"{home.rstrip('/')}/.busbar-slurm/{folder_name()}"},
            "allowed": [f"{self._cloud}.allowReplace", allowed],
        }
        if logins:
            document["logins"] = logins
        if wanted.accounting:
            document["accounting"] = accounting.document(cluster, MARK)
        if wanted.users:
            known = cluster.name if wanted.accounting else ""
            document["users"] = {"address": address, "hostname": facts["hostname"], "home": home, "accounting": known}
        return json.dumps(document, sort_keys=True)

    def _command(
        self, noun: str, create: str, stdin: pulumi.Output[str] | None, needed: Sequence[pulumi.Resource]
    ) -> remote.Command:
        return remote.Command(
            f"{self._name}-{noun}",
            connection=self._connection,
            create=create,
            stdin=stdin,
            triggers=[self._digest, self._instance_id],
            logging=remote.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(needed)),
        )


def slurm_cluster(wanted: Scheduler, sets: Sequence[DynamicSet], facts: dict[str, Any], address: str) -> Cluster:
    """Return the cluster of `sets`, given the facts that the controller at `address` reports (`scheduler.slurm_facts`)."""
    by_queue: dict[str, list[NodeSet]] = {}
    for one in sets:
        by_queue.setdefault(one.queue, []).append(NodeSet(one.name, one.hardware, (), one.dynamic, (one.key,), one.always_on))
    # Slurm's resume timeout runs until slurmd answers. It includes the entry test, because slurmd starts only after this test.
    patience_s = wanted.start_timeout_s + (wanted.entry_timeout_s + GRACE_S if wanted.entry_test else 0)
    queues = [
        Queue(name, nodes, default=not index, idle_min=wanted.idle_min, start_timeout_s=int(patience_s))
        for index, (name, nodes) in enumerate(by_queue.items())
    ]
    return Cluster(
        "busbar",
        facts["hostname"],
        address,
        queues,
        uses_cgroups([facts]),
        topology=True,
        scripts=True,
        accounting=wanted.accounting,
        containers=wanted.containers is not None,
    )
