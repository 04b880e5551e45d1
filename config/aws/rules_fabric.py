"""Rules about EFA, placement groups, zones, networks and containers.

Only two facts are looked up for these rules: the provider's region, and the account's placement groups.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from catalogue.aws.instances import BLOCK, INSTANCES, ON_DEMAND, SPOT
from catalogue.aws.versions import Stack
from config import slurm_rules
from config.aws.facts import Facts
from config.aws.model import Aws
from config.rule import ERROR, WARNING, Breach, known, rule

_CLUSTER = "aws-parallelcluster:cli/src/pcluster/validators/cluster_validators.py"
_EC2 = "aws-parallelcluster:cli/src/pcluster/validators/ec2_validators.py"
#: Networks and subnets of a VPC are /16 to /28 (VPC user guide). A subnet is one half of `network.public` or of
#: `network.private`, so each of these two must be a /27 or larger.
_LARGEST, _SMALLEST = 16, 27
_Breaches = Iterator[Breach]


@rule("ssh-sources", ERROR, "the login node is on the Internet", guard=True)
def ssh_sources(wanted: Aws, _facts: Facts) -> _Breaches:
    """An `sshFrom` that lets nobody in, or everybody."""
    yield from wanted.access.broken("aws.access")


@rule("networks", ERROR, "VPC user guide: sizes of networks and subnets", guard=True)
def networks(wanted: Aws, _facts: Facts) -> _Breaches:
    """Networks that a VPC cannot have."""
    public, private = ipaddress.IPv4Network(wanted.network.public), ipaddress.IPv4Network(wanted.network.private)
    for key, network in (("public", public), ("private", private)):
        if not _LARGEST <= network.prefixlen <= _SMALLEST:
            yield Breach(
                f"aws.network.{key}",
                f"is {network}; it must be /{_LARGEST} to /{_SMALLEST}, because a half of it is a subnet of a VPC",
            )
    if public.overlaps(private):
        yield Breach(
            "aws.network.private",
            f"is {private}, which overlaps aws.network.public {public}; they are two networks of one VPC and must not overlap",
        )


@rule("second-zone", ERROR, f"{_CLUSTER} DuplicateSubnets and multi-AZ subnets", number=27)
def second_zone(wanted: Aws, _facts: Facts) -> _Breaches:
    """A second zone that equals the first zone, or is in another region."""
    if wanted.second_zone is None:
        return
    if wanted.second_zone == wanted.zone:
        yield Breach("aws.secondZone", f"is {wanted.second_zone}, like aws.zone; it must be another zone of {wanted.region}")
    elif not wanted.second_zone.startswith(wanted.region):
        yield Breach(
            "aws.secondZone", f"is {wanted.second_zone}, which is not a zone of {wanted.region}, the region of aws.zone"
        )


@rule("zone-missing", ERROR, "EC2 user guide, Capacity Reservations and Capacity Blocks: each is in one zone", guard=True)
def zone_missing(wanted: Aws, _facts: Facts) -> _Breaches:
    """No zone, although another key needs one: a second zone, or capacity that was reserved in one zone."""
    if wanted.zone is not None or wanted.network.existing:
        return
    if wanted.second_zone is not None:
        yield Breach("aws.zone", f"is not set, and aws.secondZone is {wanted.second_zone}; set both, because they must differ")
    for path, _, one in wanted.located:
        if one.purchase.option not in {ON_DEMAND, SPOT}:
            yield Breach(
                "aws.zone",
                f"is not set, and {path}.purchase.option is {one.purchase.option}; set the zone in which that capacity is",
            )


@rule("provider-region", ERROR, "the provider creates everything in its own region", guard=True)
def provider_region(wanted: Aws, facts: Facts) -> _Breaches:
    """A zone that is not in the provider's region."""
    if facts.region is not None and facts.region != wanted.region:
        yield Breach(
            "aws.zone", f"is {wanted.zone}, and aws:region of this stack is {facts.region}; the zone must be in that region"
        )


