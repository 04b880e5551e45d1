"""Rules about existing instance profiles: they must exist and have a role. The role's permissions are not judged."""

from __future__ import annotations

from collections.abc import Iterator

from config.aws.facts import Facts
from config.aws.model import Aws
from config.rule import ERROR, Breach, known, rule

_AT = "aws.profiles.existing"
_Breaches = Iterator[Breach]


@rule("profile-instead", ERROR, "a stack finds its machines by a profile or name that no other stack has", guard=True)
def profile_instead(wanted: Aws, _facts: Facts) -> _Breaches:
    """An existing profile beside keys that only a new profile can have, or without `aws.name`.

    With an existing profile, machines are found by `aws.name`.
    """
    own = wanted.profiles.existing
    if own.nodes and wanted.node_rights:
        rights = ", ".join(wanted.node_rights)
        yield Breach(
            "aws.nodeRights", f"is {rights}, and {_AT}.nodes is {own.nodes}, which is never changed; set only one of them"
        )
    if (own.nodes or own.login) and "name" not in wanted.model_fields_set:
        yield Breach(
            "aws.name",
            f"is not set, and {_AT} names a profile that other stacks may have; machines and the login node's parameter are "
            "then found by aws.name, so give a name that no other stack of the region has",
        )


@rule("profile-there", ERROR, "IAM API, GetInstanceProfile: a profile has one role or none", guard=True, number=43)
def profile_there(wanted: Aws, facts: Facts) -> _Breaches:
    """A profile that does not exist, or that gives machines no role."""
    for key, name in wanted.profiles.existing.model_dump().items():
        if name is None:
            continue
        found = known(facts.profiles, name, "instance profile")
        if found is None:
            yield Breach(f"{_AT}.{key}", f"is {name}, and the account has no such profile, or you may not see it")
        elif not found.role:
            yield Breach(f"{_AT}.{key}", f"is {name}, which has no role, so machines would have no rights; add a role to it")
