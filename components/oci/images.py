"""Images by name: accepts the terms of a Marketplace listing and subscribes the compartment to it.

An image of the Marketplace cannot be launched before that. Source: oci-hpc b5285a68: marketplace.tf.
"""

from __future__ import annotations

import pulumi
from pulumi_oci import core

from catalogue.oci.marketplace import MARKETPLACE
from config.oci.model import Oci

#: A subscription repeats the whole agreement.
_AGREED = ("listing_id", "listing_resource_version", "oracle_terms_of_use_link", "eula_link", "signature", "time_retrieved")
_CREATE_TIMEOUT = "20m"


class Images(pulumi.ComponentResource):
    """The Marketplace images that the pools name.

    Creates: an agreement and a subscription for each. A subscription is free, and ends with the stack.
    Outputs: `ocids`, by name.
    """

    ocids: dict[str, pulumi.Output[str]]

    def __init__(self, name: str, wanted: Oci, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:oci:Images", name, None, opts)
        self.ocids = {key: self._subscribed(name, key, wanted.compartment) for key in wanted.named_images}
        self.register_outputs({"ocids": self.ocids})

    def _subscribed(self, name: str, key: str, compartment: str) -> pulumi.Output[str]:
        row = MARKETPLACE[key]
        agreement = core.AppCatalogListingResourceVersionAgreement(
            f"{name}-{key}-agreement",
            listing_id=row.listing,
            listing_resource_version=row.version,
            opts=pulumi.ResourceOptions(parent=self),
        )
        subscription = core.AppCatalogSubscription(
            f"{name}-{key}-subscription",
            compartment_id=compartment,
            **{field: getattr(agreement, field) for field in _AGREED},
            opts=pulumi.ResourceOptions(parent=self, custom_timeouts=pulumi.CustomTimeouts(create=_CREATE_TIMEOUT)),
        )
        return subscription.listing_resource_id
