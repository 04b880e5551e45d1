"""The description of a Slurm cluster as plain data: queues, node sets, nodes, power saving.

All nodes of a node set (ParallelCluster: compute resource) have the same hardware. Static nodes exist, so their addresses are
known. Slurm starts a dynamic node when a job needs the node. Some dynamic nodes are always on: busbar starts these nodes, and
Slurm does not power them down. Dynamic nodes have names before their machines exist: QUEUE-dy-SET-1 and so on.
"""

from typing import List, NamedTuple, Sequence, Tuple

from scheduler import names


class Cores(NamedTuple):
    """Processors of one node as `slurmd -C` reports them."""

    sockets: int
    cores: int
    threads: int


class Gpus(NamedTuple):
    """GPUs of one node.

    Attributes:
        kind: the GPUs' type in job requests, as `scheduler.names.gpu_type` returns it.
        number: GPUs per node.
        devices: the GPUs' files in /dev, as a pattern for gres.conf; empty without GPUs.
    """

    kind: str
    number: int
    devices: str


def nvidia_gpus(model: str, number: int) -> Gpus:
    """Return the NVIDIA GPUs of a model, with the driver's file names; `number` 0 is a node without GPUs."""
    if not number:
        return Gpus("", 0, "")
    devices = "/dev/nvidia0" if number == 1 else f"/dev/nvidia[0-{number - 1}]"
    return Gpus(names.gpu_type(model), number, devices)


class Hardware(NamedTuple):
    """Hardware of all nodes of a set; `memory_mib` is main memory, and `Gpus("", 0, "")` means no GPUs."""

    cores: Cores
    memory_mib: int
    gpus: Gpus


class Node(NamedTuple):
    """One existing machine that runs jobs.

    Attributes:
        name: the machine's name in Slurm.
        hostname: the machine's own host name.
        address: the address at which other machines reach the machine.
        place: the machine's place in the network, as the cloud's names of the network's parts, from the widest part to the
            narrowest; empty if the cloud does not report the place.
    """

    name: str
    hostname: str
    address: str
    place: Tuple[str, ...] = ()


class NodeSet(NamedTuple):
    """Nodes with the same hardware in one queue.

    Attributes:
        name: the set's name, unique in the queue.
        static: nodes that always run.
        dynamic: how many nodes Slurm may start in addition to the static nodes.
        always_on: how many of the dynamic nodes, counted from number 1, always run: Slurm does not power them down.
        features: the set's own names for --constraint, besides the names that busbar gives every set. Static nodes of a cluster
            with one queue and without dynamic nodes have no features.
    """

    name: str
    hardware: Hardware
    static: Sequence[Node]
    dynamic: int = 0
    features: Tuple[str, ...] = ()
    always_on: int = 0

    def split(self, queue: str) -> Tuple[List[str], List[str]]:
        """Return the names of the dynamic nodes that always run, and the names of the other dynamic nodes."""
        names = dynamic_names(queue, self.name, self.dynamic)
        return names[: self.always_on], names[self.always_on :]


class Queue(NamedTuple):
    """One partition.

    Attributes:
        default: jobs without --partition run here.
        idle_min: minutes after which an idle dynamic node is terminated, unless the node is always on.
        start_timeout_s: time limit until a dynamic node's slurmd answers.
    """

    name: str
    sets: Sequence[NodeSet]
    default: bool = False
    idle_min: int = 10
    start_timeout_s: int = 1800


class Cluster(NamedTuple):
    """One cluster.

    Attributes:
        name: the cluster's name in slurm.conf (ClusterName).
        controller: host name of the machine that runs slurmctld; `controller_address` is its address.
        queues: the queues; one queue is the default.
        cgroups: whether control groups restrict jobs to their processors and GPUs.
        memory: whether memory is a resource that jobs request, as they request processors. If `cgroups` is set, too, control
            groups limit a job to the memory that it got.
        topology: whether Slurm places each job on nodes that are near each other in the network.
        scripts: whether nodes run the scripts in prolog.d and epilog.d of /etc/slurm. In each folder busbar puts one
            script (`scheduler.files.scripts`), because slurmd 22.05 runs no job if a folder is empty.
        accounting: whether the controller keeps jobs and users in a database; `scheduler.accounting` has its settings.
        containers: whether tasks may start in containers, for which all machines must have the plugins in `scheduler.plugins`.
    """

    name: str
    controller: str
    controller_address: str
    queues: Sequence[Queue]
    cgroups: bool
    memory: bool = False
    topology: bool = False
    scripts: bool = False
    accounting: bool = False
    containers: bool = False

    @property
    def sets(self) -> List[Tuple[Queue, NodeSet]]:
        """Every node set with its queue."""
        return [(queue, one) for queue in self.queues for one in queue.sets]

    @property
    def elastic(self) -> bool:
        """Whether Slurm starts and terminates nodes."""
        return any(one.dynamic for _, one in self.sets)


def dynamic_names(queue: str, node_set: str, count: int) -> List[str]:
    """Return the names of a set's dynamic nodes."""
    return [f"{queue}-dy-{node_set}-{number}" for number in range(1, count + 1)]
