"""Rules about existing subnets: what they must already provide, because the stack never changes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from catalogue.oci.ports import NFS_TCP_PORTS
from catalogue.package_ports import PORTS
from config import slurm_rules
from config.model import key_of
from config.networks import WORLD
from config.oci.facts import Facts, Subnet
from config.oci.model import Oci
from config.rule import ERROR, Breach, known, rule

_AT = "oci.network.existing"
_WORLD = "0.0.0.0/0"
_SSH = 22
_INTERNET = "ocid1.internetgateway."


@rule("existing-instead", ERROR, "a stack creates its network, or uses an existing one", guard=True)
def existing_instead(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """Keys of a new network beside existing subnets."""
    if wanted.network.existing:
        for key in sorted({"vcn", "public", "private", "ingress"} & wanted.network.model_fields_set):
            yield Breach(f"oci.network.{key}", f"is set, but {_AT} names subnets; set only one of them")


@rule("existing-system", ERROR, "OCI File Storage: a mount target is reached in its VCN", guard=True)
def existing_system(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """An existing file system with keys of a new file system, or an existing file system that the machines cannot reach."""
    for key, system in wanted.storage.systems.items():
        path = f"oci.storage.{key}"
        if system.existing is None:
            continue
        for name in sorted(system.model_fields_set - {"existing", "mount", "share_login_user"}):
            yield Breach(
                f"{path}.{key_of(name)}",
                f"is set, but {path}.existing names a file system that has its own value; set only one of them",
            )
        if wanted.network.existing is None:
            yield Breach(f"{path}.existing", f"is set, but the stack creates a new VCN, which contains nothing yet; set {_AT}")


@rule("existing-place", ERROR, "OCI Networking, GetSubnet: vcnId, availabilityDomain")
def existing_place(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """Subnets in two different VCNs, or a subnet that some availability domain of the machines cannot use."""
    named = _named(wanted, facts)
    if named is None:
        return
    if named.public.facts.vcn != named.private.facts.vcn:
        yield Breach(
            named.private.path,
            f"is {named.private.ocid}, which is in {named.private.facts.vcn}, and publicSubnet is in {named.public.facts.vcn}; "
            "name subnets of one VCN",
        )
    here = facts.domain(wanted.availability_domain, frozenset(pool.shape for pool in wanted.pools))
    for path, name, subnet in named:
        if subnet.domain and subnet.domain != here:
            yield Breach(
                path, f"is {name}, which is in {subnet.domain}, and the machines are created in {here}; name a regional subnet"
            )
    private = named.private
    for at, pool in wanted.located:
        if private.facts.domain and pool.fallback_domains:
            where = f"in {private.facts.domain}, and {at}.fallbackDomains has other domains; name a regional subnet"
            yield Breach(private.path, f"is {private.ocid}, which is {where}")


@rule("existing-dns", ERROR, "OCI Networking, DNS in your VCN: a subnet needs a DNS label")
def existing_dns(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """A subnet in which nodes have no DNS names."""
    named = _named(wanted, facts)
    if named and not named.private.facts.dns:
        yield Breach(
            named.private.path,
            f"is {named.private.ocid}, which has no DNS label, and perhaps its VCN has none either; nodes could "
            "not find each other by name",
        )


@rule("existing-routes", ERROR, "OCI Networking, Internet gateway: it serves machines that have public addresses")
def existing_routes(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """A subnet without the route out that its machines need."""
    named = _named(wanted, facts)
    if named is None:
        return
    path, name, public = named.public
    if not public.takes_public:
        yield Breach(path, f"is {name}, which prohibits public addresses; the login node needs a public address")
    if not (public.way_out or "").startswith(_INTERNET):
        yield Breach(
            path,
            f"is {name}, which sends {_WORLD} to {_where(public)}; the login node is reached from outside, which requires an "
            "Internet gateway",
        )
    path, name, private = named.private
    if not private.way_out or private.way_out.startswith(_INTERNET):
        yield Breach(
            path,
            f"is {name}, which sends {_WORLD} to {_where(private)}; nodes have no public address, but they fetch packages "
            "and reach the vendor's services, so the subnet needs a NAT gateway or another way out",
        )


@rule("existing-room", ERROR, "OCI Networking, ListPrivateIps; three addresses of each subnet are reserved")
def existing_room(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """Fewer free addresses than static nodes and new file systems will use; dynamic nodes are not counted."""
    named = _named(wanted, facts)
    if named is None:
        return
    running = {pool.name: known(facts.running, pool.name, "nodes of pool") for pool in wanted.pools}
    needed = sum(max(0, pool.nodes - running[pool.name]) for pool in wanted.pools)
    if not any(running.values()):  # when nodes run, the file systems' servers usually have their addresses already
        needed += sum(system.addresses for system in wanted.storage.made.values())
    path, name, subnet = named.private
    if needed > subnet.free:
        yield Breach(
            path,
            f"is {name}, which has {subnet.free} free addresses, but the machines and file systems to be created need "
            f"{needed}; name a larger subnet, or reduce the number of nodes",
        )


@rule("existing-reach", ERROR, "what the update itself does: SSH to the login node, and from there to the nodes")
def existing_reach(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """Security lists that block SSH, MPI, NCCL or the download of packages."""
    named = _named(wanted, facts)
    if named is None:
        return
    (at_public, its_public, public), (at_private, its_private, private) = named
    for index, source in enumerate(wanted.access.ssh_from):
        if not public.lets(source, out=False, port=_SSH):
            yield Breach(
                f"oci.access.sshFrom[{index}]", f"is {source}, and the security lists of {its_public} block SSH from there"
            )
    if not public.lets(private.cidr, out=True, port=_SSH):
        yield Breach(at_public, f"is {its_public}, whose security lists block outgoing SSH to {private.cidr}")
    if not private.lets(public.cidr, out=False, port=_SSH):
        yield Breach(at_private, f"is {its_private}, whose security lists block SSH from {public.cidr}")
    if not all(private.lets(private.cidr, out=way) for way in (False, True)):
        yield Breach(
            at_private,
            f"is {its_private}, whose security lists do not allow all traffic between its own machines; MPI and NCCL use "
            "any port",
        )
    managers = ({wanted.login.family.packages}, {pool.family.packages for pool in wanted.pools})
    for (path, name, subnet), used in zip(named, managers, strict=True):
        ports = {port: words for one in used for port, words in PORTS[one].items()}
        blocked = [words for port, words in sorted(ports.items()) if not subnet.lets(_WORLD, out=True, port=port)]
        if blocked:
            way = f"whose security lists block outgoing {' and '.join(blocked)} to {_WORLD}"
            yield Breach(path, f"is {name}, {way}; first boot fetches packages")


@rule("existing-slurm", ERROR, "slurm.conf(5), SlurmctldPort, SlurmdPort, SrunPortRange")
def existing_slurm(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """Security lists that block connections between a Slurm cluster's machines."""
    named = _named(wanted, facts) if wanted.slurm else None
    if wanted.slurm and named:
        yield from slurm_rules.reach("oci.slurm", wanted.slurm, _side(named.public), _side(named.private))


