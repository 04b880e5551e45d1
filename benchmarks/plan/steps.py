"""From a plan to the exact commands on given machines, in the order in which they run, so that a person can type the same.

It deliberately starts nothing and reads nothing: addresses and folders are handed in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.plan.collectives import collective
from catalogue import ENVIRONMENTS, GENERIC

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalogue import Shape
    from config.measure import Measure

#: Below this many nodes NCCL may pick a tree that moves less over the rails than a ring, and the number would flatter the
#: fabric; so the ring is forced (two-node all-reduce on H100: 1.12 to 1.22 x the ring ceiling).
RING_BELOW_NODES = 4
#: Message of the run inside each node: large enough for NVLink's full rate, small enough to be over at once.
_NODE_BYTES = 1024**3
#: The median of so many operations stands for a group or a trial: a busy processor disturbs single ones.
MEDIAN_ITERATIONS = 12
#: Bytes of a float, the smallest message.
_FLOAT_BYTES = 4

NODE, RAILS, ALL, SPREAD, FREE = "node", "rails", "all", "spread", "free"


@dataclass(frozen=True)
class Launch:
    """Where a plan runs.

    Attributes:
        addresses: one address for each node, head first; ranks are placed node by node in this order.
        network: CIDR of the front-end network, which carries MPI's own traffic.
        mpi_home: Open MPI's folder on every node.
        cuda_home: CUDA's folder on every node.
        nccl_home: NCCL's folder on every node.
        binaries: folder of the built tests on every node.
        hostfile: path of the hostfile that the runner writes before the start.
        results: folder on the head for the JSON files that runs write.
        logs: folder on every node for what NCCL says of its transport.
        fabric: interfaces for NCCL's own sockets; without RDMA they carry all of it. Empty leaves them to NCCL.
        shared: ssh's name for the socket of a connection that the runner keeps open; a person's mpirun, who keeps none, opens
            its own. Empty where there is none.
        container: words that start a rank's program in a container on its node; empty where it runs on the node itself. MPI,
            CUDA and NCCL of the ranks are then the image's; mpirun is the node's, for it starts daemons there.
    """

    addresses: tuple[str, ...]
    network: str
    mpi_home: str
    cuda_home: str
    nccl_home: str
    binaries: str
    hostfile: str
    results: str
    logs: str
    fabric: tuple[str, ...] = ()
    shared: str = ""
    container: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One run of one test program.

    Attributes:
        name: unique in its plan; letters, digits and underscores.
        stage: `node` inside each node at once, `rails` one GPU of each node at once, `all` over all ranks, `spread` the same
            operation by operation, `free` with NCCL's own choice of algorithm (information on fewer than 4 nodes).
        collective: what is run.
        begin_bytes: smallest size.
        end_bytes: largest size.
        split: value of NCCL_TESTS_SPLIT, None for one group of all ranks.
        groups: how many groups run at once.
        iterations: timed operations at each size.
        warmup: untimed ones.
        cycles: how often each size is measured.
        one_by_one: whether every operation is timed by itself (`-I 1`).
    """

    name: str
    stage: str
    collective: str
    begin_bytes: int
    end_bytes: int
    split: str | None
    groups: int
    iterations: int
    warmup: int
    cycles: int = 1
    one_by_one: bool = False


def steps(plan: Measure, shape: Shape, nodes: int) -> tuple[Step, ...]:
    """Return the runs of `plan` on `nodes` nodes of `shape`, cheapest first; search comes after, and only when short."""
    found = []
    if nodes > 1 and shape.gpus > 1:
        found += [_inside_nodes(plan, shape, nodes), _by_rail(plan, shape)]
    for name in plan.collectives:
        if collective(name).runs_on(nodes * shape.gpus):
            whole = Step(name, ALL, name, plan.begin_bytes, plan.end_of(name), None, 1, plan.iterations, plan.warmup)
            found.append(replace(whole, cycles=plan.cycles))
    largest = Step(
        SPREAD, SPREAD, plan.collective, plan.end_bytes, plan.end_bytes, None, 1, plan.spread_iterations, 1, one_by_one=True
    )
    if plan.spread_iterations:
        found.append(largest)
    if 1 < nodes < RING_BELOW_NODES:
        found.append(replace(largest, name=FREE, stage=FREE, iterations=plan.iterations, warmup=plan.warmup, one_by_one=False))
    return tuple(found)


def repeated(step: Step) -> Step:
    """Return `step` as a second look takes it: where a median decides, of so many operations that single ones do not."""
    if step.stage not in {NODE, RAILS}:
        return step
    return replace(step, iterations=max(step.iterations, MEDIAN_ITERATIONS))


def _inside_nodes(plan: Measure, shape: Shape, nodes: int) -> Step:
    size = min(plan.end_bytes, _NODE_BYTES)
    split = f"DIV {shape.gpus}"
    return Step(NODE, NODE, "all_reduce", size, size, split, nodes, plan.iterations, 1, one_by_one=True)


