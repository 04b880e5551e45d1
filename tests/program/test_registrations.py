"""Everything that each target registers: every resource with its inputs and its resource options.

Each target has a reviewed file in tests/golden/registered, so that a reviewer sees every changed input there.
These files leave out what changes with every edit: digests, packed programs and first-boot texts. First-boot texts are reviewed
in tests/golden/cloudinit.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pulumi
import pytest
import target_programs
import yaml
from conftest import options

GOLDEN = Path(__file__).parents[1] / "golden" / "registered"
TARGETS = ("aws", "hosts", "kubernetes", "oci")
_OPTIONS = (
    "additional_secret_outputs",
    "delete_before_replace",
    "ignore_changes",
    "protect",
    "replace_on_changes",
    "retain_on_delete",
)
#: The longest text that is shown in full: a longer text is a script or a packed program.
_SHOWN = 300


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_registers_exactly_what_its_reviewed_file_lists(target, monkeypatch, tmp_path, reviewed):
    made: list[tuple[str, str, dict[str, Any]]] = []
    registered = options(monkeypatch)
    monkeypatch.setattr(target_programs, "watched", lambda _, run: made.extend(run()))
    getattr(target_programs, target)(monkeypatch, tmp_path)
    treated = {name: _options(its) for name, its in registered.items()}
    shown = {f"{name} ({kind})": {"inputs": _plain(inputs, tmp_path)} | treated.get(name, {}) for kind, name, inputs in made}
    reviewed(GOLDEN / f"{target}.yaml", yaml.safe_dump(shown, width=128))


@pytest.mark.parametrize(("target", "tags"), [("aws", "tags:"), ("oci", "freeformTags:")])
def test_every_resource_that_takes_tags_has_the_tag_of_the_stack(target, tags):
    """The tag of AWS's login node differs from the nodes' tag, so that a search for nodes does not find the login node."""
    made = yaml.safe_load((GOLDEN / f"{target}.yaml").read_text())
    tagged = {name: text for name, one in made.items() if tags in (text := yaml.safe_dump(one["inputs"]))}
    marks = ("busbar:stack: ", "busbar:login-of: ") if target == "aws" else ("busbar-stack: ",)
    assert len(tagged) > 10
    assert not [name for name, text in tagged.items() if not any(mark in text for mark in marks)]


def _options(opts: pulumi.ResourceOptions) -> dict[str, Any]:
    found = {name: getattr(opts, name) for name in _OPTIONS if getattr(opts, name)}
    if opts.custom_timeouts:
        found["custom_timeouts"] = {name: text for name, text in vars(opts.custom_timeouts).items() if text}
    if isinstance(opts.depends_on, list):
        found["depends_on"] = sorted(one._name for one in opts.depends_on if isinstance(one, pulumi.Resource))  # noqa: SLF001
    if opts.parent is not None:
        found["parent"] = opts.parent._name  # noqa: SLF001 - the SDK has no other way to ask
    return {name: value for name, value in found.items() if value}


def _plain(value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(one, folder) for name, one in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [_plain(one, folder) for one in value]
    if isinstance(value, pulumi.Asset):
        return f"a {type(value).__name__}"
    return _text(value, folder) if isinstance(value, str) else value


def _text(value: str, folder: Path) -> Any:
    if value.startswith("{"):
        return _plain(json.loads(value), folder)
    if len(value) > _SHOWN:
        return f"a text that begins with {value[:60].splitlines()[0]!r}"
    value = value.replace(str(folder), "FOLDER").replace(str(Path(__file__).parents[2]), "CHECKOUT")
    return re.sub(r"\b[0-9a-f]{12,64}\b", "DIGEST", value)


def test_every_reviewed_target_is_compared_and_no_reviewed_file_is_left_over():
    assert {path.stem for path in GOLDEN.iterdir()} == set(TARGETS)
