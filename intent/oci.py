"""What may be asked of OCI: a cluster network of bare-metal GPU nodes behind a bastion.

It deliberately asks no account: what only an account knows is asked by `components.oci.preflight`.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from catalogue import IMAGES, SHAPES, Homes, ImageFamily, Shape, nearest
from catalogue.file_systems import misplaced, overlap
from catalogue.oci_storage import Lustre, Nfs
from intent.kinds import Cidr, PublicKey, Timezone, narrow, ocid

#: Networks of the RDMA rails: written by first boot on Oracle Linux 7, given by the vendor's agent on later images.
RAIL_NETWORKS = (ipaddress.IPv4Network("192.168.0.0/16"), ipaddress.IPv4Network("10.224.0.0/12"))
#: The vendor keeps the first two addresses and the last one of a subnet.
_RESERVED_ADDRESSES = 3
_LONGEST_PREFIX = 30
#: Where first boot puts the local disks.
_SCRATCH = "/mnt/localdisk"


def _shape(value: str) -> str:
    if value not in SHAPES:
        msg = f"is {value!r}, which is not an RDMA shape in the catalogue; the nearest are {', '.join(nearest(value))}"
        raise ValueError(msg)
    shape = SHAPES[value]
    if not shape.gpus or shape.rdma is None:
        lack = "no GPU" if not shape.gpus else "no rail data in the catalogue"
        msg = f"is {value!r}, which has {lack}, so NCCL cannot be measured on it"
        raise ValueError(msg)
    return value


def _family(value: str) -> str:
    if value not in IMAGES:
        msg = f"is {value!r}; it must be one of {', '.join(IMAGES)}"
        raise ValueError(msg)
    return value


_Family = Annotated[str, AfterValidator(_family)]


class OciKeys(BaseModel):
    """The keys of target oci; field names are those of Pulumi.yaml in snake case."""

    #: Keys that have no default and that an empty text does not set.
    needed: ClassVar = frozenset({"image", "bastion_image", "tenancy", "compartment", "availability_domain", "ssh_public_key"})
    #: What an empty text means for keys that other targets have too.
    defaults: ClassVar = {
        "shape": "BM.GPU4.8",
        "image_family": "ol8",
        "public_cidr": "10.0.0.0/24",
        "private_cidr": "10.0.1.0/24",
        "home": "false",
        "lustre": "false",
        "lustre_mount": "/lustre",
    }

    cluster_name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,14}$")]
    nodes: int
    shape: Annotated[str, AfterValidator(_shape)]
    image: Annotated[str, ocid("image")]
    image_family: _Family
    bastion_image: Annotated[str, ocid("image")]
    bastion_image_family: _Family
    bastion_shape: str
    bastion_ocpus: Annotated[int, Field(ge=1)]
    bastion_memory_gb: Annotated[int, Field(ge=1)]
    tenancy: Annotated[str, ocid("tenancy")]
    compartment: Annotated[str, ocid("(?:compartment|tenancy)")]
    availability_domain: Annotated[str, Field(min_length=1)]
    home_region: str
    ssh_public_key: PublicKey
    ssh_from: tuple[Cidr, ...]
    allow_world: bool
    vcn_cidr: Cidr
    public_cidr: Cidr
    private_cidr: Cidr
    private_ingress: Annotated[str, Field(pattern="^(all|ssh)$")]
    boot_volume_gb: int
    timezone: Timezone
    iam: bool
    preflight: bool
    home: bool
    home_gbit_s: int
    home_mount: str
    home_on_destroy: str
    lustre: bool
    lustre_capacity_gb: int
    lustre_throughput: int
    lustre_mount: str
    lustre_on_destroy: str

    @model_validator(mode="after")
    def _oci_hangs_together(self) -> Self:
        if self.nodes < 2:  # noqa: PLR2004 - one node has no fabric
            raise ValueError(
                f"nodes is {self.nodes}; a cluster network joins 2 or more, and with fewer there is no fabric to measure"
            )
        if self.boot_volume_gb < 200:  # noqa: PLR2004 - the vendor's tutorials say 200 for GPU nodes
            raise ValueError(
                f"bootVolumeGb is {self.boot_volume_gb}; GPU nodes need 200 or more for drivers, containers and logs"
            )
        self._file_systems_hang_together()
        self._networks_hang_together()
        narrow(self.ssh_from, "bastion", allow_world=self.allow_world)
        return self

    def _networks_hang_together(self) -> None:
        vcn, public, private = (ipaddress.IPv4Network(cidr) for cidr in (self.vcn_cidr, self.public_cidr, self.private_cidr))
        for rails in RAIL_NETWORKS:
            if vcn.overlaps(rails):
                raise ValueError(
                    f"vcnCidr is {vcn}, which overlaps {rails}; the RDMA rails use that network, and traffic would go astray"
                )
        if not 16 <= vcn.prefixlen <= _LONGEST_PREFIX:  # noqa: PLR2004 - the vendor's own bound
            raise ValueError(f"vcnCidr is {vcn}; the cloud takes /16 to /{_LONGEST_PREFIX}")
        for key, subnet in (("publicCidr", public), ("privateCidr", private)):
            if not subnet.subnet_of(vcn):
                raise ValueError(f"{key} is {subnet}, which lies outside vcnCidr {vcn}")
            if subnet.prefixlen > _LONGEST_PREFIX:
                raise ValueError(f"{key} is {subnet}; the cloud takes /{_LONGEST_PREFIX} at the smallest")
        if public.overlaps(private):
            raise ValueError(f"publicCidr {public} and privateCidr {private} overlap; each machine must lie in one of them")
        self._private_network_has_room(private)
        if self.family.rdma == "ifcfg":
            self._rails_hang_together(private)

    def _private_network_has_room(self, private: ipaddress.IPv4Network) -> None:
        room = private.num_addresses - _RESERVED_ADDRESSES
        servers = sum(system.addresses for system in (self.nfs, self.lustre_system) if system is not None)
        if room < self.nodes:
            raise ValueError(f"privateCidr is {private}, which has room for {room} machines; {self.nodes} nodes are asked for")
        if room < self.nodes + servers:
            raise ValueError(
                f"privateCidr is {private}, which has {room} addresses; {self.nodes} nodes and the servers of the file systems "
                f"take {self.nodes + servers}, so it must be larger"
            )

    def _file_systems_hang_together(self) -> None:
        own = f"/home/{self.family.login}"
        mounts = [system.mount for system in (self.nfs, self.lustre_system) if system is not None]
        for sentence in misplaced(mounts, (_SCRATCH,)):
            raise ValueError(sentence)
        # All home folders may be shared, for first boot then keeps the login user's own; no other mount may cover it.
        if (self.home and self.home_mount != "/home" and overlap(self.home_mount, own)) or (
            self.lustre and overlap(self.lustre_mount, own)
        ):
            raise ValueError(
                f"a file system is mounted over {own}, which holds the keys by which nodes are reached; mount it elsewhere, or "
                "home at /home"
            )
        if self.lustre and not self.family.lustre:
            able = ", ".join(key for key, family in IMAGES.items() if family.lustre)
            raise ValueError(
                f"lustre is true and imageFamily is {self.image_family}, for which no client can be built; use {able}"
            )

    def _rails_hang_together(self, private: ipaddress.IPv4Network) -> None:
        rdma = self.node_shape.rdma
        if rdma is not None and not rdma.el7_netdevs:
            raise ValueError(
                f"imageFamily is {self.image_family}, and no such image drives the rails of {self.shape}; use ol8 or later"
            )
        if private.prefixlen < 24:  # noqa: PLR2004 - y of 192.168.x.y is the last octet
            raise ValueError(
                f"privateCidr is {private}; on {self.image_family} the rails take the last octet of a node's address, "
                "so the subnet must be /24 or smaller, or two nodes would share one"
            )

    @property
    def nfs(self) -> Nfs | None:
        """The file system for home folders or shared software; None where none is wanted."""
        if not self.home:
            return None
        return Nfs(mount=self.home_mount, target_gbit_s=self.home_gbit_s, on_destroy=self.home_on_destroy)

    @property
    def lustre_system(self) -> Lustre | None:
        """The Lustre file system; None where none is wanted."""
        if not self.lustre:
            return None
        return Lustre(
            capacity_gb=self.lustre_capacity_gb,
            throughput=self.lustre_throughput,
            mount=self.lustre_mount,
            on_destroy=self.lustre_on_destroy,
        )

    @property
    def node_shape(self) -> Shape:
        """The nodes' row of the catalogue."""
        return SHAPES[self.shape]

    @property
    def family(self) -> ImageFamily:
        """The nodes' image family."""
        return IMAGES[self.image_family]

    @property
    def bastion_family(self) -> ImageFamily:
        """The bastion's image family."""
        return IMAGES[self.bastion_image_family]

    @property
    def homes(self) -> Homes:
        """Where MPI, CUDA and NCCL lie on the nodes."""
        return self.family.homes
