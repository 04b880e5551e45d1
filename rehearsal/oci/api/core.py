"""The supported operations of the Core Services and Work Requests APIs, each with its HTTP method and path.

Source: oci-python-sdk 2.189, core/compute_management_client.py, core/compute_client.py, core/virtual_network_client.py and
work_requests/work_request_client.py: paths, required arguments, and which answers have a work request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.oci.api import shown
from rehearsal.oci.api.bodies import created_network, detached_instance, updated_network
from rehearsal.oci.api.ledger import Ledger, WorkRequest
from rehearsal.oci.api.networks import NETWORK, Networks
from rehearsal.oci.api.pages import page
from rehearsal.oci.cloud import Cloud
from rehearsal.oci.core_subnet import SUBNET
from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.launch import INSTANCE
from rehearsal.oci.ocids import sibling_ocid
from rehearsal.oci.permissions import allowed
from rehearsal.oci.places import COMPARTMENTS
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.https_service import Answer
from rehearsal.plugin.store import Database, Record

_ACCEPTED, _NO_CONTENT, _OK = 202, 204, 200
_ENDING = "TERMINATING"


@dataclass(frozen=True)
class Call:
    """One authenticated request: the calling instance, the operation, the query, the headers and the body."""

    instance: Record
    operation: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


def _unknown(name: str = "") -> ServiceError:
    return ServiceError(not_found(name, name), "Core", "")


def _needed(call: Call, name: str) -> str:
    if not call.query.get(name):
        raise ServiceError(Problem(name, f"Missing {name}", code="MissingParameter"), "Core", call.operation)
    return call.query[name]


class Core:
    """The API of one world."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud, self._ledger = cloud, Ledger()
        self._networks = Networks(cloud, self._ledger)

    def permit(self, call: Call, compartment: str, needed: str = "") -> None:
        """Check that a compartment exists, and that policies allow the operation (or the operation `needed`) there.

        Raises:
            ServiceError: the compartment does not exist, or no policy allows the operation; both have the same error.
        """
        database = self._cloud.store.read()
        if compartment not in COMPARTMENTS or not allowed(database, call.instance, call.operation, compartment, needed):
            raise _unknown(compartment)

    def _listed(self, call: Call) -> Database:
        """Return all existing resources.

        Before that, check that the calling instance may list the resources of the request's compartment.
        """
        self.permit(call, _needed(call, "compartmentId"))
        self._networks.lost()
        return self._cloud.store.read()

    def _record(self, call: Call, database: Database, ocid: str, token: str) -> Record:
        """Return a resource's record if policies allow the operation on the resource; the resource may be terminating."""
        record = database.records.get(ocid)
        if record is None or record.token != token:
            raise _unknown(ocid)
        self.permit(call, record.inputs["compartmentId"])
        return record

    def create_network(self, call: Call) -> Answer:
        """CreateClusterNetwork."""
        inputs = created_network(call.body)
        self.permit(call, inputs["compartmentId"])
        record, request = self._networks.create(inputs, call.headers.get("opc-retry-token", ""))
        about = {"etag": record.short} | ({"opc-work-request-id": request.id} if request else {})
        return Answer(_ACCEPTED, shown.network(self._cloud.store.read(), record), about)

    def networks(self, call: Call) -> Answer:
        """ListClusterNetworks."""
        database = self._listed(call)
        there = [shown.network_summary(one) for one in database.records.values() if one.token == NETWORK.token]
        return page(_chosen([*there, *self._ledger.gone(NETWORK.noun, database.records)], call), call.query)

    def network(self, call: Call, ocid: str) -> Answer:
        """GetClusterNetwork."""
        database, ended = self._cloud.store.read(), self._ledger.ended(ocid)
        if ocid not in database.records and ended is not None:
            self.permit(call, ended["compartmentId"])
            return Answer(_OK, ended)
        return Answer(_OK, shown.network(database, self._record(call, database, ocid, NETWORK.token)))

    def update_network(self, call: Call, ocid: str) -> Answer:
        """UpdateClusterNetwork."""
        record = self._record(call, self._cloud.store.read(), ocid, NETWORK.token)
        self._networks.update(ocid, updated_network(call.body))
        return Answer(_OK, shown.network(self._cloud.store.read(), record), {"etag": record.short})

    def end_network(self, call: Call, ocid: str) -> Answer:
        """TerminateClusterNetwork."""
        self._record(call, self._cloud.store.read(), ocid, NETWORK.token)
        return Answer(_NO_CONTENT, None, {"opc-work-request-id": self._networks.terminate(ocid).id})

    def members(self, call: Call, ocid: str) -> Answer:
        """ListClusterNetworkInstances."""
        database = self._listed(call)
        owner = database.records.get(ocid)
        if owner is None and self._ledger.ended(ocid) is None:
            raise _unknown(ocid)
        return page([shown.member(one) for one in shown.members(database, ocid)], call.query)

    def detach(self, call: Call, pool: str) -> Answer:
        """DetachInstancePoolInstance."""
        asked = detached_instance(call.body)
        owners = self._cloud.store.read().of(NETWORK.token)
        owner = next((one for one in owners if one.private["pool"] == pool), None)
        if owner is None:
            raise _unknown(pool)
        self.permit(call, owner.inputs["compartmentId"])
        request = self._networks.detach(pool, asked.instance, shrink=asked.shrink, end=asked.end)
        return Answer(_ACCEPTED, None, {"opc-work-request-id": request.id})

    def instances(self, call: Call) -> Answer:
        """ListInstances."""
        database = self._listed(call)
        there = [shown.instance(one) for one in database.records.values() if one.token == INSTANCE]
        return page(_chosen([*there, *self._ledger.gone("instance", database.records)], call), call.query)

    def instance(self, call: Call, ocid: str) -> Answer:
        """GetInstance."""
        self._networks.lost()
        database, ended = self._cloud.store.read(), self._ledger.ended(ocid)
        if ocid not in database.records and ended is not None:
            self.permit(call, ended["compartmentId"])
            return Answer(_OK, ended)
        return Answer(_OK, shown.instance(self._record(call, database, ocid, INSTANCE)))

    def end_instance(self, call: Call, ocid: str) -> Answer:
        """TerminateInstance."""
        record = self._record(call, self._cloud.store.read(), ocid, INSTANCE)
        about = {}
        if record.state != _ENDING:
            about["opc-work-request-id"] = self._networks.end_instance(record).id
        return Answer(_NO_CONTENT, None, about)

    def attachments(self, call: Call) -> Answer:
        """ListVnicAttachments."""
        database = self._listed(call)
        found = [shown.attachment(one) for one in database.records.values() if one.token == INSTANCE]
        return page(_chosen(found, call, "instanceId", "vnicId", "availabilityDomain"), call.query)

    def private_ips(self, call: Call) -> Answer:
        """ListPrivateIps."""
        database = self._cloud.store.read()
        subnet, vnic = call.query.get("subnetId"), call.query.get("vnicId")
        if not subnet and not vnic:
            raise ServiceError(Problem("", "Missing subnetId or vnicId", code="MissingParameter"), "Core", call.operation)
        there = database.find(subnet, SUBNET)
        if subnet and there is None:
            raise _unknown(subnet)
        found = [
            shown.private_ip(database, one, address, primary=at == 0)
            for one in database.records.values()
            if (one.token == INSTANCE or one.private.get("addresses"))
            and (not subnet or one.private["subnet"] == subnet)
            and (not vnic or sibling_ocid(one.id, "vnic") == vnic)
            for at, address in enumerate(one.private.get("addresses") or [one.computed["privateIp"]])
        ]
        for compartment in {there.inputs["compartmentId"]} if there else {one["compartmentId"] for one in found}:
            self.permit(call, compartment)
        return page(_chosen(found, call, "ipAddress"), call.query)

    def work_requests(self, call: Call) -> Answer:
        """ListWorkRequests."""
        self._listed(call)
        resource = call.query.get("resourceId")
        found = [one for one in self._ledger.requests() if resource in {None, one.resource}]
        return page(_chosen([one.shown() for one in found], call), call.query)

    def work_request(self, call: Call, ocid: str) -> Answer:
        """GetWorkRequest."""
        found = self._work(call, ocid)
        return Answer(_OK, {**found.shown(), "resources": found.resources()})

    def work_errors(self, call: Call, ocid: str) -> Answer:
        """ListWorkRequestErrors."""
        return page(self._work(call, ocid).errors(), call.query)

    def _work(self, call: Call, ocid: str) -> WorkRequest:
        found = next((one for one in self._ledger.requests() if one.id == ocid), None)
        if found is None:
            raise _unknown(ocid)
        self.permit(call, found.compartment, found.operation)
        return found


