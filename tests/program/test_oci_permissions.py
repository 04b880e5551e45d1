"""The operator's permissions on OCI are known for everything that the program creates and looks up, and are in the docs."""

from __future__ import annotations

import ast
import re

from conftest import ROOT

from catalogue.oci.permissions import RIGHTS, SERVICE

PROGRAM = sorted((ROOT / "components/oci").glob("*.py"))
#: Verbs of OCI's permissions, the weakest first; a right that a refusal names begins with one of these verbs.
_VERBS = ("inspect", "read", "use", "manage")


def used() -> set[tuple[str, str]]:
    """Return (module, name) for each class of the provider's SDK that the components use.

    The set also has each function of the provider's Identity service that the components call through `_identity`.
    """
    found = set()
    for path in PROGRAM:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in RIGHTS:
                found.add((node.value.id, node.attr.removesuffix("_output")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_identity":
                found.add(("Identity", str(ast.literal_eval(node.args[0]))))
    return {(module, name) for module, name in found if not name.endswith(("Args", "Result"))}


def test_rights_are_listed_for_exactly_the_resources_and_look_ups_in_use():
    assert used() == {(module, name) for module, names in RIGHTS.items() for name in names}


def test_the_docs_list_every_right_and_what_the_vendors_compute_management_service_needs():
    text = " ".join((ROOT / "docs/oci.md").read_text().split())
    page = text[text.index("## Permissions") : text.index("## In your own subnets")]
    for right in {right for names in RIGHTS.values() for right in names.values()} | set(SERVICE):
        assert f"`{right}`" in page


def test_rights_named_by_refusals_are_in_the_docs():
    said = [
        node.value
        for path in PROGRAM
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.match(rf"({'|'.join(_VERBS)}) [a-z-]+ in ", node.value)
    ]
    assert len(said) >= 8
    listed = {right for names in RIGHTS.values() for right in names.values()}
    inside = {"instances": "instance-family", "instance-images": "instance-family"}
    for one in said:
        verb, kind = one.split()[:2]
        stronger = _VERBS[_VERBS.index(verb) :]
        assert any(right.split()[0] in stronger and right.split()[1] == inside.get(kind, kind) for right in listed), one
