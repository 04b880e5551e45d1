"""RunInstances as in the API: instances and their addresses exist at once, and their hosts boot afterwards."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rehearsal.aws import capacity, compute, launch, launch_rules, placing
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.errors import Problem, invalid, not_played, refused
from rehearsal.aws.kinds import INSTANCE, MISSING, TEMPLATE, Kind
from rehearsal.aws.launch import Launch
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.presence import present
from rehearsal.plugin.store import Database, Record

_WINDOW = 2  # hosts that boot at the same time: one for each core of the smallest machine that runs the rehearsal
#: Pause in seconds between the request for a machine and its boot; every real machine takes longer. Slurm refuses a node that
#: booted before Slurm requested it, and compares both times in whole seconds, rounded up. With this pause, the boot is later
#: than the request even after rounding.
_LEAST_START_S = 2
#: Member of a request -> the input that this member overrides; all other inputs come from the launch template.
_OVERRIDES = {"InstanceType": "instanceType", "ImageId": "ami", "SubnetId": "subnetId"}
_PLAYED = {"LaunchTemplate", "MinCount", "MaxCount", "ClientToken", "TagSpecifications", "DryRun", *_OVERRIDES}


@dataclass(frozen=True)
class Order:
    """The content of one request: launch, template, least and greatest number of instances, the instances' tags, and region."""

    launch: Launch
    template: Record
    least: int
    most: int
    tags: Mapping[str, str]
    region: str


def tags_of(asked: Mapping[str, Any], resource: str) -> dict[str, str]:
    """Return the tags that a request gives to a kind of resource."""
    specified = [one for one in asked.get("TagSpecifications") or [] if one.get("ResourceType") == resource]
    return {tag["Key"]: tag.get("Value", "") for one in specified for tag in one.get("Tags") or []}


def order(asked: Mapping[str, Any], database: Database, region: str) -> Order:
    """Return the content of a request.

    Raises:
        ServiceError: the request is refused for a reason other than capacity.
    """
    for name in sorted(set(asked) - _PLAYED):
        raise _error(not_played(name, f"{name} is given, but the rehearsal's RunInstances takes it from a launch template."))
    least, most = asked.get("MinCount"), asked.get("MaxCount")
    if least is None or most is None:
        missing = "MinCount" if least is None else "MaxCount"
        raise _error(refused(missing, "MissingParameter", f"The request must contain the parameter {missing}"))
    if not 1 <= least <= most:
        raise _error(invalid("MinCount", f"Invalid value '{least}' for MinCount; it must be from 1 to MaxCount ({most})."))
    given = asked.get("LaunchTemplate") or {}
    named = given.get("LaunchTemplateId") or given.get("LaunchTemplateName")
    if named is None:
        raise _error(not_played("LaunchTemplate", "The rehearsal's RunInstances launches from a launch template only."))
    found = [one for one in database.of(TEMPLATE) if named in {one.id, one.computed["name"]}]
    if not found:
        code, sentence, status = MISSING[TEMPLATE]
        raise _error(refused("LaunchTemplate", code, sentence.format(named), status))
    inputs = {"launchTemplate": {"id": found[0].id, "version": given.get("Version", "$Default")}, "region": region}
    inputs |= {_OVERRIDES[name]: asked[name] for name in _OVERRIDES if name in asked}
    wanted = launch.of_instance(inputs, database)
    if wanted is None:
        why = f"Could not find launch template version {given.get('Version')} of {named}."
        raise _error(refused("LaunchTemplate", "InvalidLaunchTemplateId.VersionNotFound", why))
    return Order(wanted, found[0], least, most, tags_of(asked, "instance"), region)


def _error(problem: Problem) -> ServiceError:
    return ServiceError(problem, "EC2", "RunInstances")


class Launches:
    """The instances that one process launches and terminates.

    `bury` is called with each terminated instance and the reason for its termination.
    """

    def __init__(self, cloud: Cloud, bury: Callable[[Record, str], None]) -> None:
        self._cloud, self._bury = cloud, bury
        self._window = ThreadPoolExecutor(_WINDOW)
        self._guard, self._boots = threading.Lock(), dict[str, Future[None]]()

    def run(self, wanted: Order, asked: Mapping[str, Any]) -> list[Record]:
        """Launch the instances of an order, or return the instances that the same client token has launched.

        Raises:
            ServiceError: the service refuses the order, or has no capacity for the order's smallest number of instances.
        """
        token = asked.get("ClientToken", "")
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        with self._cloud.store.change() as database:
            known = [one for one in database.records.values() if token and one.private.get("clientToken") == token]
            if known:
                if known[0].private["clientDigest"] != digest:
                    why = "The request uses the same client token as a previous, but non-identical request."
                    raise _error(refused("ClientToken", "IdempotentParameterMismatch", why))
                return known
            problem = next(self._problems(wanted, database), None)
            if problem is not None:
                raise ServiceError(problem, "EC2", "RunInstances")
        room = self._room(wanted)
        with self._cloud.store.change() as database:
            made = [self._member(database, wanted, {"clientToken": token, "clientDigest": digest}) for _ in range(room)]
        for record in made:
            with self._guard:
                self._boots[record.id] = self._window.submit(self._boot, record)
        return made

    @staticmethod
    def _problems(wanted: Order, database: Database) -> Iterator[Problem]:
        yield from launch_rules.problems(wanted.launch, database, wanted.region, wanted.most)
        yield from capacity.problems(wanted.launch, database, wanted.region, wanted.most)

    def _room(self, wanted: Order) -> int:
        lacking = self._cloud.faults.lacking(wanted.most)
        room = wanted.most if lacking is None else int(lacking.get("after", 0))
        if room < wanted.least:
            subnet = wanted.launch.subnet(self._cloud.store.read())
            zone = subnet.private["zone"] if subnet else ""
            raise _error(capacity.no_capacity(str(wanted.launch.known("instanceType")), zone))
        return room

    def _member(self, database: Database, wanted: Order, private: Mapping[str, Any]) -> Record:
        kind = compute.Instance()
        inputs = {"tags": dict(wanted.tags), "region": wanted.region}
        record = self._cloud.stamp(Record(kind.new_id("", {}), INSTANCE, "", "pending", inputs))
        Kind.on_create(kind, database, record)
        record.private |= {"template": wanted.template.id, **private}
        placing.place(database, record, wanted.launch, compute.index(database, wanted.template.id))
        database.records[record.id] = record
        return record

    def _boot(self, record: Record) -> None:
        time.sleep(_LEAST_START_S)
        with present(self._cloud.world):
            try:
                with self._cloud.working(record):
                    compute.boot(self._cloud, record)
            except Exception:  # a failed boot, whatever the reason, leaves no machine; the boot's future keeps the error
                self._bury(record, "Server.InternalError")
                raise

    def end(self, record: Record) -> None:
        """Begin to terminate an instance; if its host is still booting, the termination waits for the end of the boot."""
        with self._cloud.store.change() as database:
            database.records[record.id].private["ending"] = True
        threading.Thread(target=self._end, args=(record,), daemon=True).start()

    def _end(self, record: Record) -> None:
        with self._guard:
            boot = self._boots.pop(record.id, None)
        if boot is not None and boot.exception() is not None:
            return  # the failed boot has already terminated the instance
        # The API shows the instance as shutting-down until its record is removed, and as terminated after that.
        self._bury(record, "Client.UserInitiatedShutdown")
        with present(self._cloud.world):
            self._cloud.remove(record.id)
