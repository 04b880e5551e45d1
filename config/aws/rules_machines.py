"""Rules about machines: architecture, image, root volume, driver, names, keys and tags."""

from __future__ import annotations

import re
from collections.abc import Iterator

from catalogue.aws.instances import architecture
from config.aws.facts import Facts, Image
from config.aws.model import Aws, Volume
from config.rule import ERROR, WARNING, Breach, known, rule

_CLUSTER = "aws-parallelcluster:cli/src/pcluster/validators/cluster_validators.py"
_EC2 = "aws-parallelcluster:cli/src/pcluster/validators/ec2_validators.py"
_EBS = "aws-parallelcluster:cli/src/pcluster/validators/ebs_validators.py"
_INSTANCES = "aws-parallelcluster:cli/src/pcluster/validators/instances_validators.py"
_TAGS = "aws-parallelcluster:cli/src/pcluster/validators/tags_validators.py"
_NAME = re.compile(r"[a-z][a-z0-9-]*")
_QUEUE_CHARACTERS, _CLUSTER_CHARACTERS = 25, 40
_TAGS_MOST = 40
_TAG_KEY, _TAG_VALUE = 128, 256
#: Families of instance types whose GPUs NVIDIA's open kernel modules do not support.
_OLD = ("p2.", "p3.", "p3dn.", "g2.", "g3.", "g3s.")
#: Limits of a gp3 volume (EBS user guide): IOPS per GiB, MiB/s per IOPS, and the minimum and maximum of IOPS and of MiB/s.
_IOPS_PER_GIB, _MIB_S_PER_IOPS = 500, 0.25
_IOPS, _MIB_S = (3000, 80_000), (125, 2000)
_WRONG_BOOT = "first boot would do the wrong things"
_Breaches = Iterator[Breach]


@rule("architectures-differ", ERROR, f"{_CLUSTER} ArchitectureOsValidator", number=36)
def architectures_differ(wanted: Aws, _facts: Facts) -> _Breaches:
    """A login node and nodes of different CPU architectures: programs built on the login node do not run on the nodes."""
    login = architecture(wanted.login.type)
    for path, _, one in wanted.located:
        if architecture(one.type) != login:
            yield Breach(
                f"{path}.type",
                f"is {one.type} ({architecture(one.type)}), and aws.login.type is {wanted.login.type} ({login}); they must "
                "have one architecture, because they share programs",
            )


def _images(wanted: Aws, facts: Facts) -> Iterator[tuple[str, str, str, Image]]:
    """Yield each image that the stack file names.

    Each item has the path of the image's group of keys, the image's id, the architecture that the image must have, and the
    account's data on the image.
    """
    types = dict.fromkeys(architecture(one.type) for _, _, one in wanted.located)
    named = [("aws", wanted.image, kind) for kind in types]
    for path, image, kind in [*named, ("aws.login", wanted.login.image, architecture(wanted.login.type))]:
        # An image that the stack file does not name needs no check, because it is looked up by family and architecture.
        found = known(facts.images, image, "image") if image else None
        if image and found is not None:
            yield path, image, kind, found


@rule("image-missing", ERROR, "EC2 API, DescribeImages", guard=True)
def image_missing(wanted: Aws, facts: Facts) -> _Breaches:
    """An image that does not exist."""
    for path, image in (("aws.image", wanted.image), ("aws.login.image", wanted.login.image)):
        if image and known(facts.images, image, "image") is None:
            yield Breach(path, f"is {image}, which is not in {wanted.region}, or this account may not see it")


@rule("image-architecture", ERROR, f"{_EC2} InstanceTypeBaseAMICompatibleValidator", number=36)
def image_architecture(wanted: Aws, facts: Facts) -> _Breaches:
    """An image of another CPU architecture than the machines."""
    for path, image, needed, found in _images(wanted, facts):
        if found.architecture != needed:
            yield Breach(f"{path}.image", f"is {image}, which is for {found.architecture}; the machines are {needed}")


