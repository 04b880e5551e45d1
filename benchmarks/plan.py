"""What will be run: sizes, iterations and the exact argv, so that a person can type the same line.

It deliberately starts nothing and reads nothing: addresses and folders are handed in.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from catalogue import ENVIRONMENTS

if TYPE_CHECKING:
    from catalogue import Shape

#: Below this many nodes NCCL may pick a tree that moves less over the rails than a ring, and the number would flatter the
#: fabric; so the ring is forced (two-node all-reduce on H100: 1.12 to 1.22 x the ring ceiling).
RING_BELOW_NODES = 4

_SUFFIXES = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


def size_bytes(text: str) -> int:
    """Read a size as nccl-tests writes it: `8`, `64M`, `8G` (powers of 1024).

    Raises:
        ValueError: not such a size.
    """
    digits = text.rstrip("BKMG")
    suffix = text[len(digits) :]
    if not digits.isascii() or not digits.isdigit() or suffix not in _SUFFIXES or int(digits) == 0:
        msg = f"{text!r} is not a size; write bytes, or a whole number followed by K, M or G, such as 64M"
        raise ValueError(msg)
    return int(digits) * _SUFFIXES[suffix]


@dataclass(frozen=True)
class Plan:
    """One measurement.

    Attributes:
        begin_bytes: smallest size.
        end_bytes: largest size; the gate reads the number there.
        factor: each size is the one before times this.
        iterations: timed operations at each size.
        warmup: untimed operations before them.
        cycle: raised by hand to measure again although nothing changed.
        timeout_s: bound on the whole run.
        collective: what is run.
    """

    begin_bytes: int
    end_bytes: int
    factor: int
    iterations: int
    warmup: int
    cycle: int = 1
    timeout_s: int = 1800
    collective: str = "all_reduce"

    def __post_init__(self) -> None:
        """Refuse a plan that would measure nothing."""
        if not 0 < self.begin_bytes <= self.end_bytes:
            msg = (
                f"sizes run from {self.begin_bytes} B to {self.end_bytes} B; the first must be positive and not above the last"
            )
            raise ValueError(msg)
        if self.factor < 2 or self.iterations < 1 or self.warmup < 0:  # noqa: PLR2004 - a factor of 1 never ends
            msg = "a plan needs a factor of at least 2, at least 1 iteration and no negative warm-up"
            raise ValueError(msg)

    @property
    def sizes_bytes(self) -> tuple[int, ...]:
        """Return the sizes that will be measured, ascending."""
        sizes = []
        size = self.begin_bytes
        while size <= self.end_bytes:
            sizes.append(size)
            size *= self.factor
        return tuple(sizes)

    def digest(self) -> str:
        """Return a hash of everything in the plan."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Launch:
    """Where a plan runs.

    Attributes:
        addresses: one address for each node, head first; ranks are placed node by node in this order.
        network: CIDR of the front-end network, which carries MPI's own traffic.
        mpi_home: Open MPI's folder on every node.
        cuda_home: CUDA's folder on every node.
        binaries: folder of the built tests on every node.
        hostfile: path of the hostfile that the runner writes before the start.
        result: path of the JSON file that the run writes.
    """

    addresses: tuple[str, ...]
    network: str
    mpi_home: str
    cuda_home: str
    binaries: str
    hostfile: str
    result: str


def hostfile(launch: Launch, shape: Shape) -> str:
    """Return Open MPI's hostfile: one line for each node with its slots."""
    return "".join(f"{address} slots={shape.gpus}\n" for address in launch.addresses)


def exports(shape: Shape, nodes: int) -> dict[str, str]:
    """Return the variables that every rank is given on `nodes` nodes of `shape`."""
    if shape.rdma is None or shape.environment is None:
        msg = f"shape {shape.name} has no rail data in the catalogue, so its ranks cannot be told which rails to use"
        raise ValueError(msg)
    variables = dict(ENVIRONMENTS[shape.environment].exports)
    variables["UCX_NET_DEVICES"] = shape.rdma.ucx_net_devices
    variables["NCCL_IB_HCA"] = shape.rdma.nccl_ib_hca
    if nodes < RING_BELOW_NODES:
        variables["NCCL_ALGO"] = "Ring"
    return variables


def argv(plan: Plan, launch: Launch, shape: Shape) -> tuple[str, ...]:
    """Return the exact command of `plan` on `launch`, `mpirun` first."""
    nodes = len(launch.addresses)
    variables = exports(shape, nodes)
    # The tests were linked against these folders; an image may list neither in its loader's configuration.
    libraries = (f"{launch.mpi_home}/lib", f"{launch.mpi_home}/lib64", f"{launch.cuda_home}/lib64")
    variables["LD_LIBRARY_PATH"] = ":".join(libraries)
    environment = ENVIRONMENTS[shape.environment or ""]
    mca = dict(environment.mca) | {
        "btl_tcp_if_include": launch.network,
        "oob_tcp_if_include": launch.network,
        "plm_rsh_args": "-o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=15",
        "plm_rsh_no_tree_spawn": "1",
    }
    return (
        f"{launch.mpi_home}/bin/mpirun",
        *("-np", str(nodes * shape.gpus), "-npernode", str(shape.gpus), "--hostfile", launch.hostfile),
        *("--bind-to", environment.bind_to),
        *(word for name, value in mca.items() for word in ("--mca", name, value)),
        *(word for name, value in sorted(variables.items()) for word in ("-x", f"{name}={value}")),
        f"{launch.binaries}/{plan.collective}_perf",
        *("-b", str(plan.begin_bytes), "-e", str(plan.end_bytes), "-f", str(plan.factor)),
        *("-g", "1", "-n", str(plan.iterations), "-w", str(plan.warmup), "-c", "1", "-J", launch.result),
    )
