"""Machines with EFA on AWS, in queues, behind a login node, with FSx file systems."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from catalogue import Homes, Shape
from catalogue.aws import MACHINE_IMAGES, MachineImage
from catalogue.aws.instances import BLOCK, INSTANCES, ON_DEMAND, SPOT, Instance
from catalogue.aws.quotas import quota_name
from catalogue.aws.regions import default_openzfs
from catalogue.containers import Container as RankImage
from catalogue.containers import Reference
from catalogue.containers import read as read_reference
from config.custom_actions import CustomActions
from config.measure import Measure
from config.model import Model, UnreadError
from config.shared_values import Access, AllowReplace, AllowReplaceData, Cidr, Fingerprint, OnDestroy, Sha256, Timezone, some
from config.slurm import ALWAYS_ON, ENROOT_SUMS, Scheduler
from config.units import Days, Gib, Hours, MbS, MibS, Usd

Family = Literal["ubuntu2204", "ubuntu2404", "al2023"]
#: How machines are bought. open-odcr uses any matching reservation, targeted-odcr uses the reservation whose id the stack file
#: names, and odcr-group uses the group of reservations whose ARN the stack file names.
Option = Literal["on-demand", "spot", "open-odcr", "targeted-odcr", "odcr-group", "capacity-block"]
_ZONE = re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d)(?:-[a-z]{3}-\d+)?[a-z]")
#: Prefixes of tags that busbar sets on every resource, or that the vendor reserves.
_OURS = ("busbar:", "aws:")


def _image(value: str) -> str:
    if not re.fullmatch(r"ami-[0-9a-z]+", value):
        raise ValueError(f"is {value!r}; it must be the id of an AMI, ami-...")
    return value


def is_local(zone: str) -> bool:
    """Tell whether a zone is a Local Zone, far from the other zones of its region."""
    found = _ZONE.fullmatch(zone)
    return found is not None and zone[:-1] != found[1]


def _zone(value: str) -> str:
    if not _ZONE.fullmatch(value):
        raise ValueError(f"is {value!r}; it must be an availability zone, such as us-east-1a")
    return value


def _tags(value: dict[str, str]) -> dict[str, str]:
    for key in value:
        if not key or key == "Name" or key.startswith(_OURS):
            raise ValueError(f"has {key!r}; use keys of your own, not Name, busbar:... or aws:...")
    return value


def _id(kind: str) -> AfterValidator:
    """Return a validator for the vendor's ids of one kind: `subnet`, `sg` or `fs`."""

    def judge(value: str) -> str:
        if not re.fullmatch(rf"{kind}-[0-9a-z]+", value):
            raise ValueError(f"is {value!r}; it must be an id that begins with {kind}-")
        return value

    return AfterValidator(judge)


def _profile(value: str) -> str:
    if not re.fullmatch(r"[\w+=,.@-]{1,128}", value):  # IAM API, CreateInstanceProfile: InstanceProfileName
        raise ValueError(f"is {value!r}; it must be the name of an instance profile, not its ARN or a path")
    return value


def _reference(value: str) -> str:
    read_reference(value)
    return value


_Image = Annotated[str, AfterValidator(_image)]
_Profile = Annotated[str, AfterValidator(_profile)]
_Backups = Annotated[Days, Field(ge=0)]


class Volume(Model):
    """A gp3 root volume."""

    size_gib: Gib = Field(default=512, description="Size.", examples=["600 GiB"])
    iops: int = Field(default=3000, description="I/O operations per second.", examples=[16000])
    throughput_mib_s: MibS = Field(default=125, description="Throughput.", examples=["1000 MiB/s"])


class Login(Model):
    """The login node, through which all nodes are reached; only login nodes have public addresses."""

    type: str = Field(default="m5.8xlarge", description="Instance type.", examples=["m5.2xlarge"])
    image: _Image | None = Field(
        default=None,
        description="Id of the login node's AMI; null takes AWS's newest Deep Learning image of imageFamily when the login "
        "node is launched, and keeps it.",
        examples=["ami-0123456789abcdef0"],
    )
    image_family: Family = Field(
        default="ubuntu2204",
        description="Operating system of the login node's image; first boot depends on it.",
        examples=["al2023"],
    )
    root: Volume = Field(default=Volume(), description="Root volume of the login node (gp3).")
    elastic_ip: bool = Field(
        default=False,
        description="Give the login node an Elastic IP address, which it keeps when it is stopped; additional login nodes get "
        "none. Like any public address, it costs 0.005 USD an hour, also while the login node is stopped.",
        examples=[True],
    )

    @property
    def family(self) -> MachineImage:
        """The catalogue's row of the login node's image."""
        return MACHINE_IMAGES[self.image_family]


