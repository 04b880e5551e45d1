"""The permissions that a request needs, and the service's message if the role lacks a permission.

Source: Service Authorization Reference, "Actions, resources, and condition keys for Amazon EC2"; EC2 user guide, "Grant
permission to tag resources during creation".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.aws.api.launches import Order, tags_of
from rehearsal.aws.authorization import Context, allowed
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.errors import refused
from rehearsal.aws.iam import role_of
from rehearsal.aws.kinds import PROFILE, by_name
from rehearsal.aws.places import ACCOUNT, partition
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Database, Record

_RUN = "ec2:RunInstances"


@dataclass(frozen=True)
class Call:
    """One authenticated request: the calling instance and its role, the region, the action and the action's parameters."""

    instance: Record
    role: Record
    region: str
    action: str
    asked: Mapping[str, Any]


def request_tags(given: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the condition keys of the tags in a request."""
    return {f"aws:RequestTag/{key}": [value] for key, value in given.items()} | {"aws:TagKeys": list(given)}


def instance_keys(database: Database, record: Record) -> dict[str, list[str]]:
    """Return the condition keys of an instance: its tags, its type and its profile."""
    tags = record.private["tags"].items()
    found = {f"{space}:ResourceTag/{key}": [value] for space in ("aws", "ec2") for key, value in tags}
    profile = by_name(database, PROFILE, record.private["profile"])
    profiles = {"ec2:InstanceProfile": [str(profile.computed["arn"])]} if profile else {}
    return {**found, **profiles, "ec2:InstanceType": [str(record.private["type"])]}


class Rights:
    """Checks whether a role has a permission, according to the policies in the records of one world."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def permit(self, call: Call, resource: str, action: str = "", context: Context | None = None) -> None:
        """Raise the service's refusal unless the role may do an action on a resource (`SERVICE|NOUN`, or `*` for all).

        Raises:
            ServiceError: no policy of the role allows the action, or a policy denies it.
        """
        action = action or f"ec2:{call.action}"
        service, _, noun = resource.partition("|")
        # The ARN of an image contains no account, and the ARN of an IAM resource contains no region.
        account, where = "" if noun.startswith("image/") else ACCOUNT, "" if service == "iam" else call.region
        arn = "*" if resource == "*" else f"arn:{partition(call.region)}:{service}:{where}:{account}:{noun}"
        keys = {"aws:RequestedRegion": [call.region], "ec2:Region": [call.region], **(context or {})}
        folded = {name.lower(): values for name, values in keys.items()}
        if allowed(self._cloud.store.read(), call.role, action, arn, folded):
            return
        who = f"arn:{partition(call.region)}:sts::{ACCOUNT}:assumed-role/{call.role.computed['name']}/{call.instance.id}"
        on = "" if arn == "*" else f" on resource: {arn}"
        why = (
            f"You are not authorized to perform this operation. User: {who} is not authorized to perform: {action}{on} "
            f"because no identity-based policy allows the {action} action"
        )
        raise ServiceError(refused("", "UnauthorizedOperation", why, 403), "EC2", call.action)

    def permit_launch(self, call: Call, wanted: Order, asked: Mapping[str, Any]) -> None:
        """Check the permissions for everything that a launch uses, for the launch's tags, and for the role of the instances.

        `asked` is the request in the form of RunInstances.

        Raises:
            ServiceError: a permission is missing.
        """
        launched = wanted.launch
        template = f"launch-template/{wanted.template.id}"
        used = {"ec2:LaunchTemplate": [f"arn:{partition(call.region)}:ec2:{call.region}:{ACCOUNT}:{template}"]}
        used["ec2:InstanceType"] = [str(launched.known("instanceType"))]
        touched = [template, f"image/{launched.known('ami')}"]
        touched += [f"subnet/{one.subnet}" for one in launched.nics if one.subnet]
        touched += [f"security-group/{group}" for one in launched.nics for group in one.groups or ()]
        touched += [f"placement-group/{launched.placement_group}"] if launched.placement_group else []
        touched += [f"key-pair/{launched.known('keyName')}"] if launched.known("keyName") else []
        for noun in dict.fromkeys(touched):
            self.permit(call, f"ec2|{noun}", _RUN, used)
        for noun in ("instance/*", "volume/*", "network-interface/*"):
            self.permit(call, f"ec2|{noun}", _RUN, {**used, **request_tags(tags_of(asked, noun.partition("/")[0]))})
        for noun in ("instance", "volume"):
            given = tags_of(asked, noun)
            if given:
                context = {"ec2:CreateAction": [call.action], **request_tags(given)}
                self.permit(call, f"ec2|{noun}/*", "ec2:CreateTags", context)
        database = self._cloud.store.read()
        role = role_of(database, by_name(database, PROFILE, launched.profile))
        if role is not None:
            passed = {"iam:PassedToService": ["ec2.amazonaws.com"]}
            self.permit(call, f"iam|role/{role.computed['name']}", "iam:PassRole", passed)
