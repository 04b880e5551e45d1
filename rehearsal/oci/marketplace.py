"""The Marketplace: listings, the agreement to one version of a listing, and a compartment's subscription to that version.

Sources: terraform-provider-oci 8.28.0: core_app_catalog_listing_resource_version_agreement_resource.go and
core_app_catalog_subscription_resource.go; listing and versions: oci-hpc b5285a68, variables.tf.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from typing_extensions import override

from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.images import IMAGES
from rehearsal.oci.kinds import Asked, Kind
from rehearsal.oci.ocids import now
from rehearsal.plugin.store import Database, Record

AGREEMENT = "oci:Core/appCatalogListingResourceVersionAgreement:AppCatalogListingResourceVersionAgreement"
SUBSCRIPTION = "oci:Core/appCatalogSubscription:AppCatalogSubscription"


def _version(asked: Asked) -> Iterator[Problem]:
    listing, version = asked.known("listingId"), asked.known("listingResourceVersion")
    listed = [image for image in IMAGES.values() if image.listing and image.listing == listing]
    if listing is not None and not listed:
        yield not_found("listingId", str(listing))
    elif version is not None and listed and version not in {image.display_name for image in listed}:
        yield not_found("listingResourceVersion", str(version))


def _signature(listing: object, version: object) -> str:
    return hashlib.sha256(f"{listing} {version}".encode()).hexdigest()


class _OfVersion(Kind):
    """A resource of one version of a listing."""

    ready = "ACTIVE"
    named = False
    holds = False

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        yield from _version(asked)


class Agreement(_OfVersion):
    """The terms of one version of a listing; the service signs and returns the terms but stores nothing."""

    token, noun, service = AGREEMENT, "agreement", "Core App Catalog Listing Resource Version Agreement"
    create, delete = "GetAppCatalogListingAgreements", "GetAppCatalogListingAgreements"

    @override
    def on_create(self, database: Database, record: Record) -> None:
        listing, version = record.inputs["listingId"], record.inputs["listingResourceVersion"]
        record.computed.update(
            eulaLink=f"https://example.invalid/eula/{version}",
            oracleTermsOfUseLink="https://example.invalid/terms",
            signature=_signature(listing, version),
            timeRetrieved=now(),
        )


class Subscription(_OfVersion):
    """A compartment's permission to launch instances from one version of a listing."""

    token, noun, service = SUBSCRIPTION, "subscription", "Core App Catalog Subscription"
    create, delete = "CreateAppCatalogSubscription", "DeleteAppCatalogSubscription"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        signature = asked.known("signature")
        if signature is not None and signature != _signature(asked.known("listingId"), asked.known("listingResourceVersion")):
            yield Problem("signature", "The signature does not match the listing's agreement.", 400, "InvalidParameter")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        version = record.inputs["listingResourceVersion"]
        image = next(one for one in IMAGES.values() if one.listing and one.display_name == version)
        record.computed.update(listingResourceId=image.id, publisherName="Oracle", summary="")


def subscribed(database: Database, compartment: object, image: str) -> bool:
    """Return whether a compartment may launch an image of the Marketplace."""
    mine: list[Mapping[str, Any]] = [one.computed for one in database.of(SUBSCRIPTION, compartmentId=compartment)]
    return any(one["listingResourceId"] == image for one in mine)
