"""The contract between targets and acceptance: inventory (what exists), reach (`components.reach`), launcher (how ranks start).

Neither this module nor `components.acceptance` names a cloud. If a new target needs a change in `components.acceptance`, change
this contract first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pulumi

from catalogue import Homes, Shape
from catalogue.containers import Container
from components.reach import Machine, Reach


@dataclass(frozen=True)
class Node:
    """One machine of a node set; on Kubernetes, one pod.

    Attributes:
        name: host name, as the target shows it.
        address: IPv4 address or name by which the nodes reach each other; private if the nodes have a private network.
        placement: fault domain, block or rack; None if the target does not report it.
        host_key: public SSH host key, if it is known before the first connection; None if first contact must learn the key.
    """

    name: str
    address: str
    placement: str | None = None
    host_key: str | None = None


@dataclass(frozen=True)
class NodeSet:
    """Existing nodes of one shape: those of a pool, or of one entry of a queue.

    Attributes:
        name: the pool's name, or QUEUE-NAME for an entry of a queue; unique in its cluster.
        nodes: the nodes in ring order, head node first; empty while nothing is rented.
        identity: hash of what the target knows of the machines and their software, such as image and node ids: a replaced
            machine changes it. Empty if the target has not created the set.
    """

    name: str
    nodes: tuple[Node, ...]
    identity: str


@dataclass(frozen=True)
class Inventory:
    """The machines that exist.

    Attributes:
        sets: node sets, in the order of the stack file.
        login: the login machine that the stack creates; None if the stack creates none.
        controller: the machine that runs the scheduler that the stack sets up; None if the stack sets up none.
        submitting: further machines on which people log in and submit jobs.
    """

    sets: tuple[NodeSet, ...]
    login: Machine | None = None
    controller: Machine | None = None
    submitting: tuple[Machine, ...] = ()

    def nodes(self) -> list[dict[str, str]]:
        """Return every node, in the form that the stack's outputs use."""
        return [{"name": node.name, "address": node.address, "pool": one.name} for one in self.sets for node in one.nodes]

    def login_nodes(self) -> list[dict[str, str]]:
        """Return the machines in `submitting`, in the form that the stack's outputs use."""
        return [{"name": one.name, "address": one.address, "host_key": one.host_key} for one in self.submitting]

    def of(self, name: str) -> NodeSet:
        """Return the node set with a given name; an empty set if the target has not created it."""
        return next((one for one in self.sets if one.name == name), NodeSet(name, (), ""))


@dataclass(frozen=True)
class Launcher:
    """How ranks start on the nodes: mpirun over SSH or kubectl, or in a Slurm job; inside a container if an image is set.

    Attributes:
        homes: folders of MPI, CUDA and NCCL on the nodes.
        container: the image that ranks run in; None runs them on the nodes themselves.
        queue: the Slurm partition in which ranks run; empty if ranks run outside Slurm.
        set_up: whether the nodes must first be set up as a Slurm cluster with that partition.
        remote_shell: program on the head node that replaces ssh to start a command on another node; empty for ssh.
    """

    homes: Homes
    container: Container | None = None
    queue: str = ""
    set_up: bool = False
    remote_shell: str = ""


@dataclass(frozen=True, kw_only=True)
class PlannedSet:
    """A node set as the stack file requests it, known before anything exists.

    Attributes:
        name: the pool's name.
        nodes: number of static machines, which no scheduler starts.
        dynamic: how many machines a scheduler may start in addition to `nodes`, those that it never stops included.
        job_nodes: how many nodes a test job of this set takes; 0 if the set has static machines, or too few dynamic machines.
        start_limit_s: how long an update waits until the nodes of the test job run; 0 if a person submits the test job.
        entry_timeout_s: time limit of the test of dynamic machines that start together; 0 if they join without a test.
        made_of: a text that identifies the settings of the pool's machines: if this text changes, the machines are replaced.
            Empty if it is not known before machines exist.
        job_folder: folder on a file system that all machines mount, with the input and the results of the test job.
        shape: the shape's row in the catalogue. If the row has no rails, first contact finds the rails. None if first contact
            finds the whole shape.
        launcher: how ranks start on the nodes.
        first_boot: whether the machines are new, so that first contact waits until cloud-init has finished.
        authenticated: whether switches authenticate rails (802.1X), so that first contact waits until the rails are
            authenticated.
        ask: whether to ask every node for its facts, because shape or network may be unknown or may differ from the stack file.
        rails: RDMA devices that the user named as rails; empty if first contact finds them.
    """

    name: str
    nodes: int
    shape: Shape | None
    launcher: Launcher
    dynamic: int = 0
    job_nodes: int = 0
    start_limit_s: float = 0
    entry_timeout_s: float = 0
    made_of: str = ""
    job_folder: str = ""
    first_boot: bool = True
    authenticated: bool = False
    ask: bool = False
    rails: tuple[str, ...] = ()


def named(planned: tuple[PlannedSet, ...], name: str) -> PlannedSet:
    """Return the planned set with a given name."""
    return next(one for one in planned if one.name == name)


class Cluster(Protocol):
    """What the cluster of any target provides."""

    planned: tuple[PlannedSet, ...]
    inventory: pulumi.Output[Inventory]
    reach: Reach
