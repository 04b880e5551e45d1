"""The description of a rehearsed host, and its record in the world."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rehearsal.host.images import Image
from rehearsal.world.world import World, write_whole


@dataclass(frozen=True)
class Rail:
    """One RDMA rail.

    Attributes:
        name: name of the rail's interface.
        hca: name of the rail's RDMA device (mlx5_N, rdmapN).
        rate_bits_per_s: the line rate of a rail of the real shape; in the world, the rate is divided by the world's scale.
        driver: the device's driver: `mlx5`, `irdma` or `efa`.
        protocol: how NCCL moves bytes over an EFA device: `RDMA` or `SENDRECV`; the protocol decides which counters grow.
    """

    name: str
    hca: str
    rate_bits_per_s: int
    driver: str = "mlx5"
    protocol: str = "RDMA"


@dataclass(frozen=True)
class HostSpec:
    """The host that a cloud or a site requests.

    Attributes:
        id: at most 8 characters of [a-z0-9]; the host's name everywhere in the world.
        index: the host's launch index in its pool, from 0; -1 for a host outside every pool. Faults select hosts by this index.
        hostname: name without a domain; the name service knows the host as hostname.search_domain.
        image: the host's image; the host's record keeps only the image's name.
        user_data: passed to cloud-init unchanged.
        address: address of the front end, in subnet_cidr; the router of vcn_id must know that subnet.
        front_hca: RDMA device of the front-end NIC; None if this NIC has no RDMA device.
        gpu_buses: PCI bus of each GPU; if empty, buses are numbered in order.
        nvme: size of each local disk in bytes.
        nvme_model: model name of all local disks.
        agent_plugins: names of the vendor's agent plugins that are enabled.
        instance_id: the instance id for cloud-init; if empty, `id`.
        metadata: texts of the instance metadata service, by path without a leading slash; if empty, the host has
            no such service.
        metadata_program: the program of the metadata service, started as `PROGRAM WORLD HOST_ID PORT`.
        bystanders: RDMA devices of driver mlx5 that belong to no fabric and have no interface.
        may_put: patterns of the names of SSM parameters that the host may write through the metadata service.
        firmware: contents of /sys/class/dmi/id, by file.
        processors: sockets, cores per socket and threads per core that schedulers see; if empty, the numbers of this machine.
        memory_mib: memory that schedulers see.
        programs: folders of this machine that are mounted read-only in the host, by path in the host without the first /.
    """

    id: str
    index: int
    hostname: str
    image: Image
    shape: str
    user_data: bytes
    ssh_authorized_keys: tuple[str, ...]
    vcn_id: str
    subnet_cidr: str
    address: str
    gateway: str
    search_domain: str
    front_name: str = "eth0"
    front_hca: str | None = None
    bystanders: tuple[str, ...] = ()
    fabric_id: str | None = None
    rails: tuple[Rail, ...] = ()
    gpus: tuple[str, ...] = ()
    gpu_buses: tuple[str, ...] = ()
    nvme: tuple[int, ...] = ()
    nvme_model: str = ""
    agent_plugins: tuple[str, ...] = ()
    front_rate_bits_per_s: int = 100_000_000_000
    instance_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    metadata_program: str = ""
    may_put: tuple[str, ...] = ()
    firmware: Mapping[str, str] = field(default_factory=dict)
    processors: tuple[int, ...] = ()
    memory_mib: int = 0
    programs: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (self.id.isalnum() and self.id.islower() and len(self.id) <= 8):  # noqa: PLR2004 - see below
            raise ValueError(
                f"host id {self.id!r} must be at most 8 characters of [a-z0-9], because interface names are made from it."
            )


def namespace(world: World, host_id: str) -> str:
    """Return the network namespace of a host."""
    return world.netns(f"h{host_id}")


def keep(world: World, spec: HostSpec) -> None:
    """Write the record of a host: everything except its user data, and only the name of its image."""
    kept = {key: value for key, value in asdict(spec).items() if key != "user_data"} | {"image": spec.image.name}
    write_whole(world.folder("hosts", spec.id) / "spec.json", json.dumps(kept))


def load(world: World, host_id: str) -> HostSpec:
    """Return the specification of the host `host_id`, without user data and with only the name of the image.

    Raises:
        FileNotFoundError: this world has no such host.
    """
    kept: dict[str, Any] = json.loads((world.path / "hosts" / host_id / "spec.json").read_text())
    rails = tuple(Rail(**one) for one in kept.pop("rails"))
    image = Image(kept.pop("image"))
    lists: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in kept.items()}
    return HostSpec(**lists, image=image, rails=rails, user_data=b"")


def alive(world: World, host_id: str) -> bool:
    """Return whether the host's first process runs. The network namespace identifies the process, because pids are reused."""
    try:
        pid = (world.path / "hosts" / host_id / "pid").read_text()
        own = Path("/run/netns", namespace(world, host_id)).stat().st_ino
        return bool(pid) and Path("/proc", pid, "ns/net").stat().st_ino == own
    except OSError:
        return False