class OwnGroups(Model):
    """Existing security groups; their rules are looked up and never changed."""

    nodes: Annotated[str, _id("sg")] = Field(
        description="The nodes' group; for EFA its rules must allow all traffic from and to the group's own id.",
        examples=["sg-0123456789abcdef0"],
    )
    login: Annotated[str, _id("sg")] = Field(description="The login node's group.", examples=["sg-0123456789abcdef1"])
    storage: Annotated[str, _id("sg")] | None = Field(
        default=None,
        description="The group of all file systems, new and existing; needed if the machines mount a file system.",
        examples=["sg-0123456789abcdef2"],
    )


class ExistingNetwork(Model):
    """Subnets of an existing VPC; nothing in it is changed or destroyed."""

    public_subnet: Annotated[str, _id("subnet")] = Field(
        description="The login node's subnet, with a route to an Internet gateway.", examples=["subnet-0123456789abcdef0"]
    )
    private_subnet: Annotated[str, _id("subnet")] = Field(
        description="The subnet of nodes and file systems, with a way out other than an Internet gateway.",
        examples=["subnet-0123456789abcdef1"],
    )
    groups: OwnGroups | None = Field(
        default=None, description="Existing security groups; null creates new groups.", examples=[None]
    )


class Network(Model):
    """The two networks of a new VPC, or an existing VPC."""

    public: Cidr = Field(
        default="10.0.0.0/16",
        description="The VPC's first network; its first half is the login node's subnet.",
        examples=["172.16.0.0/20"],
    )
    private: Cidr = Field(
        default="10.1.0.0/16",
        description="The VPC's second network; its first half is the nodes' subnet.",
        examples=["172.17.0.0/16"],
    )
    existing: ExistingNetwork | None = Field(
        default=None, description="An existing VPC and subnets, instead of new ones.", examples=[None]
    )

    @property
    def groups(self) -> OwnGroups | None:
        """Existing security groups; None if the stack creates them."""
        return self.existing.groups if self.existing else None

    @property
    def public_subnet(self) -> str:
        """The login node's subnet."""
        return _halves(self.public)[0]

    @property
    def private_subnets(self) -> tuple[str, str]:
        """The nodes' subnet, and the second subnet of a home file system in two zones."""
        return _halves(self.private)


class OwnProfiles(Model):
    """Existing instance profiles; the profiles, their roles and their policies are never changed."""

    nodes: _Profile | None = Field(default=None, description="The nodes' profile; null creates one.", examples=["gpu-nodes"])
    login: _Profile | None = Field(
        default=None,
        description="The login node's profile, whose role may write the parameter /busbar/NAME/host-key; null creates one.",
        examples=["gpu-login"],
    )


class Profiles(Model):
    """Instance profiles, with their roles."""

    existing: OwnProfiles = Field(default=OwnProfiles(), description="Existing profiles, instead of new ones.")


class Purchase(Model):
    """How machines are bought."""

    option: Option = Field(default="on-demand", description="Purchase option.", examples=["spot"])
    reservation: str | None = Field(
        default=None,
        description="Id of a capacity reservation or Capacity Block (cr-...), or ARN of a resource group of reservations.",
        examples=["cr-0123456789abcdef0"],
    )
    offering: str | None = Field(
        default=None, description="Id of a Capacity Block offering (cb-...) to buy.", examples=["cb-0123456789abcdef0"]
    )
    confirm: str | None = Field(
        default=None,
        description="The offering's id again, to confirm the purchase: it is charged at once and cannot be undone.",
        examples=["cb-0123456789abcdef0"],
    )
    show_offerings_h: Annotated[Hours, Field(ge=0)] = Field(
        default=0, description="With option capacity-block: show an offered Capacity Block of this length; 0 h shows none."
    )
    max_price_usd: Annotated[Usd, Field(gt=0)] | None = Field(
        default=None, description="Maximum hourly price of a spot machine; null means the on-demand price."
    )

    @property
    def usage(self) -> str:
        """How the machines are bought, in the vendor's terms: spot, capacity-block or on-demand (with or without an ODCR)."""
        return self.option if self.option in {SPOT, BLOCK} else ON_DEMAND


