"""Rules about machines themselves: architecture, image, root volume, driver, names, keys and tags."""

from __future__ import annotations

import re
from collections.abc import Iterator

from catalogue.aws.facts import Image, known
from catalogue.aws.images import MACHINE_IMAGES
from catalogue.aws.intent import AwsIntent
from catalogue.aws.rule import ERROR, WARNING, rule
from catalogue.instances import architecture

_CLUSTER = "aws-parallelcluster:cli/src/pcluster/validators/cluster_validators.py"
_EC2 = "aws-parallelcluster:cli/src/pcluster/validators/ec2_validators.py"
_EBS = "aws-parallelcluster:cli/src/pcluster/validators/ebs_validators.py"
_INSTANCES = "aws-parallelcluster:cli/src/pcluster/validators/instances_validators.py"
_TAGS = "aws-parallelcluster:cli/src/pcluster/validators/tags_validators.py"
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_QUEUE_CHARACTERS, _CLUSTER_CHARACTERS = 25, 40
_TAGS_MOST = 40
#: Families whose GPUs NVIDIA's open kernel modules do not drive.
_OLD = ("p2.", "p3.", "p3dn.", "g2.", "g3.", "g3s.")
#: gp3: I/O operations for each GiB, MiB/s for each operation, and the least and most of both (EBS user guide).
_IOPS_PER_GIB, _MIBPS_PER_IOPS = 500, 0.25
_IOPS, _MIBPS = (3000, 80_000), (125, 2000)


@rule(36, "architectures-differ", ERROR, f"{_CLUSTER} ArchitectureOsValidator")
def architectures_differ(intent: AwsIntent) -> Iterator[str]:
    """Head and nodes of different CPUs: what is built on one does not run on the other."""
    head = architecture(intent.head_type)
    for one in intent.compute:
        if architecture(one.instance_type) != head:
            yield (
                f"{one.key} is {one.instance_type} ({architecture(one.instance_type)}), and the head is {intent.head_type} "
                f"({head}); they must have one architecture, for they share programs."
            )


def _images(intent: AwsIntent) -> Iterator[tuple[str, str, str, str, Image]]:
    """Yield who has which image: whose it is, its id, its kind, the architecture it must have, and what it is."""
    wanted = [(one.key, intent.image, intent.system, one.instance_type) for one in intent.compute]
    wanted.append(("the head node", intent.head_image, intent.head_system, intent.head_type))
    for who, image, system, kind in wanted:
        if image:
            yield who, image, system, architecture(kind), known(intent.facts.images, image, "image")


@rule(36, "image-architecture", ERROR, f"{_EC2} InstanceTypeBaseAMICompatibleValidator")
def image_architecture(intent: AwsIntent) -> Iterator[str]:
    """An image of other CPUs."""
    for who, image, _, wanted, found in _images(intent):
        if found.architecture != wanted:
            yield f"{who} needs an image for {wanted}, and {image} is for {found.architecture}."


@rule(36, "image-system", ERROR, f"{_EC2} AMI OS and cluster OS")
def image_system(intent: AwsIntent) -> Iterator[str]:
    """An image of another kind than is said: its first boot would do the wrong things."""
    for system in dict.fromkeys((intent.system, intent.head_system)):
        if system not in MACHINE_IMAGES:
            yield f"the image kind is {system!r}; it must be one of {', '.join(MACHINE_IMAGES)}."
    for who, image, system, _, found in _images(intent):
        words = MACHINE_IMAGES[system].words if system in MACHINE_IMAGES else ()
        if not all(word.lower() in found.name.lower() for word in words):
            yield f"{who} has image kind {system}, and {image} is {found.name!r}; first boot would do the wrong things."


@rule(37, "root-ratios", ERROR, f"{_EBS} EbsVolumeIopsValidator, EbsVolumeThroughputIopsValidator")
def root_ratios(intent: AwsIntent) -> Iterator[str]:
    """A gp3 volume that cannot be."""
    for who, volume in (("the nodes' root volume", intent.root), ("the head's root volume", intent.head_root)):
        if not _IOPS[0] <= volume.iops <= _IOPS[1] or volume.iops > max(_IOPS_PER_GIB * volume.gib, _IOPS[0]):
            yield (
                f"{who} has {volume.iops} IOPS on {volume.gib} GiB; gp3 takes {_IOPS[0]} to {_IOPS[1]}, and at most "
                f"{_IOPS_PER_GIB} for each GiB."
            )
        if not _MIBPS[0] <= volume.mibps <= _MIBPS[1] or volume.mibps > _MIBPS_PER_IOPS * volume.iops:
            yield (
                f"{who} has {volume.mibps} MiB/s with {volume.iops} IOPS; gp3 takes {_MIBPS[0]} to {_MIBPS[1]}, and at most "
                f"{_MIBPS_PER_IOPS} for each IOPS."
            )