@rule("image-system", ERROR, f"{_EC2} AMI OS and cluster OS", number=36)
def image_system(wanted: Aws, facts: Facts) -> _Breaches:
    """An image of another family than the stack file sets."""
    families = {"aws": wanted.family, "aws.login": wanted.login.family}
    for path, image, _, found in _images(wanted, facts):
        if not all(word.lower() in found.name.lower() for word in families[path].words):
            yield Breach(f"{path}.imageFamily", f"is {families[path].key}, and {image} is {found.name!r}; {_WRONG_BOOT}")


def _volumes(wanted: Aws) -> tuple[tuple[str, Volume], ...]:
    return (("aws.root", wanted.root), ("aws.login.root", wanted.login.root))


@rule("root-ratios", ERROR, f"{_EBS} EbsVolumeIopsValidator, EbsVolumeThroughputIopsValidator", number=37)
def root_ratios(wanted: Aws, _facts: Facts) -> _Breaches:
    """A gp3 volume that cannot exist."""
    for path, volume in _volumes(wanted):
        if not _IOPS[0] <= volume.iops <= _IOPS[1] or volume.iops > max(_IOPS_PER_GIB * volume.size_gib, _IOPS[0]):
            yield Breach(
                f"{path}.iops",
                f"is {volume.iops} on {volume.size_gib} GiB; gp3 takes {_IOPS[0]} to {_IOPS[1]}, and at most {_IOPS_PER_GIB} "
                "for each GiB",
            )
        if not _MIB_S[0] <= volume.throughput_mib_s <= _MIB_S[1] or volume.throughput_mib_s > _MIB_S_PER_IOPS * volume.iops:
            yield Breach(
                f"{path}.throughput",
                f"is {volume.throughput_mib_s} MiB/s with {volume.iops} IOPS; gp3 takes {_MIB_S[0]} to {_MIB_S[1]} MiB/s, and "
                f"at most {_MIB_S_PER_IOPS} for each IOPS",
            )


@rule("root-size", ERROR, f"{_EBS} root volume size", number=37)
def root_size(wanted: Aws, facts: Facts) -> _Breaches:
    """A root volume that is too small for the image."""
    volumes = dict(_volumes(wanted))
    for path, image, _, found in _images(wanted, facts):
        size = volumes[f"{path}.root"].size_gib
        if size < found.root_gib:
            yield Breach(f"{path}.root.size", f"is {size} GiB, and image {image} needs {found.root_gib} GiB")


@rule("open-modules", ERROR, f"{_INSTANCES} InstancesNVIDIADriverValidator", number=38)
def open_modules(wanted: Aws, _facts: Facts) -> _Breaches:
    """GPUs that the image's driver does not support."""
    for path, _, one in wanted.located:
        if wanted.open_modules and one.type.startswith(_OLD):
            yield Breach(
                f"{path}.type",
                f"is {one.type}, whose GPUs NVIDIA's open kernel modules do not support; use a later type, or "
                "an image with the proprietary modules and aws.openModules: false",
            )


@rule("not-nvidia", WARNING, f"{_INSTANCES} InstancesAcceleratorManufacturerValidator", number=38)
def not_nvidia(wanted: Aws, _facts: Facts) -> _Breaches:
    """Machines on which NCCL cannot be measured."""
    for path, _, one in wanted.located:
        if one.instance is not None and one.instance.accelerator != "nvidia":
            has = {"neuron": "Neuron devices"}.get(one.instance.accelerator, "no GPU")
            yield Breach(
                f"{path}.type", f"is {one.type}, which has {has}; NCCL needs NVIDIA GPUs, so nothing can be measured there"
            )


