"""What a rehearsed host is asked to be, its record, and where it lives; boots nothing and connects nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rehearsal.host import images
from rehearsal.world.world import World, write_whole


@dataclass(frozen=True)
class Rail:
    """One RDMA rail: its interface, its device (mlx5_N, rdmapN), the shape's full line rate, and the device's driver."""

    name: str
    hca: str
    rate_bits_per_s: int
    driver: str = "mlx5"


@dataclass(frozen=True)
class HostSpec:
    """A host as it is asked for.

    Attributes:
        id: [a-z0-9]{6,8}, its name everywhere in the world.
        index: its launch index in its pool, from 0; faults go by it. -1 for an instance outside every pool.
        hostname: short name; with search_domain it is what the name service answers to.
        image: see images.image.
        user_data: given to cloud-init as it is.
        address: in subnet_cidr; the router of vcn_id must know that subnet.
        front_hca: RDMA device of the front-end NIC, if it is one.
        nvme: bytes of each local disk.
        agent_plugins: names of the vendor's agent plugins that are enabled.
        instance_id: what cloud-init takes the machine for; empty: `id`.
        metadata: what the instance metadata service answers, by path without a leading slash; empty: there is no such service.
        may_put: patterns of the parameter names that the machine's role may write.
    """

    id: str
    index: int
    hostname: str
    image: str
    shape: str
    user_data: bytes
    ssh_authorized_keys: tuple[str, ...]
    vcn_id: str
    subnet_cidr: str
    address: str
    gateway: str
    search_domain: str
    front_name: str
    front_hca: str | None = None
    fabric_id: str | None = None
    rails: tuple[Rail, ...] = ()
    gpus: tuple[str, ...] = ()
    nvme: tuple[int, ...] = ()
    agent_plugins: tuple[str, ...] = ()
    front_rate_bits_per_s: int = 100_000_000_000
    instance_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    may_put: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (self.id.isalnum() and self.id.islower() and len(self.id) <= 8):  # noqa: PLR2004 - see below
            raise ValueError(f"host id {self.id!r} must be up to 8 of [a-z0-9], as interface names are made from it.")
        images.image(self.image)


def namespace(world: World, host_id: str) -> str:
    """The network namespace of a host."""
    return world.netns(f"h{host_id}")


def keep(world: World, spec: HostSpec) -> None:
    """Write the record of a host, all but its user data."""
    kept = {key: value for key, value in asdict(spec).items() if key != "user_data"}
    write_whole(world.folder("hosts", spec.id) / "spec.json", json.dumps(kept))


def load(world: World, host_id: str) -> HostSpec:
    """The host of that id as it was asked for, without its user data.

    Raises:
        FileNotFoundError: there is none in this world.
    """
    kept: dict[str, Any] = json.loads((world.path / "hosts" / host_id / "spec.json").read_text())
    rails = tuple(Rail(**one) for one in kept.pop("rails"))
    lists: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in kept.items()}
    return HostSpec(**lists, rails=rails, user_data=b"")


def alive(world: World, host_id: str) -> bool:
    """Whether the host's first process runs, known by its network namespace and not by its number alone."""
    try:
        pid = (world.path / "hosts" / host_id / "pid").read_text()
        own = Path("/run/netns", namespace(world, host_id)).stat().st_ino
        return bool(pid) and Path("/proc", pid, "ns/net").stat().st_ino == own
    except OSError:
        return False
