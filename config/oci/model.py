"""One or several cluster networks of bare-metal GPU nodes on OCI, behind a login node."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from catalogue import GENERIC, IMAGES, SHAPES, Homes, ImageFamily, Shape, nearest
from catalogue.containers import NERDCTL, NERDCTL_SUMS, TOOLKIT, TOOLKIT_KEY, Reference
from catalogue.containers import Container as RankImage
from catalogue.containers import read as read_reference
from catalogue.oci.imports import IMPORTS
from catalogue.oci.marketplace import MARKETPLACE
from catalogue.oci.storage import LUSTRE_STEP_GB, MOUNT_TARGET_ADDRESSES, lustre_addresses
from config.custom_actions import CustomActions
from config.measure import Measure
from config.model import Model
from config.shared_values import (
    Access,
    AllowReplace,
    AllowReplaceData,
    Cidr,
    Fingerprint,
    Globs,
    OnDestroy,
    Sha256,
    Timezone,
    some,
    three_numbers,
)
from config.slurm import ALWAYS_ON, TOOLKIT_SIGNER, Scheduler
from config.units import Gb, GbitS, MbS

#: busbar's freeform tags: the cluster's name, the stack (two stacks may share a name), and the text of `Oci.machines` with
#: which a pool's machines were created.
OWNER, STACK, MADE_FOR = "busbar", "busbar-stack", "busbar-machines"
#: Families of the images that a stack file may set by name.
_NAMED = {row.key: row.family for row in MARKETPLACE.values()} | {row.key: row.family for row in IMPORTS.values()}
Family = Literal["ol7", "ol8", "ol9", "ubuntu2204", "ubuntu2404"]


def _ocid(kind: str) -> AfterValidator:
    return AfterValidator(partial(_is_ocid, kind))


def _is_ocid(kind: str, value: str) -> str:
    if not re.fullmatch(rf"ocid1\.(?:{kind})\.[a-z0-9]+\.[a-z0-9-]*\.[A-Za-z0-9_-]+", value):
        raise ValueError(f"is {value!r}; it must be an OCID that begins with ocid1.{kind.replace('|', '. or ocid1.')}.")
    return value


def _image(value: str) -> str:
    if value in _NAMED:
        return value
    if not value.startswith("ocid1."):
        raise ValueError(f"is {value!r}; it must be one of {', '.join(_NAMED)}, or an OCID that begins with ocid1.image")
    return _is_ocid("image", value)


def _label(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9]{0,14}", value):
        raise ValueError(
            f"is {value!r}; it must be a DNS label: 1 to 15 lower-case letters and digits, beginning with a letter"
        )
    return value


def _shape(value: str) -> str:
    if value not in SHAPES:
        raise ValueError(
            f"is {value!r}, which is not an RDMA shape in the catalogue; the nearest are {', '.join(nearest(value, SHAPES))}"
        )
    row = SHAPES[value]
    if not row.gpus or row.rdma is None:
        lack = "no GPU" if not row.gpus else "no rail data in the catalogue"
        raise ValueError(f"is {value!r}, which has {lack}, so NCCL cannot be measured on it")
    return value


class Login(Model):
    """The login node, through which all nodes are reached; only login nodes have public addresses."""

    image: Annotated[str, _ocid("image")] | None = Field(
        default=None,
        description="OCID of the login node's image; null takes the newest platform image of imageFamily when the login node "
        "is created, and keeps it.",
        examples=["ocid1.image.oc1.ap-tokyo-1.aaaa"],
    )
    image_family: Family = Field(
        default="ol9", description="Operating system of the login node's image; first boot depends on it.", examples=["ol8"]
    )
    shape: str = Field(default="VM.Standard.E5.Flex", description="Flexible VM shape.", examples=["VM.Optimized3.Flex"])
    ocpus: int = Field(default=1, ge=1, description="OCPUs.", examples=[2])
    memory_gb: Annotated[Gb, Field(ge=1)] = Field(default=14, description="Memory.", examples=["32 GB"])

    @property
    def family(self) -> ImageFamily:
        """The catalogue's row of the login node's image."""
        return IMAGES[self.image_family]


class ExistingNetwork(Model):
    """Existing subnets in one VCN; nothing in it is changed or destroyed."""

    public_subnet: Annotated[str, _ocid("subnet")] = Field(
        description="The login node's subnet, with a route to an Internet gateway.",
        examples=["ocid1.subnet.oc1.ap-tokyo-1.aaaa"],
    )
    private_subnet: Annotated[str, _ocid("subnet")] = Field(
        description="The subnet of nodes and file systems, with a way out other than an Internet gateway.",
        examples=["ocid1.subnet.oc1.ap-tokyo-1.aaab"],
    )


class Network(Model):
    """The VCN and its two subnets, or existing subnets.

    RDMA rails use 192.168.0.0/16 and 10.224.0.0/12, so the VCN must not overlap these networks.
    """

    vcn: Cidr = Field(default="10.0.0.0/16", description="The VCN.", examples=["172.16.0.0/16"])
    public: Cidr = Field(default="10.0.0.0/24", description="Subnet of the login node.", examples=["172.16.0.0/24"])
    private: Cidr = Field(
        default="10.0.1.0/24", description="Subnet of the nodes and file systems.", examples=["172.16.1.0/24"]
    )
    ingress: Literal["all", "ssh"] = Field(
        default="all",
        description="What nodes accept from the VCN: `all` accepts all traffic, which MPI and NCCL need. `ssh` accepts only "
        "SSH and the ports of file systems, to show how a measurement then fails.",
        examples=["ssh"],
    )
    existing: ExistingNetwork | None = Field(
        default=None, description="Existing subnets, instead of a new VCN.", examples=[None]
    )

    def at(self, key: Literal["vcn", "public", "private"]) -> str:
        """Return the path of the key that sets the VCN or a subnet: `oci.network.{key}`, or a key of existing subnets."""
        if self.existing is None:
            return f"oci.network.{key}"
        return f"oci.network.existing.{'publicSubnet' if key == 'public' else 'privateSubnet'}"


class Software(Model):
    """Where software is on the nodes, if it is not in the image family's usual place."""

    mpi: Globs | None = Field(
        default=None, description="Folders of Open MPI; null for the image family's folders.", examples=[["/opt/openmpi-5.0.8"]]
    )
    cuda: Globs | None = Field(
        default=None, description="Folders of CUDA; null for the image family's folders.", examples=[["/usr/local/cuda-12.8"]]
    )
    nccl: Globs | None = Field(
        default=None,
        description="Folders of NCCL, each with include/nccl.h; null for the image family's folders.",
        examples=[["/opt/nccl"]],
    )