class Machines(Model):
    """Machines of one type in a queue; they become one launch template."""

    name: str = Field(description="Name of these machines, unique in the queue.", examples=["p5"])
    type: str = Field(default="p5.48xlarge", description="Instance type.", examples=["p5en.48xlarge"])
    static: int = Field(
        default=0,
        ge=0,
        description="Machines that the update itself launches, and that always run; 0 launches none.",
        examples=[2],
    )
    leave_out: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(),
        description="Indexes, from 0, of static machines to leave out: only these machines are terminated.",
        examples=[[1]],
    )
    dynamic: int = Field(
        default=0,
        ge=0,
        description="How many machines aws.slurm, or a scheduler of your own, may start from the entry's launch template.",
        examples=[8],
    )
    always_on: int = Field(default=0, ge=0, description=ALWAYS_ON, examples=[2])
    efa: bool = Field(default=True, description="Launch with EFA on every network card that supports it.", examples=[False])
    legacy_efa: bool = Field(
        default=False,
        description="Launch with the older interfaces that combine EFA and ENA, each of which uses an IP address.",
        examples=[True],
    )
    placement: Literal["managed", "existing", "none"] = Field(
        default="managed",
        description="Placement group: managed creates a cluster placement group, existing uses the group in placementGroup, "
        "none uses no group.",
        examples=["none"],
    )
    placement_group: str | None = Field(
        default=None, description="Name of the placement group, for placement existing.", examples=["mine"]
    )
    purchase: Purchase = Field(default=Purchase(), description="How the machines are bought.")
    custom_actions: CustomActions = Field(default=CustomActions(), description="Scripts of your own at first boot.")

    @property
    def numbers(self) -> tuple[int, ...]:
        """Indexes of the static machines, without the indexes in `leave_out`."""
        return tuple(number for number in range(self.static) if number not in self.leave_out)

    @property
    def instance(self) -> Instance | None:
        """The type's row of the catalogue; None if the catalogue does not have the type."""
        return INSTANCES.get(self.type)

    @property
    def quota(self) -> str | None:
        """The name of the vCPU quota that the machines count towards; None if the quota is unknown."""
        return quota_name(self.type, self.purchase.option)

    @property
    def has_efa(self) -> bool:
        """Whether the machines have EFA."""
        return self.efa and self.instance is not None and self.instance.efa > 0

    @property
    def makes_group(self) -> bool:
        """Whether the stack creates a placement group for the machines.

        A Capacity Block gets no placement group, because its machines are close together anyway.
        """
        return self.placement == "managed" and not self.in_block

    @property
    def in_block(self) -> bool:
        """Whether the machines start in a Capacity Block."""
        return self.purchase.option == BLOCK

    @property
    def row(self) -> Shape | None:
        """The shape that is measured; None if the catalogue does not have the type."""
        return self.instance.shape(efa=self.has_efa) if self.instance else None


class Queue(Model):
    """A queue of machines."""

    name: str = Field(description="Name of the queue. Queues of the same name are one queue in Slurm.", examples=["gpu"])
    machines: Annotated[tuple[Machines, ...], AfterValidator(some)] = Field(description="Machines, one entry for each type.")


class Mirror(Model):
    """A folder of the Lustre file system that mirrors S3."""

    path: str = Field(description="Folder in the Lustre file system that shows the bucket's objects.", examples=["/data"])
    bucket: str | None = Field(
        default=None, description="An existing bucket; null makes a private one.", examples=["training-sets"]
    )
    prefix: str | None = Field(
        default=None, description="Folder in the bucket; null mirrors the whole bucket.", examples=["sets/2026"]
    )


