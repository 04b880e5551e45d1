"""Records in the form of the Core Services API.

Source: oci-python-sdk 2.189, the `attribute_map` of each model in `core`.
"""

from __future__ import annotations

from typing import Any

from rehearsal.oci.launch import INSTANCE
from rehearsal.oci.netplan import subnet_cidr
from rehearsal.oci.ocids import sibling_ocid, stamp
from rehearsal.oci.places import REGION
from rehearsal.oci.tags import nested
from rehearsal.plugin.store import Database, Record

Shown = dict[str, Any]


def _common(record: Record) -> Shown:
    outputs = record.outputs()
    return {
        "id": record.id, "compartmentId": record.inputs["compartmentId"], "displayName": outputs["displayName"],
        "definedTags": nested(outputs.get("definedTags") or {}), "freeformTags": outputs.get("freeformTags") or {},
        "lifecycleState": _state(record), "timeCreated": stamp(record.computed["timeCreated"]),
    }  # fmt: skip


def _state(record: Record) -> str:
    """Return the state: TERMINATING once termination is requested, even if the resource must first finish starting."""
    return "TERMINATING" if record.private.get("ending") else record.state


def members(database: Database, network: str) -> list[Record]:
    """Return the instances of a cluster network, including terminating instances, in the order of their launch indices."""
    found = [one for one in database.records.values() if one.token == INSTANCE and one.parent == network]
    return sorted(found, key=lambda one: int(one.private["index"]))


def network_summary(record: Record) -> Shown:
    """Return a ClusterNetworkSummary, whose pool is an InstancePoolSummary."""
    asked, placement = record.inputs["instancePools"][0], record.inputs["placementConfiguration"]
    pool = {
        "id": record.private["pool"], "compartmentId": record.inputs["compartmentId"], "size": asked["size"],
        "displayName": asked.get("displayName") or record.outputs()["displayName"], "lifecycleState": _state(record),
        "instanceConfigurationId": asked["instanceConfigurationId"], "freeformTags": asked.get("freeformTags") or {},
        "definedTags": nested(asked.get("definedTags") or {}), "timeCreated": stamp(record.computed["timeCreated"]),
        "availabilityDomains": [placement["availabilityDomain"]],
    }  # fmt: skip
    return {**_common(record), "instancePools": [pool], "timeUpdated": stamp(record.computed["timeUpdated"])}


def network(database: Database, record: Record) -> Shown:
    """Return a ClusterNetwork, whose pool is an InstancePool."""
    found, placement = network_summary(record), record.inputs["placementConfiguration"]
    pool = {name: value for name, value in found["instancePools"][0].items() if name != "availabilityDomains"}
    pool |= {
        "placementConfigurations": [placement],
        "currentSize": len(members(database, record.id)),
        "loadBalancers": [],
        "poolType": "CLUSTER_NETWORK",
    }
    return {**found, "instancePools": [pool], "placementConfiguration": placement, "networkBlockIds": [], "hpcIslandId": None}


def member(record: Record) -> Shown:
    """Return the InstanceSummary of an instance in a pool. Its state is not in upper case, unlike the states in other lists."""
    common = _common(record)
    return {
        **{name: common[name] for name in ("id", "compartmentId", "displayName", "timeCreated")},
        "state": record.state.title(), "region": REGION, "shape": record.inputs["shape"], "loadBalancerBackends": [],
        "availabilityDomain": record.computed["availabilityDomain"], "faultDomain": record.computed["faultDomain"],
        "instanceConfigurationId": record.computed["instanceConfigurationId"],
    }  # fmt: skip


def instance(record: Record) -> Shown:
    """Return an Instance."""
    own = record.computed
    return {
        **_common(record), "availabilityDomain": own["availabilityDomain"], "faultDomain": own["faultDomain"],
        "imageId": own["image"], "launchMode": own["launchMode"], "region": REGION, "shape": record.inputs["shape"],
        "shapeConfig": own["shapeConfig"], "metadata": record.inputs.get("metadata") or {}, "extendedMetadata": {},
        "sourceDetails": {"sourceType": "image", "imageId": own["image"]}, "systemTags": {},
        "instanceConfigurationId": own.get("instanceConfigurationId"),
    }  # fmt: skip


def attachment(record: Record) -> Shown:
    """Return the VnicAttachment of an instance's primary VNIC."""
    state = {"PROVISIONING": "ATTACHING", "TERMINATING": "DETACHING"}.get(record.state, "ATTACHED")
    return {
        "id": sibling_ocid(record.id, "vnicattachment"), "instanceId": record.id, "vnicId": sibling_ocid(record.id, "vnic"),
        "availabilityDomain": record.computed["availabilityDomain"], "compartmentId": record.inputs["compartmentId"],
        "displayName": None, "lifecycleState": state, "nicIndex": 0, "subnetId": record.private["subnet"], "vlanId": None,
        "vlanTag": 0, "timeCreated": stamp(record.computed["timeCreated"]),
    }  # fmt: skip


def private_ip(database: Database, record: Record, address: str, *, primary: bool) -> Shown:
    """Return the PrivateIp of an instance or of a file system's server."""
    subnet = database.records[record.private["subnet"]]
    return {
        "id": sibling_ocid(record.id, "privateip") + ("" if primary else address), "ipAddress": address, "isPrimary": primary,
        "vnicId": sibling_ocid(record.id, "vnic"), "subnetId": subnet.id, "hostnameLabel": record.private.get("hostname"),
        "displayName": record.outputs()["displayName"], "compartmentId": record.inputs["compartmentId"],
        "availabilityDomain": record.private["domain"], "timeCreated": stamp(record.computed["timeCreated"]),
        "definedTags": {}, "freeformTags": {}, "cidrPrefixLength": 32, "ipState": "ASSIGNED", "lifetime": "EPHEMERAL",
        "ipv4SubnetCidrAtCreation": subnet_cidr(subnet), "vlanId": None, "routeTableId": None,
    }  # fmt: skip