class Root(Model):
    """A boot volume."""

    size_gb: Gb = Field(default=256, description="Size; 200 GB or more, for drivers, containers and logs.", examples=["512 GB"])


class Pool(Model):
    """Nodes of one shape in one cluster network, or a single instance."""

    name: Annotated[str, AfterValidator(_label)] = Field(description="Name of the pool, unique in the stack.", examples=["gpu"])
    shape: Annotated[str, AfterValidator(_shape)] = Field(
        default="BM.GPU4.8", description="Shape of the nodes, one of catalogue/oci/shapes.py.", examples=["BM.GPU.H100.8"]
    )
    nodes: int = Field(
        ge=0,
        description="Number of nodes: 2 or more with a cluster network, exactly 1 without; 0 rents no machine.",
        examples=[2],
    )
    dynamic: int = Field(default=0, ge=0, description="How many nodes oci.slurm may start when jobs need them.", examples=[8])
    always_on: int = Field(default=0, ge=0, description=ALWAYS_ON, examples=[2])
    fallback_domains: tuple[str, ...] = Field(
        default=(),
        description="Availability domains that Slurm tries, in this order, if the stack's own domain has no capacity for a "
        "job's nodes; all nodes of a job start in one domain.",
        examples=[["Uocm:PHX-AD-2", "Uocm:PHX-AD-3"]],
    )
    queue: str = Field(
        default="compute",
        description="Queue (Slurm's partition) of the pool's nodes in oci.slurm; the queue of the first pool with dynamic "
        "nodes is the default.",
        examples=["train"],
    )
    cluster_network: bool = Field(
        default=True,
        description="true joins the nodes by a cluster network; false rents a single instance and measures between its GPUs.",
        examples=[False],
    )
    image: Annotated[str, AfterValidator(_image)] = Field(
        default="ol8-nv570",
        description="Image of the nodes: a name in catalogue/oci/marketplace.py (the stack subscribes to it), a name in "
        "catalogue/oci/imports.py (the stack imports it), or an OCID.",
        examples=["ocid1.image.oc1.ap-tokyo-1.aaaa"],
    )
    image_family: Family = Field(
        default="ol8",
        description="Operating system of an image that is given by OCID; first boot depends on it.",
        examples=["ol9"],
    )
    software: Software = Field(default=Software(), description="Where software is on the nodes.")
    root: Root = Field(default=Root(), description="Boot volume of a node.")
    custom_actions: CustomActions = Field(default=CustomActions(), description="Scripts of your own at first boot.")

    @property
    def row(self) -> Shape:
        """The shape's row of the catalogue; without a cluster network, a copy of that row without rails.

        Without rails, MPI's few messages stay inside the node and use transports that every build of Open MPI has. The vendor's
        tutorial for one node sets no variables for rails, either (ocitutorials: benchmark/run-nccltests, section 3-1).
        """
        row = SHAPES[self.shape]
        return row if self.cluster_network else replace(row, rdma=None, environment=GENERIC)

    @property
    def family(self) -> ImageFamily:
        """The image's row of the catalogue."""
        return IMAGES[_NAMED.get(self.image, self.image_family)]

    @property
    def homes(self) -> Homes:
        """Where MPI, CUDA and NCCL are on the nodes."""
        own, usual = self.software, self.family.homes
        return Homes(own.mpi or usual.mpi, own.cuda or usual.cuda, own.nccl or usual.nccl)


