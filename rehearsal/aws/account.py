"""The account's initial resources: reservations, a group of two reservations, a placement group, Capacity Block offerings.

Every region has these resources, in its first zone, and no program creates or deletes them. Their ids are invented.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from rehearsal.aws.places import ACCOUNT, partition, zones


@dataclass(frozen=True)
class Reservation:
    """A capacity reservation of the account.

    Attributes:
        id: `cr-...`.
        type: instance type.
        count: number of machines in total.
        zone: availability zone.
        block: whether the reservation is a Capacity Block; otherwise, the reservation is an on-demand reservation.
        placement_group: name of the placement group in which the reservation was created; empty if none.
        match: EC2's instance match criteria, `open` or `targeted`.
        start, end: when a Capacity Block begins and ends, RFC 3339; other reservations have no end.
    """

    id: str
    type: str
    count: int
    zone: str
    block: bool = False
    placement_group: str = ""
    match: str = "targeted"
    start: str = "2026-01-01T11:30:00Z"
    end: str = ""

    @property
    def state(self) -> str:
        """The state, in the vendor's words; machines can be launched only into an active reservation."""
        if datetime.now(UTC) < datetime.fromisoformat(self.start):
            return "scheduled"
        over = self.end and datetime.fromisoformat(self.end) <= datetime.now(UTC)
        return "expired" if over else "active"


#: An example of a Capacity Block offering's id; the ids of all offerings begin with the example's first nine characters.
OFFERING = "cb-0e5aa0e5aa0e5aa01"
#: Hourly price of a machine in every Capacity Block offering.
OFFERED_USD_PER_HOUR = "31.464"
#: Placement group of the reservation of p5en.48xlarge.
PLACEMENT_GROUP = "rehearsed-cluster"
#: Resource group of the two reservations in `POOLED`; neither reservation is in a placement group.
GROUP = "rehearsed-pool"
POOLED = ("cr-0aaaaaaaaaaaaaaa1", "cr-0aaaaaaaaaaaaaaa2")


def reservations(region: str) -> dict[str, Reservation]:
    """Return all reservations of the account in a region, by id."""
    zone = zones(region)[0]
    listed = (
        Reservation(POOLED[0], "p5.48xlarge", 4, zone),
        Reservation(POOLED[1], "p5.48xlarge", 2, zone),
        Reservation("cr-0aaaaaaaaaaaaaaa3", "p5en.48xlarge", 4, zone, placement_group=PLACEMENT_GROUP),
        Reservation("cr-0bbbbbbbbbbbbbbb1", "p5.48xlarge", 4, zone, block=True, end="2126-01-01T11:30:00Z"),
    )
    return {one.id: one for one in listed}


def group_arn(region: str) -> str:
    """Return the ARN of the account's group of reservations."""
    return f"arn:{partition(region)}:resource-groups:{region}:{ACCOUNT}:group/{GROUP}"
