"""The rehearsed AWS provider: the AWS-specific part of Pulumi's provider protocol."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import override

from rehearsal.aws import lookups, members, resource_tags
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.diff import changes
from rehearsal.aws.errors import Problem, refused
from rehearsal.aws.kinds import TEMPLATE
from rehearsal.aws.places import is_region
from rehearsal.aws.sdk import SDK
from rehearsal.plugin import errors, server
from rehearsal.plugin.diff import Changes
from rehearsal.plugin.store import Record
from rehearsal.plugin.wire import known


class Provider(server.Provider):
    """The rehearsed AWS provider."""

    version = "7.51.1"  # pulumi_aws's pulumi-plugin.json
    sdk = SDK
    problem = Problem

    def __init__(self, cloud: Cloud) -> None:
        super().__init__(cloud)
        self._aws = cloud

    @override
    def misconfigured(self, variables: Mapping[str, Any]) -> Iterable[errors.Problem]:
        region = _region(variables)
        if region is None:
            yield refused(
                "region", "MissingRegion", "Missing region configuration. Set it: `pulumi config set aws:region us-west-2`."
            )
        elif known(region) is not None and not is_region(str(region)):
            yield refused("region", "InvalidRegion", f"invalid AWS Region: {region}")

    @override
    def configure(self, variables: Mapping[str, Any]) -> None:
        region = known(_region(variables))
        self._aws.region = str(region) if region else self._aws.region

    @override
    def defaults(self, token: str) -> Mapping[str, str | int | bool]:
        return {"region": self._aws.region} if "region" in SDK.inputs(token).fields else {}

    @override
    def rules(self, token: str, inputs: Mapping[str, Any]) -> Iterable[errors.Problem]:
        return (*members.broken(SDK, token, inputs), *resource_tags.broken(inputs))

    @override
    def answer(self, token: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return lookups.answer(token, args, self._aws)

    def outputs(self, record: Record) -> Mapping[str, Any]:
        """Return those outputs of a resource that the SDK declares."""
        names = SDK.output_names(record.token)
        return {name: value for name, value in super().outputs(record).items() if name in names}

    @override
    def changes(self, token: str, old: Mapping[str, Any], new: Mapping[str, Any], state: Mapping[str, Any]) -> Changes:
        return changes(token, old, new, state)

    @override
    def unknown_after(self, token: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterable[str]:
        # If the data of a launch template change, AWS's provider makes latestVersion unknown, and makes defaultVersion unknown
        # only if updateDefaultVersion is set. The rehearsed provider makes both outputs unknown, whether or not
        # updateDefaultVersion is set. Source: terraform-provider-aws:internal/service/ec2/ec2_launch_template.go,
        # ComputedIf("latest_version", ...).
        if token == TEMPLATE and any(old.get(name) != new.get(name) for name in {*old, *new} - {"tags", "name", "namePrefix"}):
            return ("latestVersion", "defaultVersion")
        return ()


def _region(variables: Mapping[str, Any]) -> Any:
    """Return the configured region, or the region in the environment (pulumi_aws 7.51.1, provider.py)."""
    return variables.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