def _reference(value: str) -> str:
    found = read_reference(value)
    if found.path:
        raise ValueError(f"is {value!r}, a file for enroot; containerd takes images of a registry, docker://REGISTRY#IMAGE:TAG")
    if "@" in value.removeprefix("docker://").partition("#")[0]:
        raise ValueError(
            f"is {value!r}; give users and passwords to containerd with `nerdctl login` on the node, not in the name"
        )
    return value


class Distribution(Model):
    """nerdctl's full distribution, one archive with containerd, runc, CNI plugins and nerdctl, which first boot installs."""

    version: Annotated[str, three_numbers("2.2.0")] = Field(
        default=NERDCTL, description="Version of nerdctl; 2.2.0 contains containerd 2.2.0 and runc 1.3.3.", examples=["2.2.1"]
    )
    sums: Sha256 = Field(
        default=NERDCTL_SUMS,
        description="sha256 of the release's file SHA256SUMS, as the release notes state it; the archive is checked against "
        "that file.",
        examples=[NERDCTL_SUMS],
    )


class Container(Model):
    """The image that ranks run in, and its container runtime."""

    image: Annotated[str, AfterValidator(_reference)] = Field(
        description="docker://REGISTRY#IMAGE:TAG, or with @sha256:... for a digest.",
        examples=["docker://nvcr.io#nvidia/tensorflow:25.02-tf2-py3"],
    )
    runtime: Literal["containerd"] = Field(
        default="containerd",
        description="Container runtime inside one node. A Slurm job does not use this runtime; Pyxis starts the image there.",
        examples=["containerd"],
    )
    containerd: Distribution = Field(default=Distribution(), description="Software that first boot installs to run the image.")
    toolkit: Annotated[str, three_numbers("2.2.0")] = Field(
        default=TOOLKIT,
        description="Version of NVIDIA Container Toolkit, which describes the GPUs to containerd (CDI).",
        examples=["1.18.2"],
    )
    toolkit_key: Fingerprint = Field(default=TOOLKIT_KEY, description=TOOLKIT_SIGNER, examples=[TOOLKIT_KEY])

    @property
    def reference(self) -> Reference:
        """The image, parsed."""
        return read_reference(self.image)