@rule("efa-unsupported", ERROR, f"{_CLUSTER} EfaValidator", number=1)
def efa_unsupported(wanted: Aws, _facts: Facts) -> _Breaches:
    """EFA on a type that has no EFA."""
    able = ", ".join(name for name, row in INSTANCES.items() if row.efa)
    for path, _, one in wanted.located:
        if one.efa and one.instance is not None and not one.instance.efa:
            yield Breach(f"{path}.efa", f"is true, but {one.type} has no EFA; types with EFA are {able}")


@rule("efa-off", WARNING, f"{_CLUSTER} EfaValidator", number=2)
def efa_off(wanted: Aws, _facts: Facts) -> _Breaches:
    """A type with EFA, launched without EFA."""
    for path, _, one in wanted.located:
        if not one.efa and one.instance is not None and one.instance.efa:
            yield Breach(
                f"{path}.efa",
                f"is false, but {one.type} has {one.instance.efa} EFA devices; NCCL will use TCP, at a fraction of their rate",
            )


@rule("efa-cards", ERROR, "NVIDIA/nccl:src/os/linux.cc, ncclOsSocketStartConnect")
def efa_cards(wanted: Aws, _facts: Facts) -> _Breaches:
    """A type with several network cards, launched without EFA.

    An ENA on each card would not help. All ENAs share a subnet and NCCL does not bind its connections to an address, so the
    kernel sends all connections through the first card. A routing table for each card would not help either: it is chosen by
    the source address, and a connection that NCCL opens has none yet.
    """
    for path, _, one in wanted.located:
        if not one.efa and one.instance is not None and one.instance.efa and len(one.instance.cards) > 1:
            yield Breach(
                f"{path}.efa",
                f"is false, but {one.type} has {len(one.instance.cards)} network cards, and NCCL over TCP sends only through "
                "the first card; set it to true, or put efa-cards into aws.suppress to measure that card alone",
            )


@rule("placement-off", WARNING, f"{_CLUSTER} EfaPlacementGroupValidator", number=4)
def placement_off(wanted: Aws, _facts: Facts) -> _Breaches:
    """EFA without a placement group."""
    for path, _, one in wanted.located:
        if one.has_efa and one.purchase.option != BLOCK and one.placement == "none":
            yield Breach(
                f"{path}.placement",
                "is none, although EFA is on; a cluster placement group (managed) keeps machines close together",
            )


@rule("placement-strategy", ERROR, f"{_EC2} PlacementGroupCapacityTypeValidator", number=9)
def placement_strategy(wanted: Aws, facts: Facts) -> _Breaches:
    """A placement group of another strategy than `cluster`, or a type that supports no group of this strategy."""
    for path, _, one in wanted.located:
        if one.placement in {"managed", "existing"} and one.instance is not None and not one.instance.cluster_placement:
            yield Breach(
                f"{path}.placement", f"is {one.placement}, and {one.type} supports no placement group of strategy cluster"
            )
        if one.placement == "existing" and one.placement_group:
            strategy = known(facts.placement_groups, one.placement_group, "placement group")
            if strategy not in {None, "cluster"}:
                yield Breach(
                    f"{path}.placementGroup", f"is {one.placement_group}, whose strategy is {strategy}; it must be cluster"
                )


@rule("placement-block", WARNING, f"{_EC2} capacity blocks and placement groups", number=11)
def placement_block(wanted: Aws, _facts: Facts) -> _Breaches:
    """A placement group together with a Capacity Block; `managed` creates no group there."""
    for path, _, one in wanted.located:
        if one.purchase.option == BLOCK and one.placement in {"managed", "existing"}:
            owned = one.placement == "managed"
            then = "no group is created for it" if owned else "the group may have no room although the block has some"
            yield Breach(
                f"{path}.placement",
                f"is {one.placement} with a Capacity Block; set placement to none, because the block is already in one place, "
                f"and {then}",
            )


