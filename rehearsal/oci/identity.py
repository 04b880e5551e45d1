"""Dynamic groups and policies: the grammar of rules and statements. The module `permissions` evaluates rules and statements."""

from __future__ import annotations

import re
from collections.abc import Iterator

from typing_extensions import override

from rehearsal.oci.conditions import matches
from rehearsal.oci.errors import Problem
from rehearsal.oci.kinds import Asked, Kind
from rehearsal.oci.places import COMPARTMENTS, TENANCY
from rehearsal.plugin.wire import each

DYNAMIC_GROUP, POLICY = "oci:Identity/dynamicGroup:DynamicGroup", "oci:Identity/policy:Policy"

# Resource types in IAM's policies: every family, and the individual types of the services that clusters use. Source:
# docs.oracle.com/iaas/Content/Identity/policyreference/policyreference_topic-Resource_Types.htm
_RESOURCE_TYPES = frozenset(
    """
    all-resources announcements app-catalog-listing autonomous-database-family autoscaling-configurations backup-policies
    boot-volume-attachments boot-volume-backups boot-volumes bucket buckets cloudevents-rules cluster-family
    cluster-networks clusters compartments compute-bare-metal-hosts compute-capacity-reports compute-capacity-reservations
    compute-capacity-topologies compute-clusters compute-gpu-memory-clusters compute-gpu-memory-fabrics compute-hpc-islands
    compute-image-capability-schema compute-local-blocks compute-management-family compute-network-blocks
    console-histories data-science-family database-family dedicated-vm-hosts dhcp-options dns dns-records dns-zones
    drgs dynamic-groups export-sets file-family file-systems fn-app fn-function fn-invocation functions-family groups
    instance-agent-command-execution-family instance-agent-command-family instance-agent-commands instance-agent-plugins
    instance-configurations instance-console-connection instance-family instance-images instance-pools instances
    internet-gateways key-family keys leaf-certificate-family limits load-balancers local-peering-gateways
    log-content log-groups log-streams logging-family lustre-file-family lustre-file-system management-agents metrics
    mount-targets mysql-family nat-gateways network-load-balancers network-security-groups object-family objects
    objectstorage-namespaces ons-family ons-subscriptions ons-topics orm-family orm-jobs orm-stacks policies private-ips
    public-ips queue-pull queue-push queues quotas repos resource-availability route-tables secret-bundles secret-family
    secrets security-lists serviceconnectors service-gateways stream-family stream-pull stream-push stream-pools streams
    subnets tag-namespaces tenancies users vaults vcns virtual-network-family vnic-attachments vnics volume-attachments
    volume-backups volume-family volume-groups volumes work-requests
    """.split()  # noqa: SIM905  a list of more than a hundred words
)