class Export(Model):
    """An existing export of a mount target; it is mounted, and never changed or destroyed."""

    mount_target: Annotated[str, _ocid("mounttarget")] = Field(
        description="OCID of the mount target, in the VCN of network.existing.",
        examples=["ocid1.mounttarget.oc1.ap-tokyo-1.aaaa"],
    )
    path: str | None = Field(
        default=None, description="Path of the export; null takes the mount target's only export.", examples=["/files"]
    )


class Home(Model):
    """File Storage (NFS) for home folders or shared software, behind one mount target."""

    mount: str = Field(
        default="/home",
        description="Mount point on the machines; at /home, each machine keeps its own folder of the login user, "
        "unless shareLoginUser is true.",
        examples=["/fss"],
    )
    share_login_user: bool = Field(
        default=False,
        description="Put the login user's home, without its folders .ssh and .busbar, on this file system, so that all "
        "machines share it. Root on any machine then controls what the login user runs on all machines.",
        examples=[True],
    )
    throughput_gbit_s: GbitS = Field(
        default=1,
        description="Throughput of the mount target: 1 Gbit/s, or 20, 40 or 80, which are billed for at least 30 days. A mount "
        "target is created with 1 Gbit/s; set a higher throughput in a later update.",
    )
    on_destroy: OnDestroy = Field(
        default="refuse", description="What destroying the stack does to the data.", examples=["retain"]
    )
    allow_replace: AllowReplaceData = Field(default=(), examples=[["ocid1.filesystem.oc1.ap_tokyo_1.aaaa"]])
    existing: Export | None = Field(default=None, description="An existing export, instead of a new one.", examples=[None])

    @property
    def addresses(self) -> int:
        """Number of addresses that the mount target uses in its subnet."""
        return MOUNT_TARGET_ADDRESSES


class Lustre(Model):
    """A Lustre file system that every node mounts."""

    size_gb: Gb = Field(default=LUSTRE_STEP_GB, description="Capacity, a multiple of 31200 GB.", examples=["62400 GB"])
    throughput_mb_s: MbS = Field(
        default=250, description="Throughput for each TB: 125, 250, 500 or 1000 MB/s.", examples=["500 MB/s"]
    )
    mount: str = Field(default="/lustre", description="Mount point on the nodes.", examples=["/data"])
    on_destroy: OnDestroy = Field(
        default="refuse", description="What destroying the stack does to the data.", examples=["retain"]
    )
    allow_replace: AllowReplaceData = Field(default=(), examples=[["ocid1.lustrefilesystem.oc1.ap-tokyo-1.aaaa"]])
    existing: Annotated[str, _ocid("lustrefilesystem")] | None = Field(
        default=None,
        description="OCID of an existing file system in the VCN of network.existing: it is mounted, and never changed or "
        "destroyed.",
        examples=["ocid1.lustrefilesystem.oc1.ap-tokyo-1.aaaa"],
    )

    @property
    def addresses(self) -> int:
        """Number of addresses that the file system may use in its subnet."""
        return lustre_addresses(self.size_gb)