class Lustre(Model):
    """FSx for Lustre (PERSISTENT_2), mounted on every machine."""

    size_gib: Gib = Field(default=1200, description="Capacity: 1200 GiB, or a multiple of 2400 GiB.")
    throughput_mb_s: MbS = Field(
        default=250, description="Throughput for each TiB: 125, 250, 500 or 1000 MB/s.", examples=["500 MB/s"]
    )
    efa: bool = Field(
        default=False,
        description="Machines with EFA reach the file system over EFA, other machines over TCP. A new file system with EFA "
        "consists of whole file servers, so its size must be a multiple of one server's size.",
        examples=[True],
    )
    mount: str = Field(default="/fsx", description="Mount point on the machines.", examples=["/data"])
    mirrors: tuple[Mirror, ...] = Field(
        default=(), description="Folders that mirror S3.", examples=[[{"path": "/data", "bucket": "training-sets"}]]
    )
    backups_days: _Backups = Field(default=0, description="How long daily backups are kept; 0 days for none.")
    on_destroy: OnDestroy = Field(
        default="refuse", description="What destroying the stack does to the data.", examples=["retain"]
    )
    allow_replace: AllowReplaceData = Field(default=(), examples=[["fs-0123456789abcdef0"]])
    existing: Annotated[str, _id("fs")] | None = Field(
        default=None,
        description="Id of an existing file system in the VPC of network.existing: it is mounted, and never changed or "
        "destroyed.",
        examples=["fs-0123456789abcdef0"],
    )
    client_key: Fingerprint | None = Field(
        default=None,
        description="Fingerprint of the key that signs AWS's repository of the Lustre client for Ubuntu. AWS does not publish "
        "the fingerprint; null accepts the key that AWS's bucket serves, and a preview warns if the nodes are Ubuntu.",
        examples=["0123456789ABCDEF0123456789ABCDEF01234567"],
    )
    efa_setup_sha256: Sha256 | None = Field(
        default=None,
        description="sha256 of AWS's archive of scripts, which machines run as root to set up the Lustre client over EFA; "
        "required with efa, because AWS publishes no checksum.",
        examples=["adbd3d27ba6c00bd7b7cf98cc8811c6ad860427ecd5de59527466b21472c0d93"],
    )


class Home(Model):
    """FSx for OpenZFS for home folders, mounted on every machine."""

    deployment: str | None = Field(
        default=None,
        description="Deployment type, which can never be changed; null takes a type that the region offers.",
        examples=["SINGLE_AZ_HA_2"],
    )
    size_gib: Gib = Field(default=512, description="Capacity.", examples=["1 TiB"])
    throughput_mb_s: MbS = Field(default=640, description="Throughput.", examples=["1280 MB/s"])
    mount: str = Field(
        default="/home",
        description="Mount point on the machines; at /home, each machine keeps its own folder of the login user, "
        "unless shareLoginUser is true.",
        examples=["/shared"],
    )
    share_login_user: bool = Field(
        default=False,
        description="Put the login user's home, without its folders .ssh and .busbar, on this file system, so that all "
        "machines share it. Root on any machine then controls what the login user runs on all machines.",
        examples=[True],
    )
    backups_days: _Backups = Field(default=30, description="How long daily backups are kept; 0 days for none.")
    on_destroy: OnDestroy = Field(
        default="refuse", description="What destroying the stack does to the data.", examples=["retain"]
    )
    allow_replace: AllowReplaceData = Field(default=(), examples=[["fs-0123456789abcdef0"]])
    existing: Annotated[str, _id("fs")] | None = Field(
        default=None,
        description="Id of an existing file system in the VPC of network.existing: its root volume is mounted, and it is "
        "never changed or destroyed.",
        examples=["fs-0123456789abcdef1"],
    )


class Storage(Model):
    """FSx for Lustre and FSx for OpenZFS, which every machine mounts; a stack has both by default."""

    lustre: Lustre | None = Field(default=Lustre(), description="FSx for Lustre; null for none.")
    home: Home | None = Field(default=Home(), description="FSx for OpenZFS; null for none.")

    @property
    def systems(self) -> dict[str, Lustre | Home]:
        """The file systems that machines mount, by key."""
        both: dict[str, Lustre | Home | None] = {"lustre": self.lustre, "home": self.home}
        return {key: one for key, one in both.items() if one is not None}

    @property
    def home_mount(self) -> str:
        """Mount point of the home folders; empty if each machine has home folders of its own."""
        return self.home.mount if self.home else ""

    @property
    def stays(self) -> bool:
        """Whether a file system that the stack creates remains when the stack is destroyed."""
        return any(system.on_destroy == "retain" for system in self.systems.values())


