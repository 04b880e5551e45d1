"""Refuses to buy a Capacity Block of an offering twice: a purchase is charged at once and cannot be undone.

The engine would buy a block again in three cases: the update that bought the block was killed before the engine recorded it;
the queue or the entry was renamed; or the stack was destroyed and created again (destroying a stack does not end its blocks).
So each block has a tag with its offering, and before a purchase the program asks the account for blocks with this tag.
"""

from __future__ import annotations

import pulumi
from pulumi_aws import ec2, resourcegroupstaggingapi

from catalogue.aws.permissions import LOOKUPS
from components.aws.account_lookups import is_missing
from components.aws.tagged_machines import asked
from components.left_behind import looked_for
from components.report_findings import look_up_or_refuse

#: Tag with the id of the offering that a block was bought from. The provider sets tags in the call that buys the block
#: (terraform-provider-aws: internal/service/ec2/ec2_capacity_block_reservation.go).
OFFERING_TAG = "busbar:offering"
_TAGGED = "resourcegroupstaggingapi/getResources:getResources"
_BLOCK = "ec2/getCapacityBlockReservation:getCapacityBlockReservation"
#: States in which a block holds no capacity any more (EC2 API, CapacityReservation).
_OVER = frozenset(("expired", "cancelled", "failed", "payment-failed", "unsupported"))
_WHY = "No Capacity Block is bought without the look-up, because a second one would be charged in addition to the first."


def never_twice(name: str, path: str, offering: str, *, preflight: bool) -> pulumi.ResourceHookBinding:
    """Return the hook that refuses to buy the Capacity Block `name` while the account has a block of the same offering.

    An update always queries the account; a preview does so only if `preflight` is true.

    Args:
        name: the block's name in the engine.
        path: the key `purchase` of the entry, as users type it.
        offering: id of the offering.
        preflight: whether a preview may query the account.
    """

    async def look(_: pulumi.ResourceHookArgs) -> None:
        if looked_for() or (pulumi.runtime.is_dry_run() and not preflight):
            return
        what = f"Whether a Capacity Block of {path}.offering {offering} is bought already"
        right = " and ".join((*LOOKUPS[_TAGGED], *LOOKUPS[_BLOCK]))
        found = await look_up_or_refuse(lambda: _bought(offering), what, right, _WHY)
        if found:
            raise pulumi.RunError(
                f"{path}.offering is {offering}, but Capacity Block {' and '.join(found)} of this offering is bought "
                f"already, and no second one is bought. Set {path}.reservation to the id of the block, and remove offering and "
                "confirm."
            )

    hook = pulumi.ResourceHook(f"{name}-never-twice", look, pulumi.ResourceHookOptions(on_dry_run=True))
    return pulumi.ResourceHookBinding(before_create=[hook])


async def _bought(offering: str) -> list[str]:
    """Return the ids of the blocks of an offering that hold capacity or will hold it; the account also lists past blocks."""
    tags = [{"key": OFFERING_TAG, "values": [offering]}]
    given = {"tagFilters": tags, "resourceTypeFilters": ["ec2:capacity-reservation"]}
    listed = await asked(_TAGGED, given, resourcegroupstaggingapi.GetResourcesResult)
    ids = sorted(one.resource_arn.rpartition("/")[2] for one in listed.resource_tag_mapping_lists)
    return [one for one in ids if await _holds(one)]


async def _holds(block: str) -> bool:
    try:
        found = await asked(_BLOCK, {"id": block}, ec2.GetCapacityBlockReservationResult)
    except Exception as error:
        if is_missing(error):
            return False
        raise
    return found.state not in _OVER
