"""Writes a cloud-config and its script as YAML that a person can read."""

from __future__ import annotations

from typing import Any

import yaml

#: Path of the script that first boot runs.
SCRIPT = "/var/lib/busbar/first-boot"


def cloud_config(config: dict[str, Any]) -> str:
    """Return `config` as user-data."""
    return "#cloud-config\n" + yaml.dump(config, Dumper=_Dumper, sort_keys=False, width=120)


def script_file(content: str) -> dict[str, Any]:
    """Return the `write_files` entry of the script."""
    return {"path": SCRIPT, "permissions": "0755", "content": content}


class _Dumper(yaml.SafeDumper):
    """Writes multi-line text as a block, so that a person can read the script in the user-data."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
