"""Decides which EFA traffic passes: hosts with EFA in one zone of a VPC share a fabric, and security groups filter its traffic.

A rule matches EFA traffic only if the rule names a group by its id and allows all traffic. A rule that names an IP network,
however wide, does not match EFA traffic (aws-ofi-nccl issue 663; EC2 user guide, "Prepare an EFA-enabled security group").
"""

from __future__ import annotations

import hashlib
import json
import string
from collections.abc import Iterable

from rehearsal.aws.groups import allowed
from rehearsal.aws.kinds import GROUP, INSTANCE
from rehearsal.net import network, wires
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record


def fabric_id(vpc: Record, zone: str) -> str:
    """Return the id of the fabric that the hosts of one VPC in one zone share."""
    digest = hashlib.sha256(f"{vpc.id} {zone}".encode())
    return string.ascii_lowercase[digest.digest()[-1] % 26] + digest.hexdigest()[:7]


def join(cloud: ResourceCloud, fabric: str, rails: int) -> None:
    """Prepare the fabric for a machine that joins it: at least `rails` rails, and the rules of the security groups."""
    with wires.locked(cloud.world, fabric):
        network.apply_fabric(cloud.world, fabric, max(rails, _rails(cloud, fabric)))
        guard(cloud, fabric)


def leave(cloud: ResourceCloud, fabric: str) -> None:
    """Delete the fabric if no host remains; otherwise, update the fabric's rules. Several hosts may leave at once."""
    with wires.locked(cloud.world, fabric):
        if _members(cloud.store.read(), fabric):
            guard(cloud, fabric)
        else:
            network.delete_fabric(cloud.world, fabric)


def guard(cloud: ResourceCloud, fabric: str) -> None:
    """Apply the security groups' current rules to the fabric; do nothing if the fabric does not exist."""
    if not _rails(cloud, fabric):
        return
    network.guard_fabric(cloud.world, fabric, pairs(cloud.store.read(), fabric))


def pairs(database: Database, fabric: str) -> list[tuple[str, str]]:
    """Return each pair of sender and receiver (ids of the world's hosts) whose EFA traffic the security groups allow."""
    opened = {group.id: _opened(database, group) for group in database.of(GROUP)}
    members = [(one.short, _groups(one)) for one in _members(database, fabric)]
    return [
        (sender, receiver)
        for sender, out in members
        for receiver, into in members
        if sender != receiver and _reaches(opened, "egress", out, into) and _reaches(opened, "ingress", into, out)
    ]


def _opened(database: Database, group: Record) -> set[tuple[str, str]]:
    """Return the direction and the peer group of each rule of a group, but only of the rules that match EFA traffic."""
    return {(one.direction, one.group) for one in allowed(database, group) if one.group and one.everything}


def _reaches(opened: dict[str, set[tuple[str, str]]], direction: str, own: Iterable[str], others: Iterable[str]) -> bool:
    theirs = set(others)
    return any((direction, other) in opened.get(group, set()) for group in own for other in theirs)


def _groups(record: Record) -> set[str]:
    return {group for groups in record.private["efa_groups"] for group in groups}


def _members(database: Database, fabric: str) -> list[Record]:
    return [one for one in database.of(INSTANCE) if one.private.get("fabric") == fabric]


def _rails(cloud: ResourceCloud, fabric: str) -> int:
    record = cloud.world.path / "fabrics" / f"{fabric}.json"
    return int(json.loads(record.read_text())["rails"]) if record.exists() else 0
