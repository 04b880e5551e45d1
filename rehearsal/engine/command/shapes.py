"""Checks the inputs that a program gives the command package's resources: types, defaults and secrets.

Messages are those of Pulumi's own command plugin (the genuine plugin), so that a program gets the same refusal from both
plugins. Asset and archive globs of local commands are refused, because no rehearsed program uses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from .wire import ARCHIVE, ASSET, UNKNOWN, Properties, Value, mark_of, plain, reveal, secret

LIST = "[]interface {}"
STRINGS = "[]string"
MAP = "map[string]string"
ASSET_OR_ARCHIVE = "AssetOrArchive"


@dataclass(frozen=True)
class Property:
    """One input; `type` is the genuine plugin's name for the input's type, or a nested shape."""

    type: str | Shape
    required: bool = False
    secret: bool = False
    default: Value = None
    replaces: bool = False


@dataclass(frozen=True)
class Shape:
    """A named set of inputs, in the order in which the genuine plugin reports problems of inputs."""

    name: str
    properties: Mapping[str, Property] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A problem of one input."""

    property: str
    reason: str


_PROXY = Shape(
    "remote.ProxyConnection",
    {
        "user": Property("string", default="root"),
        "password": Property("string", secret=True),
        "host": Property("string", required=True),
        "port": Property("float64", default=22.0),
        "privateKey": Property("string", secret=True),
        "privateKeyPassword": Property("string", secret=True),
        "agentSocketPath": Property("string"),
        "dialErrorLimit": Property("int", default=10.0),
        "perDialTimeout": Property("int", default=15.0),
        "hostKey": Property("string"),
    },
)
_CONNECTION = replace(_PROXY, name="remote.Connection", properties={**_PROXY.properties, "proxy": Property(_PROXY)})
_LIFE = {
    "triggers": Property(LIST, replaces=True),
    "create": Property("string"),
    "update": Property("string"),
    "delete": Property("string"),
}
_LOCAL = {
    "stdin": Property("string"),
    "logging": Property("local.Logging"),
    "interpreter": Property(STRINGS),
    "dir": Property("string"),
    "environment": Property(MAP),
    "assetPaths": Property(STRINGS),
    "archivePaths": Property(STRINGS),
    "addPreviousOutputInEnv": Property("bool"),
}
LOCAL_COMMAND = Shape("local.CommandInputs", {**_LIFE, **_LOCAL})
LOCAL_RUN = Shape("local.RunInputs", {**_LOCAL, "command": Property("string", required=True)})
REMOTE_COMMAND = Shape(
    "remote.CommandInputs",
    {
        **_LIFE,
        "stdin": Property("string"),
        "logging": Property("remote.Logging"),
        "connection": Property(_CONNECTION, required=True, secret=True),
        "environment": Property(MAP),
        "addPreviousOutputInEnv": Property("bool"),
    },
)
COPY_TO_REMOTE = Shape(
    "remote.CopyToRemoteInputs",
    {
        "connection": Property(_CONNECTION, required=True, secret=True),
        "triggers": Property(LIST, replaces=True),
        "source": Property(ASSET_OR_ARCHIVE, required=True),
        "remotePath": Property("string", required=True),
    },
)


def check(shape: Shape, given: Properties) -> tuple[Properties, list[Failure]]:
    """Return the inputs and their problems; secrets are marked, and, if there are no problems, defaults are filled in."""
    failures = list(_mistakes(shape, given))
    if shape is COPY_TO_REMOTE:
        failures += _source_mistakes(given.get("source"))
    for name in ("assetPaths", "archivePaths"):
        if name in given and not failures:
            failures.append(Failure(name, "this stand-in for the command plugin does not collect files that a command leaves"))
    completed = given if failures else _with_defaults(shape, given)
    return _with_secrets(shape, completed), failures


