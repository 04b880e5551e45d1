"""IAM roles, policies and instance profiles: checks policy documents, and computes which SSM parameters a host may write."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.aws.errors import Problem, refused
from rehearsal.aws.kinds import PROFILE, ROLE, Asked, Kind, Named, by_name, now, shown
from rehearsal.plugin import kinds
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Database, Record

ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
ATTACHED = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
#: AWS's managed policies that exist in the rehearsal (IAM user guide, "AWS managed policies").
MANAGED = frozenset(
    """
    AdministratorAccess AmazonSSMManagedInstanceCore AmazonS3ReadOnlyAccess AmazonS3FullAccess
    AmazonEC2ContainerRegistryReadOnly AmazonEC2ReadOnlyAccess AmazonFSxReadOnlyAccess CloudWatchAgentServerPolicy
    """.split()  # noqa: SIM905  a list that grows
)

_VERSIONS = {"2012-10-17", "2008-10-17"}
_UPPER = string.ascii_uppercase + string.digits
_PUT = "ssm:PutParameter"


def _malformed(path: str, why: str) -> Problem:
    return refused(path, "MalformedPolicyDocument", why)


def statements(document: str) -> list[dict[str, Any]]:
    """Return a policy's statements as a list, even if the policy contains a single statement and no list."""
    found = json.loads(document)["Statement"]
    return found if isinstance(found, list) else [found]


def broken(path: str, document: str, *, trust: bool) -> Iterator[Problem]:
    """Yield IAM's refusals of a policy document; if `trust` is true, the document is the trust policy of a role."""
    try:
        parsed = json.loads(document)
    except ValueError:
        yield _malformed(path, "This policy contains invalid Json")
        return
    if not isinstance(parsed, dict) or parsed.get("Version", "2008-10-17") not in _VERSIONS:
        yield _malformed(path, "Syntax error at position (1,1): Version must be 2012-10-17 or 2008-10-17.")
        return
    listed = parsed.get("Statement")
    for one in listed if isinstance(listed, list) else [listed]:
        if not isinstance(one, dict) or one.get("Effect") not in {"Allow", "Deny"}:
            yield _malformed(path, "Syntax errors in policy: a statement needs Effect Allow or Deny.")
        elif not ({"Action", "NotAction"} & set(one)):
            yield _malformed(path, "Policy statement must contain actions.")
        elif trust and "Principal" not in one:
            yield _malformed(path, "AssumeRolepolicy contains an invalid principal: a trust policy must name a principal.")
        elif trust and {"Resource", "NotResource"} & set(one):
            yield _malformed(path, "Has prohibited field Resource")
        elif not trust and "Principal" in one:
            yield _malformed(path, "Policy document should not specify a principal.")
        elif not trust and not ({"Resource", "NotResource"} & set(one)):
            yield _malformed(path, "Policy statement must contain resources.")
        else:
            yield from _actions(path, one)


def _actions(path: str, statement: Mapping[str, Any]) -> Iterator[Problem]:
    for action in _listed(statement.get("Action") or statement.get("NotAction")):
        if action != "*" and (action.count(":") != 1 or not action.split(":")[1]):
            yield _malformed(path, f"Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.: {action}")
    for resource in _listed(statement.get("Resource") or statement.get("NotResource") or "*"):
        if resource != "*" and not (resource.startswith("arn:") and resource.count(":") >= 5):  # noqa: PLR2004  ARN's parts
            yield _malformed(path, f'Resource {resource} must be in ARN format or "*".')


