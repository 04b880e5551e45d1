"""Rules about EFA, public addresses and placement groups; they ask for nothing that a launch template does not decide."""

from __future__ import annotations

from collections.abc import Iterator

from catalogue.aws.facts import known
from catalogue.aws.images import MACHINE_IMAGES
from catalogue.aws.intent import AwsIntent
from catalogue.aws.rule import ERROR, WARNING, rule
from catalogue.aws.versions import Stack
from catalogue.instances import BLOCK, INSTANCES

_CLUSTER = "aws-parallelcluster:cli/src/pcluster/validators/cluster_validators.py"
_EC2 = "aws-parallelcluster:cli/src/pcluster/validators/ec2_validators.py"


@rule(1, "efa-unsupported", ERROR, f"{_CLUSTER} EfaValidator")
def efa_unsupported(intent: AwsIntent) -> Iterator[str]:
    """EFA on a type that has none."""
    able = ", ".join(name for name, row in INSTANCES.items() if row.efa)
    for one in intent.compute:
        if one.efa and one.instance is not None and not one.instance.efa:
            yield f"{one.key} asks for EFA on {one.instance_type}, which has none; types with EFA are {able}."


@rule(2, "efa-off", WARNING, f"{_CLUSTER} EfaValidator")
def efa_off(intent: AwsIntent) -> Iterator[str]:
    """A type with EFA, launched without."""
    for one in intent.compute:
        if not one.efa and one.instance is not None and one.instance.efa and len(one.zones) == 1:
            yield (
                f"{one.key} turns EFA off on {one.instance_type}, which has {one.instance.efa} EFA devices; "
                "NCCL will go over TCP, at a small part of their rate."
            )


@rule(4, "placement-undecided", ERROR, f"{_CLUSTER} EfaPlacementGroupValidator")
def placement_undecided(intent: AwsIntent) -> Iterator[str]:
    """EFA, and nobody said where the machines stand."""
    for one in intent.compute:
        if one.has_efa and one.capacity != BLOCK and not one.placement:
            yield (
                f"{one.key} has EFA and no placement; say managed, existing or none, for machines far apart have more latency "
                "and less bandwidth."
            )


@rule(4, "placement-off", WARNING, f"{_CLUSTER} EfaPlacementGroupValidator")
def placement_off(intent: AwsIntent) -> Iterator[str]:
    """EFA without a placement group."""
    for one in intent.compute:
        if one.has_efa and one.capacity != BLOCK and one.placement == "none":
            yield (
                f"{one.key} has EFA and placement none; a cluster placement group (managed) keeps its machines near each other."
            )


@rule(6, "efa-zones", ERROR, f"{_CLUSTER} EfaMultiAzValidator")
def efa_zones(intent: AwsIntent) -> Iterator[str]:
    """EFA across availability zones."""
    for one in intent.compute:
        if one.has_efa and len(set(one.zones)) > 1:
            yield f"{one.key} has EFA in zones {', '.join(one.zones)}; it must be one zone, for EFA does not cross zones."


@rule(7, "efa-system", ERROR, f"{_CLUSTER} EfaOsArchitectureValidator")
def efa_system(intent: AwsIntent) -> Iterator[str]:
    """EFA where its installer does not run."""
    image = MACHINE_IMAGES.get(intent.system)
    systems = ", ".join(f"{key} ({'/'.join(row.architectures)})" for key, row in MACHINE_IMAGES.items())
    for one in intent.compute:
        if one.has_efa and one.instance is not None and (image is None or one.instance.architecture not in image.architectures):
            yield (
                f"{one.key} has EFA on {one.instance.architecture} with image kind {intent.system}; EFA's installer runs on "
                f"{systems}."
            )


@rule(8, "public-address", ERROR, f"{_EC2} multiple network interfaces and public addresses")
def public_address(intent: AwsIntent) -> Iterator[str]:
    """Public addresses on a machine with several interfaces."""
    for one in intent.compute:
        if one.public_addresses and one.instance is not None and (len(one.instance.cards) > 1 or one.has_efa):
            yield (
                f"{one.key} asks for public addresses on {one.instance_type}, which has several interfaces; EC2 gives one "
                "only to "
                "a machine with a single interface, so nodes go out through the NAT gateway."
            )


