"""EC2's refusals of a launch: checks the instance type, image, network interfaces and disks.

Messages have EC2's words where a source quotes EC2 (eksctl issue 7520, aws-parallelcluster's validators, EC2's error codes).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rehearsal.aws import addresses
from rehearsal.aws.errors import Problem, combination, invalid, refused
from rehearsal.aws.images import IMAGES
from rehearsal.aws.kinds import GROUP, KEY, MISSING, PROFILE, SUBNET, by_name
from rehearsal.aws.launch import EFA_ONLY, Launch, Nic
from rehearsal.aws.places import zones
from rehearsal.aws.templates import too_long
from rehearsal.aws.types import TYPES, Type
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import Unknown

# EBS user guide, "General Purpose SSD volumes (gp3)": baseline and maximum of IOPS and throughput. The volume's size limits
# the IOPS, and the IOPS limit the throughput.
_GP3_IOPS, _GP3_MIBPS = (3_000, 80_000), (125, 2_000)
_IOPS_PER_GIB, _MIBPS_PER_IOPS = 500, 0.25


def problems(launch: Launch, database: Database, region: str, count: int = 1) -> Iterator[Problem]:
    """Yield every problem of a launch, as far as the inputs are known."""
    yield from _machine(launch, database, region)
    yield from _interfaces(launch, database)
    yield from _addresses(launch, database, count)
    yield from _disk(launch)
    yield from _profile_key_user_data(launch, database)


def _missing(path: str, token: str, named: str) -> Problem:
    code, sentence, status = MISSING[token]
    return refused(path, code, sentence.format(named), status)


def _machine(launch: Launch, database: Database, region: str) -> Iterator[Problem]:
    name, kind, image = launch.known("instanceType"), launch.type, launch.image
    ami = launch.known("ami")
    if ami is not None and image is None:
        yield refused(
            "ami", "InvalidAMIID.NotFound", f"The image id '[{ami}]' does not exist; the rehearsal has {', '.join(IMAGES)}."
        )
    if launch.inputs.get("ami") is None:
        yield refused("ami", "MissingParameter", "The request must contain the parameter ImageId")
    if launch.inputs.get("instanceType") is None:
        yield refused("instanceType", "MissingParameter", "The request must contain the parameter InstanceType")
    if name is not None and kind is None:
        yield invalid("instanceType", f"Invalid value '{name}' for InstanceType; the rehearsal has {', '.join(TYPES)}.")
    if kind is None:
        return
    if image is not None and image.architecture != kind.architecture:
        yield invalid(
            "instanceType",
            f"The architecture '{kind.architecture}' of the specified instance type does not match the architecture "
            f"'{image.architecture}' of the specified AMI. Specify an instance type and an AMI with matching architectures.",
        )
    subnet = launch.subnet(database)
    if subnet is not None and subnet.private["zone"] not in kind.offered(zones(region)):
        yield refused(
            "instanceType",
            "Unsupported",
            f"Your requested instance type ({kind.name}) is not supported in your requested Availability Zone "
            f"({subnet.private['zone']}). Please retry your request by not specifying an Availability Zone or choosing "
            f"{', '.join(kind.offered(zones(region)))}.",
        )


def _interfaces(launch: Launch, database: Database) -> Iterator[Problem]:
    if launch.own_nics and launch.inputs.get("vpcSecurityGroupIds"):
        yield combination(
            "vpcSecurityGroupIds",
            "Network interfaces and an instance-level security groups may not be specified on the same request",
        )
    if launch.own_nics and launch.inputs.get("subnetId"):
        yield combination(
            "subnetId", "Network interfaces and an instance-level subnet ID may not be specified on the same request"
        )
    found: list[Record] = []
    for nic in launch.nics:
        subnet = database.find(nic.subnet, SUBNET)
        if nic.subnet is not None and subnet is None:
            yield _missing(f"{nic.path}.subnetId" if launch.own_nics else nic.path, SUBNET, nic.subnet)
        if subnet is not None:
            found.append(subnet)
            yield from _groups(nic, subnet, database)
    if len({one.private["zone"] for one in found}) > 1:
        yield combination(launch.nics[0].path, "All network interfaces must be in the same Availability Zone.")
    if launch.own_nics and launch.type is not None:
        yield from layout(launch.type, launch.nics)


def _groups(nic: Nic, subnet: Record, database: Database) -> Iterator[Problem]:
    for group in nic.groups or ():
        record = database.find(group, GROUP)
        if record is None:
            yield _missing(nic.path, GROUP, group)
        elif record.inputs["vpcId"] != subnet.inputs["vpcId"]:
            yield refused(
                nic.path, "InvalidParameter", f"Security group {group} and subnet {subnet.id} belong to different networks."
            )


def layout(kind: Type, nics: tuple[Nic, ...]) -> Iterator[Problem]:
    """Yield the problems of a launch's network interfaces on an instance of this type."""
    places = [(nic.card, nic.device) for nic in nics]
    if (0, 0) not in places:
        yield combination(nics[0].path, "A primary network interface is needed: network card index 0, device index 0.")
    for nic in nics:
        if places.count((nic.card, nic.device)) > 1:
            yield invalid(
                nic.path,
                f"Each network interface requires a unique device index: card {nic.card} has two "
                f"with device index {nic.device}.",
            )
            return
        if nic.card >= len(kind.cards):
            yield invalid(
                f"{nic.path}.networkCardIndex",
                f"The network card index {nic.card} exceeds what {kind.name} has: {len(kind.cards)} network cards, from 0.",
            )
        elif nic.device >= kind.cards[nic.card]:
            yield invalid(
                f"{nic.path}.deviceIndex",
                f"The specified number '{nic.device}' for the device index exceeds the maximum of network card {nic.card} of "
                f"{kind.name}, which takes {kind.cards[nic.card]} interfaces.",
            )
        if nic.kind == EFA_ONLY and (nic.card, nic.device) == (0, 0):
            yield combination(nic.path, "An EFA-only network interface cannot be the primary network interface.")
    yield from _efa(kind, nics)