def _listed(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def may_put(database: Database, profile: Record | None) -> tuple[str, ...]:
    """Return the SSM parameters that machines with an instance profile may write, as patterns of parameter names."""
    role = role_of(database, profile)
    if role is None:
        return ()
    found: list[str] = []
    for policy in database.of(ROLE_POLICY):
        if policy.inputs["role"] != role.computed.get("name"):
            continue
        for one in statements(policy.inputs["policy"]):
            if one["Effect"] == "Allow" and any(
                fnmatchcase(_PUT.lower(), each.lower()) for each in _listed(one.get("Action", ""))
            ):
                found += [_parameter(each) for each in _listed(one.get("Resource", ""))]
    return tuple(dict.fromkeys(one for one in found if one))


def role_of(database: Database, profile: Record | None) -> Record | None:
    """Return the role of an instance profile."""
    return by_name(database, ROLE, profile.inputs.get("role")) if profile else None


def _parameter(arn: str) -> str:
    """Return the parameter names that an ARN covers, as a pattern; "" if the ARN does not name SSM parameters."""
    if arn == "*":
        return "*"
    _, _, name = arn.partition(":parameter")
    return name if arn.split(":")[2:3] in (["ssm"], ["*"]) else ""


class Role(Named):
    """An IAM role."""

    space = "role"
    token, noun, arn, arn_service, service = ROLE, "Role with name", "role/{id}", "iam", "IAM"
    create, update, delete = "CreateRole", "UpdateRole", "DeleteRole"
    unplayed: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("inlinePolicies", "managedPolicyArns"), "the rehearsal supports a role's policies only as separate resources."
    )

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        document = asked.known("assumeRolePolicy")
        if isinstance(document, str):
            yield from broken("assumeRolePolicy", document, trust=True)

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed.update(
            createDate=now(),
            path="/",
            maxSessionDuration=3600,
            forceDetachPolicies=False,
            uniqueId=f"AROA{''.join(secrets.choice(_UPPER) for _ in range(17))}",
        )

    @override
    def in_use(self, record: Record, holder: Record, kind: kinds.Kind) -> Problem:
        what = "must remove roles from instance profile first" if holder.token == PROFILE else "must detach all policies first"
        return refused("", "DeleteConflict", f"Cannot delete entity, {what}.", 409)


class OfRole(Kind):
    """A resource that belongs to a role: an inline policy or the attachment of a managed policy."""

    service = "IAM"
    references: ClassVar[Mapping[str, str]] = {"role": ROLE}


class RolePolicy(OfRole):
    """An inline policy of a role."""

    space = "role-policy"
    token, noun = ROLE_POLICY, "role policy"
    create, update, delete = "PutRolePolicy", "PutRolePolicy", "DeleteRolePolicy"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        document = asked.known("policy")
        if isinstance(document, str):
            yield from broken("policy", document, trust=False)

    @override
    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:
        return self.key(f"{inputs['role']}:{inputs.get('name') or Named.made_up(_UNNAMED, urn, inputs)}")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed["name"] = shown(record).partition(":")[2]


_UNNAMED = Named()


class Attachment(OfRole):
    """A managed policy attached to a role."""

    space = "attachment"
    token, noun = ATTACHED, "role policy attachment"
    create, update, delete = "AttachRolePolicy", "AttachRolePolicy", "DetachRolePolicy"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        arn = asked.known("policyArn")
        name = str(arn).rpartition("/")[2]
        if arn is not None and (":iam::aws:policy/" not in str(arn) or name not in MANAGED):
            yield refused("policyArn", "NoSuchEntity", f"Policy {arn} does not exist or is not attachable.", 404)

    @override
    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:
        return self.key(f"{inputs['role']}/{inputs['policyArn']}")


class InstanceProfile(Named):
    """An instance profile."""

    space = "profile"
    token, noun, arn, arn_service, service = PROFILE, "Instance Profile", "instance-profile/{id}", "iam", "IAM"
    create, update, delete = "CreateInstanceProfile", "TagInstanceProfile", "DeleteInstanceProfile"
    references: ClassVar[Mapping[str, str]] = {"role": ROLE}

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed.update(createDate=now(), path="/", uniqueId=f"AIPA{''.join(secrets.choice(_UPPER) for _ in range(17))}")


def profile(database: Database, name: str) -> dict[str, Any]:
    """Return the data source's result for an instance profile; if the profile has no role, the role's fields are empty.

    Source: terraform-provider-aws:internal/service/iam/instance_profile_data_source.go.

    Raises:
        ServiceError: no instance profile has this name.
    """
    found = by_name(database, PROFILE, name)
    if found is None:
        missing = f"reading IAM Instance Profile ({name}): couldn't find resource"
        raise ServiceError(refused("", "NoSuchEntity", missing, 404), "IAM", "GetInstanceProfile")
    role, its = role_of(database, found), found.computed
    return {
        "id": its["uniqueId"],
        "name": its["name"],
        "arn": its["arn"],
        "path": its["path"],
        "createDate": its["createDate"],
        "roleArn": role.computed["arn"] if role else "",
        "roleId": role.computed["uniqueId"] if role else "",
        "roleName": role.computed["name"] if role else "",
    }
