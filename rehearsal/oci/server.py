"""The OCI-specific part of the provider protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import override

from rehearsal.oci import lookups, rules
from rehearsal.oci.diff import changes
from rehearsal.oci.errors import Problem
from rehearsal.oci.provider_defaults import DEFAULTS
from rehearsal.oci.sdk import SDK
from rehearsal.plugin import errors, server
from rehearsal.plugin.diff import Changes


class Provider(server.Provider):
    """The OCI provider."""

    version = "5.5.0"  # pulumi_oci's pulumi-plugin.json
    sdk = SDK
    problem = Problem

    @override
    def defaults(self, token: str) -> Mapping[str, str | int | bool]:
        return DEFAULTS.get(token, {})

    @override
    def rules(self, token: str, inputs: Mapping[str, Any]) -> Iterable[errors.Problem]:
        return rules.broken(token, inputs)

    @override
    def answer(self, token: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return lookups.answer(token, args, self._cloud.store.read())

    @override
    def changes(self, token: str, old: Mapping[str, Any], new: Mapping[str, Any], state: Mapping[str, Any]) -> Changes:
        return changes(token, old, new)
