"""The inputs and outputs of resource types according to a vendor's Pulumi SDK.

Importing an SDK takes seconds at each start of a plugin, so the results of sdk_reader.py are kept in a file until the SDK's
version, the modules or the reader change.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_KEPT = _ROOT / ".busbar" / "build" / "sdk"
_READER = Path(__file__).with_name("sdk_reader.py")
_READ_S = 120


@dataclass(frozen=True)
class ListOf:
    """A list whose elements are all of one type."""

    element: Any


@dataclass(frozen=True)
class MapOf:
    """A map whose keys are strings and whose values are all of one type."""

    element: Any


@dataclass(frozen=True)
class Field:
    """One input property. `type` is str, int, float, bool, None (anything), a ListOf, a MapOf, or an Inputs.

    `updatable`: whether the property's documentation in the SDK begins with "(Updatable)", which in OCI's SDK means that a
    change usually replaces nothing (`rehearsal.oci.diff` has the exceptions).
    """

    name: str
    type: Any
    required: bool
    updatable: bool


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a resource type or a nested object.

    Attributes:
        name: name of the type or object.
        fields: the properties by their names in Pulumi's protocol.
    """

    name: str
    fields: dict[str, Field]


class Sdk:
    """One vendor's SDK: the name of its cloud, and for each resource type the module of the SDK that defines the type."""

    def __init__(self, cloud: str, modules: Mapping[str, str]) -> None:
        self._cloud, self._modules = cloud, modules

    def inputs(self, token: str) -> Inputs:
        """Return the inputs of a resource type.

        Raises:
            KeyError: this cloud does not support the resource type.
        """
        return self._known[0][token]

    def output_names(self, token: str) -> frozenset[str]:
        """Return all output properties of a resource type.

        Raises:
            KeyError: this cloud does not support the resource type.
        """
        return self._known[1][token]

    @cached_property
    def _known(self) -> tuple[dict[str, Inputs], dict[str, frozenset[str]]]:
        said = json.loads(self._kept().read_text())
        named = {name: Inputs(name.partition("#")[0], {}) for name in said["objects"]}
        for name, properties in said["objects"].items():
            for wire, (kind, required, updatable) in properties.items():
                named[name].fields[wire] = Field(wire, _type(kind, named), required, updatable)
        tokens = said["tokens"]
        return (
            {token: named[one["inputs"]] for token, one in tokens.items()},
            {token: frozenset(one["outputs"]) for token, one in tokens.items()},
        )

    def _kept(self) -> Path:
        """Return the file with the results for the installed SDK; if the file is missing, a separate process writes it."""
        asked = json.dumps({"cloud": self._cloud, "modules": dict(self._modules)})
        package = f"pulumi_{self._cloud}"
        told = f"{metadata.version(package)} {asked} {_READER.read_text()}"
        kept = _KEPT / f"{package}-{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"
        if not kept.exists():
            _KEPT.mkdir(parents=True, exist_ok=True)
            # If several plugins start at the same time, one reads the SDK and the others wait.
            with (_KEPT / f"{package}.lock").open("w") as lock:
                flock(lock, LOCK_EX)
                self._keep(asked, kept)
        return kept

    @staticmethod
    def _keep(asked: str, kept: Path) -> None:
        if kept.exists():
            return
        read = subprocess.run(
            [sys.executable, str(_READER)], input=asked, capture_output=True, text=True, timeout=_READ_S, check=False
        )
        if read.returncode != 0:
            raise RuntimeError(f"the SDK's modules for {kept.name} could not be read: {read.stderr.strip()[-500:]}")
        fresh = kept.with_suffix(f".{os.getpid()}")
        fresh.write_text(read.stdout)
        fresh.rename(kept)


_SCALARS = {"str": str, "int": int, "float": float, "bool": bool, "any": None}


def _type(kind: Any, named: Mapping[str, Inputs]) -> Any:
    if isinstance(kind, str):
        return named[kind] if kind in named else _SCALARS[kind]
    [(container, element)] = kind.items()
    return {"list": ListOf, "map": MapOf}[container](_type(element, named))
