"""Names that Slurm accepts for queues (its partitions), nodes and GPU types."""

import re

#: A queue's name may be longer than its column in `squeue`, but is still short enough to type.
_QUEUE = re.compile(r"[a-z][a-z0-9_-]{0,39}\Z")
#: slurm.conf(5): a partition or node named DEFAULT sets defaults; ALL means every partition or node.
_RESERVED = ("default", "all")
#: The part of a GPU model's name that contains the model's number: a100, gb200, l40s, mi300x.
_MODEL = re.compile(r"[a-z]+\d+[a-z]*")


def refused_queue(name: str) -> str:
    """Return why `name` cannot be used for a queue, in Slurm or on its command line; empty if it can."""
    if name.lower() in _RESERVED:
        return "Slurm reserves that name (slurm.conf(5), PartitionName)"
    if not _QUEUE.match(name):
        return "a queue has 1 to 40 lower-case letters, digits, - and _, and begins with a letter"
    return ""


def refused_existing(name: str) -> str:
    """Return why no Slurm cluster can have a queue of that name; empty if the name is possible."""
    if not re.match(r"[^\s,=#]+\Z", name):
        return "a partition's name has no space, comma, = or # (slurm.conf(5))"
    return ""


def refused_node(name: str) -> str:
    """Return why Slurm cannot use `name` for a node; empty if it can."""
    if name.lower() in (*_RESERVED, "localhost"):
        return "Slurm reserves that name (slurm.conf(5), NodeName)"
    return ""


def gpu_type(model: str) -> str:
    """Return the type of a GPU model in job requests: `NVIDIA A100-SXM4-80GB` is a100, `NVIDIA H100 80GB HBM3` is h100."""
    found = _MODEL.search(model.lower())
    return found.group() if found else re.sub(r"[^a-z0-9]+", "_", model.lower())
