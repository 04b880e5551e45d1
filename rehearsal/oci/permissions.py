"""Evaluates an instance's permissions: the dynamic groups to which the instance belongs, and the policies that apply to it.

Source: "Details for the Core Services" (corepolicyreference.htm): permissions by verb and resource type, and the permissions
that each operation needs. Only permissions that a rehearsed operation needs are listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rehearsal.oci.conditions import holds
from rehearsal.oci.identity import DYNAMIC_GROUP, POLICY, STATEMENT, named
from rehearsal.oci.places import COMPARTMENTS, REGION, TENANCY
from rehearsal.plugin.store import Database, Record

_VERBS = ("inspect", "read", "use", "manage")

#: Resource type -> for each verb of _VERBS, the permissions that the verb adds to the permissions of the previous verb.
_TYPES: Mapping[str, tuple[str, str, str, str]] = {
    "instances": ("INSTANCE_INSPECT", "INSTANCE_READ", "", "INSTANCE_CREATE INSTANCE_DELETE"),
    "instance-images": ("", "INSTANCE_IMAGE_READ", "", ""),
    "instance-pools": (
        *("INSTANCE_POOL_INSPECT", "INSTANCE_POOL_READ", ""),
        "INSTANCE_POOL_CREATE INSTANCE_POOL_DELETE INSTANCE_POOL_INSTANCE_DETACH",
    ),
    "cluster-networks": (
        *("CLUSTER_NETWORK_INSPECT", "CLUSTER_NETWORK_READ", ""),
        "CLUSTER_NETWORK_CREATE CLUSTER_NETWORK_UPDATE CLUSTER_NETWORK_DELETE",
    ),
    "instance-configurations": ("INSTANCE_CONFIGURATION_INSPECT", "INSTANCE_CONFIGURATION_READ", "", ""),
    "subnets": ("SUBNET_READ", "", "SUBNET_ATTACH SUBNET_DETACH", ""),
    "vnics": ("VNIC_READ", "", "VNIC_ATTACH VNIC_DETACH VNIC_CREATE VNIC_DELETE", ""),
    "vnic-attachments": ("VNIC_ATTACHMENT_READ", "", "", ""),
    "private-ips": ("PRIVATE_IP_READ", "", "", ""),
    "volumes": ("", "", "VOLUME_WRITE", ""),
    "volume-attachments": ("", "", "", "VOLUME_ATTACHMENT_DELETE"),
    "work-requests": ("WORKREQUEST_INSPECT", "", "", ""),
}
#: Aggregate type -> its individual types, and the permissions that the aggregate type adds to those of the individual types,
#: by verb.
_FAMILIES: Mapping[str, tuple[tuple[str, ...], tuple[str, str, str, str]]] = {
    "instance-family": (
        ("instances", "instance-images"),
        ("VNIC_READ VNIC_ATTACHMENT_READ", "", "VNIC_ATTACH VNIC_DETACH", "VOLUME_ATTACHMENT_DELETE"),
    ),
    "compute-management-family": (("instance-configurations", "instance-pools", "cluster-networks"), ("", "", "", "")),
    "virtual-network-family": (("subnets", "vnics", "vnic-attachments", "private-ips"), ("", "", "", "")),
    "volume-family": (("volumes", "volume-attachments"), ("", "", "", "")),
    "all-resources": (tuple(_TYPES), ("", "", "", "")),
}
_LAUNCH = frozenset(("INSTANCE_CREATE", "INSTANCE_IMAGE_READ", "VNIC_CREATE", "VNIC_ATTACH", "SUBNET_ATTACH"))
_END = frozenset(("INSTANCE_DELETE", "VNIC_DELETE", "VNIC_DETACH", "SUBNET_DETACH"))
_CREATE = _LAUNCH | {"CLUSTER_NETWORK_CREATE", "INSTANCE_POOL_CREATE"}
_TERMINATE = _END | {"CLUSTER_NETWORK_DELETE", "INSTANCE_POOL_DELETE", "VOLUME_ATTACHMENT_DELETE", "VOLUME_WRITE"}
#: Permissions that each operation needs. To read a work request, an instance needs the permissions of the operation that
#: started the work request.
NEEDED: Mapping[str, frozenset[str]] = {
    "CreateClusterNetwork": _CREATE,
    "UpdateClusterNetwork": _LAUNCH | {"CLUSTER_NETWORK_UPDATE"},
    "TerminateClusterNetwork": _TERMINATE,
    "GetClusterNetwork": frozenset(("CLUSTER_NETWORK_READ",)),
    "ListClusterNetworks": frozenset(("CLUSTER_NETWORK_INSPECT",)),
    "ListClusterNetworkInstances": frozenset(("CLUSTER_NETWORK_READ", "INSTANCE_POOL_READ")),
    "DetachInstancePoolInstance": frozenset(("INSTANCE_POOL_INSTANCE_DETACH",)),
    "ListInstances": frozenset(("INSTANCE_READ",)),
    "GetInstance": frozenset(("INSTANCE_READ",)),
    "TerminateInstance": _END,
    "ListVnicAttachments": frozenset(("VNIC_ATTACHMENT_READ", "INSTANCE_INSPECT")),
    "ListPrivateIps": frozenset(("PRIVATE_IP_READ",)),
    "ListWorkRequests": frozenset(("WORKREQUEST_INSPECT",)),
}


def allowed(database: Database, instance: Record, operation: str, compartment: str, needed: str = "") -> bool:
    """Return whether an instance may perform an operation in a compartment.

    If `needed` names another operation, the permissions of that other operation are required instead of those of `operation`.
    """
    variables = {
        "request.operation": operation,
        "request.region": REGION,
        "request.principal.type": "instance",
        "request.principal.compartment.id": instance.inputs["compartmentId"],
        "target.compartment.id": compartment,
        "target.compartment.name": COMPARTMENTS[compartment],
    }
    granted = {
        permission
        for found in _statements(database, instance, compartment)
        for permission in _permissions(found["verb"], found["type"] or "")
        if not found["where"] or holds(found["where"], variables | {"request.permission": permission})
    }
    return NEEDED[needed or operation] <= granted


def _statements(database: Database, instance: Record, compartment: str) -> Iterator[Mapping[str, str]]:
    """Yield the parts of every statement that applies to the instance and the compartment."""
    groups = {name for group in database.of(DYNAMIC_GROUP) if _member(group, instance) for name in _called(group)}
    for policy in database.of(POLICY):
        for statement in policy.inputs["statements"]:
            found = STATEMENT.fullmatch(statement)
            if found is None:
                continue  # a policy may have been stored before `problems` checked the whole grammar
            subject = found["subject"].lower()
            who = (found["who"] or "").lower()
            mine = who == "dynamic-group" and groups & {one.lower() for one in named(found["names"])}
            if (mine or subject == "any-user") and _within(found.groupdict(), policy.inputs["compartmentId"], compartment):
                yield found.groupdict()


def _called(group: Record) -> tuple[str, str]:
    return str(group.inputs["name"]).lower(), group.id.lower()


def _member(group: Record, instance: Record) -> bool:
    tags = instance.inputs.get("definedTags") or {}
    variables = {"instance.id": instance.id, "instance.compartment.id": instance.inputs["compartmentId"]}
    variables |= {f"tag.{name}.value".lower(): str(value) for name, value in tags.items()}
    return holds(group.inputs["matchingRule"], variables)


def _within(found: Mapping[str, str], attached_to: str, compartment: str) -> bool:
    """Return whether a statement applies to `compartment`.

    The location in the statement must be `compartment` or the tenancy, and so must the compartment of the statement's policy.
    """
    place = found["place"].lower()
    if place == "tenancy":
        named_place = TENANCY
    elif found["ocid"]:
        named_place = found["ocid"]
    else:
        name = found["place"].split(None, 1)[1].strip("' ").rpartition(":")[2]
        named_place = next((ocid for ocid, known in COMPARTMENTS.items() if known == name), "")
    return all(one in {TENANCY, compartment} for one in (named_place, attached_to))


def _permissions(verb: str, kind: str) -> set[str]:
    """Return the permissions of a verb on a resource type, or the permissions that a statement lists in braces."""
    if verb.startswith("{"):
        return {one.strip().upper() for one in verb.strip("{} ").split(",")}
    rows: list[tuple[str, str, str, str]] = []
    types, more = _FAMILIES.get(kind.lower(), ((kind.lower(),), ("", "", "", "")))
    rows = [more, *(_TYPES[one] for one in types if one in _TYPES)]
    upto = _VERBS.index(verb.lower()) + 1
    return {permission for row in rows for added in row[:upto] for permission in added.split()}
