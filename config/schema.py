"""The JSON schema of stack files and the tables in docs/, generated from the models: python -m config.schema writes both."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import Field
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticUndefined, core_schema

from config.accept import Accept
from config.aws.model import Aws
from config.hosts.model import Hosts
from config.kubernetes.model import Kubernetes
from config.measure import Measure
from config.model import Model, fields_by_key, inner
from config.monitoring import Monitoring
from config.oci.model import Oci
from config.records import Records
from config.stack import TARGETS, Target
from config.units import Quantity

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "docs" / "stack.schema.json"
#: Page -> the groups whose tables the page has.
PAGES = {
    "oci.md": ("oci",),
    "aws.md": ("aws",),
    "hosts.md": ("hosts",),
    "kubernetes.md": ("kubernetes",),
    "measure.md": ("measure", "accept", "records"),
    "monitoring.md": ("monitoring",),
}
_NAMESPACE = "busbar"
_TYPES = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false"}


class StackFile(Model):
    """All groups of a stack file."""

    target: Target = Field(
        description="Kind of cluster: oci (cluster networks of bare-metal GPU nodes), aws (machines with EFA), hosts "
        "(existing machines), kubernetes (an existing cluster).",
        examples=["oci"],
    )
    oci: Oci | None = Field(default=None, description="The cluster on OCI, for target oci.")
    aws: Aws | None = Field(default=None, description="The cluster on AWS, for target aws.")
    hosts: Hosts | None = Field(default=None, description="The existing machines, for target hosts.")
    kubernetes: Kubernetes | None = Field(default=None, description="The existing cluster, for target kubernetes.")
    measure: Measure = Field(default=Measure(), description="How the cluster is measured.")
    accept: Accept = Field(default=Accept(), description="What a measurement must reach to be accepted.")
    records: Records = Field(
        default=Records(), description="Records of measurements that are kept in addition to the stack's state."
    )
    monitoring: Monitoring = Field(default=Monitoring(), description="What can be monitored on the nodes.")


class _Generator(GenerateJsonSchema):
    """Shows default quantities with their unit. A group of keys has no default, because each of its keys has one."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        value = schema.get("default")
        if isinstance(value, Model):
            found.pop("default", None)
        quantity = _BY_EXAMPLE.get(_example(found) or "")
        if quantity is not None and isinstance(value, int | float) and not isinstance(value, bool):
            found["default"] = quantity.show(value)
        return found


def _example(schema: JsonSchemaValue) -> str | None:
    places = [schema, *schema.get("anyOf", [])]
    found = [place["examples"][0] for place in places if place.get("examples") and "pattern" in place]
    return found[0] if found else None


def _quantity(annotation: Any) -> Quantity | None:
    """Return the quantity that a field of the type `annotation` has; None if the field is no quantity."""
    for part in (annotation, *get_args(annotation)):
        metadata = getattr(part, "__metadata__", ())
        found = next((one for one in metadata if isinstance(one, Quantity)), None)
        if found is None and part is not annotation:
            found = _quantity(part)
        if found is not None:
            return found
    return None


def _quantity_of(info: FieldInfo) -> Quantity | None:
    return next((one for one in info.metadata if isinstance(one, Quantity)), None) or _quantity(info.annotation)


def _walk(model: type[Model], path: str) -> Iterator[tuple[str, FieldInfo, type[Model] | None]]:
    """Yield path, field and inner model of every key of `model` and of its groups, in the models' order."""
    for key, info in fields_by_key(model).items():
        below = inner(info.annotation)
        here = f"{path}{key}"
        yield here, info, below
        if below is not None:
            many = "[]" if "tuple" in str(info.annotation) else ""
            yield from _walk(below, f"{here}{many}.")


def leaves(group: str) -> list[tuple[str, FieldInfo]]:
    """Return the path and field of every key in a group, at any depth, except keys that only contain further keys."""
    model = inner(StackFile.model_fields[group].annotation)
    return [(path, info) for path, info, below in _walk(model, "") if below is None] if model else []


_BY_EXAMPLE = {
    quantity.example: quantity
    for group in (*TARGETS, "measure", "accept", "records")
    for _, info in leaves(group)
    if (quantity := _quantity_of(info)) is not None
}


