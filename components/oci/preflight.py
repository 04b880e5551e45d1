"""What only the account knows, asked before anything is created: data sources, no resource.

It deliberately stops at what data sources can tell: host capacity itself is known to nobody before the launch.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_oci import core, identity, limits

from catalogue import ImageFamily, Shape


@dataclass(frozen=True, kw_only=True)
class Intent:
    """What is about to be created.

    Attributes:
        tenancy, compartment: OCIDs; limits belong to the first.
        availability_domain: where.
        shape: the nodes' row of the catalogue.
        nodes: how many.
        label: display name of the cluster network, to find the nodes that it has already.
        image: OCID of their image.
        family: what that image is said to be.
    """

    tenancy: str
    compartment: str
    availability_domain: str
    shape: Shape
    nodes: int
    label: str
    image: str
    family: ImageFamily


def check(intent: Intent) -> None:
    """Ask the account.

    Raises:
        pulumi.RunError: with one sentence that says what was given, what is allowed and why.
    """
    domains = [domain.name for domain in identity.get_availability_domains(compartment_id=intent.tenancy).availability_domains]
    if intent.availability_domain not in domains:
        raise pulumi.RunError(
            f"availabilityDomain is {intent.availability_domain!r}, and this tenancy's region has {', '.join(domains)}."
        )
    quota = _offered(intent)
    _image_is_as_said(intent)
    more = intent.nodes - _nodes_already_here(intent)
    for name in quota if more > 0 else ():
        _limit_suffices(intent, name, more)


def _offered(intent: Intent) -> tuple[str, ...]:
    """Check that the domain offers the shape and the image fits it; return the names of the limits that it counts against."""
    here = core.get_shapes(compartment_id=intent.compartment, availability_domain=intent.availability_domain).shapes
    found = [shape for shape in here if shape.name == intent.shape.name]
    if not found:
        like = [shape.name for shape in here if shape.name.startswith("BM.")]
        raise pulumi.RunError(
            f"{intent.availability_domain} does not offer {intent.shape.name}; it has {', '.join(like) or 'no bare metal'}."
        )
    fitting = core.get_shapes(
        compartment_id=intent.compartment, availability_domain=intent.availability_domain, image_id=intent.image
    ).shapes
    if intent.shape.name not in {shape.name for shape in fitting}:
        raise pulumi.RunError(
            f"image {intent.image} does not fit shape {intent.shape.name}; "
            f"it fits {', '.join(shape.name for shape in fitting)}."
        )
    if found[0].gpus != intent.shape.gpus:
        raise pulumi.RunError(
            f"the account says that {intent.shape.name} has {found[0].gpus} GPUs, and the catalogue says {intent.shape.gpus}; "
            "the catalogue is out of date, so nothing measured could be judged."
        )
    return tuple(found[0].quota_names or ())


def _image_is_as_said(intent: Intent) -> None:
    image = core.get_image(image_id=intent.image)
    family = intent.family
    if image.operating_system != family.operating_system or not image.operating_system_version.startswith(
        family.version_prefix
    ):
        raise pulumi.RunError(
            f"imageFamily is {family.key}, and image {intent.image} is "
            f"{image.operating_system} {image.operating_system_version}; its first boot would do the wrong things."
        )


def _nodes_already_here(intent: Intent) -> int:
    found = core.get_cluster_networks(compartment_id=intent.compartment, display_name=intent.label).cluster_networks
    living = [network for network in found if network.state.upper() not in {"TERMINATING", "TERMINATED"}]
    return sum(int(pool.size) for network in living for pool in network.instance_pools)


def _limit_suffices(intent: Intent, limit: str, more: int) -> None:
    """Check that `more` nodes fit into what is left of a limit; the vendor counts limits of GPU shapes in GPUs."""
    room = limits.get_resource_availability(
        compartment_id=intent.tenancy,
        service_name="compute",
        limit_name=limit,
        availability_domain=intent.availability_domain,
    )
    available, needed = int(room.available or 0), more * intent.shape.gpus
    if available < needed:
        raise pulumi.RunError(
            f"{intent.nodes} nodes are asked for; {more} more of them take {needed} GPUs of the limit {limit} in "
            f"{intent.availability_domain}, which has {available} left: ask for a limit increase or for fewer nodes."
        )