@rule("names", ERROR, f"{_CLUSTER} NameValidator, ClusterNameValidator, DuplicateNameValidator", guard=True, number=39)
def names(wanted: Aws, _facts: Facts) -> _Breaches:
    """Names that the scheduler or the vendor would refuse, or entries whose queue and name together are not unique."""
    if not _NAME.fullmatch(wanted.name) or len(wanted.name) > _CLUSTER_CHARACTERS:
        yield Breach(
            "aws.name",
            f"is {wanted.name!r}; it must be at most {_CLUSTER_CHARACTERS} lower-case letters, digits and hyphens, starting "
            "with a letter",
        )
    for at, queue in enumerate(wanted.queues):
        for path, name in (
            (f"aws.queues[{at}].name", queue.name),
            *((f"aws.queues[{at}].machines[{index}].name", one.name) for index, one in enumerate(queue.machines)),
        ):
            if not _NAME.fullmatch(name) or len(name) > _QUEUE_CHARACTERS or name == "default":
                yield Breach(
                    path,
                    f"is {name!r}; it must be at most {_QUEUE_CHARACTERS} lower-case letters, digits and hyphens, starting "
                    "with a letter, and not 'default'",
                )
            elif "-st-" in f"{name}-" or "-dy-" in f"{name}-":
                yield Breach(
                    path, f"is {name!r}; -st- and -dy- mark static and dynamic machines in names of nodes, so leave them out"
                )
    seen: set[str] = set()
    for path, key, _ in wanted.located:
        if key in seen:
            yield Breach(
                f"{path}.name", f"gives a second entry the name {key}; a launch template has this name, so it must be unique"
            )
        seen.add(key)


@rule("static-one", ERROR, "one node has no fabric", number=0)
def static_one(wanted: Aws, _facts: Facts) -> _Breaches:
    """An entry with one static machine, which has no other machine to be measured with."""
    for path, _, one in wanted.located:
        if len(one.numbers) == 1:
            less = f", of which leaveOut names {one.static - 1}" if one.static > 1 else ""
            yield Breach(
                f"{path}.static",
                f"is {one.static}{less}; machines are measured in groups of 2 or more, because one machine has "
                "no fabric; set static to 0 to rent nothing yet",
            )


@rule("left-out", ERROR, "machines have the indexes from 0 to static - 1")
def left_out(wanted: Aws, _facts: Facts) -> _Breaches:
    """With `static` above 0, a `leaveOut` with an index that no machine has, or with the indexes of all machines."""
    for path, _, one in wanted.located:
        nobody = sorted({number for number in one.leave_out if number >= one.static})
        if one.static and nobody:
            yield Breach(
                f"{path}.leaveOut",
                f"names {', '.join(map(str, nobody))}, but the machines have only the indexes 0 to {one.static - 1}; "
                "remove indexes outside this range",
            )
        elif one.static and not one.numbers:
            yield Breach(
                f"{path}.leaveOut",
                "names every machine, so nothing would be measured; set static: 0 to terminate all machines and keep the rest "
                "of the cluster",
            )


@rule("key-type", ERROR, f"{_EC2} KeyPairValidator: RSA on Ubuntu 22.04", number=41)
def key_type(wanted: Aws, _facts: Facts) -> _Breaches:
    """An SSH key that the login node's image refuses."""
    if wanted.access.public_key.startswith("ssh-rsa ") and wanted.login.family.refuses_rsa:
        yield Breach("aws.access.publicKey", f"is ssh-rsa, which {wanted.login.image_family} refuses; create an ed25519 key")


@rule("tag-length", ERROR, "EC2 user guide, Tag restrictions: a key has 128 characters at most, a value 256")
def tag_length(wanted: Aws, _facts: Facts) -> _Breaches:
    """Tags that EC2 refuses at every launch."""
    for key, value in wanted.tags.items():
        if len(key) > _TAG_KEY or len(value) > _TAG_VALUE:
            yield Breach(
                "aws.tags",
                f"has the key {key[:20]!r}... of {len(key)} characters, whose value has {len(value)}; a key may have "
                f"{_TAG_KEY} characters, a value {_TAG_VALUE}",
            )


@rule("tag-count", ERROR, f"{_TAGS} ComputeResourceTagsValidator", number=43)
def tag_count(wanted: Aws, _facts: Facts) -> _Breaches:
    """More tags than a resource may have beside busbar's own tags."""
    if len(wanted.tags) > _TAGS_MOST:
        yield Breach("aws.tags", f"has {len(wanted.tags)} tags; a resource takes at most {_TAGS_MOST} beside busbar's own tags")
