"""A file system or bucket is replaced only if the stack file names it, because the replacement deletes its data."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from aws_program import program, storage
from conftest import HOOKS, run_program
from created import URN, asked
from dev_stack import LINES

from components import left_behind, replaced_data

FILES = {"oci": {"pools": [{"imageFamily": "ol8"}], "storage": {"home": {"mount": "/fss"}, "lustre": {}}}}
LUSTRE = {"urn": URN, "id": "fs-1"}


@pytest.fixture
def state(monkeypatch) -> list[dict[str, Any]]:
    """The resources in the engine's state; a test may add some."""
    known: list[dict[str, Any]] = []
    monkeypatch.setattr(replaced_data, "resources_in_state", lambda _: known)
    monkeypatch.delenv(left_behind.NOTED, raising=False)
    return known


@pytest.fixture
def warned(monkeypatch) -> list[str]:
    """The warnings of the program."""
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    return said


def refusal(name: str) -> str:
    """Return why the hook refuses the resource `name`; fail if it does not."""
    with pytest.raises(pulumi.RunError) as refused:
        asked(HOOKS[f"{name}-data"])
    return str(refused.value)


def test_each_resource_with_data_is_guarded_by_the_key_of_its_file_system(state):
    program(storage(lustre={"onDestroy": "delete"}, home={"onDestroy": "delete"}))
    run_program(LINES, **FILES)
    state.append(LUSTRE)
    for name, key in {
        "cluster-storage-files": "oci.storage.home",
        "cluster-storage-lustre": "oci.storage.lustre",
        "cluster-storage-bucket": "aws.storage.lustre",
        "cluster-storage-home": "aws.storage.home",
    }.items():
        assert refusal(name) == (
            f"{key}.allowReplace is empty, and this update would replace {name} (fs-1) and delete its data, because a changed "
            "setting cannot be applied without a replacement. Undo the change, or copy the data elsewhere and allow the "
            f"replacement with {key}.allowReplace: [fs-1]."
        )


def test_a_file_system_is_created_without_a_question_if_the_state_has_none_or_only_one_that_is_already_replaced(state):
    program(storage(lustre={"onDestroy": "delete"}))
    state += [LUSTRE | {"urn": "urn:another"}, LUSTRE | {"delete": True}, LUSTRE | {"pendingReplacement": True}]
    asked(HOOKS["cluster-storage-lustre-data"])


def test_only_the_named_file_system_may_be_replaced_and_a_warning_says_that_its_data_are_deleted(state, warned):
    state.append(LUSTRE)
    program(storage(lustre={"onDestroy": "delete", "allowReplace": ["fs-0"]}))
    assert refusal("cluster-storage-lustre").startswith("aws.storage.lustre.allowReplace does not name fs-1, and this update")
    program(storage(lustre={"onDestroy": "delete", "allowReplace": ["fs-0", "fs-1"]}))
    warned.clear()
    asked(HOOKS["cluster-storage-lustre-data"])
    assert warned == [
        "this update replaces cluster-storage-lustre (fs-1) and deletes its data, as aws.storage.lustre.allowReplace allows."
    ]


def test_if_a_file_system_is_replaced_but_its_data_are_retained_a_warning_says_that_the_old_one_is_still_billed(state, warned):
    state.append(LUSTRE | {"retainOnDelete": True})
    program(storage(lustre={"onDestroy": "delete"}))
    warned.clear()
    asked(HOOKS["cluster-storage-lustre-data"])
    (said,) = warned
    assert said == (
        "this update replaces cluster-storage-lustre (fs-1), whose data stay: fs-1 is left in the account, is billed, and is "
        "no longer in the state."
    )
