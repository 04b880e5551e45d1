"""Metadata of an instance, as the instance metadata service returns it.

Sources: "Getting Instance Metadata" (gettingmetadata.htm), keys of /opc/v2/instance and /opc/v2/vnics with their example
values. For /opc/v2/host: oci-hpc-oke, "Using RDMA network locality" (rdmaTopologyData, on bare metal with GPUs in a tenancy
with a capacity topology), and oci-dr-hpc-v2, "Host Metadata Support" (the other keys). The location of hosts is invented: in
the order of their launch indices, every two hosts of a cluster network share a local block and a rack, and every eight hosts
share a network block.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from rehearsal.oci.ocids import sibling_ocid, stamp
from rehearsal.oci.places import REGION, REGION_KEY, TENANCY
from rehearsal.oci.shapes import SHAPES
from rehearsal.oci.tags import nested
from rehearsal.plugin.store import Database, Record

_RACK, _BLOCK = 2, 8


def metadata(database: Database, record: Record, cidr: str, *, topology: bool = True) -> dict[str, str]:
    """Return an instance's metadata documents by path; the entry `legacy` is `yes` if version 1 is served, too, else `no`.

    `topology` says whether the tenancy has a capacity topology.
    """
    inputs, own = record.inputs, record.computed
    name, hostname = record.outputs()["displayName"], record.private["hostname"]
    region = {
        "realmDomainComponent": "oraclecloud.com",
        "realmKey": "oc1",
        "regionIdentifier": REGION,
        "regionKey": REGION_KEY.upper(),
    }
    instance = {
        "agentConfig": {"managementDisabled": False, "monitoringDisabled": False},
        "availabilityDomain": own["availabilityDomain"], "canonicalRegionName": REGION,
        "compartmentId": inputs["compartmentId"], "definedTags": nested(inputs.get("definedTags") or {}),
        "displayName": name, "faultDomain": own["faultDomain"], "freeformTags": inputs.get("freeformTags") or {},
        "hostname": hostname, "id": record.id, "image": own["image"], "metadata": inputs.get("metadata") or {},
        "ociAdName": own["availabilityDomain"].rpartition(":")[2].lower(), "region": REGION, "regionInfo": region,
        "shape": record.private["shape"], "shapeConfig": own["shapeConfig"], "state": "Running", "tenantId": TENANCY,
        "timeCreated": int(datetime.fromisoformat(stamp(own["timeCreated"])).timestamp() * 1000),
    }  # fmt: skip
    owner = database.records.get(record.parent or "")
    if owner is not None and "pool" in owner.private:
        instance["instancePoolId"] = owner.private["pool"]
    vnic = {
        "macAddr": f"00:00:17:{record.short[:2]}:{record.short[2:4]}:{record.short[4:6]}", "nicIndex": 0,
        "privateIp": own["privateIp"], "subnetCidrBlock": cidr, "virtualRouterIp": _first(cidr),
        "vlanTag": 0, "vnicId": sibling_ocid(record.id, "vnic"),
    }  # fmt: skip
    options = inputs.get("instanceOptions") or {}
    legacy = "no" if options.get("areLegacyImdsEndpointsDisabled") else "yes"
    found = {"instance": json.dumps(instance), "vnics": json.dumps([vnic]), "legacy": legacy}
    return {**found, "host": json.dumps(_host(record, topology=topology))} if SHAPES[record.private["shape"]].ports else found


def _host(record: Record, *, topology: bool) -> dict[str, Any]:
    own = record.private
    fabric, index = own["fabric"] or record.short, max(own["index"], 0)
    block, rack = (f"{fabric}/{index // size}" for size in (_BLOCK, _RACK))
    found: dict[str, Any] = {"buildingId": _made_up("building", own["domain"])[:12], "id": _made_up("host", record.id)}
    found |= {"networkBlockId": _made_up("block", block), "rackId": _made_up("rack", rack)}
    if topology and SHAPES[own["shape"]].gpus:
        found["rdmaTopologyData"] = {
            "customerHPCIslandId": _ocid("hpcisland", own["domain"]),
            "customerHostId": _ocid("computebaremetalhost", record.id),
            "customerLocalBlock": _ocid("computelocalblock", rack),
            "customerNetworkBlock": _ocid("computenetworkblock", block),
        }
    return found


def _made_up(noun: str, which: str) -> str:
    return hashlib.sha256(f"{noun} {which}".encode()).hexdigest()


def _ocid(noun: str, which: str) -> str:
    return f"ocid1.{noun}.oc1.{REGION_KEY}.{_made_up(noun, which)[:60]}"


def _first(cidr: str) -> str:
    head, _, last = cidr.partition("/")[0].rpartition(".")
    return f"{head}.{int(last) + 1}"
