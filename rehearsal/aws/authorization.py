"""Evaluates a role's policies: may the role perform an action on a resource, in the context of a request?

Source: IAM user guide, "Policy evaluation logic", "IAM JSON policy elements: Condition operators". A statement does not
apply if its condition has an operator that is not rehearsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from rehearsal.aws.iam import ATTACHED, ROLE_POLICY, statements
from rehearsal.plugin.store import Database, Record

Context = Mapping[str, list[str]]

#: Name of a managed policy of AWS -> the EC2 actions that the policy allows.
_MANAGED: Mapping[str, tuple[str, ...]] = {
    "AdministratorAccess": ("*",),
    "AmazonEC2ReadOnlyAccess": ("ec2:Describe*",),
}


def allowed(database: Database, role: Record, action: str, resource: str, context: Context) -> bool:
    """Return whether a role's policies allow an action on a resource; if one statement denies the action, it is not allowed.

    `context` has the values of the request's condition keys. The names of the keys are in lower case.
    """
    effects = {
        one["Effect"]
        for one in _statements(database, role)
        if _covers(one, "Action", action.lower(), str.lower)
        and _covers(one, "Resource", resource, str)
        and _holds(one.get("Condition") or {}, context)
    }
    return effects == {"Allow"}


def _statements(database: Database, role: Record) -> Iterator[Mapping[str, Any]]:
    name = role.computed.get("name")
    for policy in database.of(ROLE_POLICY):
        if policy.inputs["role"] == name:
            yield from statements(policy.inputs["policy"])
    for attached in database.of(ATTACHED):
        if attached.inputs["role"] == name:
            actions = _MANAGED.get(str(attached.inputs["policyArn"]).rpartition("/")[2], ())
            if actions:
                yield {"Effect": "Allow", "Action": list(actions), "Resource": "*"}


def _listed(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _covers(statement: Mapping[str, Any], element: str, value: str, folded: Callable[[str], str]) -> bool:
    """Return whether an element of a statement, such as Action, covers a value.

    If the statement lacks the element, the element's negation, such as NotAction, decides.
    """
    if element in statement:
        return any(fnmatchcase(value, folded(one)) for one in _listed(statement[element]))
    return not any(fnmatchcase(value, folded(one)) for one in _listed(statement[f"Not{element}"]))


_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda have, want: have == want,
    "StringEqualsIgnoreCase": lambda have, want: have.lower() == want.lower(),
    "StringLike": fnmatchcase,
    "ArnEquals": fnmatchcase,
    "ArnLike": fnmatchcase,
    "Bool": lambda have, want: have.lower() == want.lower(),
}


def _holds(condition: Mapping[str, Mapping[str, Any]], context: Context) -> bool:
    return all(
        _one(operator, key, _listed(want), context) for operator, keys in condition.items() for key, want in keys.items()
    )


def _one(operator: str, key: str, wanted: list[str], context: Context) -> bool:
    have = context.get(key.lower())
    if operator == "Null":
        return (have is None) == (wanted == ["true"])
    quantifier, _, plain = operator.rpartition(":")
    name = plain.removesuffix("IfExists")
    negated = name.replace("NotEquals", "Equals").replace("NotLike", "Like")
    test = _TESTS.get(negated)
    if test is None:
        return False
    if not have:
        return name != plain or name != negated or quantifier == "ForAllValues"
    each = [any(test(value, want) for want in wanted) for value in have]
    if name != negated:
        each = [not one for one in each]
    return any(each) if quantifier == "ForAnyValue" else all(each)
