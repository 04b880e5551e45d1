"""Asks the account for facts before anything is created: where the machines go, and whether that location offers them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pulumi
from pulumi_oci import _utilities, core, limits

from components.engine_state import ids_in_state
from components.oci import existing
from components.oci.tagged_machines import living
from components.report_findings import look_up, refuse
from config.oci.facts import Facts, Image, OfferedShape
from config.oci.model import MADE_FOR, OWNER, Login, Oci
from config.oci.rules import RULES
from config.read import oci_region
from config.rule import ERROR, check

_TENANCY = "ocid1.tenancy."
_T = TypeVar("_T")


@dataclass(frozen=True)
class Place:
    """The location of a cluster.

    Attributes:
        availability_domain: the domain of machines and file systems.
        login_image: OCID of the login node's image.
        search_domain: DNS domain of the nodes' subnet.
        vcn: OCID of the existing VCN; empty if the stack creates the VCN.
        tenancy: OCID of the tenancy; empty if it was not looked up.
        staying: names of the pools whose machines already run with the stack file's settings, in this domain; empty if the
            account was not asked.
    """

    availability_domain: str
    login_image: str = ""
    search_domain: str = ""
    vcn: str = ""
    tenancy: str = ""
    staying: frozenset[str] = frozenset()


def judge(wanted: Oci) -> Place:
    """Judge `wanted` by all rules that are not suppressed, with the account's answers; return the cluster's location.

    The account is not asked if `preflight` is false, or if a rule that needs no account finds an error. Without the account's
    answers, rules about running nodes judge nothing.

    Raises:
        pulumi.RunError: with one sentence for each error.
    """
    findings = check(RULES, wanted, Facts(), wanted.suppress)
    if not wanted.preflight or any(found.severity == ERROR for found in findings):
        refuse(findings)
        return Place(wanted.availability_domain or "", wanted.login.image or "", tenancy=wanted.tenancy or "")
    tenancy = wanted.tenancy or _tenancy(wanted.compartment)
    facts = _gather(wanted, tenancy)
    refuse(check(RULES, wanted, facts, wanted.suppress))
    domain = facts.domain(wanted.availability_domain, frozenset(pool.shape for pool in wanted.pools))
    staying = _staying(wanted, facts, domain)
    return Place(domain, wanted.login.image or facts.login_image or "", tenancy=tenancy, staying=staying)


def _staying(wanted: Oci, facts: Facts, domain: str) -> frozenset[str]:
    running = [pool for pool in wanted.pools if facts.running.get(pool.name) and facts.placed.get(pool.name) in {None, domain}]
    return frozenset(pool.name for pool in running if facts.made.get(pool.name) == wanted.machines(pool))


def _ask(what: str, right: str, ask: Callable[[], _T]) -> _T:
    """Return what `ask` returns; if `ask` fails, raise the pulumi.RunError of `components.report_findings.look_up`."""
    return look_up("oci", what, right, ask)


def _tenancy(compartment: str) -> str:
    """Return the OCID of the tenancy: the root compartment."""
    while not compartment.startswith(_TENANCY):
        here = compartment
        compartment = _ask(
            f"compartment {here}",
            "inspect compartments in tenancy (or set oci.tenancy)",
            lambda here=here: str(_identity("getCompartment", id=here)["compartmentId"]),  # type: ignore[misc]
        )
    return compartment


def _identity(function: str, **arguments: str) -> dict[str, Any]:
    """Call a function of the SDK's identity module by its token: importing that module costs half a second at every start."""
    # Like the module's own functions, this invoke passes the version of the SDK.
    found = pulumi.runtime.invoke(f"oci:Identity/{function}:{function}", arguments, _utilities.get_invoke_opts_defaults())
    answer: dict[str, Any] = found.value
    return answer