class Storage(Model):
    """File systems that every node mounts; none by default."""

    home: Home | None = Field(default=None, description="File Storage (NFS); null for none.")
    lustre: Lustre | None = Field(default=None, description="Lustre; null for none.")

    @property
    def systems(self) -> dict[str, Home | Lustre]:
        """The file systems that the stack file sets, by key."""
        both = {"home": self.home, "lustre": self.lustre}
        return {key: one for key, one in both.items() if one is not None}

    @property
    def home_mount(self) -> str:
        """Mount point of the home folders; empty if each machine has home folders of its own."""
        return self.home.mount if self.home else ""

    @property
    def made(self) -> dict[str, Home | Lustre]:
        """The file systems that the stack creates, by key."""
        return {key: one for key, one in self.systems.items() if one.existing is None}

    @property
    def stays(self) -> bool:
        """Whether a destroy keeps the stack's own Lustre file system, whose servers are in the private subnet."""
        return self.lustre is not None and self.lustre.on_destroy == "retain"


class Oci(Model):
    """A cluster on OCI: pools of bare-metal GPU nodes behind a login node."""

    name: Annotated[str, AfterValidator(_label)] = Field(
        default="busbar", description="Prefix of display names, and DNS label of the VCN.", examples=["train"]
    )
    compartment: Annotated[str, _ocid("compartment|tenancy")] = Field(
        description="OCID of the compartment that everything is created in, except the dynamic group of oci.slurm.",
        examples=["ocid1.compartment.oc1..aaaa"],
    )
    tenancy: Annotated[str, _ocid("tenancy")] | None = Field(
        default=None,
        description="OCID of the tenancy, which has the limits; null looks it up from the compartment.",
        examples=["ocid1.tenancy.oc1..aaaa"],
    )
    availability_domain: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Availability domain; null takes the only domain that offers the shapes; if several domains offer "
        "them, you must choose.",
        examples=["Uocm:PHX-AD-1"],
    )
    access: Access = Field(description="Who may log in, and from where.")
    login: Login = Field(default=Login(), description="The login node.")
    network: Network = Field(default=Network(), description="The VCN and its subnets.")
    pools: Annotated[tuple[Pool, ...], AfterValidator(some)] = Field(description="Pools of GPU nodes.")
    storage: Storage = Field(default=Storage(), description="File systems that every node mounts.")
    tags: dict[str, str] = Field(
        default={}, description="Freeform tags of everything that is created and takes tags.", examples=[{"team": "research"}]
    )
    container: Container | None = Field(
        default=None, description="Image that ranks run in, inside one instance; null runs them on the nodes."
    )
    slurm: Scheduler | None = Field(
        default=None,
        description="Makes the login node the controller of a Slurm cluster, which starts the pools' dynamic nodes; null for "
        "none, `{}` for the defaults.",
        examples=[{"idle": "30 min"}],
    )
    timezone: Timezone = Field(default="UTC", description="Time zone of all machines.", examples=["Asia/Tokyo"])
    allow_replace: AllowReplace = Field(
        default=0,
        description="Number of GPU machines that an update may terminate because their image, shape or launch settings "
        "changed, because a pool shrinks (OCI terminates the oldest nodes of the pool), or because a pool is removed. Nodes "
        "that Slurm started are counted separately, and their count may not exceed the same number. If the login node is "
        "replaced, all of them count; otherwise only those that the update removes while jobs run on them. Remove this key "
        "after the update. With `preflight: false`, an update counts only nodes that Slurm started, and a preview counts none.",
        examples=[2],
    )
    preflight: bool = Field(
        default=True,
        description="Look up missing values, and check, before anything is created, that the account offers the shape, that "
        "the image fits and that limits suffice.",
        examples=[False],
    )
    suppress: tuple[str, ...] = Field(
        default=(), description="Rules to skip, by the names at the end of refusals.", examples=[["limit"]]
    )

    @property
    def all_tags(self) -> dict[str, str]:
        """Freeform tags of every resource."""
        return {**self.tags, OWNER: self.name}

    @property
    def ranks_run_in(self) -> RankImage | None:
        """The image that ranks run in, and its container runtime; None if ranks run on the nodes."""
        return RankImage(self.container.reference, runtime=self.container.runtime) if self.container else None

    @property
    def search_domain(self) -> str:
        """DNS domain of a new private subnet, as the VCN's resolver serves it."""
        return f"private.{self.name}.oraclevcn.com"

    @property
    def located(self) -> Iterator[tuple[str, Pool]]:
        """Every pool with its path."""
        return ((f"oci.pools[{index}]", pool) for index, pool in enumerate(self.pools))

    def machines(self, pool: Pool) -> str:
        """Return the shape and a hash of the settings that cannot change while machines of `pool` run.

        If this text changes, the machines are replaced.
        """
        home, lustre = self.storage.home, self.storage.lustre
        mounts: list[Any] = [home and home.mount, lustre and [lustre.mount, lustre.throughput_mb_s]]
        mounts += ["login user"] if home and home.share_login_user else []
        # Only existing file systems add a text here: for all other machines, the hash must stay as it was before this line.
        mounts += [str(one.existing) for one in self.storage.systems.values() if one.existing is not None]
        network = self.network.existing
        subnet = network.private_subnet if network else self.network.private
        parts = [pool.shape, pool.image, pool.root.size_gb, subnet, mounts]
        parts += [] if pool.cluster_network else ["single"]
        own = self.container  # only what first boot installs is hashed: a running machine can use another container image
        parts += [[own.containerd.version, own.toolkit]] if own else []
        return f"{pool.shape}:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]}"

    @property
    def named_images(self) -> tuple[str, ...]:
        """The images that pools set by name, each once."""
        return tuple(dict.fromkeys(pool.image for pool in self.pools if pool.image in _NAMED))

    def shapes_of(self, image: str) -> tuple[str, ...]:
        """Return the shapes of the pools that have this image, each once."""
        return tuple(dict.fromkeys(pool.shape for pool in self.pools if pool.image == image))

    @property
    def image_ocids(self) -> tuple[str, ...]:
        """The images that pools set by OCID, each once."""
        return tuple(dict.fromkeys(pool.image for pool in self.pools if pool.image not in _NAMED))

    @property
    def sizes(self) -> dict[str, int]:
        """Number of nodes of every pool by its name."""
        return {pool.name: pool.nodes for pool in self.pools}

    def measured_pool(self, measure: Measure) -> Pool:
        """Return the pool that is measured.

        If `measure.pool` names a pool, only that pool is considered, otherwise all pools. The result is the first of these
        pools that has nodes. If none has nodes, it is the first of them whose nodes a job starts. If no job starts nodes of
        these pools, it is the first pool of the stack.
        """
        meant = [pool for pool in self.pools if measure.pool in {None, pool.name}]
        running, startable = [one for one in meant if one.nodes], [one for one in meant if self.job_nodes(one)]
        return [*running, *startable, *self.pools][0]

    @property
    def people(self) -> int:
        """Number of login nodes in addition to Slurm's controller."""
        return self.slurm.login_nodes if self.slurm else 0

    def job_nodes(self, pool: Pool) -> int:
        """Return how many nodes of `pool` the test job uses.

        The result is 0 without Slurm, for a pool with static nodes, and for a pool with too few dynamic nodes.
        """
        return self.slurm.nodes_of_job(pool.dynamic, pool.always_on) if self.slurm and not pool.nodes else 0

    @property
    def startable(self) -> dict[str, int]:
        """Name of each pool whose nodes a job starts -> number of nodes that the test job uses."""
        return {pool.name: nodes for pool in self.pools if (nodes := self.job_nodes(pool))}

    def measured(self, measure: Measure) -> str:
        """Return the name of the pool that is measured."""
        return self.measured_pool(measure).name

    def label(self, pool: Pool) -> str:
        """Return the display name of a pool's cluster network, or of its single instance."""
        return f"{self.name}-{pool.name}"

    def slurms_label(self, pool: Pool) -> str:
        """Return the beginning of the display names of cluster networks that Slurm's controller creates for a pool."""
        return f"{self.label(pool)}-slurm"

    @property
    def private(self) -> ipaddress.IPv4Network:
        """The private subnet."""
        return ipaddress.IPv4Network(self.network.private)
