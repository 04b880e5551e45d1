"""A Capacity Block is charged at once, so it is not bought while the account has a block of the same offering."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from aws_program import bought, program
from conftest import HOOKS
from created import asked
from failed_invoke import FailedInvoke

from components.aws import bought_blocks

HOOK = "cluster-pool-gpu-p5-block-never-twice"
BOUGHT = bought("capacity-block", offering="cb-1", confirm="cb-1")


def account(*, preview: bool = False, **blocks: str | None) -> list[dict[str, Any]]:
    """Run the program for an account that has `blocks` of the offering: state by id.

    The state is None if the block is no longer known, and "denied" if the account may not look the block up. Return the
    questions about tags that the hook asks.
    """
    questions: list[dict[str, Any]] = []

    def tagged(given: dict[str, Any]) -> dict[str, Any]:
        questions.append(given)
        arns = [f"arn:aws:ec2:us-east-1:1:capacity-reservation/{its.replace('_', '-')}" for its in blocks]
        return {"resourceTagMappingLists": [{"resourceArn": arn, "tags": {}, "complianceDetails": []} for arn in arns]}

    def block(given: dict[str, Any]) -> dict[str, Any]:
        if given["id"].startswith("cluster-"):  # the block that this run of the program buys
            return {"id": given["id"], "startDate": "2026-12-01T11:30:00Z"}
        state = blocks[given["id"].replace("-", "_")]
        if state is None:
            raise FailedInvoke("api error InvalidCapacityReservationId.NotFound: does not exist")
        if state == "denied":
            raise FailedInvoke("api error UnauthorizedOperation: not allowed")
        return {"id": given["id"], "state": state}

    program(BOUGHT, answers={"getResources": tagged, "getCapacityBlockReservation": block}, preview=preview)
    return questions


def test_the_block_has_a_tag_with_its_offering_by_which_the_account_is_asked_for_it():
    found, _ = program(BOUGHT)
    assert found.one("CapacityBlockReservation")["tags"]["busbar:offering"] == "cb-1"
    questions = account()
    asked(HOOKS[HOOK])
    assert questions == [
        {
            "tagFilters": [{"key": "busbar:offering", "values": ["cb-1"]}],
            "resourceTypeFilters": ["ec2:capacity-reservation"],
        }
    ]


@pytest.mark.parametrize("state", ["active", "scheduled", "payment-pending"])
def test_no_second_block_of_an_offering_is_bought(state):
    account(cr_1=state, cr_2="expired")
    with pytest.raises(pulumi.RunError) as refused:
        asked(HOOKS[HOOK])
    path = "aws.queues[0].machines[0].purchase"
    assert str(refused.value) == (
        f"{path}.offering is cb-1, but Capacity Block cr-1 of this offering is bought already, and no second one is "
        f"bought. Set {path}.reservation to the id of the block, and remove offering and confirm."
    )


def test_all_bought_blocks_of_an_offering_are_named_in_order():
    account(cr_2="active", cr_1="scheduled")
    with pytest.raises(pulumi.RunError, match="Capacity Block cr-1 and cr-2 of this offering is bought already"):
        asked(HOOKS[HOOK])


def test_no_block_is_bought_if_the_state_of_an_earlier_block_cannot_be_looked_up():
    account(cr_1="denied")
    with pytest.raises(pulumi.RunError, match=r"UnauthorizedOperation: not allowed.* No Capacity Block is bought without the"):
        asked(HOOKS[HOOK])


def test_a_preview_asks_for_bought_blocks_only_with_preflight():
    questions = account(preview=True, cr_1="active")
    asked(HOOKS[HOOK])
    assert not questions
    bought_blocks.never_twice("block", "purchase", "cb-1", preflight=True)
    with pytest.raises(pulumi.RunError, match="Capacity Block cr-1 of this offering is bought already"):
        asked(HOOKS["block-never-twice"])


@pytest.mark.parametrize("state", ["expired", "cancelled", "failed", "payment-failed", None])
def test_a_block_that_holds_no_capacity_any_more_prevents_no_purchase(state):
    account(cr_1=state)
    asked(HOOKS[HOOK])
