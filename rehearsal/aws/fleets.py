"""Instant fleets of EC2: start the requested number of instances of one launch template, or fewer if capacity is short.

A fleet starts no instance if there is capacity for fewer than the requested minimum. At most two of its instances boot at the
same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.aws import capacity, compute, launch, launch_rules, placing
from rehearsal.aws.errors import Problem, refused
from rehearsal.aws.kinds import INSTANCE, MISSING, TEMPLATE, Asked, Kind
from rehearsal.aws.launch import Launch
from rehearsal.aws.places import region_of
from rehearsal.aws.templates import version
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import Unknown, at, known_at

FLEET = "aws:ec2/fleet:Fleet"
_WINDOW = 2  # number of a fleet's hosts that boot at the same time; the smallest machine that runs the rehearsal has two cores
_SPECIFICATION = "launchTemplateConfigs[0].launchTemplateSpecification"
_OPTIONS = {"on-demand": "onDemandOptions", "spot": "spotOptions"}


class Fleet(Kind):
    """Instances of one launch template that a single request starts."""

    token, noun, prefix, arn = FLEET, "fleet", "fleet", "fleet/{id}"
    create, update, delete = "CreateFleet", "ModifyFleet", "DeleteFleets"
    ready = "active"
    seconds = 10
    unplayed: ClassVar[Mapping[str, str]] = {"context": "the rehearsal does not know its meaning."}

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        kind = asked.known("type")
        if kind != "instant" and asked.inputs.get("type") is not None and kind is not None:
            yield refused("type", "NotRehearsed", f"The rehearsal supports only instant fleets, but type is {kind}.", 501)
        elif asked.inputs.get("type") is None:
            yield refused(
                "type", "NotRehearsed", "The rehearsal supports only instant fleets; the default type is maintain.", 501
            )
        yield from _counts(asked)
        configs = asked.known("launchTemplateConfigs")
        if configs is None or isinstance(configs[0] if configs else None, Unknown):
            return
        if len(configs) != 1:
            yield refused("launchTemplateConfigs", "NotRehearsed", "The rehearsal supports one launch template per fleet.", 501)
            return
        specification = known_at(configs[0], "launchTemplateSpecification")
        template = known_at(specification, "launchTemplateId") or known_at(specification, "launchTemplateName")
        if template is None:
            return
        record = self.referred(asked.database, TEMPLATE, template)
        if record is None:
            code, sentence, status = MISSING[TEMPLATE]
            yield refused(f"{_SPECIFICATION}.launchTemplateId", code, sentence.format(template), status)
            return
        number = known_at(specification, "version")
        data = version(record, str(number)) if number is not None else None
        if number is not None and data is None:
            yield refused(
                f"{_SPECIFICATION}.version",
                "InvalidLaunchTemplateId.VersionNotFound",
                f"Could not find launch template version {number} of {record.id}.",
            )
        elif data is not None and asked.itself is None:
            yield from _launch(asked, launch.of_template(data))

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed.update(
            fleetState="active", fulfilledCapacity=0, fulfilledOnDemandCapacity=0, fleetInstanceSets=[],
            excessCapacityTerminationPolicy="termination", replaceUnhealthyInstances=False, validFrom="", validUntil="",
            terminateInstances=False, terminateInstancesWithExpiration=False,
        )  # fmt: skip

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is not None:
            return
        cloud.wait(self.seconds)
        wanted = int(record.inputs["targetCapacitySpecification"]["totalTargetCapacity"])
        members = cloud.store.read().children(record.id) or self._reserve(cloud, record, wanted)
        with ThreadPoolExecutor(_WINDOW) as window:
            for booted in [window.submit(_boot, cloud, one) for one in members]:
                booted.result()
        with cloud.store.change() as database:
            mine = database.records[record.id]
            sets = {
                "instanceIds": [one.id for one in members],
                "instanceType": members[0].private["type"] if members else "",
                "lifecycle": _market(record.inputs),
                "platform": "",
            }
            mine.computed.update(
                fleetInstanceSets=[sets] if members else [],
                fulfilledCapacity=len(members),
                fulfilledOnDemandCapacity=len(members) if _market(record.inputs) == "on-demand" else 0,
            )

    def _reserve(self, cloud: ResourceCloud, record: Record, wanted: int) -> list[Record]:
        """Reserve all requested instances, or as many as the capacity allows, before any of them boots; return their records.

        If there is capacity for fewer than the requested minimum, the list is empty and there is no error: CreateFleet returns
        errors together with the fleet's id, and the provider keeps only the id
        (terraform-provider-aws:internal/service/ec2/ec2_fleet.go, resourceFleetCreate; aws-parallelcluster-node PR 528).
        """
        room = next((index for index in range(wanted) if not cloud.faults.capacity_left(index)), wanted)
        least = int(known_at(record.inputs, f"{_OPTIONS[_market(record.inputs)]}.minTargetCapacity") or 0)
        with cloud.store.change() as database:
            data = _data(database, record.inputs)
            template = launch.of_template(data)
            if room < max(least, 1):
                return []
            return [_member(cloud, database, record, template, index) for index in range(room)]

    @override
    def stale(self, inputs: Mapping[str, Any]) -> Problem | None:
        specification = inputs["launchTemplateConfigs"][0]["launchTemplateSpecification"]
        return self.missing(_SPECIFICATION, str(specification.get("launchTemplateId")), TEMPLATE)

    @override
    def outputs(self, record: Record) -> dict[str, Any]:
        return {name: value for name, value in super().outputs(record).items() if name != "ownerId"}

    def needs(self, record: Record) -> Iterator[str]:  # noqa: ARG002
        """Yield nothing: the fleet's instances depend on other resources, but the fleet itself does not."""
        return iter(())


