"""What the instance metadata service says about an instance.

Source: "Getting Instance Metadata" (gettingmetadata.htm), keys of /opc/v2/instance, /opc/v2/vnics and their example values.
"""

from __future__ import annotations

import json
from datetime import datetime

from rehearsal.oci.ocids import sibling_ocid, stamp
from rehearsal.oci.places import REGION, REGION_KEY, TENANCY
from rehearsal.oci.tags import nested
from rehearsal.plugin.store import Database, Record


def metadata(database: Database, record: Record, cidr: str) -> dict[str, str]:
    """Return the documents of an instance by path, and whether version 1 is served under `legacy`."""
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
    return {"instance": json.dumps(instance), "vnics": json.dumps([vnic]), "legacy": legacy}


def _first(cidr: str) -> str:
    head, _, last = cidr.partition("/")[0].rpartition(".")
    return f"{head}.{int(last) + 1}"
