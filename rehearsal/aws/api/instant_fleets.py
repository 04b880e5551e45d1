"""CreateFleet of type instant: a launch whose answer has a fleet id even if the answer reports a lack of capacity.

Sources: EC2 API reference, CreateFleet; aws-parallelcluster-node, slurm_plugin/fleet_manager.py, which shows the fields of the
answer that a client reads. An instant fleet has no state after its launch, so the rehearsal stores no record of the fleet.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from rehearsal.aws.api.launches import Launches, order
from rehearsal.aws.api.rights import Call, Rights
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.errors import not_played
from rehearsal.aws.fleets import Fleet
from rehearsal.aws.kinds import Asked
from rehearsal.plugin.errors import ServiceError

_NONE = "InsufficientInstanceCapacity"
_PLAYED = {
    *("LaunchTemplateConfigs", "TargetCapacitySpecification", "OnDemandOptions", "Type", "ClientToken", "TagSpecifications"),
    "TerminateInstancesWithExpiration",
}


def create(call: Call, cloud: Cloud, launches: Launches, rights: Rights) -> Mapping[str, Any]:
    """Launch the machines of an instant fleet.

    Raises:
        ServiceError: the service refuses the request for a reason other than capacity.
    """
    asked = call.asked
    target = asked.get("TargetCapacitySpecification") or {}
    for name in sorted(set(asked) - _PLAYED):
        raise _error(call, not_played(name, f"{name} is given, but the rehearsal's fleets do not support it."))
    if target.get("DefaultTargetCapacityType", "on-demand") != "on-demand":
        raise _error(call, not_played("TargetCapacitySpecification", "The rehearsal's API launches on-demand fleets only."))
    database = cloud.store.read()
    problem = next(Fleet().problems(Asked(_as_resource(asked) | {"region": call.region}, database)), None)
    if problem is not None:
        raise ServiceError(problem, "EC2", call.action)
    [config] = asked["LaunchTemplateConfigs"]
    if config.get("Overrides"):
        raise _error(call, not_played("LaunchTemplateConfigs", "Overrides is given, but the rehearsal does not support it."))
    most, least = target["TotalTargetCapacity"], (asked.get("OnDemandOptions") or {}).get("MinTargetCapacity", 0)
    ident = f"fleet-{uuid.uuid4()}"
    tags = [one for one in asked.get("TagSpecifications") or [] if one.get("ResourceType") != "fleet"]
    launched = {
        "LaunchTemplate": config["LaunchTemplateSpecification"], "MinCount": max(least, 1), "MaxCount": most,
        "ClientToken": asked.get("ClientToken", ""), "TagSpecifications": tags,
    }  # fmt: skip
    wanted = order(launched, database, call.region)
    rights.permit(call, f"ec2|fleet/{ident}")
    rights.permit_launch(call, wanted, launched)
    from_template = {"LaunchTemplateSpecification": config["LaunchTemplateSpecification"]}
    try:
        made, why = launches.run(wanted, launched), ""
    except ServiceError as refused:
        if refused.problem.code != _NONE:
            raise
        made, why = [], refused.problem.message
    short = [
        {
            "LaunchTemplateAndOverrides": from_template,
            "Lifecycle": "on-demand",
            "ErrorCode": _NONE,
            "ErrorMessage": why or _NONE,
        }
    ]
    sets = {
        "LaunchTemplateAndOverrides": from_template, "Lifecycle": "on-demand", "InstanceIds": [one.id for one in made],
        "InstanceType": made[0].private["type"] if made else None,
    }  # fmt: skip
    return {"FleetId": ident, "Errors": short if len(made) < most else [], "Instances": [sets] if made else []}


def _error(call: Call, problem: Any) -> ServiceError:
    return ServiceError(problem, "EC2", call.action)


def _as_resource(value: Any) -> Any:
    """Return a request's members under the names that AWS's Pulumi provider uses for these members."""
    if isinstance(value, Mapping):
        return {name[0].lower() + name[1:]: _as_resource(one) for name, one in value.items()}
    return [_as_resource(one) for one in value] if isinstance(value, list) else value
