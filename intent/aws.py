"""What may be asked of AWS: a head, machines with EFA in one queue, and file systems.

It deliberately judges little: whether it can be bought and launched is for the rules of `catalogue.aws`, which have names and
can be suppressed by them. Only what nobody could build is refused here.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, BaseModel, Field, model_validator

from catalogue import Homes
from catalogue.aws import MACHINE_IMAGES, AwsIntent, Compute, Lustre, OpenZfs, Repository, Volume
from catalogue.aws.intent import PLACEMENTS
from catalogue.containers import Container, read
from intent.kinds import Cidr, PublicKey, Timezone, narrow

#: A network of a VPC is /16 to /28 (VPC user guide), and halves of ours are subnets.
_LARGEST, _SMALLEST = 16, 27
_OURS = ("Name", "busbar:", "aws:")


def _family(value: str) -> str:
    if value not in MACHINE_IMAGES:
        raise ValueError(f"is {value!r}; it must be one of {', '.join(MACHINE_IMAGES)}")
    return value


def _placement(value: str) -> str:
    if value and value not in PLACEMENTS:
        raise ValueError(f"is {value!r}; it must be one of {', '.join(PLACEMENTS)}")
    return value


def _price(value: str) -> str:
    try:
        dear = value and not 0 < float(value) < float("inf")
    except ValueError:
        dear = True
    if dear:
        raise ValueError(f"is {value!r}; it must be a positive number of USD, or empty")
    return value


def _tag(value: str) -> str:
    key, equals, _ = value.partition("=")
    if not key or not equals or key.startswith(_OURS):
        raise ValueError(f"has {value!r}; write key=value with a key of your own, not Name, busbar:... or aws:...")
    return value


def _mirror(value: str) -> str:
    path, equals, place = value.partition("=")
    bucket = place.removeprefix("s3://").partition("/")[0]
    if not path or (equals and (not place.startswith("s3://") or not bucket)):
        raise ValueError(f"has {value!r}; write a folder, or folder=s3://bucket/prefix for a bucket that exists")
    return value


def _container(value: str) -> str:
    if value:
        read(value)
    return value


_Family = Annotated[str, AfterValidator(_family)]
_Days = Annotated[int, Field(ge=0)]


class AwsKeys(BaseModel):
    """The keys of target aws; field names are those of Pulumi.yaml in snake case."""

    #: Keys that have no default and that an empty text does not set.
    needed: ClassVar = frozenset({"region", "zone", "image", "head_image", "ssh_public_key"})
    #: What an empty text means for keys that other targets have too.
    defaults: ClassVar = {
        "shape": "p5.48xlarge",
        "image_family": "ubuntu2204",
        "public_cidr": "10.0.0.0/16",
        "private_cidr": "10.1.0.0/16",
        "home": "true",
        "lustre": "true",
        "lustre_mount": "/fsx",
    }

    cluster_name: str
    nodes: int
    shape: str
    region: Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-\d$")]
    zone: str
    second_zone: str
    image: Annotated[str, Field(pattern=r"^ami-[0-9a-z]+$")]
    image_family: _Family
    head_image: Annotated[str, Field(pattern=r"^ami-[0-9a-z]+$")]
    head_image_family: _Family
    head_type: str
    ssh_public_key: PublicKey
    ssh_from: tuple[Cidr, ...]
    allow_world: bool
    public_cidr: Cidr
    private_cidr: Cidr
    queue: str
    compute_resource: str
    dynamic_nodes: int
    efa: bool
    legacy_efa: bool
    placement: Annotated[str, AfterValidator(_placement)]
    placement_group: str
    capacity: str
    reservation: str
    capacity_block_offering: str
    confirm_purchase: str
    capacity_block_hours: Annotated[int, Field(ge=0)]
    allocation: str
    spot_max_price_usd: Annotated[str, AfterValidator(_price)]
    root_gib: int
    root_iops: int
    root_mibps: int
    head_root_gib: int
    head_root_iops: int
    head_root_mibps: int
    open_modules: bool
    lustre: bool
    lustre_gib: int
    lustre_throughput: int
    lustre_efa: bool
    lustre_mount: str
    lustre_backup_days: _Days
    lustre_on_destroy: str
    mirrors: tuple[Annotated[str, AfterValidator(_mirror)], ...]
    home: bool
    home_deployment: str
    home_gib: int
    home_mbps: int
    home_mount: str
    home_backup_days: _Days
    home_on_destroy: str
    container: Annotated[str, AfterValidator(_container)]
    container_sha256: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")]
    tags: tuple[Annotated[str, AfterValidator(_tag)], ...]
    suppress: tuple[str, ...]
    timezone: Timezone
    preflight: bool

    @model_validator(mode="after")
    def _aws_hangs_together(self) -> Self:
        if self.nodes < 2:  # noqa: PLR2004 - one node has no fabric
            raise ValueError(
                f"nodes is {self.nodes}; machines with EFA are measured together from 2 on, and with fewer there is no fabric"
            )
        for key, zone in (("zone", self.zone), ("secondZone", self.second_zone)):
            if zone and not zone.startswith(self.region):
                raise ValueError(
                    f"{key} is {zone}, which is no zone of region {self.region}; it must be one like {self.region}a"
                )
        if self.mirrors and not self.lustre:
            raise ValueError("mirrors names folders that mirror S3, and lustre is false; they are folders of that file system")
        if self.container_sha256 and not self.container.startswith("/"):
            why = (
                "an imported image is packed anew each time, so no two files of it are alike: pin its digest, "
                "REGISTRY#IMAGE@sha256:..."
                if self.container
                else "there is no image: name its file in container, or leave this empty"
            )
            raise ValueError(
                f"containerSha256 is the checksum of a file on the nodes, and container is {self.container!r}; {why}"
            )
        self._networks_hang_together()
        narrow(self.ssh_from, "head", allow_world=self.allow_world)
        return self

    def _networks_hang_together(self) -> None:
        public, private = ipaddress.IPv4Network(self.public_cidr), ipaddress.IPv4Network(self.private_cidr)
        for key, network in (("publicCidr", public), ("privateCidr", private)):
            if not _LARGEST <= network.prefixlen <= _SMALLEST:
                raise ValueError(
                    f"{key} is {network}; it must be /{_LARGEST} to /{_SMALLEST}, for its halves are subnets of a VPC"
                )
        if public.overlaps(private):
            raise ValueError(
                f"publicCidr {public} and privateCidr {private} overlap; they are two networks of one VPC and must be apart"
            )

    @property
    def intent(self) -> AwsIntent:
        """The whole cluster, as the rules judge it."""
        return AwsIntent(
            name=self.cluster_name,
            region=self.region,
            zone=self.zone,
            second_zone=self.second_zone,
            head_type=self.head_type,
            image=self.image,
            system=self.image_family,
            head_image=self.head_image,
            head_system=self.head_image_family,
            open_modules=self.open_modules,
            operator_key=self.ssh_public_key,
            root=Volume(self.root_gib, self.root_iops, self.root_mibps),
            head_root=Volume(self.head_root_gib, self.head_root_iops, self.head_root_mibps),
            private_prefix=ipaddress.IPv4Network(self.private_cidr).prefixlen + 1,  # the nodes' subnet is its first half
            compute=(self._compute,),
            lustre=self._lustre if self.lustre else None,
            home=self._home if self.home else None,
            container=read(self.container) if self.container else None,
            tags=self.own_tags,
        )

    @property
    def _compute(self) -> Compute:
        return Compute(
            queue=self.queue,
            name=self.compute_resource,
            instance_type=self.shape,
            static=self.nodes,
            dynamic=self.dynamic_nodes,
            efa=self.efa,
            legacy_efa=self.legacy_efa,
            placement=self.placement,
            placement_group=self.placement_group,
            capacity=self.capacity,
            reservation=self.reservation,
            offering=self.capacity_block_offering,
            confirm_purchase=self.confirm_purchase,
            block_hours=self.capacity_block_hours,
            allocation=self.allocation,
            max_price_usd=self.spot_max_price_usd,
            zones=(self.zone,),
        )

    @property
    def _lustre(self) -> Lustre:
        return Lustre(
            capacity_gib=self.lustre_gib,
            throughput=self.lustre_throughput,
            efa=self.lustre_efa,
            mount=self.lustre_mount,
            repositories=tuple(_repository(text) for text in self.mirrors),
            backup_days=self.lustre_backup_days,
            on_destroy=self.lustre_on_destroy,
        )

    @property
    def _home(self) -> OpenZfs:
        return OpenZfs(
            deployment=self.home_deployment,
            capacity_gib=self.home_gib,
            mbps=self.home_mbps,
            mount=self.home_mount,
            backup_days=self.home_backup_days,
            on_destroy=self.home_on_destroy,
        )

    @property
    def image_of_ranks(self) -> Container | None:
        """What ranks run in; None where they run on the machines themselves."""
        if not self.container:
            return None
        return Container(read(self.container), self.container_sha256, self.lustre_mount if self.lustre else "")

    @property
    def own_tags(self) -> dict[str, str]:
        """The tags of everything, beside those that name the cluster."""
        return {key: value for key, _, value in (text.partition("=") for text in self.tags)}

    @property
    def homes(self) -> Homes:
        """Where MPI, CUDA and NCCL lie on the nodes."""
        return MACHINE_IMAGES[self.image_family].homes


def _repository(text: str) -> Repository:
    path, _, place = text.partition("=")
    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    return Repository(path=path, bucket=bucket, prefix=prefix)