class Container(Model):
    """The image that ranks run in."""

    image: Annotated[str, AfterValidator(_reference)] = Field(
        description="Image in enroot's form (docker://REGISTRY#IMAGE:TAG), or path of a .sqsh file on the nodes.",
        examples=["docker://public.ecr.aws#hpc-cloud/nccl-tests:TAG"],
    )
    sha256: Sha256 | None = Field(
        default=None,
        description="sha256 of a .sqsh file; null accepts any content. An image in a registry is pinned by @sha256:...",
        examples=["adbd3d27ba6c00bd7b7cf98cc8811c6ad860427ecd5de59527466b21472c0d93"],
    )
    enroot_sha256: tuple[Sha256, ...] = Field(default=(), description=ENROOT_SUMS, examples=[["4" * 64, "5" * 64]])

    @property
    def reference(self) -> Reference:
        """The image, parsed."""
        return read_reference(self.image)


class Aws(Model):
    """A cluster on AWS: queues of machines with EFA behind a login node."""

    name: str = Field(
        default="busbar",
        description="The cluster's name, in names and tags: lower-case letters, digits and hyphens, beginning with a letter, "
        "at most 40 characters.",
        examples=["train"],
    )
    zone: Annotated[str, AfterValidator(_zone)] | None = Field(
        default=None,
        description="Availability zone of machines and file systems, in the region of aws:region; null takes the first zone "
        "that offers the types, or the zone of network.existing, and keeps it.",
        examples=["us-east-1a"],
    )
    second_zone: Annotated[str, AfterValidator(_zone)] | None = Field(
        default=None, description="Another zone of the region, for a home file system in two zones.", examples=["us-east-1b"]
    )
    access: Access = Field(description="Who may log in, and from where.")
    login: Login = Field(default=Login(), description="The login node.")
    image: _Image | None = Field(
        default=None,
        description="Id of the nodes' AMI; null takes AWS's newest Deep Learning image of imageFamily when an entry's launch "
        "template is created, and keeps it for all nodes of the entry.",
        examples=["ami-0123456789abcdef0"],
    )
    image_family: Family = Field(
        default="ubuntu2204", description="Operating system of the nodes' image; first boot depends on it.", examples=["al2023"]
    )
    open_modules: bool = Field(
        default=True,
        description="Whether the nodes' image has NVIDIA's open kernel modules, which do not support old GPU types.",
        examples=[False],
    )
    root: Volume = Field(default=Volume(), description="Root volume of a node (gp3).")
    network: Network = Field(default=Network(), description="The VPC's networks.")
    profiles: Profiles = Field(default=Profiles(), description="Instance profiles of nodes and login node.")
    queues: Annotated[tuple[Queue, ...], AfterValidator(some)] = Field(description="Queues of machines.")
    storage: Storage = Field(default=Storage(), description="File systems that every machine mounts.")
    container: Container | None = Field(default=None, description="Image that ranks run in; null runs them on the machines.")
    slurm: Scheduler | None = Field(
        default=None,
        description="Makes the login node the controller of a Slurm cluster with the queues in `queues`; the controller starts "
        "their dynamic machines. null for none, `{}` for the defaults.",
        examples=[{"idle": "30 min"}],
    )
    timezone: Timezone = Field(default="UTC", description="Time zone of all machines.", examples=["Asia/Tokyo"])
    allow_replace: AllowReplace = 0
    preflight: bool = Field(
        default=True,
        description="Check, before anything is created, that the account offers the type, that the image fits and that quotas "
        "suffice.",
        examples=[False],
    )
    node_rights: tuple[Literal["s3-read", "ecr-pull"], ...] = Field(
        default=(),
        description="Rights of nodes besides Session Manager's: read the buckets of the account (s3-read), pull from private "
        "registries (ecr-pull).",
        examples=[["ecr-pull"]],
    )
    tags: Annotated[dict[str, str], AfterValidator(_tags)] = Field(
        default={},
        description="Tags on every machine, volume, network, group, role, file system and bucket.",
        examples=[{"team": "training"}],
    )
    suppress: tuple[str, ...] = Field(
        default=(), description="Rules to skip, by the names at the end of refusals.", examples=[["efa-off"]]
    )

    @property
    def region(self) -> str:
        """The zone's region.

        Raises:
            UnreadError: no zone is set, and the account has not been queried for a zone yet.
        """
        if self.zone is None:
            raise UnreadError("zone")
        found = _ZONE.fullmatch(self.zone)
        return found[1] if found else ""

    @property
    def family(self) -> MachineImage:
        """The catalogue's row of the nodes' image."""
        return MACHINE_IMAGES[self.image_family]

    @property
    def homes(self) -> Homes:
        """Where MPI, CUDA and NCCL are on the nodes."""
        return self.family.homes

    @property
    def located(self) -> Iterator[tuple[str, str, Machines]]:
        """All entries of machines, each with its path and its key, which is unique in the stack."""
        for at, queue in enumerate(self.queues):
            for index, one in enumerate(queue.machines):
                yield f"aws.queues[{at}].machines[{index}]", f"{queue.name}-{one.name}", one

    def queue_of(self, key: str) -> str:
        """Return the name of the queue whose entry of machines has the key `key`.

        The queue is found by key, and not by the entry, because entries of two queues may be equal.
        """
        return next(queue.name for queue in self.queues for one in queue.machines if f"{queue.name}-{one.name}" == key)

    @property
    def has_dynamic(self) -> bool:
        """Whether a scheduler may start machines."""
        return any(one.dynamic for _, _, one in self.located)

    @property
    def people(self) -> int:
        """Number of login nodes in addition to Slurm's controller."""
        return self.slurm.login_nodes if self.slurm else 0

    def made_of(self, machines: Machines) -> str:
        """Return a hash of all settings that cannot change while machines run: if the hash changes, the machines are replaced.

        Tags, time zone, keys, the login node and the text of first boot are not part of the hash. The names of the cluster, the
        queue and the entry are not part of the hash either, although a change of these names also replaces the machines.
        """
        systems = {
            key: (one.mount, getattr(one, "efa", False), *((one.existing,) if one.existing else ()))
            for key, one in self.storage.systems.items()
        }
        parts = {
            "machines": machines.model_dump(
                mode="json",
                exclude={"name", "static", "leave_out", "dynamic", "always_on", "purchase", "custom_actions"},
            ),
            "purchase": machines.purchase.model_dump(mode="json", include={"option", "reservation", "offering"}),
            "image": (self.image, self.image_family),
            "root": self.root.model_dump(mode="json"),
            "network": (self.network.model_dump(mode="json", exclude={"existing"}), self.zone),
            "storage": (systems, self.home_deployment if self.storage.home else "", self.container is not None),
        }
        if self.storage.home and self.storage.home.share_login_user:
            parts["home"] = "login user"
        own = self.network.existing
        if own:  # a new network adds no key, so the hash of its machines stays as it was
            parts["existing"] = (own.private_subnet, own.groups.nodes if own.groups else "")
        if self.profiles.existing.nodes:
            parts["profile"] = self.profiles.existing.nodes
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:10]

    @property
    def sizes(self) -> dict[str, int]:
        """Number of static machines by key."""
        return {key: len(one.numbers) for _, key, one in self.located}

    def measured(self, measure: Measure) -> str:
        """Return the key of the machines that are measured.

        The result is the key of the first entry with static machines or, without such an entry, of the first entry in
        `startable`. In both cases, only entries that `measure.pool` allows count. If neither exists, the result is the first
        key of all.
        """
        keys = [key for _, key, _ in self.located]
        able = [key for _, key, one in self.located if one.numbers and measure.pool in {None, key}]
        startable = [key for key in self.startable if measure.pool in {None, key}]
        return [*able, *startable, *keys][0]

    @property
    def startable(self) -> dict[str, int]:
        """Number of machines in the test job, by key, for entries with enough dynamic machines and no static machines."""
        slurm = self.slurm
        if slurm is None:
            return {}
        found = {key: slurm.nodes_of_job(one.dynamic, one.always_on) for _, key, one in self.located if not one.numbers}
        return {key: nodes for key, nodes in found.items() if nodes}

    @property
    def home_deployment(self) -> str:
        """The OpenZFS deployment type: as set, or the region's default."""
        return (self.storage.home.deployment if self.storage.home else None) or default_openzfs(self.region)

    @property
    def mounts(self) -> tuple[str, ...]:
        """Mount points of the file systems on the machines."""
        return tuple(system.mount for system in self.storage.systems.values())

    @property
    def ranks_run_in(self) -> RankImage | None:
        """The image that ranks run in; None if ranks run on the machines themselves."""
        if self.container is None:
            return None
        shared = self.storage.lustre.mount if self.storage.lustre else ""
        return RankImage(self.container.reference, self.container.sha256 or "", shared)

    def named(self, noun: str) -> dict[str, str]:
        """Return the tags of one resource."""
        return {"Name": f"{self.name}-{noun}", "busbar:cluster": self.name, **self.tags}


def _halves(cidr: str) -> tuple[str, str]:
    first, second = ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=1)
    return str(first), str(second)
