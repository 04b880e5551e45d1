"""What may be asked of AWS, as plain frozen records: queues of machines, file systems, where and how they are paid.

It deliberately refuses nothing: `catalogue.aws.rules` does, so that every refusal has a name and can be suppressed by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalogue.aws.facts import Facts
from catalogue.aws.regions import default_openzfs
from catalogue.containers import Reference
from catalogue.instances import BLOCK, INSTANCES, ON_DEMAND, SPOT, Instance

#: How capacity is found. `open-odcr` is consumed by matching alone, `targeted-odcr` by its id, `odcr-group` by a group's ARN.
CAPACITIES = (ON_DEMAND, SPOT, "open-odcr", "targeted-odcr", "odcr-group", BLOCK)
#: Where machines stand: a cluster placement group made here, one that exists, or wherever there is room.
PLACEMENTS = ("managed", "existing", "none")


@dataclass(frozen=True, kw_only=True)
class Compute:
    """One kind of machine of one queue; it becomes one launch template.

    Attributes:
        queue, name: the queue, and this kind within it.
        instance_type: the vendor's name of the type.
        static: machines that always run.
        dynamic: machines that a scheduler may add later.
        efa: launch with EFA; `legacy_efa` with the combined interfaces of older templates.
        placement: one of `PLACEMENTS`, or empty: undecided.
        placement_group: name of the group, for `existing`.
        capacity: one of `CAPACITIES`.
        reservation: id of a capacity reservation (`cr-...`), or ARN of a resource group of them.
        offering: id of a Capacity Block offering (`cb-...`) that shall be bought.
        confirm_purchase: that id again: a purchase cannot be undone, so it is said twice.
        block_hours: length of a block to be shown what is on offer; 0 shows nothing.
        allocation: strategy of a spot or on-demand fleet; empty is the lowest price.
        max_price_usd: the most for a spot machine in an hour; empty is the on-demand price.
        zones: availability zones.
        public_addresses: machines get public addresses.
        tags: on machines and volumes, beside the cluster's.
    """

    queue: str
    name: str
    instance_type: str
    static: int
    dynamic: int = 0
    efa: bool = True
    legacy_efa: bool = False
    placement: str = "managed"
    placement_group: str = ""
    capacity: str = ON_DEMAND
    reservation: str = ""
    offering: str = ""
    confirm_purchase: str = ""
    block_hours: int = 0
    allocation: str = ""
    max_price_usd: str = ""
    zones: tuple[str, ...]
    public_addresses: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return the name that is unique in a cluster."""
        return f"{self.queue}-{self.name}"

    @property
    def instance(self) -> Instance | None:
        """Return the catalogue's row; None where there is none."""
        return INSTANCES.get(self.instance_type)

    @property
    def has_efa(self) -> bool:
        """Tell whether the machines will have EFA."""
        return self.efa and self.instance is not None and self.instance.efa > 0

    @property
    def makes_group(self) -> bool:
        """Tell whether it has a placement group of its own: never with a Capacity Block, which stands in one place already."""
        return self.placement == "managed" and self.capacity != BLOCK

    @property
    def usage(self) -> str:
        """Return how it is bought, in the vendor's word; reservations are on-demand machines."""
        return self.capacity if self.capacity in {SPOT, BLOCK} else ON_DEMAND


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A folder of the Lustre file system that mirrors an S3 bucket (data repository association).

    Attributes:
        path: the folder, such as /data.
        bucket: name of an existing bucket; empty makes a private one.
        prefix: where in the bucket.
    """

    path: str = "/data"
    bucket: str = ""
    prefix: str = ""


@dataclass(frozen=True, kw_only=True)
class Lustre:
    """An FSx for Lustre file system of type PERSISTENT_2.

    Attributes:
        capacity_gib: storage.
        throughput: MB/s for each TiB of it.
        efa: clients reach it over EFA; it can be chosen at creation only.
        mount: where nodes mount it.
        repositories: folders that mirror S3.
        backup_days: how long daily backups are kept; 0 for none.
        on_destroy: what destroying the stack does to it, one of `file_systems.ON_DESTROY`.
    """

    capacity_gib: int = 1200
    throughput: int = 250
    efa: bool = False
    mount: str = "/fsx"
    repositories: tuple[Repository, ...] = ()
    backup_days: int = 0
    on_destroy: str = "refuse"

    @property
    def mbps(self) -> float:
        """Return its throughput in MB/s (decimal, as the vendor computes it)."""
        return self.capacity_gib * self.throughput / 1024


@dataclass(frozen=True, kw_only=True)
class OpenZfs:
    """An FSx for OpenZFS file system.

    Attributes:
        deployment: the vendor's deployment type; empty takes one that the region offers. It can never be changed.
        capacity_gib: storage.
        mbps: throughput in MB/s.
        mount: where nodes mount it.
        backup_days: how long daily backups are kept; 0 for none.
        on_destroy: what destroying the stack does to it, one of `file_systems.ON_DESTROY`.
    """

    deployment: str = ""
    capacity_gib: int = 512
    mbps: int = 640
    mount: str = "/home"
    backup_days: int = 30
    on_destroy: str = "refuse"


@dataclass(frozen=True)
class Volume:
    """A gp3 root volume: size in GiB, I/O operations per second, throughput in MiB/s."""

    gib: int = 512
    iops: int = 3000
    mibps: int = 125


@dataclass(frozen=True, kw_only=True)
class AwsIntent:
    """A whole cluster.

    Attributes:
        name: of the cluster; prefix of every name in the account.
        region, zone: where.
        second_zone: another zone of the region, for a file system that stands in two; empty where none does.
        head_type: instance type of the head node.
        image, head_image: ids of machine images; `system` and `head_system` are their kinds (`catalogue.aws.MACHINE_IMAGES`).
        open_modules: the image has NVIDIA's open kernel modules.
        operator_key: public key that may log in; empty where only Session Manager may.
        root, head_root: root volumes.
        private_prefix: prefix length of the nodes' subnet.
        compute: kinds of machines.
        lustre, home: file systems; None for none.
        container: image that ranks run in, None where they run on the machines themselves.
        tags: on everything.
        facts: what the account said.
    """

    name: str
    region: str
    zone: str
    second_zone: str = ""
    head_type: str = "m5.8xlarge"
    image: str = ""
    system: str = "ubuntu2204"
    head_image: str = ""
    head_system: str = "ubuntu2204"
    open_modules: bool = True
    operator_key: str = ""
    root: Volume = Volume()
    head_root: Volume = Volume()
    private_prefix: int = 17
    compute: tuple[Compute, ...] = ()
    lustre: Lustre | None = None
    home: OpenZfs | None = None
    container: Reference | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)

    @property
    def home_deployment(self) -> str:
        """Return the OpenZFS deployment type that is meant."""
        return (self.home.deployment if self.home else "") or default_openzfs(self.region)

    @property
    def mounts(self) -> tuple[str, ...]:
        """Return where nodes mount file systems."""
        return tuple(system.mount for system in (self.lustre, self.home) if system is not None)
