"""Names that Slurm takes: of queues (its partitions), and of GPU types."""

import re

#: Shorter than what `squeue` shows would be nicer to read; longer is refused where people must type it.
_QUEUE = re.compile(r"[a-z][a-z0-9_-]{0,39}\Z")
#: slurm.conf(5): a partition or node of the name DEFAULT sets defaults; ALL is every partition or node.
_RESERVED = ("default", "all")
#: A model's word with its number: a100, gb200, l40s, mi300x.
_MODEL = re.compile(r"[a-z]+\d+[a-z]*")


def refused_queue(name: str) -> str:
    """Return why Slurm, or people at its command line, could not use `name` for a queue; empty if they could."""
    if name.lower() in _RESERVED:
        return "Slurm keeps that name for itself (slurm.conf(5), PartitionName)"
    if not _QUEUE.match(name):
        return "a queue has 1 to 40 lower-case letters, digits, - and _, and begins with a letter"
    return ""


def refused_existing(name: str) -> str:
    """Return why no Slurm cluster has a queue of that name; empty if one could."""
    if not re.match(r"[^\s,=#]+\Z", name):
        return "a partition's name has no space, comma, = or # (slurm.conf(5))"
    return ""


def refused_node(name: str) -> str:
    """Return why Slurm could not use `name` for a node; empty if it could."""
    if name.lower() in (*_RESERVED, "localhost"):
        return "Slurm keeps that name for itself (slurm.conf(5), NodeName)"
    return ""


def gpu_type(model: str) -> str:
    """Return what jobs call a GPU model: `NVIDIA A100-SXM4-80GB` is a100, `NVIDIA H100 80GB HBM3` is h100."""
    found = _MODEL.search(model.lower())
    return found.group() if found else re.sub(r"[^a-z0-9]+", "_", model.lower())