def _counts(asked: Asked) -> Iterator[Problem]:
    path = "targetCapacitySpecification"
    total, kind = asked.known(f"{path}.totalTargetCapacity"), asked.known(f"{path}.defaultTargetCapacityType")
    if total is not None and total < 1:
        yield refused(
            f"{path}.totalTargetCapacity", "InvalidTargetCapacity", f"{total} machines are requested; the minimum is 1."
        )
    if kind is None:
        return
    if kind == "capacity-block":
        yield refused(
            f"{path}.defaultTargetCapacityType",
            "NotRehearsed",
            "In the rehearsal, a fleet cannot use a Capacity Block; an instance that is launched by itself can.",
            501,
        )
        return
    least = asked.known(f"{_OPTIONS[kind]}.minTargetCapacity") if kind in _OPTIONS else None
    if least is not None and total is not None and least > total:
        yield refused(
            f"{_OPTIONS[kind]}.minTargetCapacity",
            "InvalidFleetConfig",
            f"minTargetCapacity is {least}, but totalTargetCapacity is only {total}.",
        )
    single = [at(asked.inputs, f"{_OPTIONS.get(kind)}.{name}") for name in ("singleAvailabilityZone", "singleInstanceType")]
    if least is not None and not any(single):
        # EC2 API, CreateFleet: "At least one of the following must be specified: SingleAvailabilityZone | SingleInstanceType".
        yield refused(
            f"{_OPTIONS[kind]}.minTargetCapacity",
            "InvalidFleetConfig",
            "minTargetCapacity needs singleAvailabilityZone or singleInstanceType.",
        )


def _launch(asked: Asked, wanted: Launch) -> Iterator[Problem]:
    region = region_of(asked.inputs)
    count = int(asked.known("targetCapacitySpecification.totalTargetCapacity") or 1)
    if wanted.known("instanceMarketOptions") is not None:
        yield refused(
            _SPECIFICATION,
            "InvalidLaunchTemplate",
            "A fleet sets the market itself: InstanceMarketOptions must not be in its template.",
        )
    if wanted.reservation is not None:
        yield refused(
            _SPECIFICATION,
            "InvalidLaunchTemplate",
            "A fleet can target reservations only by their group's ARN, but its template has a reservation id, which only "
            "RunInstances uses.",
        )
    kind = wanted.type
    market = str(asked.known("targetCapacitySpecification.defaultTargetCapacityType") or "on-demand")
    if kind is not None and market not in kind.usage:
        yield refused(
            "targetCapacitySpecification.defaultTargetCapacityType",
            "Unsupported",
            f"{kind.name} is not sold as {market}; it is sold as {', '.join(kind.usage)}.",
        )
    yield from launch_rules.problems(wanted, asked.database, region, count)
    if market == "on-demand":
        yield from capacity.problems(wanted, asked.database, region, count)


def _data(database: Database, inputs: Mapping[str, Any]) -> dict[str, Any]:
    specification = inputs["launchTemplateConfigs"][0]["launchTemplateSpecification"]
    named = specification.get("launchTemplateId") or specification.get("launchTemplateName")
    record = next(one for one in database.of(TEMPLATE) if named in {one.id, one.computed["name"]})
    found = version(record, str(specification["version"]))
    if found is None:
        raise KeyError(specification["version"])
    return found


def _market(inputs: Mapping[str, Any]) -> str:
    return str(known_at(inputs, "targetCapacitySpecification.defaultTargetCapacityType") or "on-demand")


def _member(cloud: ResourceCloud, database: Database, fleet: Record, template: Launch, index: int) -> Record:
    kind = compute.Instance()
    tags = {"aws:ec2:fleet-id": fleet.id, **template.tags}
    inputs = {"tags": tags, "region": region_of(fleet.inputs)}
    record = cloud.stamp(Record(kind.new_id("", {}), INSTANCE, "", "pending", inputs, parent=fleet.id))
    Kind.on_create(kind, database, record)
    record.private["template"] = fleet.id
    placing.place(database, record, template, index)
    record.private["market"] = _market(fleet.inputs)
    database.records[record.id] = record
    return record


def _boot(cloud: ResourceCloud, record: Record) -> None:
    with cloud.working(record):
        compute.boot(cloud, record)