@rule(37, "root-size", ERROR, f"{_EBS} root volume size")
def root_size(intent: AwsIntent) -> Iterator[str]:
    """A root volume that the image does not fit on."""
    for who, image, _, _, found in _images(intent):
        volume = intent.head_root if who == "the head node" else intent.root
        if volume.gib < found.root_gib:
            yield f"{who} has a root volume of {volume.gib} GiB, and image {image} needs {found.root_gib}."


@rule(38, "open-modules", ERROR, f"{_INSTANCES} InstancesNVIDIADriverValidator")
def open_modules(intent: AwsIntent) -> Iterator[str]:
    """GPUs that the image's driver does not know."""
    for one in intent.compute:
        if intent.open_modules and one.instance_type.startswith(_OLD):
            yield (
                f"{one.key} is {one.instance_type}, whose GPUs NVIDIA's open kernel modules do not drive; take a later type, "
                "or an "
                "image with the proprietary modules."
            )


@rule(38, "not-nvidia", WARNING, f"{_INSTANCES} InstancesAcceleratorManufacturerValidator")
def not_nvidia(intent: AwsIntent) -> Iterator[str]:
    """Machines that NCCL cannot be measured on."""
    for one in intent.compute:
        if one.instance is not None and one.instance.accelerator != "nvidia":
            has = {"neuron": "Neuron devices"}.get(one.instance.accelerator, "no GPU")
            yield (
                f"{one.key} is {one.instance_type}, which has {has}; NCCL needs NVIDIA GPUs, so nothing can be measured there."
            )


@rule(39, "names", ERROR, f"{_CLUSTER} NameValidator, ClusterNameValidator, DuplicateNameValidator")
def names(intent: AwsIntent) -> Iterator[str]:
    """Names that the scheduler or the vendor would not take."""
    if not _NAME.fullmatch(intent.name) or len(intent.name) > _CLUSTER_CHARACTERS:
        yield (
            f"the cluster's name is {intent.name!r}; it must be lower-case letters, digits and hyphens from a letter on, at "
            "most "
            f"{_CLUSTER_CHARACTERS} of them."
        )
    for one in intent.compute:
        for noun, name in (("queue", one.queue), ("compute resource", one.name)):
            if not _NAME.fullmatch(name) or len(name) > _QUEUE_CHARACTERS or name == "default":
                yield (
                    f"the {noun} {name!r} must be lower-case letters, digits and hyphens from a letter on, at most "
                    f"{_QUEUE_CHARACTERS} of them, and not 'default'."
                )
            elif "-st-" in f"{name}-" or "-dy-" in f"{name}-":
                yield f"the {noun} {name!r} holds -st- or -dy-, by which node names tell static machines from dynamic ones."
    keys = [one.key for one in intent.compute]
    for key in sorted({key for key in keys if keys.count(key) > 1}):
        yield f"{keys.count(key)} compute resources make the name {key}; it must be one, for launch templates are named by it."


@rule(41, "key-type", ERROR, f"{_EC2} KeyPairValidator: RSA on Ubuntu 22.04")
def key_type(intent: AwsIntent) -> Iterator[str]:
    """A key that the image refuses."""
    image = MACHINE_IMAGES.get(intent.head_system)
    if intent.operator_key.startswith("ssh-rsa ") and image is not None and image.refuses_rsa:
        yield f"the public key is ssh-rsa, which {intent.head_system} refuses; make one of type ed25519."


@rule(41, "key-missing", WARNING, f"{_EC2} KeyPairValidator")
def key_missing(intent: AwsIntent) -> Iterator[str]:
    """No key: only Session Manager is left."""
    if not intent.operator_key:
        yield "there is no public key, so nobody can log in by SSH; Session Manager still can."


@rule(43, "tag-count", ERROR, f"{_TAGS} ComputeResourceTagsValidator")
def tag_count(intent: AwsIntent) -> Iterator[str]:
    """More tags than a resource takes beside our own."""
    for one in intent.compute:
        count = len({**intent.tags, **one.tags})
        if count > _TAGS_MOST:
            yield f"{one.key} has {count} tags; a resource takes {_TAGS_MOST} beside those that name the cluster."


@rule(43, "tag-overrides", WARNING, f"{_TAGS} tags of queues and of the cluster")
def tag_overrides(intent: AwsIntent) -> Iterator[str]:
    """A tag that is said twice."""
    for one in intent.compute:
        twice = sorted(set(one.tags) & set(intent.tags))
        if twice:
            yield f"{one.key} sets tag {', '.join(twice)}, which the cluster sets too; its own counts."
