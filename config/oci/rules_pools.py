"""Rules about pools: counts, images, boot volumes, and whether the account offers what the pools need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from catalogue import gpus
from catalogue.oci.imports import IMPORTS
from catalogue.prices import PRICES
from config.oci.facts import Facts, OfferedShape
from config.oci.model import Oci, Pool
from config.rule import ERROR, WARNING, Breach, NotAskedError, known, rule

#: The vendor's tutorials recommend 200 GB for GPU nodes.
_LEAST_BOOT_GB = 200


@rule("pool-names", ERROR, "pools are found by their names", guard=True)
def pool_names(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """Two pools with the same name."""
    seen: set[str] = set()
    for path, pool in wanted.located:
        if pool.name in seen:
            yield Breach(f"{path}.name", f"is {pool.name!r}, like another pool's name; every pool needs a name of its own")
        seen.add(pool.name)


@rule("pool-nodes", ERROR, "OCI Compute: a cluster network joins machines")
def pool_nodes(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A cluster network of one node, or several nodes that no cluster network joins."""
    for path, pool in wanted.located:
        if pool.nodes == 1 and pool.cluster_network:
            yield Breach(
                f"{path}.nodes",
                "is 1; a cluster network joins 2 or more nodes, and one node has no fabric to measure: set clusterNetwork to "
                "false for a single instance, or nodes to 0 to rent nothing yet",
            )
        if pool.nodes > 1 and not pool.cluster_network:
            yield Breach(
                f"{path}.nodes",
                f"is {pool.nodes}, but clusterNetwork is false; without a cluster network there is no fabric between nodes: "
                "set nodes to 1, or remove clusterNetwork",
            )