def _chosen(found: Iterable[Mapping[str, Any]], call: Call, *names: str) -> list[Mapping[str, Any]]:
    """Return the items that match the query's compartment, display name and state, and its values of the keys in `names`."""
    names = ("compartmentId", "displayName", "lifecycleState", *names)
    wanted = {name: call.query[name] for name in names if name in call.query}
    return [one for one in found if all(str(one.get(name)) == value for name, value in wanted.items())]


_OCID = r"(ocid1\.[^/]+)"
_Work = Callable[..., Answer]
#: HTTP method, path after the API's version, operation, and the function that performs the operation.
ROUTES: tuple[tuple[str, re.Pattern[str], str, _Work], ...] = tuple(
    (method, re.compile(path), operation, work)
    for method, path, operation, work in (
        ("POST", "/clusterNetworks", "CreateClusterNetwork", Core.create_network),
        ("GET", "/clusterNetworks", "ListClusterNetworks", Core.networks),
        ("GET", f"/clusterNetworks/{_OCID}", "GetClusterNetwork", Core.network),
        ("PUT", f"/clusterNetworks/{_OCID}", "UpdateClusterNetwork", Core.update_network),
        ("DELETE", f"/clusterNetworks/{_OCID}", "TerminateClusterNetwork", Core.end_network),
        ("GET", f"/clusterNetworks/{_OCID}/instances", "ListClusterNetworkInstances", Core.members),
        ("POST", f"/instancePools/{_OCID}/actions/detachInstance", "DetachInstancePoolInstance", Core.detach),
        ("GET", "/instances/?", "ListInstances", Core.instances),
        ("GET", f"/instances/{_OCID}", "GetInstance", Core.instance),
        ("DELETE", f"/instances/{_OCID}", "TerminateInstance", Core.end_instance),
        ("GET", "/vnicAttachments/?", "ListVnicAttachments", Core.attachments),
        ("GET", "/privateIps", "ListPrivateIps", Core.private_ips),
        ("GET", "/workRequests", "ListWorkRequests", Core.work_requests),
        ("GET", f"/workRequests/{_OCID}", "GetWorkRequest", Core.work_request),
        ("GET", f"/workRequests/{_OCID}/errors", "ListWorkRequestErrors", Core.work_errors),
    )
)
