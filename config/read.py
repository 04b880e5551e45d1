"""Reads the stack's configuration, for the whole program, and reports all mistakes in the stack file together."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import pulumi
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from config import judgeable, monitoring_rules
from config import rules as stack_rules
from config.accept import Accept
from config.measure import Measure
from config.model import Model, UnreadError, fields_by_key, inner, key_of, read_strictly
from config.monitoring import Monitoring
from config.records import Records
from config.refused import rest
from config.rule import ERROR, Finding, check, collected, nearest, suppressed
from config.shared_values import SHA256_PATTERN
from config.stack import TARGETS, Stack

#: Groups that every target has.
_SHARED: dict[str, type[Model]] = {"measure": Measure, "accept": Accept, "records": Records, "monitoring": Monitoring}
_GROUPS = ("target", *TARGETS, *_SHARED)
#: Rules that apply to every stack, whatever its target.
STACK_RULES = collected(stack_rules, judgeable, monitoring_rules)


def load() -> Stack:
    """Return the stack that the configuration sets.

    Raises:
        pulumi.RunError: the stack file has mistakes. The message has one sentence for each mistake, and each sentence begins
            with the path of a key as typed.
    """
    project = pulumi.get_project()
    raw = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    texts = {key.partition(":")[2]: str(text) for key, text in raw.items() if key.startswith(f"{project}:")}
    hidden = [key for key in texts if pulumi.runtime.config.is_config_secret(f"{project}:{key}")]
    if hidden:
        shown = "previews, outputs and the report show it; no key needs a secret, so set it without --secret"
        raise pulumi.RunError("\n".join(f"{key} has a value that was set with --secret, but {shown}" for key in hidden))
    return parse(texts, region=raw.get("aws:region"))


def parse(texts: Mapping[str, str], *, region: str | None = None) -> Stack:
    """Return the stack that the configuration sets.

    `texts` has the JSON of each group, as the engine passes it; its entry `target` is the target's name. `region` is the AWS
    provider's region, or None if the stack file sets no region.

    Raises:
        pulumi.RunError: the stack file has mistakes. The message has one sentence for each mistake.
    """
    target = texts.get("target")
    if target not in TARGETS:
        raise pulumi.RunError(f"target is {target!r}; it must be one of {', '.join(TARGETS)}.")
    wrong = [*_foreign(texts, target)]
    found: dict[str, Any] = {"target": target}
    # Models and rules of the other targets are not imported: their validators would add a fraction of a second to each start.
    own: type[Model] = getattr(import_module(f"config.{target}.model"), target.title())
    for key, model in {target: own, **_SHARED}.items():
        found["wanted" if key == target else key], errors = group(key, model, texts.get(key, "{}"))
        wrong += errors
    stack = Stack(**found)
    wrong += [one.sentence for one in _findings(stack, region) if one.severity == ERROR]
    if wrong:
        raise pulumi.RunError("\n".join(wrong))
    return stack


def oci_region() -> str:
    """Return the OCI provider's region, from the stack file or the environment.

    The text is empty if only the provider's own file has the region.
    """
    return pulumi.Config("oci").get("region") or os.environ.get("OCI_REGION") or ""


def _findings(stack: Stack, region: str | None) -> Iterator[Finding]:
    """Yield what the rules find without a query of the account. A rule that needs a value with a mistake finds nothing."""
    rules = import_module(f"config.{stack.target}.rules")
    of_stack = STACK_RULES | rules.STACK_RULES
    with contextlib.suppress(UnreadError):
        yield from suppressed(getattr(stack.wanted, "suppress", ()), f"{stack.target}.suppress", rules.RULES | of_stack)
        yield from rules.findings(stack.wanted, region)
    yield from check(of_stack, stack, None)


def _foreign(texts: Mapping[str, str], target: str) -> list[str]:
    """Return a sentence for each group that is unknown or belongs to another target."""
    sentences = [
        _ended(f"{key} is not a group of the configuration; {nearest(key, _GROUPS)}") for key in texts if key not in _GROUPS
    ]
    # Pulumi.yaml declares every group with the default {}, so an empty group counts as not set.
    given = [key for key in TARGETS if key != target and texts.get(key, "{}").strip() not in {"", "{}", "null"}]
    return sentences + [f"{key} is set, but target is {target}; remove it, or change the target." for key in given]


def group(key: str, model: type[Model], text: str) -> tuple[Model, list[str]]:
    """Return one group, and a sentence for each mistake in it; a field with a mistake has no value."""
    try:
        return read_strictly(model, text), []
    except ValidationError as error:
        errors = error.errors()
    unknown = [one["loc"] for one in errors if one["type"] == "extra_forbidden"]
    mistakes = [one for one in errors if one["type"] != "extra_forbidden"]
    for one in mistakes:
        one["loc"] = _as_typed(model, one["loc"])
    wrong = [one["loc"] for one in mistakes]
    return rest(model, text, wrong, unknown), [_sentence(key, model, one) for one in errors]


def _as_typed(model: type[Model], loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the path of an error with keys as typed; for a refused default, pydantic gives the field's name."""
    here: type[Model] | None = model
    typed: list[int | str] = []
    for step in loc:
        if isinstance(step, str) and here is not None:
            step = key_of(step) if step in here.model_fields else step  # noqa: PLW2901 - the same step, by its key
            info = fields_by_key(here).get(step)
            here = inner(info.annotation) if info else None
        typed.append(step)
    return tuple(typed)