_NAMED = r"(?:'[^']+'/)?(?:'[^']+'|[\w.@+-]+)"
_LISTED = rf"(?:id\s+ocid1\.[\w.-]+|{_NAMED})"
STATEMENT = re.compile(
    rf"""\s*allow\s+
    (?P<subject>any-user|any-group|(?P<who>group|dynamic-group|service)\s+(?P<names>{_LISTED}(?:\s*,\s*{_LISTED})*))\s+
    (?:to\s+)(?P<verb>inspect|read|use|manage|\{{\s*\w+(?:\s*,\s*\w+)*\s*\}})\s+
    (?:(?P<type>[a-z0-9-]+)\s+)?
    in\s+(?P<place>tenancy|compartment\s+(?:id\s+(?P<ocid>ocid1\.[\w.-]+)|[\w:.' -]+?))
    (?:\s+where\s+(?P<where>.+))?\s*""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_VALUE = r"(?:'[^']*'|/[^/]*/|\d+)"
_CONDITION = re.compile(
    rf"\s*[a-z][\w.:-]*\s*(?:(?:=|!=)\s*{_VALUE}|(?:not\s+)?in\s*\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*\))\s*",
    re.IGNORECASE,
)
_RESOURCE = r"resource\.(?:type|id|compartment\.id|parenttype|parentcompartment\.id)"
_VARIABLE = rf"(?:instance\.(?:id|compartment\.id)|{_RESOURCE}|tag\.[\w-]+\.[\w-]+\.value)"
_MATCH = re.compile(rf"\s*{_VARIABLE}\s*(?:(?:=|!=)\s*(?:'[^']*'|\"[^\"]*\"))?\s*", re.IGNORECASE)
_MOST_STATEMENTS = 50  # IAM's limit: statements in one policy object


def named(names: str) -> list[str]:
    """Return the names or OCIDs of the groups in a statement."""
    return [name.strip().removeprefix("id ").strip().rpartition("/")[2].strip("'") for name in names.split(",")]


class DynamicGroup(Kind):
    """A dynamic group: the instances that match a rule."""

    token, noun, service = DYNAMIC_GROUP, "dynamicgroup", "Identity Dynamic Group"
    ready = "ACTIVE"
    named = False
    create, update, delete = "CreateDynamicGroup", "UpdateDynamicGroup", "DeleteDynamicGroup"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        compartment, name = asked.known("compartmentId"), asked.known("name")
        if compartment is not None and compartment != TENANCY:
            yield Problem(
                "compartmentId",
                f"compartmentId is {compartment}, but must be the tenancy's, because dynamic groups exist only in the tenancy.",
            )
        if asked.inputs.get("name") is None:
            yield Problem("name", "name is missing, but a dynamic group needs one.", code="MissingParameter")
        elif any(str(one.inputs["name"]).lower() == str(name).lower() for one in asked.neighbours(self.token)):
            yield Problem("name", f"Dynamic group {name} already exists.", 409, "DynamicGroupAlreadyExists")
        rule = asked.known("matchingRule")
        if rule is not None and not matches(rule, _MATCH):
            yield Problem(
                "matchingRule",
                f"matchingRule {rule!r} is not a rule, which is one condition, such as instance.compartment.id = '<ocid>', or "
                "several conditions in any {...} or all {...}.",
                code="InvalidMatchingRule",
            )


class Policy(Kind):
    """A policy."""

    token, noun, service = POLICY, "policy", "Identity Policy"
    ready = "ACTIVE"
    named = False
    create, update, delete = "CreatePolicy", "UpdatePolicy", "DeletePolicy"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        name, compartment = asked.known("name"), asked.known("compartmentId")
        if asked.inputs.get("name") is None:
            yield Problem("name", "name is missing, but a policy needs one.", code="MissingParameter")
        elif any(one.inputs["name"] == name for one in asked.neighbours(self.token, compartmentId=compartment)):
            yield Problem("name", f"Policy {name} already exists.", 409, "PolicyAlreadyExists")
        statements = asked.known("statements")
        if isinstance(statements, list) and not 1 <= len(statements) <= _MOST_STATEMENTS:
            yield Problem("statements", f"statements has {len(statements)} entries, but must have 1 to {_MOST_STATEMENTS}.")
        for path, statement in each(asked.inputs, "statements[]"):
            yield from self._statement(asked, path, statement)

    def _statement(self, asked: Asked, path: str, statement: str) -> Iterator[Problem]:
        found = STATEMENT.fullmatch(statement)
        if found is None:
            yield Problem(
                path,
                f"{path} {statement!r} cannot be parsed; the syntax is: Allow <subject> to <verb> <resource-type> in "
                "<location> [where <conditions>].",
            )
            return
        kind, place, where = found["type"], found["ocid"], found["where"]
        if kind is None and not found["verb"].startswith("{"):
            yield Problem(path, f"{path} names no resource type after {found['verb']!r}.")
        # The vendor's own examples have some types in the singular ("use tag-namespace"); IAM accepts singular and plural.
        if kind is not None and {kind.lower(), f"{kind.lower()}s"}.isdisjoint(_RESOURCE_TYPES):
            yield Problem(path, f"{path} names {kind!r}, which is not a resource type or family.")
        if place is not None and place not in COMPARTMENTS:
            yield Problem(path, f"{path} names compartment {place}, which does not exist.", 404, "NotAuthorizedOrNotFound")
        if place is None and found["place"].lower() != "tenancy" and not found["ocid"]:
            named = found["place"].split(None, 1)[1].strip("' ").rpartition(":")[2]
            if named not in COMPARTMENTS.values():
                yield Problem(
                    path, f"{path} names compartment {named!r}, which does not exist.", 404, "NotAuthorizedOrNotFound"
                )
        if where is not None and not matches(where, _CONDITION):
            yield Problem(path, f"{path} has the condition {where!r}, which cannot be parsed.")
        # A preview cannot check whether a dynamic group exists, because the update that is previewed may create the group.
        if (found["who"] or "").lower() == "dynamic-group" and asked.urn is None:
            yield from self._groups(asked, path, found["names"])

    def _groups(self, asked: Asked, path: str, names: str) -> Iterator[Problem]:
        groups = asked.database.of(DYNAMIC_GROUP)
        known_names = {str(one.inputs["name"]).lower() for one in groups} | {one.id for one in groups}
        for plain in named(names):
            if plain.lower() not in known_names:
                yield Problem(
                    path,
                    f"{path} names the dynamic group {plain!r}, which does not exist.",
                    404,
                    "NotAuthorizedOrNotFound",
                )