@rule("existing-home", ERROR, "OCI documentation, Configuring VCN Security Rules for File Storage")
def existing_home(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """Security lists that keep a Slurm cluster's login nodes from the home folders, which are in the nodes' subnet."""
    home = wanted.storage.home
    named = _named(wanted, facts) if wanted.slurm and home and not home.existing else None
    if named is None:
        return
    login, nodes = _side(named.public), _side(named.private)
    ports = [(first, last, "") for first, last in NFS_TCP_PORTS]
    why = "login nodes mount oci.storage.home through these ports: open them"
    yield from slurm_rules.blocked(login, True, nodes, ports, why)
    yield from slurm_rules.blocked(nodes, False, login, ports, why)


def _side(one: _Named) -> slurm_rules.Side:
    def lets(peers: tuple[str, ...], out: bool, port: int) -> bool:
        return any(one.facts.lets(peer, out=out, port=port) for peer in peers)

    edges = slurm_rules.edges(rule.ports for rule in one.facts.rules if rule.ports)
    return slurm_rules.Side(one.path, f"is {one.ocid}, whose security lists block", (one.facts.cidr,), lets, edges)


@rule("existing-open", ERROR, "the login node is on the Internet", guard=True)
def existing_open(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """A public subnet that lets in SSH from the whole Internet although allowWorld is not set.

    OCI's default security list lets in SSH from the whole Internet.
    """
    named = None if wanted.access.allow_world else _named(wanted, facts)
    open_to = [world for world in WORLD if named and named.public.facts.lets(world, out=False, port=_SSH)]
    if named and open_to:
        yield Breach(
            named.public.path,
            f"is {named.public.ocid}, whose security lists allow SSH from {' and '.join(open_to)}, the whole Internet; "
            "remove that rule, or set oci.access.allowWorld: true if you want this",
        )


class _Named(NamedTuple):
    """A subnet that the stack file names: path of its key, OCID, and the account's data on the subnet."""

    path: str
    ocid: str
    facts: Subnet


class _Pair(NamedTuple):
    """The two subnets that the stack file names."""

    public: _Named
    private: _Named


def _named(wanted: Oci, facts: Facts) -> _Pair | None:
    """Return the subnets that the stack file names; None if the stack creates its network."""
    own = wanted.network.existing
    if own is None:
        return None
    public, private = (
        _Named(f"{_AT}.{key}", name, known(facts.subnets, name, "subnet"))
        for key, name in (("publicSubnet", own.public_subnet), ("privateSubnet", own.private_subnet))
    )
    return _Pair(public, private)


def _where(subnet: Subnet) -> str:
    """Return where the subnet's route table sends 0.0.0.0/0, as a part of a sentence."""
    if subnet.way_out is None:
        return "an unknown target, because its route table is in another compartment"
    return subnet.way_out or "nothing"