@rule("placement-contradiction", ERROR, f"{_CLUSTER} PlacementGroupNamingValidator", number=14)
def placement_contradiction(wanted: Aws, _facts: Facts) -> _Breaches:
    """A group that is named but not used, or used but not named."""
    for path, _, one in wanted.located:
        if one.placement_group and one.placement != "existing":
            yield Breach(
                f"{path}.placementGroup",
                f"is {one.placement_group}, but placement is {one.placement}; set placement to existing, or name no group",
            )
        if one.placement == "existing" and not one.placement_group:
            yield Breach(
                f"{path}.placementGroup",
                "is not set, but placement is existing; give the group's name, or set placement to managed",
            )


@rule("placement-missing", ERROR, f"{_CLUSTER} PlacementGroupNamingValidator", number=14)
def placement_missing(wanted: Aws, facts: Facts) -> _Breaches:
    """A group that does not exist."""
    for path, _, one in wanted.located:
        group = one.placement_group if one.placement == "existing" else None
        if group and known(facts.placement_groups, group, "placement group") is None:
            yield Breach(f"{path}.placementGroup", f"is {group}, and {wanted.region} has no group of that name")


@rule("container-versions", ERROR, "awsome-distributed-training:1.architectures/efa-cheatsheet.md")
def container_versions(wanted: Aws, _facts: Facts) -> _Breaches:
    """An image whose tag states versions with which NCCL cannot work over EFA.

    The versions are too old for the instance type, do not work together, or are known to hang. A version that the tag does not
    state is not checked.
    """
    if wanted.container is None:
        return
    image = wanted.container.reference
    stack = Stack.of(image.text, image.tag)
    for _, _, one in wanted.located:
        if one.has_efa and (why := stack.refusal(one.type)):
            yield Breach("aws.container.image", f"is {image.text}, and according to its tag {why}")


@rule("container-file", WARNING, "enroot 4.1: doc/cmd/create.md; a path must mean the same file on every node")
def container_file(wanted: Aws, _facts: Facts) -> _Breaches:
    """A container image's file whose path is on no shared file system, so that the nodes must have the file themselves."""
    path = wanted.container.reference.path if wanted.container else ""
    if path and not any(path.startswith(f"{mount.rstrip('/')}/") for mount in wanted.mounts):
        shared = ", ".join(wanted.mounts) or "none"
        yield Breach(
            "aws.container.image",
            f"is {path}, which is on no file system that the nodes share ({shared}); a new machine has this file only if its "
            f"AMI {wanted.image or '(the newest of its family)'} contains it, or a script of customActions puts it there",
        )


@rule("container-sum", ERROR, "enroot 4.1: doc/cmd/import.md; each import packs the image again", guard=True)
def container_sum(wanted: Aws, _facts: Facts) -> _Breaches:
    """A checksum of a file although the image is not a file."""
    if wanted.container is not None and wanted.container.sha256 and not wanted.container.reference.path:
        yield Breach(
            "aws.container.sha256",
            f"is the checksum of a file on the nodes, but image is {wanted.container.image}; every import packs the image "
            "into a file with another checksum, so pin the image's digest: REGISTRY#IMAGE@sha256:...",
        )


@rule("enroot-unchecked", WARNING, "enroot 4.1: doc/installation.md, which states no checksums")
def enroot_unchecked(wanted: Aws, _facts: Facts) -> _Breaches:
    """Packages of enroot that machines install unchecked, because the stack file gives no sha256."""
    if wanted.container is not None and not wanted.container.enroot_sha256 and not (wanted.slurm and wanted.slurm.containers):
        yield Breach("aws.container.enrootSha256", slurm_rules.ENROOT_UNCHECKED)
    yield from slurm_rules.enroot_unchecked("aws.slurm", wanted.slurm)
