"""What may be asked of machines that already exist: which they are, how they are reached, and what they are.

First contact (`components.acceptance.ready`) uses the host keys that are pinned here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from catalogue import SERVERS, SHAPES, Homes, Shape, nearest
from catalogue.detection import named
from intent import inventory, known_hosts
from intent.inventory import Machine
from intent.kinds import network

#: What `shape` says where the machines are asked themselves.
DETECT = "detect"
_USER = r"^[a-z_][a-z0-9_.-]{0,31}$"


def _shape(value: str) -> str:
    if value == DETECT:
        return value
    row = named(value)
    if row is None:
        near = nearest(value, among=[*SERVERS, *SHAPES])
        msg = f"is {value!r}, which is not in the catalogue; the nearest are {', '.join(near)}, and {DETECT} asks the machines"
        raise ValueError(msg)
    if not row.gpus:
        msg = f"is {value!r}, which has no GPU, so NCCL cannot be measured on it"
        raise ValueError(msg)
    return value


def _network(value: str) -> str:
    return network(value) if value else ""


class HostsKeys(BaseModel):
    """The keys of target hosts; field names are those of Pulumi.yaml in snake case."""

    #: Keys that have no default and that an empty text does not set.
    needed: ClassVar = frozenset({"hosts_user"})
    #: What an empty text means for keys that other targets have too.
    defaults: ClassVar = {"shape": DETECT}

    nodes: int
    shape: Annotated[str, AfterValidator(_shape)]
    hosts: tuple[str, ...]
    inventory: str
    hosts_user: Annotated[str, Field(pattern=_USER)]
    jump: str
    known_hosts: str
    network: Annotated[str, AfterValidator(_network)]
    mpi_home: tuple[str, ...]
    cuda_home: tuple[str, ...]
    nccl_home: tuple[str, ...]

    @model_validator(mode="before")
    @classmethod
    def _count(cls, values: Any) -> Any:
        """Count the machines that are named: `nodes` is no choice here."""
        hosts = values.get("hosts") or ()
        if isinstance(hosts, str):
            raise ValueError(f"hosts is {hosts!r}; it must be a list of addresses, each of which may be name=address")
        return {**values, "nodes": len(_machines(tuple(hosts), str(values.get("inventory") or "")))}

    @model_validator(mode="after")
    def _hosts_hang_together(self) -> Self:
        for key, globs in (("mpiHome", self.mpi_home), ("cudaHome", self.cuda_home), ("ncclHome", self.nccl_home)):
            if not globs or not all(pattern.startswith("/") for pattern in globs):
                raise ValueError(f"{key} is {', '.join(globs) or 'empty'}; it must be a list of absolute paths or globs")
        if self.jump and not _jump(self.jump):
            raise ValueError(f"jump is {self.jump!r}; it must be user@address, or empty where the hosts are reached directly")
        _ = self.pinned, self.jump_key
        return self

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The machines in the order in which they were named; the first is the head."""
        return _machines(self.hosts, self.inventory)

    @property
    def pinned(self) -> tuple[str, ...]:
        """The machines' host keys, in the same order."""
        known = known_hosts.read(self.known_hosts)
        return tuple(known.key(machine.address) for machine in self.machines)

    @property
    def jump_user(self) -> str | None:
        """The login user on the jump host, if there is one."""
        found = _jump(self.jump)
        return found[0] if found else None

    @property
    def jump_address(self) -> str | None:
        """The jump host's address, if there is one."""
        found = _jump(self.jump)
        return found[1] if found else None

    @property
    def jump_key(self) -> str | None:
        """The jump host's key, if there is one."""
        return known_hosts.read(self.known_hosts).key(self.jump_address) if self.jump_address else None

    @property
    def node_shape(self) -> Shape | None:
        """The machines' row of the catalogue, None where they are asked."""
        return named(self.shape)

    @property
    def homes(self) -> Homes:
        """Where MPI, CUDA and NCCL lie on the machines."""
        return Homes(self.mpi_home, self.cuda_home, self.nccl_home)


def _machines(hosts: tuple[str, ...], path: str) -> tuple[Machine, ...]:
    if bool(hosts) == bool(path):
        both = "both set" if path else "both empty"
        raise ValueError(f"hosts and inventory are {both}; name the machines in one of them, at least one machine")
    if hosts:
        try:
            found = tuple(inventory.entry(str(text)) for text in hosts)
        except ValueError as error:
            raise ValueError(f"hosts: {error}") from None
    else:
        try:
            found = inventory.read(Path(path).expanduser().read_text())
        except OSError as error:
            raise ValueError(f"inventory is {path!r}, which cannot be read ({error.strerror})") from None
        except ValueError as error:
            raise ValueError(f"inventory {path}: {error}") from None
        if not found:
            raise ValueError(f"inventory is {path!r}, which names no host")
    inventory.refuse_twice(found)
    return found


def _jump(text: str) -> tuple[str, str] | None:
    """Return user and address of a jump host, None where the text names none."""
    user, at, address = text.partition("@")
    try:
        return (inventory.entry(user).address, inventory.entry(address).address) if at else None
    except ValueError:
        return None
