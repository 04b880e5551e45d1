"""Turns a step of the plan into ranks on given machines: program, arguments and environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.launch.protocol import BuildLine, Launch, Node, Ranks
from benchmarks.plan.collectives import collective
from benchmarks.plan.steps import FREE, LOOKS, MNNVL, NVL, RING_BELOW_NODES, Step
from catalogue import ENVIRONMENTS, GENERIC, gpus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalogue import Shape
    from config.measure import Measure


#: NCCL's name for the ring.
RING = "Ring"


@dataclass(frozen=True)
class Place:
    """Where a plan runs.

    Attributes:
        nodes: the head node first; ranks are placed node by node in this order.
        network: CIDR of the front-end network, which carries MPI's own traffic.
        built: the programs, and the folders of MPI, CUDA and NCCL.
        fabric: interfaces for NCCL's sockets, which carry everything if there is no RDMA; empty lets NCCL choose.
        plan: name of the plan's folder on the head node.
        queue: the Slurm partition that ranks run in; empty without Slurm.
        remote_shell: the program that starts a command on another node instead of ssh; empty if ssh is used.
        refused: why there are no programs, so that nothing can run; empty if there are programs.
    """

    nodes: tuple[Node, ...]
    network: str
    built: BuildLine
    fabric: tuple[str, ...] = ()
    plan: str = "plan"
    queue: str = ""
    remote_shell: str = ""
    refused: str = ""

    @property
    def results(self) -> str:
        """Folder on the head node for the JSON files that runs write."""
        return f"{self.built.home}/.busbar/plans/{self.plan}"

    @property
    def logs(self) -> str:
        """Folder on every node for NCCL's log of its transport."""
        return f"{self.built.home}/.busbar/nccl"

    @property
    def start(self) -> list[str]:
        """Words to put before a command that must run in the container; empty if ranks run on the nodes themselves."""
        return self.built.container.start if self.built.container else []


def algorithm(shape: Shape, nodes: int, own: Mapping[str, str] | None = None) -> str:
    """Return the algorithm that ranks must use, given the stack's variables `own`; empty leaves the choice to NCCL."""
    said = (own or {}).get("NCCL_ALGO")
    if said is not None:
        return said
    environment = ENVIRONMENTS[shape.environment or GENERIC]
    return RING if nodes < RING_BELOW_NODES else environment.exports.get("NCCL_ALGO", "")


def exports(shape: Shape, nodes: int, place: Place, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of every rank on `nodes` nodes of `shape`; the stack's own variables (`own`) take precedence.

    NVLink between nodes is disabled even if the stack's own variables enable it.
    """
    if shape.environment is None:
        msg = f"the catalogue has no NCCL environment for {shape.name}, so ranks cannot start on it"
        raise ValueError(msg)
    environment = ENVIRONMENTS[shape.environment]
    variables = dict(environment.exports)
    if shape.rdma is not None and nodes > 1 and not environment.provider:
        variables["NCCL_IB_HCA"] = shape.rdma.nccl_ib_hca
    if shape.rdma is not None and shape.rdma.ucx_net_devices:
        variables["UCX_NET_DEVICES"] = shape.rdma.ucx_net_devices
    if place.fabric and nodes > 1:
        variables["NCCL_SOCKET_IFNAME"] = "=" + ",".join(place.fabric)  # exact names: eth1 must not match eth10
    if algorithm(shape, nodes, own):
        variables["NCCL_ALGO"] = algorithm(shape, nodes, own)
    if not place.start:  # a container does not have the node's folders
        # The tests were linked against the libraries in these folders, and the node's loader might not search the folders.
        built = place.built
        libraries = [f"{home}/{folder}" for home in (built.mpi_home, built.nccl_home) for folder in ("lib", "lib64")]
        variables["LD_LIBRARY_PATH"] = ":".join([*libraries, f"{built.cuda_home}/lib64"])
    # Runs between nodes measure the rails; NVLink between nodes has its own step.
    kept = {MNNVL: "0"} if nodes > 1 and gpus.spans_nodes(shape.gpu) else {}
    return variables | dict(own or {}) | kept


def launch(place: Place, shape: Shape, own: Mapping[str, str] | None = None) -> Launch:
    """Return how ranks start at `place`: binding, and the network that MPI itself uses.

    An Open MPI that was moved after it was built needs OPAL_PREFIX in `own`, and must have the same path on all nodes.
    """
    environment = ENVIRONMENTS[shape.environment or GENERIC]
    mca = dict(environment.mca)
    if len(place.nodes) > 1:
        known = "-o UserKnownHostsFile=~/.ssh/known_hosts"  # an image's own ssh_config may set another file
        shared = f" -o ControlPath={place.built.shared}" if place.built.shared else ""
        mca |= {
            "btl_tcp_if_include": place.network,
            "oob_tcp_if_include": place.network,
            "prte_if_include": place.network,  # Open MPI 5's name for the parameter above; Open MPI 4 ignores it
            "plm_rsh_args": f"-o BatchMode=yes -o StrictHostKeyChecking=yes {known} -o ConnectTimeout=15{shared}",
            "plm_rsh_no_tree_spawn": "1",
        }
        if place.remote_shell:
            del mca["plm_rsh_args"]
            mca["plm_rsh_agent"] = place.remote_shell
    return Launch(
        kind=launcher(place),
        mpi_home=place.built.mpi_home,
        bind_to=environment.bind_to,
        mca=mca,
        hostfile=f"{place.results}/hosts",
        prefix="OPAL_PREFIX" in (own or {}),
        start=place.start,
        queue=place.queue,
    )


def launcher(place: Place) -> str:
    """Return the name of the launcher at `place`."""
    if place.built.container and place.built.container.runtime == "pyxis":
        return "pyxis"
    if place.queue or place.remote_shell:
        return "slurm" if place.queue else "remote_shell"
    return place.built.container.runtime if place.built.container else "mpirun"


def ranks(step: Step, plan: Measure, place: Place, shape: Shape) -> Ranks:
    """Return the ranks of `step` on all nodes of `place`."""
    variables = exports(shape, len(place.nodes), place, plan.exports)
    if step.split:
        # All groups use the same algorithm, so that they can be compared.
        variables |= {"NCCL_TESTS_SPLIT": step.split, "NCCL_ALGO": RING}
    if step.stage in {FREE, NVL}:
        variables.pop("NCCL_ALGO", None)
    if step.stage == NVL:
        variables[MNNVL] = "1"
    if step.name == plan.collective:
        # NCCL logs to files, because on stdout a line of its log could interrupt a row of the table.
        variables |= {
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,NET",
            "NCCL_DEBUG_FILE": f"{place.logs}/nccl.%h.%p",
        }
    arguments = [
        *("-b", str(step.begin_bytes), "-e", str(step.end_bytes), "-f", str(plan.sizes.factor)),
        *("-g", "1", "-n", str(step.iterations), "-w", str(step.warmup), "-c", "0" if step.stage == LOOKS else "1"),
        *(("-N", str(step.cycles)) if step.cycles > 1 else ()),
        *(("-I", "1") if step.one_by_one else ()),
        *("-J", result(step, place)),
    ]
    program = f"{place.built.binaries}/{collective(step.collective).program}"
    return Ranks(program=program, arguments=arguments, environment=variables, per_node=shape.gpus)


def result(step: Step, place: Place) -> str:
    """Return the path of the JSON file that `step` writes on the head node."""
    return f"{place.results}/{step.name}.json"
