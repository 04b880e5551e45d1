"""Images by name: subscribes the compartment to a Marketplace listing, or imports an image from Object Storage.

A Marketplace image cannot be launched before its terms are accepted (oci-hpc b5285a68: marketplace.tf), and an imported image
launches only on shapes that were added to it (oci-hpc: image.tf).
"""

from __future__ import annotations

import pulumi
from pulumi_oci import core

from catalogue import IMAGES
from catalogue.oci.imports import IMPORTS
from catalogue.oci.marketplace import MARKETPLACE
from components.after import after
from components.oci.tagged_machines import stack_tags
from config.oci.model import Oci

#: Fields that a subscription must have with the same values as its agreement.
_AGREED = ("listing_id", "listing_resource_version", "oracle_terms_of_use_link", "eula_link", "signature", "time_retrieved")
_CREATE_TIMEOUT = "20m"


class Images(pulumi.ComponentResource):
    """The images that the pools name.

    Creates: for each Marketplace image, an agreement and a subscription, which are free and are deleted with the stack; for
    each image from Object Storage, a custom image with the shapes of its pools, billed by its size until the stack is deleted.
    Outputs: `ocids`, name -> OCID, known once the compartment may launch the image on the shapes of its pools.
    """

    ocids: dict[str, pulumi.Output[str]]

    def __init__(self, name: str, wanted: Oci, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:oci:Images", name, None, opts)
        self.ocids = {
            key: self._subscribed(name, key, wanted.compartment) if key in MARKETPLACE else self._imported(name, key, wanted)
            for key in wanted.named_images
        }
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

    def _imported(self, name: str, key: str, wanted: Oci) -> pulumi.Output[str]:
        row = IMPORTS[key]
        mine = pulumi.ResourceOptions(parent=self)
        image = core.Image(
            f"{name}-{key}",
            compartment_id=wanted.compartment,
            display_name=row.name,
            freeform_tags=stack_tags(wanted),
            image_source_details=core.ImageImageSourceDetailsArgs(
                # `source_image_type` is not set: it is for QCOW2 and VMDK, but these images have the vendor's own format.
                source_type="objectStorageUri",
                source_uri=row.url,
                operating_system=IMAGES[row.family].operating_system,
                operating_system_version=IMAGES[row.family].version_prefix,
            ),
            opts=mine,
        )
        shapes = [
            core.ShapeManagement(
                f"{name}-{key}-on-{shape.lower().replace('.', '-')}",
                compartment_id=wanted.compartment,
                image_id=image.id,
                shape_name=shape,
                opts=mine,
            )
            for shape in wanted.shapes_of(key)
        ]
        return after(image.id, *(shape.id for shape in shapes))