def _gather(wanted: Oci, tenancy: str) -> Facts:
    compartment = wanted.compartment
    domains = _ask(
        f"the availability domains for {compartment}",
        "inspect compartments in tenancy",
        lambda: tuple(
            str(one["name"]) for one in _identity("getAvailabilityDomains", compartmentId=compartment)["availabilityDomains"]
        ),
    )
    further = {one for pool in wanted.pools for one in pool.fallback_domains}
    asked = [domain for domain in domains if wanted.availability_domain in {None, domain} or domain in further]
    shapes = {domain: _shapes(compartment, domain) for domain in asked}
    images = {image: _image(compartment, image) for image in wanted.image_ocids}
    newest = _newest(compartment, wanted.login) if wanted.login.image is None else None
    subnets = existing.subnets(wanted)
    facts = replace(_existing(wanted), domains=domains, shapes=shapes, images=images, login_image=newest, subnets=subnets)
    offering = facts.offering(frozenset(pool.shape for pool in wanted.pools))
    if wanted.slurm is not None:
        facts = replace(facts, home_region=_home_region(tenancy), region=oci_region())
    here = wanted.availability_domain if wanted.availability_domain in domains else next(iter(offering), None)
    if here is None:
        return facts
    names = {name for pool in wanted.pools if pool.shape in shapes[here] for name in shapes[here][pool.shape].limits}
    return replace(facts, available={name: _available(tenancy, here, name) for name in sorted(names)})


def _home_region(tenancy: str) -> str:
    regions = _ask(
        f"the home region of {tenancy}",
        "inspect tenancies in tenancy",
        lambda: _identity("getRegionSubscriptions", tenancyId=tenancy)["regionSubscriptions"],
    )
    return next((str(one["regionName"]) for one in regions if one["isHomeRegion"]), "")


def _shapes(compartment: str, domain: str) -> dict[str, OfferedShape]:
    found = _ask(
        f"the shapes of {domain}",
        "inspect instances in the compartment",
        lambda: core.get_shapes(compartment_id=compartment, availability_domain=domain).shapes,
    )
    return {shape.name: OfferedShape(shape.gpus, tuple(shape.quota_names or ())) for shape in found}


def _image(compartment: str, image: str) -> Image | None:
    def look_up() -> Image | None:
        try:
            found = core.get_image(image_id=image)
        except Exception as error:
            if _is_absent(error):
                return None
            raise
        fitting = core.get_shapes(compartment_id=compartment, image_id=image).shapes
        names = frozenset(shape.name for shape in fitting)
        return Image(found.operating_system or "", found.operating_system_version or "", names)

    return _ask(f"image {image}", "read instance-images in the compartment", look_up)


def _newest(compartment: str, login: Login) -> str | None:
    """Return the OCID of the newest platform image of the login node's family that supports the login node's shape.

    The result is None if there is no such image.
    Images for GPUs, minimal images and images for Arm are left out. The list also has the compartment's
    own images. These are left out, too: they have a compartment id, and platform images have none.
    """
    family = login.family
    found = _ask(
        f"platform images of {login.image_family}",
        "read instance-images in the compartment",
        lambda: (
            core.get_images(
                compartment_id=compartment,
                operating_system=family.operating_system,
                shape=login.shape,
                state="AVAILABLE",
                sort_by="TIMECREATED",
                sort_order="DESC",
            ).images
        ),
    )
    vendors = [one for one in found if not one.compartment_id]
    plain = [
        one for one in vendors if not re.search("GPU|Minimal|aarch64", f"{one.display_name} {one.operating_system_version}")
    ]
    able = [one.id for one in plain if f"{one.operating_system_version}.".startswith(f"{family.version_prefix}.")]
    return next(iter(able), None)


def _is_absent(error: Exception) -> bool:
    # The provider writes `404-NotAuthorizedOrNotFound`; 404 anywhere else may be part of an OPC request ID.
    return re.search(r"\b404-|NotFound", str(error)) is not None


