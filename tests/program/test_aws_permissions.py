"""The operator's permissions cover exactly the resources that the program creates, and every look-up that it makes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_facts import OTHER
from aws_program import HELD, OWN_GROUPS, account, bought, existing, network_of, program, storage
from conftest import ROOT

from catalogue.aws.permissions import LOOKUPS, RESOURCES, policy

PAGE = ROOT / "docs" / "aws-permissions.json"
ASKED = {"preflight": True}
#: Stacks that together use every resource and look-up that a stack can use.
STACKS: tuple[dict[str, Any], ...] = (
    {"secondZone": OTHER} | storage(home={"deployment": "MULTI_AZ_1"}) | {"image": None, "login": {"elasticIp": True}} | ASKED,
    bought("capacity-block", offering="cb-1", confirm="cb-1"),
    existing(groups=OWN_GROUPS) | ASKED | {"profiles": {"existing": {"nodes": "gpu-nodes"}}},
)


@pytest.fixture(scope="module")
def used() -> tuple[set[str], set[str]]:
    """Tokens of all resources that are created, and of all data sources that are looked up."""
    made, asked = set(), set()
    for wanted in STACKS:
        cloud, _ = program(wanted, answers=account(**network_of(), **HELD) if wanted.get("preflight") else None)
        made |= {kind.removeprefix("aws:") for kind, _, _ in cloud.made if kind.startswith("aws:")}
        asked |= {token.removeprefix("aws:") for token, _ in cloud.asked if token.startswith("aws:")}
    return made, asked


def test_the_permissions_cover_exactly_the_resources_that_are_created(used):
    assert used[0] == set(RESOURCES)


def test_the_permissions_cover_every_look_up(used):
    assert used[1] <= set(LOOKUPS)


def test_the_policy_in_the_docs_is_the_policy_that_the_program_needs(used):
    text = json.dumps(policy(RESOURCES, LOOKUPS), indent=2) + "\n"
    assert PAGE.read_text() == text, "python -m tools.aws_permissions writes the file anew"
    assert not [action for action in policy(*used)["Statement"][0]["Action"] if action.endswith(":*")]
