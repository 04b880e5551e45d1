"""The OCI-specific part of the stand-in cloud: its name, its resource types, and the rendering of its networks."""

from __future__ import annotations

from typing_extensions import override

from rehearsal.net import network, wires
from rehearsal.oci.errors import Problem
from rehearsal.oci.netplan import plan_of
from rehearsal.oci.registry import KINDS
from rehearsal.plugin import cloud
from rehearsal.plugin.errors import ServiceError

_VCN = "oci:Core/vcn:Vcn"


class Cloud(cloud.Cloud):
    """The stand-in for OCI in one world."""

    name = "oci"
    kinds = KINDS
    throttled = Problem("", "Too many requests for the user.", status=429, code="TooManyRequests")

    @override
    def unknown(self, resource_id: str) -> ServiceError:
        return ServiceError(
            Problem("", f"Resource not found: {resource_id}.", 404, "NotAuthorizedOrNotFound"), "Core", "Update"
        )

    def render(self, vcn_id: object) -> None:
        """Make a VCN's network in the world match the database."""
        # Only one process at a time renders, so that an older state of a VCN never replaces a newer state.
        with self.rendering, wires.locked(self.world, "render"):
            record = self.store.read().find(vcn_id, _VCN)
            if record is not None:
                network.apply_vcn(self.world, plan_of(self.store.read(), record))

    @override
    def render_all(self) -> None:
        for vcn in self.store.read().of(_VCN):
            self.render(vcn.id)
