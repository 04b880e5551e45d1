"""The operations of EC2's Query API that the stand-in supports, and the permissions that each operation needs.

Source: Service Authorization Reference, "Actions, resources, and condition keys for Amazon EC2"; EC2 API reference 2016-11-15.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rehearsal.aws.api import instant_fleets, reservations, shown, topology
from rehearsal.aws.api.launches import Launches, order
from rehearsal.aws.api.rights import Call, Rights, instance_keys, request_tags
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.errors import invalid, refused
from rehearsal.aws.kinds import INSTANCE, ROLE, by_name, now
from rehearsal.aws.lookup_requests import passes
from rehearsal.aws.lookups import facts
from rehearsal.aws.places import ACCOUNT
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Database, Record

#: Largest and smallest value of MaxResults.
_PAGE_MOST, _PAGE_LEAST = 1000, 5


def _missing(action: str, ids: Iterable[str]) -> ServiceError:
    listed = list(ids)
    which = f"The instance ID '{listed[0]}' does" if len(listed) == 1 else f"The instance IDs '{', '.join(listed)}' do"
    return ServiceError(refused("", "InvalidInstanceID.NotFound", f"{which} not exist"), "EC2", action)


def _is_launched_here(record: Record) -> bool:
    """Return whether an instance was launched through this API; only such an instance has a client token.

    With the fault `eventual`, an answer may be stale. A stale answer leaves out every instance that was launched through this
    API.
    """
    return bool(record.private.get("clientToken"))


class Ec2:
    """EC2's Query API in one world."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._guard, self._gone = threading.Lock(), dict[str, tuple[Record, str]]()
        self._launches, self._rights = Launches(cloud, self._bury), Rights(cloud)

    def _bury(self, record: Record, why: str) -> None:
        """Remember a terminated instance: EC2 lists it for about an hour; this process lists it until the process ends."""
        with self._guard:
            self._gone.setdefault(record.id, (record, why))

    def _bury_lost(self) -> None:
        """Remember as terminated every instance whose host has disappeared."""
        for record in self._cloud.store.read().of(INSTANCE):
            if record.state == "running" and self._cloud.read(record.id) is None:
                self._bury(record, "Server.InternalError")

    def run(self, call: Call) -> Mapping[str, Any]:
        """RunInstances."""
        database = self._cloud.store.read()
        wanted = order(call.asked, database, call.region)
        self._rights.permit_launch(call, wanted, call.asked)
        made = self._launches.run(wanted, call.asked)
        with self._cloud.store.change() as changing:
            for one in made:
                mine = changing.records.get(one.id)
                if mine is not None:
                    mine.private.setdefault("launched", now())
                    mine.private["reservation_id"] = made[0].private["reservation_id"]
        return self._reservation(made[0].private["reservation_id"], [shown.instance(one) for one in made])

    @staticmethod
    def _reservation(ident: str, instances: list[Mapping[str, Any]]) -> Mapping[str, Any]:
        return {"ReservationId": ident, "OwnerId": ACCOUNT, "Groups": [], "Instances": instances}

    def fleet(self, call: Call) -> Mapping[str, Any]:
        """CreateFleet."""
        return instant_fleets.create(call, self._cloud, self._launches, self._rights)

    def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeInstances; with the fault `eventual`, instances that were launched through this API are not visible yet."""
        self._rights.permit(call, "*")
        self._bury_lost()
        database = self._cloud.store.read()
        stale = self._cloud.faults.stale(call.action)
        found = [one for one in database.records.values() if one.token == INSTANCE and not (stale and _is_launched_here(one))]
        listed = [(one.id, one, "") for one in found if one.computed["region"] == call.region]
        with self._guard:
            here = {one for one, _, _ in listed}
            listed += [
                (ident, *gone)
                for ident, gone in self._gone.items()
                if ident not in here and gone[0].computed["region"] == call.region
            ]
        ids = call.asked.get("InstanceIds") or []
        unknown = [one for one in ids if one not in {ident for ident, _, _ in listed}]
        if unknown:
            raise _missing(call.action, unknown)
        filters = {
            "filters": [{"name": one["Name"], "values": one.get("Values") or []} for one in call.asked.get("Filters") or []]
        }
        shown_ones = [
            (record.private["reservation_id"], shown.instance(record, why))
            for ident, record, why in listed
            if (not ids or ident in ids)
            and passes(filters, facts(record, database, "terminated" if why else shown.state(record)))
        ]
        return self._page(call, shown_ones)

    def topology(self, call: Call) -> Mapping[str, Any]:
        """DescribeInstanceTopology, without terminated instances."""
        self._rights.permit(call, "*")
        self._bury_lost()
        database = self._cloud.store.read()
        here = {one.id: one for one in database.of(INSTANCE) if one.computed["region"] == call.region}
        ids = call.asked.get("InstanceIds") or list(here)
        unknown = [one for one in ids if one not in here and one not in self._gone]
        if unknown:
            raise _missing(call.action, unknown)
        return topology.described(call, [here[one] for one in ids if one in here])

    def reservations(self, call: Call) -> Mapping[str, Any]:
        """DescribeCapacityReservations."""
        self._rights.permit(call, "*")
        return reservations.described(call, self._cloud.store.read())

    def _page(self, call: Call, found: list[tuple[str, shown.Shown]]) -> Mapping[str, Any]:
        limit, token = call.asked.get("MaxResults"), call.asked.get("NextToken")
        if limit is not None and not _PAGE_LEAST <= limit <= _PAGE_MOST:
            why = (
                f"Value ( {limit} ) for parameter maxResults is invalid. Expecting a value from {_PAGE_LEAST} to {_PAGE_MOST}."
            )
            raise ServiceError(invalid("MaxResults", why), "EC2", call.action)
        try:
            start = int(base64.b64decode(token)) if token else 0
        except (ValueError, binascii.Error):
            raise ServiceError(invalid("NextToken", "Unable to parse pagination token"), "EC2", call.action) from None
        end = start + (limit or len(found))
        grouped: dict[str, list[Mapping[str, Any]]] = {}
        for ident, one in found[start:end]:
            grouped.setdefault(ident, []).append(one)
        more = base64.b64encode(str(end).encode()).decode() if end < len(found) else None
        return {"Reservations": [self._reservation(*one) for one in grouped.items()], "NextToken": more}

    def _known(self, call: Call) -> list[Record]:
        """Return the records of the instances that a request names, without terminated instances.

        A request that names an unknown instance is refused.
        """
        ids = call.asked.get("InstanceIds") or call.asked.get("Resources") or []
        if not ids:
            raise ServiceError(
                refused("", "MissingParameter", "The request must contain the parameter InstanceId"), "EC2", call.action
            )
        database = self._cloud.store.read()
        stale = self._cloud.faults.stale(call.action)
        records = {ident: database.records.get(ident) for ident in ids}
        unknown = [
            ident
            for ident, one in records.items()
            if (one is None or one.token != INSTANCE or (stale and _is_launched_here(one))) and ident not in self._gone
        ]
        if unknown:
            raise _missing(call.action, unknown)
        return [one for one in records.values() if one is not None]

    def terminate(self, call: Call) -> Mapping[str, Any]:
        """TerminateInstances. If one instance is unknown or may not be terminated by the role, no instance is terminated."""
        records, database = self._known(call), self._cloud.store.read()
        for one in records:
            self._rights.permit(call, f"ec2|instance/{one.id}", context=instance_keys(database, one))
        changes = []
        for one in records:
            before = shown.state(one)
            if before != "shutting-down":
                self._launches.end(one)
            changes.append((one.id, "shutting-down", before))
        ended = [ident for ident in call.asked["InstanceIds"] if ident not in {one.id for one in records}]
        changes += [(ident, "terminated", "terminated") for ident in ended]
        named = [
            {"InstanceId": ident, "CurrentState": shown.named(after), "PreviousState": shown.named(before)}
            for ident, after, before in changes
        ]
        return {"TerminatingInstances": named}

    def create_tags(self, call: Call) -> Mapping[str, Any]:
        """CreateTags on instances."""
        given = {one["Key"]: one.get("Value", "") for one in call.asked.get("Tags") or []}
        records, database = self._known(call), self._cloud.store.read()
        for one in records:
            context = {**request_tags(given), **instance_keys(database, one)}
            self._rights.permit(call, f"ec2|instance/{one.id}", context=context)
        with self._cloud.store.change() as changing:
            for one in records:
                mine = changing.records[one.id]
                mine.private["tags"] = {**mine.private["tags"], **given}
                mine.computed.update(tags=mine.private["tags"], tagsAll=mine.private["tags"])
        return {}


ACTIONS: Mapping[str, Callable[[Ec2, Call], Mapping[str, Any]]] = {
    "RunInstances": Ec2.run,
    "CreateFleet": Ec2.fleet,
    "DescribeInstances": Ec2.describe,
    "DescribeInstanceTopology": Ec2.topology,
    "DescribeCapacityReservations": Ec2.reservations,
    "TerminateInstances": Ec2.terminate,
    "CreateTags": Ec2.create_tags,
}


def role_named(database: Database, name: str) -> Record | None:
    """Return the role with this name, or None."""
    return by_name(database, ROLE, name)