def stack_schema() -> dict[str, Any]:
    """Return the JSON schema of a stack file."""
    made = StackFile.model_json_schema(by_alias=True, schema_generator=_Generator, ref_template="#/$defs/{model}")
    groups = {f"{_NAMESPACE}:{key}": _plain(value) for key, value in made["properties"].items()}
    others = "|".join(made["properties"])
    config = {
        "type": "object",
        "properties": groups,
        "required": [f"{_NAMESPACE}:target"],
        "propertyNames": {"not": {"pattern": f"^{_NAMESPACE}:(?!({others})$)"}},
        "allOf": [_only(target) for target in TARGETS],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A stack file of busbar",
        "type": "object",
        "properties": {"config": config},
        "required": ["config"],
        "$defs": {name: _tidy(value) for name, value in made["$defs"].items()},
    }


def _only(target: str) -> dict[str, Any]:
    """Return the schema's condition that a stack of `target` has the group of that target and of no other target."""
    rest = {f"{_NAMESPACE}:{other}": {"maxProperties": 0} for other in TARGETS if other != target}
    named = {"properties": {f"{_NAMESPACE}:target": {"const": target}}}
    return {"if": named, "then": {"required": [f"{_NAMESPACE}:{target}"], "properties": rest}}


def _plain(group: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a top-level group, which may be missing but never null."""
    found = {key: value for key, value in _tidy(group).items() if key not in {"anyOf", "default"}}
    options = [one for one in group.get("anyOf", []) if one.get("type") != "null"]
    return found | (options[0] if options else {})


def _tidy(value: Any) -> Any:
    """Return a schema without titles, and without numeric bounds on texts."""
    if isinstance(value, list):
        return [_tidy(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: one for key, one in value.items() if key != "title" or isinstance(one, dict)}
    if "pattern" in kept:
        kept = {key: one for key, one in kept.items() if not key.lower().endswith("minimum") and not key.endswith("maximum")}
    return {key: _tidy(one) for key, one in kept.items()}


def table(group: str) -> str:
    """Return the Markdown table of a group's keys."""
    rows = [
        f"| `{path}` | {_kind(info)} | {_default(info)} | {_shown_example(info)} | {info.description} |"
        for path, info in leaves(group)
    ]
    return "\n".join(["| key | value | default | example | meaning |", "| --- | --- | --- | --- | --- |", *rows])


def _kind(info: FieldInfo) -> str:
    quantity, text = _quantity_of(info), str(info.annotation)
    if "dict[" in text:
        return "map"
    if "tuple[" in text:
        return "list"
    if quantity is not None:
        return f"quantity ({', '.join(unit for unit in quantity.factors if unit)})"
    if "Literal" in text:
        return ", ".join(re.findall(r"'([^']+)'", text))
    return next((words for name, words in _TYPES.items() if re.search(rf"\b{name}\b", text)), "text")


def _default(info: FieldInfo) -> str:
    if info.default is PydanticUndefined:
        return "**needed**"
    if info.default is None:
        return "`null`"
    quantity = _quantity_of(info)
    if quantity is not None and isinstance(info.default, int | float):
        return f"`{quantity.show(info.default)}`"
    return f"`{_yaml(info.default)}`"


def _shown_example(info: FieldInfo) -> str:
    quantity = _quantity_of(info)
    example = info.examples[0] if info.examples else quantity.example if quantity else None
    return "" if example is None else f"`{_yaml(example)}`"


def _yaml(value: Any) -> str:
    """Return a value in YAML's flow style."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def page(text: str, name: str) -> str:
    """Return `text`, the text of the page `name`, with up-to-date tables of the page's groups."""
    for group in PAGES[name]:
        begin, end = f"<!-- keys of {group}, by python -m config.schema -->", "<!-- end of keys -->"
        text = re.sub(
            rf"{re.escape(begin)}.*?{re.escape(end)}",
            lambda _, group=group, begin=begin, end=end: f"{begin}\n{table(group)}\n{end}",  # type: ignore[misc]
            text,
            flags=re.DOTALL,
        )
    return text


def main() -> None:
    """Write the schema and the tables."""
    SCHEMA.write_text(json.dumps(stack_schema(), indent=2) + "\n")
    for name in PAGES:
        place = ROOT / "docs" / name
        place.write_text(page(place.read_text(), name))


if __name__ == "__main__":
    main()
