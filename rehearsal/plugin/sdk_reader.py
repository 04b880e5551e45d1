"""Print, as JSON, the inputs and outputs of the resource types in a vendor's Pulumi SDK; sdk.py starts this program.

Standard input: {"cloud": "oci", "modules": {"oci:Core/vcn:Vcn": "core.vcn", ...}}.
Standard output: {"objects": {"Vcn": {"cidrBlocks": [{"list": "str"}, required, updatable]}},
"tokens": {"oci:Core/vcn:Vcn": {"inputs": "Vcn", "outputs": ["cidrBlock", ...]}}}. The names of objects are those of the SDK's
Args classes without `Args`; if two classes have the same name, the name of the second class gets a number after `#`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import types
import typing
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

_SCALARS = {str: "str", int: "int", float: "float", bool: "bool"}


class Reader:
    """Collects the properties of Args classes; reads each class once."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self._names: dict[type, str] = {}

    def name(self, args: type) -> str:
        """Return the name of an Args class in the output; on the first call, read the class and all classes nested in it."""
        if args not in self._names:
            plain = args.__name__.removesuffix("Args")
            same = sum(one.partition("#")[0] == plain for one in self.objects)
            name = self._names[args] = f"{plain}#{same + 1}" if same else plain
            self.objects[name] = {}
            self.objects[name] |= self._properties(args)
        return self._names[args]

    def _properties(self, args: type) -> dict[str, Any]:
        names = sdk_types.input_type_py_to_pulumi_names(args)
        kinds = sdk_types.input_type_types(args)
        parameters = inspect.signature(args.__init__).parameters  # type: ignore[misc]
        return {
            wire: [
                self._kind(kinds[wire]),
                parameters[python].default is inspect.Parameter.empty,
                (getattr(args, python).__doc__ or "").lstrip().startswith("(Updatable)"),
            ]
            for python, wire in names.items()
        }

    def _kind(self, annotation: Any) -> Any:
        """Return the type that an annotation has in the output; the surrounding Input, Awaitable and Optional are ignored."""
        origin = typing.get_origin(annotation)
        if origin in (typing.Union, types.UnionType):
            return self._kind(typing.get_args(annotation)[0])
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"map": self._kind(typing.get_args(annotation)[1])}
        if isinstance(origin, type) and issubclass(origin, Sequence):
            return {"list": self._kind(typing.get_args(annotation)[0])}
        if isinstance(annotation, type) and sdk_types.is_input_type(annotation):
            return self.name(annotation)
        return _SCALARS.get(annotation, "any")


def main() -> None:
    """Read the SDK that standard input names, and print the inputs and outputs of its resource types."""
    asked = json.load(sys.stdin)
    package, reader, tokens = importlib.import_module(f"pulumi_{asked['cloud']}"), Reader(), {}
    for token, module in asked["modules"].items():
        # The class is read as an attribute (pulumi_aws.ec2.Instance), not by importing its file (pulumi_aws.ec2.instance).
        # An SDK loads a package such as ec2 on first access. After an earlier import of the file, ec2 would never get Instance.
        room, word = package, token.rpartition(":")[2]
        for name in module.split(".")[:-1]:
            room = getattr(room, name)
        outputs = sorted(sdk_types.resource_py_to_pulumi_names(getattr(room, word)).values())
        tokens[token] = {"inputs": reader.name(getattr(room, f"{word}Args")), "outputs": outputs}
    json.dump({"objects": reader.objects, "tokens": tokens}, sys.stdout)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # an SDK warns about its own deprecated classes
    sys.path.pop(0)  # modules of this folder must not hide modules of the standard library
    from pulumi import _types as sdk_types

    main()
