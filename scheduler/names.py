"""Which names queues (Slurm's partitions) and nodes may have, and how job requests name the types of GPUs."""

import re

#: A queue's name may be longer than its column in `squeue`, but is still short enough to type.
_QUEUE = re.compile(r"[a-z][a-z0-9_-]{0,39}\Z")
#: slurm.conf(5): a partition or node named DEFAULT sets defaults, and no node may be named ALL.
_RESERVED = ("default", "all")
#: The part of a GPU model's name that contains the model's number: a100, gb200, l40s, mi300x.
_MODEL = re.compile(r"[a-z]+\d+[a-z]*")


def refused_queue(name: str) -> str:
    """Return why busbar cannot create a queue with the name `name`; empty if it can."""
    if name.lower() in _RESERVED:
        return "default and all have a meaning of their own in Slurm's files and commands"
    if not _QUEUE.match(name):
        return "a queue's name has 1 to 40 lower-case letters, digits, - and _, and begins with a letter"
    return ""


def refused_existing(name: str) -> str:
    """Return why no existing queue can have the name `name`; empty if a queue can have it."""
    if name.lower() == "default":
        return "a partition named DEFAULT only sets defaults (slurm.conf(5))"
    if not re.match(r"[^\s,=#]+\Z", name):
        return "a partition's name is not empty and has no space, comma, = or # (slurm.conf(5))"
    return ""


def refused_node(name: str) -> str:
    """Return why the host name `name` is reserved, so that no Slurm node can have it; empty if it is not reserved."""
    if name.lower() in (*_RESERVED, "localhost"):
        return "default and all have a meaning of their own in Slurm's files, and localhost on every machine"
    return ""


def gpu_type(model: str) -> str:
    """Return the type of a GPU model in job requests: `NVIDIA A100-SXM4-80GB` is a100, `NVIDIA H100 80GB HBM3` is h100.

    A model without such a part keeps its whole name, with _ between the words.
    """
    found = _MODEL.search(model.lower())
    return found.group() if found else re.sub(r"[^a-z0-9]+", "_", model.lower())
