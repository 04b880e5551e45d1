"""What AWS allows: records of what may be asked of it, and its rules as pure functions over them.

It deliberately asks no account: what only an account knows is in `Facts`, and a rule that needs what is not there says so.
"""

from __future__ import annotations

from catalogue.aws.facts import Facts, Image, Machine, NotAskedError, Reservation
from catalogue.aws.images import MACHINE_IMAGES, MachineImage
from catalogue.aws.intent import AwsIntent, Compute, Lustre, OpenZfs, Repository, Volume
from catalogue.aws.rule import ERROR, NOTE, WARNING, Finding, Rule
from catalogue.aws.rules import RULES, check
from catalogue.aws.versions import STACK, Stack

__all__ = [
    "ERROR",
    "MACHINE_IMAGES",
    "NOTE",
    "RULES",
    "STACK",
    "WARNING",
    "AwsIntent",
    "Compute",
    "Facts",
    "Finding",
    "Image",
    "Lustre",
    "Machine",
    "MachineImage",
    "NotAskedError",
    "OpenZfs",
    "Repository",
    "Reservation",
    "Rule",
    "Stack",
    "Volume",
    "check",
]