def _mistakes(shape: Shape, given: Properties) -> Iterator[Failure]:
    for name, wanted in shape.properties.items():
        if name in given:
            yield from _type_mistakes(shape, name, wanted.type, given[name])
        elif wanted.required:
            yield Failure(name, f"Missing required field '{name}' on '{shape.name}'")
    for name in given:
        if name not in shape.properties:
            yield Failure(name, f"Unrecognized field '{name}' on '{shape.name}'")


def _type_mistakes(shape: Shape, name: str, wanted: str | Shape, given: Value) -> Iterator[Failure]:
    value = reveal(given)
    decoding = f"An error occurred decoding '{shape.name.rpartition('.')[2]}.{name}': "
    if value == UNKNOWN or wanted == ASSET_OR_ARCHIVE:
        return
    if isinstance(wanted, Shape):
        if isinstance(value, dict):
            inside = list(_mistakes(wanted, value))
            if inside:
                listed = "".join(f"\n\t{one.property}: {one.reason}" for one in inside)
                yield Failure(name, f"{decoding}{len(inside)} failures decoding:{listed}")
            return
        wanted = wanted.name
    elif isinstance(value, dict) and wanted != MAP:
        yield Failure(
            name, f"{decoding}Cannot decode Object{{}} to type {wanted}; it isn't a struct, and no custom decoder exists"
        )
        return
    elif isinstance(value, dict) or (isinstance(value, list) and wanted == STRINGS):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in members:
            label = f"{name}[{key}] value" if isinstance(value, dict) else f"{name}[{key}]"
            yield from _type_mistakes(shape, label, "string", one)
        return
    got = _type_of(value)
    fits = {"int": "float64", "local.Logging": "string", "remote.Logging": "string"}.get(wanted, wanted)
    if got != fits:
        yield Failure(name, f"Field '{name}' on '{shape.name}' must be a '{wanted}'; got '{got}' instead")


def _type_of(value: Value) -> str:
    names = {bool: "bool", float: "float64", str: "string", list: LIST}
    return names.get(type(value), "map[string]interface {}")


def _source_mistakes(given: Value) -> Iterator[Failure]:
    source = plain(given)
    if source == UNKNOWN:
        return
    if not isinstance(source, dict) or mark_of(source) not in (ASSET, ARCHIVE):
        yield Failure("asset", "either asset or archive must be set")
    elif mark_of(source) == ASSET and not source.get("path") and source.get("uri"):
        yield Failure("asset", "asset must be a path-based file asset or a text asset")
    elif mark_of(source) == ARCHIVE and not source.get("path"):
        yield Failure("archive", "archive must be a path to a file or directory")


def _with_defaults(shape: Shape, given: Properties) -> Properties:
    completed = dict(given)
    for name, wanted in shape.properties.items():
        if name not in completed:
            if wanted.default is not None:
                completed[name] = wanted.default
            continue
        value = reveal(completed[name])
        if isinstance(wanted.type, Shape) and isinstance(value, dict):
            inner: Value = _with_defaults(wanted.type, value)
            completed[name] = inner if value is completed[name] else secret(inner)
        elif wanted.type == "int" and isinstance(value, float):
            completed[name] = float(int(value))
        elif wanted.type == ASSET_OR_ARCHIVE and isinstance(value, dict):
            empty: Properties = {"path": "", "uri": "", **({"text": ""} if mark_of(value) == ASSET else {"assets": {}})}
            completed[name] = {**empty, **value}
    return completed


def _with_secrets(shape: Shape, given: Properties) -> Properties:
    marked = dict(given)
    for name, wanted in shape.properties.items():
        if name not in marked:
            continue
        value = marked[name]
        inside = reveal(value)
        if isinstance(wanted.type, Shape) and isinstance(inside, dict):
            inner: Value = _with_secrets(wanted.type, inside)
            value = inner if inside is value else secret(inner)
        marked[name] = secret(value) if wanted.secret else value
    return marked
