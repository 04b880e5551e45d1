"""What a Slurm cluster is, as plain data: queues, node sets, nodes, power saving.

A node set (ParallelCluster: compute resource) has nodes of one kind: static ones, whose address is known, and dynamic ones,
which are started when a job needs them. Dynamic nodes have names before they are machines: QUEUE-dy-SET-1 and so on.
"""

from typing import List, NamedTuple, Optional, Sequence, Tuple

from scheduler import names


class Cores(NamedTuple):
    """Processors of one node as `slurmd -C` counts them."""

    sockets: int
    cores: int
    threads: int


class Gpus(NamedTuple):
    """GPUs of one node.

    Attributes:
        kind: what jobs call them, `scheduler.names.gpu_type`.
        number: GPUs per node.
        devices: their files in /dev, as a pattern for gres.conf; empty without GPUs.
    """

    kind: str
    number: int
    devices: str


def nvidia_gpus(model: str, number: int) -> Gpus:
    """Return NVIDIA GPUs of a model, as its driver names their files; `number` 0 is a node without GPUs."""
    if not number:
        return Gpus("", 0, "")
    devices = "/dev/nvidia0" if number == 1 else f"/dev/nvidia[0-{number - 1}]"
    return Gpus(names.gpu_type(model), number, devices)


class Hardware(NamedTuple):
    """What all nodes of a set have; `memory_mib` is main memory, and no GPUs are `Gpus("", 0, "")`."""

    cores: Cores
    memory_mib: int
    gpus: Gpus


class Node(NamedTuple):
    """One machine that exists and runs jobs.

    Attributes:
        name: its name in Slurm.
        hostname: its own host name.
        address: the address at which other machines reach it.
        place: where the cloud says it is, from the widest part to the narrowest; empty if it does not say.
    """

    name: str
    hostname: str
    address: str
    place: Tuple[str, ...] = ()


class NodeSet(NamedTuple):
    """Nodes of one kind in a queue.

    Attributes:
        name: unique in its queue.
        static: nodes that always run.
        dynamic: how many more Slurm may start.
        always_on: how many of those always run, the first by number: Slurm does not end them.
        features: words that jobs may ask for with --constraint.
    """

    name: str
    hardware: Hardware
    static: Sequence[Node]
    dynamic: int = 0
    features: Tuple[str, ...] = ()
    always_on: int = 0

    def split(self, queue: str) -> Tuple[List[str], List[str]]:
        """Return the names of dynamic nodes that always run, and of the others."""
        names = dynamic_names(queue, self.name, self.dynamic)
        return names[: self.always_on], names[self.always_on :]


class Queue(NamedTuple):
    """One partition.

    Attributes:
        default: jobs without --partition run here.
        idle_min: minutes after which an idle dynamic node ends.
        start_timeout_s: how long a dynamic node may take until its slurmd answers.
        exclusive: each job gets whole nodes.
    """

    name: str
    sets: Sequence[NodeSet]
    default: bool = False
    idle_min: int = 10
    start_timeout_s: int = 1800
    exclusive: bool = False


class Topology(NamedTuple):
    """How nodes are joined: `tree` of switches, or `block` (Slurm 23.11) of `block_nodes` nodes each."""

    kind: str
    block_nodes: int = 0


class Cluster(NamedTuple):
    """One cluster.

    Attributes:
        name: ClusterName.
        controller: host name and address of the machine that runs slurmctld.
        queues: one of them is the default.
        cgroups: whether control groups restrict jobs to their processors and GPUs.
        memory: jobs ask for memory as they do for processors, and get no more.
        topology: None if jobs are not placed by it.
        scripts: nodes run what is in prolog.d and epilog.d of /etc/slurm; they must have `scheduler.files.scripts`.
        accounting: the controller keeps jobs and users in a database; it must have what `scheduler.accounting` renders.
        containers: tasks may start in containers; all machines must have what `scheduler.plugins` names.
    """

    name: str
    controller: str
    controller_address: str
    queues: Sequence[Queue]
    cgroups: bool
    memory: bool = False
    topology: Optional[Topology] = None
    scripts: bool = False
    accounting: bool = False
    containers: bool = False

    @property
    def sets(self) -> List[Tuple[Queue, NodeSet]]:
        """Every node set with its queue."""
        return [(queue, one) for queue in self.queues for one in queue.sets]

    @property
    def elastic(self) -> bool:
        """Whether Slurm starts and ends nodes."""
        return any(one.dynamic for _, one in self.sets)


def static_name(queue: str, node_set: str, number: int) -> str:
    """Return the name of a set's static node; numbers begin at 1."""
    return f"{queue}-st-{node_set}-{number}"


def dynamic_names(queue: str, node_set: str, count: int) -> List[str]:
    """Return the names of a set's dynamic nodes."""
    return [f"{queue}-dy-{node_set}-{number}" for number in range(1, count + 1)]