def _path(key: str, loc: tuple[int | str, ...]) -> str:
    """Return a path as it is typed, such as `aws.queues[0].machines[1].type`."""
    steps = [step for step in loc if step != "[key]"]
    return key + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def _sentence(key: str, model: type[Model], found: ErrorDetails) -> str:
    path, given = _path(key, found["loc"]), found.get("input")
    context: dict[str, Any] = found.get("ctx", {})
    match found["type"]:
        case "extra_forbidden":
            hint = nearest(str(found["loc"][-1]), _siblings(model, found["loc"][:-1]))
            return _ended(f"{path} is not a key of the configuration; {hint}")
        case "missing":
            return f"{path} is not set, and it has no default{_needs(model, found['loc'])}."
        case "value_error":
            return f"{path} {context['error']}."
        case kind:
            return f"{path} is {_shown(given)}; it must be {_must(kind, context, found['msg'])}."


def _must(kind: str, context: dict[str, Any], message: str) -> str:
    """Return what a value must be, by the name of the check that the value failed."""
    if kind == "literal_error":
        return f"one of {context['expected'].replace(' or ', ', ')}"
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        return f"{words} {context[name]:g}"
    if kind == "string_pattern_mismatch":
        return _PATTERNS.get(context["pattern"], f"a text that matches {context['pattern']}")
    return _KINDS.get(kind, message[0].lower() + message[1:])


def _ended(text: str) -> str:
    return text if text.endswith("?") else f"{text}."


#: What a text must be, by the pattern that it does not match.
_PATTERNS = {SHA256_PATTERN: "64 hexadecimal digits, as sha256sum prints them"}
#: For each failed comparison, its words and the name of its bound in pydantic's context.
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
#: What a value must be, by the name of the failed check.
_KINDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "a text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "json_invalid": "a map",
    "float_type": "a number",
    "string_too_short": "a text that is not empty",
}


def _shown(given: Any) -> str:
    text = "null" if given is None else repr(given)
    return text if len(text) < 60 else f"{text[:60]}..."  # noqa: PLR2004 - a line's worth


def _siblings(model: type[Model], loc: tuple[int | str, ...]) -> list[str]:
    """Return the keys that `model` allows in the group at the path `loc`."""
    here: type[Model] | None = model
    for step in loc:
        if isinstance(step, str) and here is not None:
            info = fields_by_key(here).get(step)
            here = inner(info.annotation) if info else None
    return list(fields_by_key(here)) if here else []


def _needs(model: type[Model], loc: tuple[int | str, ...]) -> str:
    """Return the end of the sentence that says a field is missing: the description of the field at `loc`."""
    here: type[Model] | None = model
    description = ""
    for step in loc:
        if isinstance(step, str) and here is not None:
            info = fields_by_key(here).get(step)
            description = (info.description or "") if info else ""
            here = inner(info.annotation) if info else None
    return f": {re.sub(r'[.]$', '', description)}" if description else ""
