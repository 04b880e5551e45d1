"""Existing machines: their addresses, how they are reached, and what hardware they have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from catalogue import SERVERS, SHAPES, Homes, Shape, nearest
from catalogue.detection import named
from config.hosts import inventory, known_hosts
from config.hosts.inventory import Machine
from config.measure import Measure
from config.model import Model
from config.shared_values import Cidr, Globs
from config.slurm import Slurm

#: Value of `shape` if the machines report their shape.
DETECT = "detect"
#: Name of the set of machines; a stack of existing machines has only one set.
SET = "hosts"
_USER = r"[a-z_][a-z0-9_.-]{0,31}"


def _shape(value: str) -> str:
    if value == DETECT:
        return value
    row = named(value)
    if row is None:
        near = ", ".join(nearest(value, [*SERVERS, *SHAPES]))
        raise ValueError(f"is {value!r}, which is not in the catalogue; the nearest are {near}; {DETECT} asks the machines")
    if not row.gpus:
        raise ValueError(f"is {value!r}, which has no GPU, so NCCL cannot be measured on it")
    return value


def _device(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,30}", value):
        raise ValueError(f"is {value!r}; it must be the name of an RDMA device, such as mlx5_0")
    return value


def _each_once(value: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({name for name in value if value.count(name) > 1})
    if twice:
        raise ValueError(f"has {', '.join(twice)} twice; name each device once")
    return value


def _user(value: str) -> str:
    if not re.fullmatch(_USER, value):
        raise ValueError(f"is {value!r}; it must be a login name, such as ubuntu")
    return value


def _jump(value: str) -> str:
    user, at, address = value.partition("@")
    if not at or not re.fullmatch(_USER, user) or not inventory.is_name(address):
        raise ValueError(f"is {value!r}; it must be user@address, or null if the hosts are reached directly")
    return value


def _nodes(value: dict[str, str]) -> dict[str, str]:
    for name, address in value.items():
        for text in (name, address):
            if not inventory.is_name(text):
                raise ValueError(f"has {name}: {address}, and {text!r} is no IPv4 address or host name")
    return value


def _inventory(value: str) -> str:
    try:
        found = inventory.read(Path(value).expanduser().read_text())
    except OSError as error:
        raise ValueError(f"is {value!r}, which cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise ValueError(f"is {value!r}, where {error}") from None
    if not found:
        raise ValueError(f"is {value!r}, which names no host")
    return value


class Software(Model):
    """Where software is on the machines: globs in order of preference; of several matches of a glob, the newest is used."""

    mpi: Globs = Field(
        default=(
            "/usr/mpi/gcc/openmpi-*",
            "/opt/amazon/openmpi",
            "/opt/hpcx*/ompi",
            "/usr/local/mpi",
            "/usr/local/openmpi*",
            "/opt/openmpi*",
            "/usr/lib/x86_64-linux-gnu/openmpi",
            "/usr/lib/aarch64-linux-gnu/openmpi",
        ),
        description="Folders of Open MPI.",
        examples=[["/opt/openmpi"]],
    )
    cuda: Globs = Field(
        default=("/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda"),
        description="Folders of CUDA.",
        examples=[["/usr/local/cuda-12.8"]],
    )
    nccl: Globs = Field(
        default=("/usr", "/usr/local", "/usr/local/nccl*", "/opt/nccl*/build"),
        description="Folders of NCCL, each with include/nccl.h.",
        examples=[["/opt/nccl"]],
    )


class Hosts(Model):
    """Existing machines. The stack creates no resources except Pulumi's Command resources."""

    nodes: Annotated[dict[str, str], AfterValidator(_nodes)] = Field(
        default={},
        description="Addresses of the machines by name. The first name in sorted order (numbers by value) is the head node; "
        "one machine is enough.",
        examples=[{"gpu-1": "10.20.1.11", "gpu-2": "10.20.1.12"}],
    )
    inventory: Annotated[str, AfterValidator(_inventory)] | None = Field(
        default=None,
        description="File that names the machines, if `nodes` is not set: lines 'name address', or an Ansible inventory in INI "
        "format.",
        examples=["inventory.ini"],
    )
    user: Annotated[str, AfterValidator(_user)] = Field(
        description="Login user on the machines; its private key stays in your SSH agent.", examples=["ubuntu"]
    )
    jump: Annotated[str, AfterValidator(_jump)] | None = Field(
        default=None,
        description="Jump host, user@address; null if the machines are reached directly.",
        examples=["ubuntu@203.0.113.200"],
    )
    known_hosts: str = Field(
        default="~/.ssh/known_hosts",
        description="File with the host keys of all machines and of the jump host; nothing is trusted on first use.",
        examples=["./known_hosts"],
    )
    shape: Annotated[str, AfterValidator(_shape)] = Field(
        default=DETECT,
        description="Row of catalogue/servers.py or catalogue/oci/shapes.py; detect asks the machines.",
        examples=["HGX-H100.8"],
    )
    rails: Annotated[tuple[Annotated[str, AfterValidator(_device)], ...], AfterValidator(_each_once)] = Field(
        default=(),
        description="RDMA devices of the fabric, if they cannot be detected because some devices are down, have different "
        "rates or serve storage; empty takes all devices except the front end's.",
        examples=[["mlx5_0", "mlx5_3"]],
    )
    network: Cidr | None = Field(
        default=None,
        description="Front-end network of the machines (CIDR), for MPI's own traffic; null asks the machines.",
        examples=["10.20.1.0/24"],
    )
    software: Software = Field(default=Software(), description="Where software is on the machines.")
    slurm: Slurm | None = Field(
        default=None,
        description="Measures in Slurm jobs, and makes the machines a new Slurm cluster unless slurm.existing is true; null "
        "starts ranks over SSH. Slurm and munge must be installed on all machines. `{}` takes the defaults.",
        examples=[{"queue": "compute"}],
    )

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines; the first is the head node."""
        if self.inventory:
            return inventory.read(Path(self.inventory).expanduser().read_text())
        return tuple(Machine(name, self.nodes[name]) for name in sorted(self.nodes, key=_by_number))

    def host_key(self, address: str) -> str:
        """Return the pinned key of `address`.

        Raises:
            ValueError: there is no such key; the message is the text that follows `knownHosts` in the refusal.
        """
        return known_hosts.read(self.known_hosts).key(address)

    @property
    def sizes(self) -> dict[str, int]:
        """Number of machines, by the name of the only set."""
        return {SET: len(self.machines)}

    def measured(self, _measure: Measure) -> str:
        """Return the name of the one set of machines."""
        return SET

    @property
    def jump_user(self) -> str | None:
        """Login user on the jump host, if there is one."""
        return self.jump.partition("@")[0] if self.jump else None

    @property
    def jump_address(self) -> str | None:
        """The jump host's address, if there is one."""
        return self.jump.partition("@")[2] if self.jump else None

    @property
    def row(self) -> Shape | None:
        """The machines' row of the catalogue; None if the machines report their shape."""
        return named(self.shape)

    @property
    def homes(self) -> Homes:
        """Where MPI, CUDA and NCCL are on the machines."""
        return Homes(self.software.mpi, self.software.cuda, self.software.nccl)


def _by_number(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts gpu-2 before gpu-10.

    Names must be sorted, because the program does not learn in which order the stack file lists them.
    """
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