@rule(9, "placement-strategy", ERROR, f"{_EC2} PlacementGroupCapacityTypeValidator")
def placement_strategy(intent: AwsIntent) -> Iterator[str]:
    """A placement group for a type that takes none, or of a strategy that is not `cluster`."""
    for one in intent.compute:
        if one.placement in {"managed", "existing"} and one.instance is not None and not one.instance.cluster_placement:
            yield (
                f"{one.key} puts {one.instance_type} into a placement group, and the type supports no group of strategy "
                "cluster."
            )
        if one.placement == "existing" and one.placement_group:
            strategy = known(intent.facts.placement_groups, one.placement_group, "placement group")
            if strategy not in {None, "cluster"}:
                yield f"{one.key} names placement group {one.placement_group} of strategy {strategy}; it must be cluster."


@rule(10, "placement-zones", ERROR, f"{_CLUSTER} MultiAzPlacementGroupValidator")
def placement_zones(intent: AwsIntent) -> Iterator[str]:
    """A placement group across zones."""
    for one in intent.compute:
        if one.placement in {"managed", "existing"} and len(set(one.zones)) > 1:
            yield (
                f"{one.key} has a placement group and zones {', '.join(one.zones)}; a cluster placement group lies in one zone."
            )


@rule(11, "placement-block", WARNING, f"{_EC2} capacity blocks and placement groups")
def placement_block(intent: AwsIntent) -> Iterator[str]:
    """A placement group together with a Capacity Block."""
    for one in intent.compute:
        if one.capacity == BLOCK and one.placement in {"managed", "existing"}:
            yield (
                f"{one.key} has placement {one.placement} with a Capacity Block; say none, for the block stands in one place "
                "already and the group may find no room although the block has some."
            )


@rule(14, "placement-contradiction", ERROR, f"{_CLUSTER} PlacementGroupNamingValidator")
def placement_contradiction(intent: AwsIntent) -> Iterator[str]:
    """A group named but not used, or used but not named."""
    for one in intent.compute:
        if one.placement_group and one.placement != "existing":
            yield (
                f"{one.key} names placement group {one.placement_group} with placement {one.placement or 'undecided'}; "
                "only placement existing takes a name."
            )
        if one.placement == "existing" and not one.placement_group:
            yield f"{one.key} has placement existing and names no group; give its name, or say managed."


@rule(14, "placement-missing", ERROR, f"{_CLUSTER} PlacementGroupNamingValidator")
def placement_missing(intent: AwsIntent) -> Iterator[str]:
    """A group that does not exist."""
    for one in intent.compute:
        named = one.placement_group if one.placement == "existing" else ""
        if named and known(intent.facts.placement_groups, named, "placement group") is None:
            yield f"{one.key} names placement group {one.placement_group}, and {intent.region} has none of that name."


@rule(27, "zones-repeated", ERROR, f"{_CLUSTER} DuplicateSubnets and multi-AZ subnets")
def zones_repeated(intent: AwsIntent) -> Iterator[str]:
    """The same zone twice, or more zones than one machine type may have."""
    for one in intent.compute:
        if len(set(one.zones)) != len(one.zones):
            yield f"{one.key} names zone {', '.join(one.zones)}; each zone may be named once, for it has one subnet."
        elif len(one.zones) > 1:
            yield (
                f"{one.key} names zones {', '.join(one.zones)}; a kind of machine with one instance type stands in one zone."
            )
    if intent.second_zone and intent.second_zone == intent.zone:
        yield f"the second zone is {intent.second_zone}, like the first; it must be another zone of {intent.region}."


@rule(0, "container-versions", ERROR, "awsome-distributed-training:1.architectures/efa-cheatsheet.md, by the image's tag")
def container_versions(intent: AwsIntent) -> Iterator[str]:
    """An image whose own tag says that its software cannot carry NCCL over EFA; what a tag does not say is not judged."""
    if intent.container is None:
        return
    stack = Stack.of(intent.container.text, intent.container.tag)
    for one in intent.compute:
        if one.has_efa and (why := stack.refusal(one.instance_type)):
            yield f"container is {intent.container.text}, and by its tag {why}."


@rule(0, "container-file", WARNING, "enroot 4.1: doc/cmd/create.md; a path must mean the same file on every node")
def container_file(intent: AwsIntent) -> Iterator[str]:
    """An image's file where only the machine image can have put it."""
    path = intent.container.path if intent.container else ""
    if path and not any(path.startswith(f"{mount.rstrip('/')}/") for mount in intent.mounts):
        shared = ", ".join(intent.mounts) or "none"
        yield (
            f"container is {path}, which lies on no file system that the nodes share ({shared}); machines that were just made "
            f"have it only where their image {intent.image} brings it."
        )