def _by_rail(plan: Measure, shape: Shape) -> Step:
    """Each group has its GPU's share of the rails, so the same time fits a message that much smaller."""
    size = max(plan.end_bytes // shape.gpus // _FLOAT_BYTES, 1) * _FLOAT_BYTES
    split = f"MOD {shape.gpus}"
    return Step(RAILS, RAILS, "all_reduce", size, size, split, shape.gpus, plan.iterations, plan.warmup, one_by_one=True)


def hostfile(launch: Launch, shape: Shape) -> str:
    """Return Open MPI's hostfile: one line for each node with its slots.

    One machine alone is its own host by that name: it may not hold the address by which it is called from outside.
    """
    addresses = launch.addresses if len(launch.addresses) > 1 else ("localhost",)
    return "".join(f"{address} slots={shape.gpus}\n" for address in addresses)


def exports(shape: Shape, nodes: int, launch: Launch, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that every rank is given on `nodes` nodes of `shape`; `own` are the site's."""
    if shape.environment is None:
        msg = f"no source says what NCCL wants on {shape.name}, so its ranks cannot be told"
        raise ValueError(msg)
    environment = ENVIRONMENTS[shape.environment]
    variables = dict(environment.exports)
    if shape.rdma is not None and nodes > 1 and not environment.provider:
        variables["NCCL_IB_HCA"] = shape.rdma.nccl_ib_hca
    if shape.rdma is not None and shape.rdma.ucx_net_devices:
        variables["UCX_NET_DEVICES"] = shape.rdma.ucx_net_devices
    if launch.fabric and nodes > 1:
        variables["NCCL_SOCKET_IFNAME"] = "=" + ",".join(launch.fabric)  # exact names: eth1 must not match eth10
    if nodes < RING_BELOW_NODES:
        variables["NCCL_ALGO"] = "Ring"
    if not launch.container:  # in one the node's folders are not there, and the image brings its own
        # The tests were linked against these folders; an image may list none of them in its loader's configuration.
        libraries = [f"{home}/{folder}" for home in (launch.mpi_home, launch.nccl_home) for folder in ("lib", "lib64")]
        variables["LD_LIBRARY_PATH"] = ":".join([*libraries, f"{launch.cuda_home}/lib64"])
    return variables | dict(own or {})


def mpirun(launch: Launch, shape: Shape, own: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return how every run is started, up to the ranks: `mpirun` with binding and MPI's own network.

    An Open MPI that was moved from where it was built needs OPAL_PREFIX in `own`, and the same on the other nodes.
    """
    moved = "OPAL_PREFIX" in (own or {})
    environment = ENVIRONMENTS[shape.environment or GENERIC]
    mca = dict(environment.mca)
    if len(launch.addresses) > 1:
        shared = f" -o ControlPath={launch.shared}" if launch.shared else ""
        mca |= {
            "btl_tcp_if_include": launch.network,
            "oob_tcp_if_include": launch.network,
            "prte_if_include": launch.network,  # Open MPI 5's name of the line above; 4 passes it over
            "plm_rsh_args": f"-o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=15{shared}",
            "plm_rsh_no_tree_spawn": "1",
        }
    return (
        f"{launch.mpi_home}/bin/mpirun",
        *(("--prefix", launch.mpi_home) if moved else ()),
        *("--bind-to", environment.bind_to),
        *(word for name, value in mca.items() for word in ("--mca", name, value)),
    )


def argv(step: Step, plan: Measure, launch: Launch, shape: Shape) -> tuple[str, ...]:
    """Return the exact command of `step` on `launch`, `mpirun` first."""
    nodes = len(launch.addresses)
    variables = exports(shape, nodes, launch, plan.exports)
    if step.split:
        variables["NCCL_TESTS_SPLIT"] = step.split
    if step.stage == FREE:
        variables.pop("NCCL_ALGO", None)
    if step.name == plan.collective:
        # To files, for on standard output a line of NCCL's could cut into a row of the table.
        variables |= {
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,NET",
            "NCCL_DEBUG_FILE": f"{launch.logs}/nccl.%h.%p",
        }
    return (
        *mpirun(launch, shape, plan.exports),
        *("-np", str(nodes * shape.gpus), "-npernode", str(shape.gpus), "--hostfile", launch.hostfile),
        *(word for name, value in sorted(variables.items()) for word in ("-x", f"{name}={value}")),
        *launch.container,
        f"{launch.binaries}/{collective(step.collective).program}",
        *("-b", str(step.begin_bytes), "-e", str(step.end_bytes), "-f", str(plan.sizes.factor)),
        *("-g", "1", "-n", str(step.iterations), "-w", str(step.warmup), "-c", "1"),
        *(("-N", str(step.cycles)) if step.cycles > 1 else ()),
        *(("-I", "1") if step.one_by_one else ()),
        *("-J", result(step, launch)),
    )


def result(step: Step, launch: Launch) -> str:
    """Return the path of the JSON file that `step` writes on the head."""
    return f"{launch.results}/{step.name}.json"
