"""The schema that editors use and the tables in docs/ come from the models; every stack file fits the schema."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
import yaml
from conftest import ROOT

from config import schema

GROUPS = [group for groups in schema.PAGES.values() for group in groups]
FITS = jsonschema.Draft202012Validator(schema.stack_schema())
LEAVES = [(group, path, info) for group in GROUPS for path, info in schema.leaves(group)]


def test_the_schema_file_matches_the_models():
    assert json.loads(schema.SCHEMA.read_text()) == schema.stack_schema(), "python -m config.schema writes the schema anew"


@pytest.mark.parametrize("name", schema.PAGES)
def test_the_tables_of_a_page_in_docs_match_the_models(name):
    text = (ROOT / "docs" / name).read_text()
    assert text == schema.page(text, name), "python -m config.schema writes the tables anew"
    assert all(f"<!-- keys of {group}, by python -m config.schema -->\n| key |" in text for group in schema.PAGES[name])


def test_every_group_has_a_page_on_which_every_key_has_a_row():
    assert set(GROUPS) | {"target"} == set(schema.StackFile.model_fields)
    for group, path, _ in LEAVES:
        (page,) = [name for name, groups in schema.PAGES.items() if group in groups]
        assert f"| `{path}` |" in (ROOT / "docs" / page).read_text()


@pytest.mark.parametrize(("group", "path", "info"), LEAVES, ids=[f"{group}.{path}" for group, path, _ in LEAVES])
def test_every_key_has_a_description_a_default_and_an_example(group, path, info):
    row = next(line for line in schema.table(group).splitlines() if line.startswith(f"| `{path}` |"))
    cells = [cell.strip() for cell in row.strip("|").split(" | ")]
    assert len(cells) == 5, row
    assert all(cells), row
    assert cells[4].endswith(".") or cells[4].endswith("...")
    assert info.description


@pytest.mark.parametrize("path", sorted(ROOT.glob("Pulumi.*.yaml")), ids=lambda path: path.stem)
def test_every_stack_file_fits_the_schema(path):
    FITS.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda config: config["busbar:oci"].update(colour="blue"), "colour"),
        (lambda config: config["busbar:oci"]["pools"][0].update(shpae="x"), "shpae"),
        (lambda config: config["busbar:oci"]["pools"][0].update(nodes="two"), "two"),
        (lambda config: config["busbar:measure"].update(timeout=15), "15"),
        (lambda config: config["busbar:measure"].update(timeout="15 parsecs"), "parsecs"),
        (lambda config: config.update({"busbar:mesure": {}}), "mesure"),
        (lambda config: config.update({"busbar:aws": {"name": "x"}}), "name"),
        (lambda config: config.pop("busbar:oci"), "busbar:oci"),
    ],
)
def test_an_editor_underlines_values_that_the_program_would_refuse(change, part):
    stack = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())
    change(stack["config"])
    with pytest.raises(jsonschema.ValidationError) as found:
        FITS.validate(stack)
    assert part in str(found.value)


def test_defaults_are_shown_with_their_units():
    text = schema.SCHEMA.read_text()
    assert re.search(r'"default": "30 min"', text)
    assert re.search(r'"default": "8G"', text)
    assert not re.search(r'"default": 1800\b', text)