def _efa(kind: Type, nics: tuple[Nic, ...]) -> Iterator[Problem]:
    cards = [nic.card for nic in nics if nic.efa]
    if cards and not kind.efa:
        yield combination(nics[0].path, f"EFA interfaces are not supported on {kind.name}.")
        return
    if len(cards) > kind.efa:
        yield refused(
            nics[0].path, "AttachmentLimitExceeded", f"Interface count {len(cards)} exceeds the {kind.efa} EFAs of {kind.name}."
        )
    if len(set(cards)) != len(cards):
        yield combination(nics[0].path, "A network card takes one EFA interface; the request has two on one card.")
    if 0 in cards and kind.efa < len(kind.cards):
        yield combination(nics[0].path, f"Network card 0 of {kind.name} does not support EFA.")


def _addresses(launch: Launch, database: Database, count: int) -> Iterator[Problem]:
    subnet = launch.subnet(database)
    many = len(launch.nics) > 1
    if many and any(nic.public for nic in launch.nics):
        yield combination(
            f"{launch.nics[0].path}.associatePublicIpAddress",
            "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.",
        )
    if subnet is None:
        return
    if many and subnet.inputs.get("mapPublicIpOnLaunch") and any(nic.public is None for nic in launch.nics):
        yield combination(
            launch.nics[0].path,
            f"Subnet {subnet.id} assigns public addresses at launch, but an instance with several interfaces "
            "cannot have a public address.",
        )
    wanted = count * sum(nic.kind != EFA_ONLY for nic in launch.nics)
    room = addresses.room(database, subnet)
    if wanted > room:
        yield refused(
            launch.nics[0].path,
            "InsufficientFreeAddressesInSubnet",
            f"The specified subnet does not have enough free addresses to satisfy the request: {wanted} wanted, {room} free.",
        )
    for nic in launch.nics:
        if nic.address is not None and not addresses.within(nic.address, subnet):
            yield invalid("privateIp", f"Address {nic.address} does not fall within the subnet's address range")
        elif nic.address is not None and nic.address in addresses.taken(database):
            yield refused("privateIp", "InvalidIPAddress.InUse", f"Address {nic.address} is in use.")


def _disk(launch: Launch) -> Iterator[Problem]:
    root, image = launch.root, launch.image
    size, iops, speed = (_number(root.get(name)) for name in ("volumeSize", "iops", "throughput"))
    if size is not None and image is not None and size < image.root_gib:
        yield refused(
            "rootBlockDevice.volumeSize",
            "InvalidBlockDeviceMapping",
            f"Volume of size {size:g}GB is smaller than snapshot of {image.id}, expect size >= {image.root_gib}GB",
        )
    if isinstance(root.get("volumeType"), Unknown):
        return
    if str(root.get("volumeType") or "gp3") != "gp3":
        if speed is not None:
            yield combination(
                "rootBlockDevice.throughput", f"The parameter throughput is not supported for {root['volumeType']}."
            )
        return
    for path, value, (low, high) in (("iops", iops, _GP3_IOPS), ("throughput", speed, _GP3_MIBPS)):
        if value is not None and not low <= value <= high:
            yield invalid(f"rootBlockDevice.{path}", f"Volume {path} of {value:g} is not in the range of gp3: {low} to {high}.")
    if iops is not None and size is not None and iops > max(_GP3_IOPS[0], size * _IOPS_PER_GIB):
        yield combination(
            "rootBlockDevice.iops", f"The iops to volume size ratio is too high: at most {_IOPS_PER_GIB} per GiB."
        )
    if speed is not None and speed > (iops or _GP3_IOPS[0]) * _MIBPS_PER_IOPS:
        yield combination(
            "rootBlockDevice.throughput", f"The throughput to iops ratio is too high: at most {_MIBPS_PER_IOPS} MiB/s per IOPS."
        )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _profile_key_user_data(launch: Launch, database: Database) -> Iterator[Problem]:
    profile = launch.profile
    if profile is not None and by_name(database, PROFILE, profile) is None:
        yield _missing("iamInstanceProfile", PROFILE, profile)
    key = launch.known("keyName")
    if key is not None and by_name(database, KEY, key) is None:
        yield _missing("keyName", KEY, key)
    problem = too_long("userData", len(launch.user_data)) if launch.user_data is not None else None
    if problem:
        yield problem
