"""Every target's page lists the keys that the target knows, as Pulumi.yaml declares them."""

from __future__ import annotations

import re

import pytest
from test_settings import DECLARED, ROOT

import settings


def page_rows(name: str) -> dict[str, str]:
    return dict(re.findall(r"^\| `(\w+)` (\|.*\|)$", (ROOT / "docs" / name).read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize(
    ("page", "settings_of", "keys"),
    [("aws.md", settings.AwsSettings, settings.AwsKeys), ("oci.md", settings.OciSettings, settings.OciKeys)],
    ids=["aws", "oci"],
)
def test_the_page_of_a_target_lists_every_key_with_its_default_and_description(page, settings_of, keys):
    listed = page_rows(page)
    assert set(listed) == {settings.to_camel(name) for name in settings_of.model_fields.keys() & keys.model_fields.keys()}
    own = {settings.to_camel(name): default for name, default in keys.defaults.items()}
    for key, row in listed.items():
        default = own.get(key, DECLARED[key]["default"])
        text = str(default).lower() if isinstance(default, bool) else default
        text = ", ".join(text) if isinstance(text, list) else text
        assert row == f"| {f'`{text}`' if text != '' else ''} | {DECLARED[key]['description']} |", f"docs/{page}: {key}"