def _existing(wanted: Oci) -> Facts:
    """Return the facts about cluster networks and single instances that this stack already has."""
    found = _ask(
        f"the cluster networks in {wanted.compartment}",
        "read compute-management-family in the compartment",
        lambda: core.get_cluster_networks(compartment_id=wanted.compartment).cluster_networks,
    )
    networks = living(found, pulumi.get_stack())
    single = _single(wanted.compartment)
    everything = [*networks, *single]
    known = ids_in_state() if any(_other_name(wanted, one) for one in everything) else frozenset()
    names = {one.id: _name_after(wanted, one, known) for one in everything}
    sizes = {names[network.id]: sum(int(part.size) for part in network.instance_pools) for network in networks}
    sizes |= {names[instance.id]: 1 for instance in single}
    tags = {names[one.id]: one.freeform_tags or {} for one in everything}
    labels = {wanted.label(pool): pool.name for pool in wanted.pools}
    members = {
        labels[names[network.id]]: _members(wanted.compartment, network.id)
        for network in networks
        if names[network.id] in labels
    }
    members |= {labels[names[instance.id]]: [instance] for instance in single if names[instance.id] in labels}
    shrinking = [pool.name for pool in wanted.pools if 0 < pool.nodes < sizes.get(wanted.label(pool), 0)]
    return Facts(
        oldest={name: tuple(one.display_name for one in members[name]) for name in shrinking},
        placed={
            name: found[0].availability_domain for name, found in members.items() if found and found[0].availability_domain
        },
        running={name: sizes.get(label, 0) for label, name in labels.items()},
        made={name: tags[label][MADE_FOR] for label, name in labels.items() if MADE_FOR in tags.get(label, {})},
        strays={
            label: sizes[label]
            for label in (names[one.id] for one in everything if _is_own(wanted, one, known))
            if label not in labels
        },
    )


def _other_name(wanted: Oci, one: Any) -> str:
    """Return the `oci.name` with which a machine was created; empty if that is the current `oci.name` or is unknown."""
    name = str((one.freeform_tags or {}).get(OWNER, ""))
    return "" if name == wanted.name else name


def _name_after(wanted: Oci, one: Any, known: frozenset[str]) -> str:
    """Return the display name that a machine has after the update; `known` are the ids in this stack's state.

    `oci.name` is the DNS label of a VCN that the stack created, so a changed `oci.name` replaces the VCN and all machines in
    it. In existing subnets, the update only renames the machines.
    """
    name, before = str(one.display_name), _other_name(wanted, one)
    renamed = before and wanted.network.existing is not None and one.id in known and name.startswith(f"{before}-")
    return wanted.name + name[len(before) :] if renamed else name


def _is_own(wanted: Oci, one: Any, known: frozenset[str]) -> bool:
    """Whether a machine belongs to this stack; an update terminates the stack's machines whose names no pool has.

    A machine with another `oci.name` may belong to a stack that has this stack's name and whose state is elsewhere. So it
    counts only if it is in this stack's state.
    """
    return (one.freeform_tags or {}).get(OWNER) == wanted.name or (bool(_other_name(wanted, one)) and one.id in known)


def _single(compartment: str) -> list[Any]:
    """Return this stack's single instances; nodes of cluster networks lack the tag `MADE_FOR`."""
    found = _ask(
        f"the instances in {compartment}",
        "read instance-family in the compartment",
        lambda: core.get_instances(compartment_id=compartment).instances,
    )
    return [one for one in living(found) if MADE_FOR in (one.freeform_tags or {})]


def _members(compartment: str, network: str) -> list[Any]:
    """Return a cluster network's instances in the order in which the vendor terminates them."""
    found = _ask(
        f"the nodes of {network}",
        "read compute-management-family in the compartment",
        lambda: core.get_cluster_network_instances(compartment_id=compartment, cluster_network_id=network).instances,
    )
    return sorted(found, key=lambda one: one.time_created)


def _available(tenancy: str, domain: str, limit: str) -> int | None:
    """Return how much of a limit is available; None if the service does not report it.

    "Not all resource limits support this API. If the value is not available, the API returns a 404" (provider's documentation).
    """

    def look_up() -> int | None:
        try:
            room = limits.get_resource_availability(
                compartment_id=tenancy, service_name="compute", limit_name=limit, availability_domain=domain
            )
        except Exception as error:
            if _is_absent(error):
                return None
            raise
        return None if room.available is None else int(room.available)

    return _ask(f"what is left of limit {limit}", "inspect limits in tenancy", look_up)
