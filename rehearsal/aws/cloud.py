"""The AWS-specific part of the stand-in cloud: its name, its resource types, and the rendering of its networks."""

from __future__ import annotations

from typing_extensions import override

from rehearsal.aws import fabric
from rehearsal.aws.errors import refused
from rehearsal.aws.kinds import INSTANCE, VPC
from rehearsal.aws.netplan import inhabited, plan_of
from rehearsal.aws.places import REGION
from rehearsal.aws.registry import KINDS
from rehearsal.net import network, wires
from rehearsal.net.network import VcnPlan
from rehearsal.plugin import cloud
from rehearsal.plugin.errors import ServiceError
from rehearsal.world.world import World


class Cloud(cloud.Cloud):
    """The AWS of one world.

    Attributes:
        region: default region, used for a resource to which a program gives no region.
    """

    name = "aws"
    kinds = KINDS
    throttled = refused("", "RequestLimitExceeded", "Request limit exceeded.", 503)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.region = REGION
        self._drawn: dict[str, tuple[VcnPlan, int]] = {}

    @override
    def unknown(self, resource_id: str) -> ServiceError:
        return ServiceError(refused("", "InvalidParameterValue", f"{resource_id} does not exist"), "EC2", "Modify")

    def render(self, vcn_id: object) -> None:
        """Make a VPC's network in the world match the database."""
        # Only one process renders at a time, so that an older state of a VPC never replaces a newer state.
        with self.rendering, wires.locked(self.world, "render"):
            database = self.store.read()
            record = database.find(vcn_id, VPC)
            if record is None or not inhabited(database, record):
                return
            plan = plan_of(database, record)
            # Most resources do not change the network. The network is rendered only if its plan has changed since this process
            # last rendered the network, or if another process has rendered the network since then.
            if self._drawn.get(plan.id) != (plan, self._stamp(plan.id)):
                network.apply_vcn(self.world, plan)
                self._drawn[plan.id] = (plan, self._stamp(plan.id))
            for one in sorted({one.private["fabric"] for one in database.of(INSTANCE) if one.private.get("vpc") == vcn_id}):
                if one and (self.world.path / "fabrics" / f"{one}.json").exists():
                    fabric.guard(self, one)

    def _stamp(self, vcn: str) -> int:
        record = self.world.path / "vcns" / f"{vcn}.json"
        return record.stat().st_mtime_ns if record.exists() else 0

    @override
    def render_all(self) -> None:
        for vpc in self.store.read().of(VPC):
            self.render(vpc.id)
