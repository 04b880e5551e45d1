"""Asks the account what only it knows, before anything is created: where machines go, and whether they are offered there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import pulumi
from pulumi_oci import core, identity, limits

from components.judged import reason, refuse
from config.oci.facts import Facts, Image, OfferedShape
from config.oci.model import Oci
from config.oci.rules import RULES
from config.rule import ERROR, check

_TENANCY = "ocid1.tenancy."
_T = TypeVar("_T")


@dataclass(frozen=True)
class Place:
    """Where a cluster goes.

    Attributes:
        tenancy: OCID, where dynamic groups are; empty if it is neither given nor looked up.
        availability_domain: of machines and file systems.
        home_region: the tenancy's, where IAM is written; None if it was not looked up.
    """

    tenancy: str
    availability_domain: str
    home_region: str | None = None


def judge(wanted: Oci) -> Place:
    """Judge `wanted` by all rules but the suppressed ones, with what the account says; return where the cluster goes.

    Raises:
        pulumi.RunError: with one sentence for each error.
    """
    findings = check(RULES, wanted, Facts(), wanted.suppress, "oci.suppress")
    if not wanted.preflight or any(found.severity == ERROR for found in findings):
        refuse(findings)
        tenancy = wanted.tenancy or (wanted.compartment if wanted.compartment.startswith(_TENANCY) else "")
        return Place(tenancy, wanted.availability_domain or "")
    try:
        tenancy = wanted.tenancy or _tenancy(wanted.compartment)
        facts = _gather(wanted, tenancy)
        home = _home_region(tenancy) if wanted.iam else None
    except Exception as error:  # noqa: BLE001 - the SDK raises no other
        raise pulumi.RunError(
            f"oci.preflight is true, and the account could not be asked: {reason(error)}; set it to false to ask nothing."
        ) from None
    refuse(check(RULES, wanted, facts, wanted.suppress, "oci.suppress"))
    return Place(tenancy, _domain(wanted, facts), home)


def _tenancy(compartment: str) -> str:
    """Return the tenancy: the compartment above all others."""
    while not compartment.startswith(_TENANCY):
        compartment = identity.get_compartment(id=compartment).compartment_id
    return compartment


def _home_region(tenancy: str) -> str | None:
    found = identity.get_region_subscriptions(tenancy_id=tenancy).region_subscriptions
    return next((each.region_name for each in found if each.is_home_region), None)


def _domain(wanted: Oci, facts: Facts) -> str:
    return wanted.availability_domain or facts.offering(frozenset(pool.shape for pool in wanted.pools))[0]


def _gather(wanted: Oci, tenancy: str) -> Facts:
    compartment = wanted.compartment
    domains = tuple(
        domain.name for domain in identity.get_availability_domains(compartment_id=compartment).availability_domains
    )
    asked = [domain for domain in domains if wanted.availability_domain in {None, domain}]
    shapes = {domain: _shapes(compartment, domain) for domain in asked}
    images = {
        image: _there(partial(_image, compartment, image)) for image in dict.fromkeys(pool.image for pool in wanted.pools)
    }
    facts = Facts(domains=domains, shapes=shapes, images=images, running=_running(wanted))
    offering = facts.offering(frozenset(pool.shape for pool in wanted.pools))
    here = wanted.availability_domain if wanted.availability_domain in domains else next(iter(offering), None)
    if here is None:
        return facts
    names = {name for pool in wanted.pools if pool.shape in shapes[here] for name in shapes[here][pool.shape].limits}
    left = {name: _available(tenancy, here, name) for name in sorted(names)}
    return replace(facts, available=left)


def _shapes(compartment: str, domain: str) -> dict[str, OfferedShape]:
    found = core.get_shapes(compartment_id=compartment, availability_domain=domain).shapes
    return {shape.name: OfferedShape(shape.gpus, tuple(shape.quota_names or ())) for shape in found}


def _image(compartment: str, image: str) -> Image:
    found = core.get_image(image_id=image)
    fitting = core.get_shapes(compartment_id=compartment, image_id=image).shapes
    return Image(found.operating_system, found.operating_system_version, frozenset(shape.name for shape in fitting))


def _there(ask: Callable[[], _T]) -> _T | None:
    """Return what `ask` returns, or None for what is not there."""
    try:
        return ask()
    except Exception as error:
        if "NotFound" in str(error) or "404" in str(error):
            return None
        raise


def _running(wanted: Oci) -> dict[str, int]:
    """Return the nodes that pools have already, by the pool's name."""
    found = core.get_cluster_networks(compartment_id=wanted.compartment).cluster_networks
    living = [network for network in found if network.state.upper() not in {"TERMINATING", "TERMINATED"}]
    return {
        pool.name: sum(
            int(part.size)
            for network in living
            if network.display_name == wanted.label(pool)
            for part in network.instance_pools
        )
        for pool in wanted.pools
    }


def _available(tenancy: str, domain: str, limit: str) -> int:
    room = limits.get_resource_availability(
        compartment_id=tenancy, service_name="compute", limit_name=limit, availability_domain=domain
    )
    return int(room.available or 0)
