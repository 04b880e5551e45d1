"""This vendor's cloud of one world; how resources come, change and go is the plugin room's."""

from __future__ import annotations

import os
import time

from rehearsal.aws import fabric
from rehearsal.aws.errors import refused
from rehearsal.aws.kinds import INSTANCE, VPC
from rehearsal.aws.netplan import inhabited, leads_out, plan_of
from rehearsal.aws.places import REGION
from rehearsal.aws.registry import KINDS
from rehearsal.net import network
from rehearsal.net.network import VcnPlan
from rehearsal.plugin import cloud
from rehearsal.plugin.errors import PartlyCreatedError, ServiceError
from rehearsal.plugin.store import Record
from rehearsal.world.world import World


class Cloud(cloud.Cloud):
    """One world's Amazon cloud.

    Attributes:
        pace: the part of the vendor's own waiting times that is waited: 1 as in life, 0 (the default) not at all; from
            BUSBAR_PACE.
        region: where a program is that names no region with a resource.
    """

    name = "aws"
    kinds = KINDS
    throttled = refused("", "RequestLimitExceeded", "Request limit exceeded.", 503)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.pace = _pace(os.environ.get("BUSBAR_PACE", "0"))
        self.region = REGION
        self._drawn: dict[str, VcnPlan] = {}

    def unknown(self, resource_id: str) -> ServiceError:  # noqa: D102
        return ServiceError(refused("", "InvalidParameterValue", f"{resource_id} does not exist"), "EC2", "Modify")

    def wait(self, seconds: float) -> None:
        """Let as much of the vendor's own waiting time pass as was asked for."""
        time.sleep(seconds * self.pace)

    def leads_out(self, subnet: Record) -> bool:
        """Whether a subnet's routes lead to an internet gateway."""
        return leads_out(self.store.read(), subnet)

    def failed(self, record: Record, why: str) -> PartlyCreatedError:
        """Mark a resource that was made and did not become what it should; the error to raise."""
        with self.store.change() as database:
            mine = database.records[record.id]
            mine.private["failed"] = why
            outputs = KINDS[mine.token].outputs(mine)
        return PartlyCreatedError(KINDS[record.token].shown(record), outputs, record.inputs, why)

    def render(self, vpc: object) -> None:
        """Make a VPC in the world what the database says of it."""
        # One at a time, so that an older picture of the same VPC never overtakes a newer one.
        with self.rendering:
            database = self.store.read()
            record = database.find(vpc, VPC)
            if record is None or not inhabited(database, record):
                return
            plan = plan_of(database, record)
            # Most of a stack's resources change nothing that packets see.
            if self._drawn.get(plan.id) != plan:
                network.apply_vcn(self.world, plan)
                self._drawn[plan.id] = plan
            for one in sorted({one.private["fabric"] for one in database.of(INSTANCE) if one.private.get("vpc") == vpc}):
                if one and (self.world.path / "fabrics" / f"{one}.json").exists():
                    fabric.guard(self, one)

    def render_all(self) -> None:  # noqa: D102
        for vpc in self.store.read().of(VPC):
            self.render(vpc.id)


def _pace(text: str) -> float:
    try:
        pace = float(text)
    except ValueError:
        pace = -1
    if not 0 <= pace <= 1:
        raise ValueError(f"BUSBAR_PACE is {text!r} and must be a number from 0 to 1, the part of the vendor's waiting times.")
    return pace
