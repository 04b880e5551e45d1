"""Every component registers its outputs, so that people can read them in the state without the program."""

from __future__ import annotations

from collections.abc import Iterable

from aws_preview import run
from conftest import REGISTERED, run_program
from dev_stack import LINES, files

#: Outputs that each component of the dev stack registers.
OCI = {
    "busbar:oci:Cluster": {"login"},
    "busbar:oci:Network": {"vcn_id", "public_subnet_id", "private_subnet_id"},
    "busbar:oci:LoginNode": {"instance_id", "machine"},
    "busbar:oci:Pool": {"nodes"},
    "busbar:oci:Storage": {"mounts"},
    "busbar:acceptance:Acceptance": {"measured"},
    "busbar:acceptance:Ready": {"shape"},
    # A component without outputs registers an empty set, so that the engine knows that the component is complete.
    "busbar:acceptance:Runner": set(),
    "busbar:acceptance:Records": set(),
    "busbar:acceptance:Accept": set(),
}
AWS = {
    "busbar:aws:Cluster": {"login", "templates"},
    "busbar:aws:Network": {"vpc_id", "private_subnet_id"},
    "busbar:aws:Groups": {"nodes_id", "login_id"},
    "busbar:aws:Iam": {"login_profile", "node_profile"},
    "busbar:aws:Pool": {"template_id"},
    "busbar:aws:Storage": {"bucket"},
}


def registered(kinds: Iterable[str]) -> dict[str, set[str]]:
    """Return, by component type, the names of all outputs that any component of the type registers."""
    found: dict[str, set[str]] = {}
    for (kind, _), names in REGISTERED.items():
        if kind in kinds:
            found[kind] = found.get(kind, set()) | names
    return found


def test_the_components_of_an_oci_stack_register_their_outputs():
    run_program(LINES, oci=files())
    assert registered(OCI) == OCI


def test_the_components_of_an_aws_stack_register_their_outputs(monkeypatch):
    REGISTERED.clear()
    run(monkeypatch, preview=False)
    assert registered(AWS) == AWS
