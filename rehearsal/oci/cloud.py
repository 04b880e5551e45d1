"""This vendor's cloud of one world; how resources come, change and go is the plugin room's."""

from __future__ import annotations

from rehearsal.net import network
from rehearsal.oci.errors import Problem
from rehearsal.oci.netplan import plan_of
from rehearsal.oci.registry import KINDS
from rehearsal.plugin import cloud
from rehearsal.plugin.errors import ServiceError

_VCN = "oci:Core/vcn:Vcn"


class Cloud(cloud.Cloud):
    """One world's Oracle cloud."""

    name = "oci"
    kinds = KINDS
    throttled = Problem("", "Too many requests for the user.", status=429, code="TooManyRequests")

    def unknown(self, resource_id: str) -> ServiceError:  # noqa: D102
        return ServiceError(
            Problem("", f"Resource not found: {resource_id}.", 404, "NotAuthorizedOrNotFound"), "Core", "Update"
        )

    def render(self, vcn: object) -> None:
        """Make a VCN in the world what the database says of it."""
        # One at a time, so that an older picture of the same VCN never overtakes a newer one.
        with self.rendering:
            record = self.store.read().find(vcn, _VCN)
            if record is not None:
                network.apply_vcn(self.world, plan_of(self.store.read(), record))

    def render_all(self) -> None:  # noqa: D102
        for vcn in self.store.read().of(_VCN):
            self.render(vcn.id)