@rule(
    "single-asked",
    ERROR,
    "terraform-provider-oci: core_instance_resource.go replaces an instance if user_data changes",
    guard=True,
)
def single_asked(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A single instance without preflight: a changed first boot would terminate the running instance without a warning."""
    for path, pool in wanted.located:
        if not pool.cluster_network and not wanted.preflight:
            yield Breach(
                f"{path}.clusterNetwork",
                "is false, and so is oci.preflight; set oci.preflight to true, because only the account knows whether the "
                "instance already runs and must stay",
            )


@rule("shape-joined", ERROR, "oci-hpc b5285a68: cluster-network.tf makes no cluster network for GB200 or GB300", guard=True)
def shape_joined(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A shape that cluster networks do not support."""
    for path, pool in wanted.located:
        if gpus.spans_nodes(pool.row.gpu):
            yield Breach(
                f"{path}.shape",
                f"is {pool.shape}, which the vendor joins by a compute cluster and a GPU memory fabric (dedicated capacity "
                "only), never by a cluster network; busbar can create only cluster networks",
            )


@rule("boot-volume", ERROR, "oracle-japan/ocitutorials: boot volumes of GPU nodes")
def boot_volume(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A boot volume that drivers and containers would fill."""
    for path, pool in wanted.located:
        if pool.root.size_gb < _LEAST_BOOT_GB:
            yield Breach(
                f"{path}.root.size",
                f"is {pool.root.size_gb} GB; GPU nodes need {_LEAST_BOOT_GB} GB or more for drivers, containers and logs",
            )


@rule("image-rails", ERROR, "oci-hpc:samples/gpu/ifup.sh: names of rail interfaces", guard=True)
def image_rails(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """An image whose first boot cannot name the shape's rails."""
    for path, pool in wanted.located:
        if pool.family.rdma == "ifcfg" and pool.row.rdma is not None and not pool.row.rdma.el7_netdevs:
            yield Breach(
                f"{path}.imageFamily",
                f"is {pool.image_family}, whose images cannot drive the rails of {pool.shape}; use ol8 or later",
            )


@rule("domain", ERROR, "OCI Identity, ListAvailabilityDomains; Compute, ListShapes", guard=True)
def domain(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """An availability domain that does not exist, or a stack file that names no availability domain.

    The stack file may omit the domain if the account was asked and exactly one domain offers the shapes.
    """
    if not facts.domains:
        if wanted.availability_domain is None and not wanted.preflight:
            yield Breach(
                "oci.availabilityDomain", "is not set, and oci.preflight is false, so no domain is looked up; name a domain"
            )
            return
        raise NotAskedError("the region's availability domains")
    shapes = frozenset(pool.shape for pool in wanted.pools)
    offering = facts.offering(shapes)
    if wanted.availability_domain is None and len(offering) != 1:
        found = f"{', '.join(sorted(shapes))} is offered in {', '.join(offering) or 'none of ' + ', '.join(facts.domains)}"
        yield Breach("oci.availabilityDomain", f"is not set, and {found}; name one that offers the pools' shapes")
    if wanted.availability_domain is not None and wanted.availability_domain not in facts.domains:
        yield Breach(
            "oci.availabilityDomain",
            f"is {wanted.availability_domain!r}, but this tenancy's region has {', '.join(facts.domains)}",
        )


def _domain(wanted: Oci, facts: Facts) -> str:
    """Return the availability domain of the stack; empty if the stack file sets none and no domain offers the shapes."""
    return facts.domain(wanted.availability_domain, frozenset(pool.shape for pool in wanted.pools))


def _offered(wanted: Oci, facts: Facts) -> tuple[str, dict[str, OfferedShape]]:
    """Return the availability domain of the stack and the shapes that this domain offers."""
    here = _domain(wanted, facts)
    return here, dict(known(facts.shapes, here, "shapes of availability domain"))


@rule("shape-offered", ERROR, "OCI Compute, ListShapes")
def shape_offered(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """A shape that the availability domain does not offer, or that the catalogue describes differently from the account."""
    here, offered = _offered(wanted, facts)
    for path, pool in wanted.located:
        if pool.shape not in offered:
            bare = ", ".join(name for name in offered if name.startswith("BM.")) or "no bare metal"
            yield Breach(f"{path}.shape", f"is {pool.shape}, and {here} does not offer {pool.shape}; it offers {bare}")
        elif offered[pool.shape].gpus != pool.row.gpus:
            yield Breach(
                f"{path}.shape",
                f"is {pool.shape}, which has {offered[pool.shape].gpus} GPUs according to the account and "
                f"{pool.row.gpus} according to the catalogue; the catalogue is out of date, so no measurement could be judged",
            )


def _by_ocid(wanted: Oci) -> Iterator[tuple[str, Pool]]:
    return ((path, pool) for path, pool in wanted.located if pool.image in wanted.image_ocids)


@rule("login-image", ERROR, "OCI Compute, ListImages", guard=True)
def login_image(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """A login node whose image is neither named nor found."""
    if wanted.login.image is not None:
        return
    if not facts.domains:
        if not wanted.preflight:
            yield Breach("oci.login.image", "is not set, and oci.preflight is false, so no image is looked up; give an OCID")
            return
        raise NotAskedError("the region's platform images")
    if facts.login_image is None:
        family, shape = wanted.login.image_family, wanted.login.shape
        yield Breach("oci.login.image", f"is not set, and this region has no platform image of {family} that fits {shape}")


@rule("image-missing", ERROR, "OCI Compute, GetImage", guard=True)
def image_missing(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """An image that does not exist."""
    for path, pool in _by_ocid(wanted):
        if known(facts.images, pool.image, "image") is None:
            yield Breach(f"{path}.image", f"is {pool.image}, which is not in this region, or this account may not see it")


@rule("image-import", WARNING, "terraform-provider-oci: core_image_resource.go, two hours; Image.billableSizeInGBs", guard=True)
def image_import(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """An image that may not have been imported yet: the pool has no running nodes, so the update may have to import it."""
    said: set[str] = set()
    for path, pool in wanted.located:
        if pool.image in IMPORTS and pool.image not in said and not facts.running.get(pool.name):
            said.add(pool.image)
            yield Breach(
                f"{path}.image",
                f"is {pool.image}, which the first update imports into the compartment as {IMPORTS[pool.image].name}: the "
                "provider waits at most two hours for the import, and the image is billed by its size until the stack is "
                "destroyed. If you have already imported the image, give its OCID",
            )


@rule("image-fits", ERROR, "OCI Compute, ListShapes of an image")
def image_fits(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """An image that does not fit the shape."""
    for path, pool in _by_ocid(wanted):
        image = known(facts.images, pool.image, "image")
        if image is not None and pool.shape not in image.shapes:
            yield Breach(
                f"{path}.image",
                f"is {pool.image}, which does not fit shape {pool.shape}; it fits {', '.join(sorted(image.shapes)) or 'none'}",
            )


@rule("image-system", ERROR, "OCI Compute, GetImage: operatingSystem")
def image_system(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """An image of another operating system than the stack file sets: its first boot would do the wrong things."""
    wrong = "its first boot would do the wrong things"
    for path, pool in _by_ocid(wanted):
        image = known(facts.images, pool.image, "image")
        if image is not None and not _is(pool, image.system, image.version):
            yield Breach(
                f"{path}.imageFamily",
                f"is {pool.image_family}, and image {pool.image} is {image.system} {image.version}; {wrong}",
            )


def _is(pool: Pool, system: str, version: str) -> bool:
    # Whoever imports an image types its operating system by hand, so its name need only contain Ubuntu or Oracle, as in the
    # vendor's own check (oci-hpc: validations.tf).
    maker = "ubuntu" if "Ubuntu" in pool.family.operating_system else "oracle"
    return maker in system.lower() and version.startswith(pool.family.version_prefix)


def _asked_of_limits(wanted: Oci, facts: Facts) -> Iterator[tuple[str, Pool, int, str, int | None]]:
    """For each pool that needs more nodes, yield one item for each limit that these nodes count against.

    An item has the pool's path, the pool, how many nodes are to be added, the limit's name, and what is left of the limit
    (None: not reported).
    """
    here, offered = _offered(wanted, facts)
    for path, pool in wanted.located:
        more = pool.nodes - _counted(facts, pool, here)
        for name in offered[pool.shape].limits if more > 0 and pool.shape in offered else ():
            yield path, pool, more, name, known(facts.available, name, "limit")


def _counted(facts: Facts, pool: Pool, here: str) -> int:
    """Return how many running nodes of `pool` count against the same limits as the pool's new nodes.

    The number is 0 if the running nodes have another shape than the stack file names, or run in another availability domain.
    """
    running = known(facts.running, pool.name, "nodes of pool")
    shape = facts.made.get(pool.name, pool.shape).partition(":")[0]
    return running if shape == pool.shape and facts.placed.get(pool.name, here) == here else 0


@rule("limit", ERROR, "OCI Limits, GetResourceAvailability; limits of GPU shapes are counted in GPUs")
def limit(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """More nodes than the account's limits have room for."""
    here, _ = _offered(wanted, facts)
    earlier: Counter[str] = Counter()
    for path, pool, more, name, available in _asked_of_limits(wanted, facts):
        needed, others = more * pool.row.gpus, earlier[name]
        earlier[name] += needed
        if available is not None and available - others < needed:
            besides = f", besides the {others} for earlier pools," if others else ""
            yield Breach(
                f"{path}.nodes",
                f"is {pool.nodes}; {more} more nodes need {needed} GPUs{besides} of the limit {name} in {here}, which has "
                f"{available} left: request a limit increase or fewer nodes",
            )


@rule("limit-unknown", WARNING, "OCI Limits, GetResourceAvailability: not all limits support it")
def limit_unknown(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """A limit that the service does not report."""
    here, _ = _offered(wanted, facts)
    for path, pool, _, name, available in _asked_of_limits(wanted, facts):
        if available is None:
            yield Breach(
                f"{path}.nodes",
                f"is {pool.nodes}, and the service does not report what is left of the limit {name} in {here}; only the "
                "launch will show whether these nodes may run",
            )


def _ends(wanted: Oci, facts: Facts) -> list[tuple[str, int, str]]:
    """Return each reason why running nodes would be terminated: path, number of nodes, and the text after the path."""
    ends = []
    here = _domain(wanted, facts)
    for path, pool in wanted.located:
        running = known(facts.running, pool.name, "nodes of pool")
        now, then = wanted.machines(pool), facts.made.get(pool.name, wanted.machines(pool))
        price = PRICES.get(then.partition(":")[0])
        oldest: tuple[str, ...] = ()
        if running and now != then:
            changed = "shape, image, boot volume, file systems, subnet, container runtime or clusterNetwork"
            count, why = running, f"needs new machines, because its {changed} changed"
        elif running and here != facts.placed.get(pool.name, here):
            count, why = running, f"needs new machines in {here}, because its machines run in {facts.placed[pool.name]}"
        else:
            count, why = running - pool.nodes, "asks for fewer nodes than run now; the vendor terminates the oldest nodes first"
            oldest = facts.oldest.get(pool.name, ())[:count]
        if count > 0:
            known_cost = f"{count * price.usd_per_node_hour:g} USD an hour by list price" if price else ""
            cost = f" ({known_cost or 'price unknown'})"
            names = f": {', '.join(oldest)}" if oldest else ""
            ends.append((path, count, f"{why}: {count} running nodes would be terminated{cost}{names}"))
    ends += [
        ("oci.pools", count, f"has no pool for {label} any more: {count} running nodes would be terminated")
        for label, count in facts.strays.items()
    ]
    return ends


@rule("machines-end", ERROR, "capacity is scarce: terminated machines may not be available again", guard=True)
def machines_end(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """A change that terminates more running nodes than the stack file allows."""
    ends = _ends(wanted, facts)
    total = sum(count for _, count, _ in ends)
    if total > wanted.allow_replace:
        for path, _, text in ends:
            yield Breach(path, f"{text}; to allow this, set oci.allowReplace to {total} (it is {wanted.allow_replace})")


@rule("machines-ending", WARNING, "terminations are announced before they happen", guard=True)
def machines_ending(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """A change that terminates running nodes, as the stack file allows."""
    ends = _ends(wanted, facts)
    if sum(count for _, count, _ in ends) <= wanted.allow_replace:
        for path, _, text in ends:
            yield Breach(path, text)
