"""Rules about the VCN: its address ranges, and that every machine and server has an address."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from config.oci.facts import Facts
from config.oci.model import Oci
from config.rule import ERROR, Breach, known, rule

#: Networks of the RDMA rails; first boot assigns the addresses on Oracle Linux 7, and the vendor's agent on later images.
RAIL_NETWORKS = (ipaddress.IPv4Network("192.168.0.0/16"), ipaddress.IPv4Network("10.224.0.0/12"))
#: The vendor reserves the first two addresses and the last one of a subnet.
_RESERVED_ADDRESSES = 3
_LARGEST, _SMALLEST = 16, 30
_VCN = "OCI Networking, VCNs and Subnets: allowed sizes"


@rule("ssh-sources", ERROR, "the login node is on the Internet", guard=True)
def ssh_sources(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """An `sshFrom` that lets nobody in, or everybody."""
    yield from wanted.access.broken("oci.access")


@rule("vcn-rails", ERROR, "oci-hpc: RDMA networks; oracle-japan/ocitutorials, section 1-1")
def vcn_rails(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A VCN, or an existing subnet, that overlaps the rails."""
    network = wanted.network
    ours = {network.at("private"): network.private, network.at("public"): network.public}
    for path, cidr in ours.items() if network.existing else (("oci.network.vcn", network.vcn),):
        for rails in RAIL_NETWORKS:
            if ipaddress.IPv4Network(cidr).overlaps(rails):
                yield Breach(
                    path, f"is {cidr}, which overlaps {rails}; the RDMA rails use that network, and traffic would go astray"
                )


@rule("vcn-size", ERROR, _VCN)
def vcn_size(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A size that a VCN or a subnet cannot have."""
    if wanted.network.existing:
        return
    vcn = ipaddress.IPv4Network(wanted.network.vcn)
    if not _LARGEST <= vcn.prefixlen <= _SMALLEST:
        yield Breach("oci.network.vcn", f"is {vcn}; the cloud accepts /{_LARGEST} to /{_SMALLEST}")
    for key, cidr in (("public", wanted.network.public), ("private", wanted.network.private)):
        if ipaddress.IPv4Network(cidr).prefixlen > _SMALLEST:
            yield Breach(f"oci.network.{key}", f"is {cidr}; the cloud accepts no subnet smaller than /{_SMALLEST}")


@rule("subnets", ERROR, _VCN)
def subnets(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A subnet outside the VCN, or two subnets that overlap."""
    if wanted.network.existing:
        return
    vcn = ipaddress.IPv4Network(wanted.network.vcn)
    public = ipaddress.IPv4Network(wanted.network.public)
    for key, subnet in (("public", public), ("private", wanted.private)):
        if not subnet.subnet_of(vcn):
            yield Breach(f"oci.network.{key}", f"is {subnet}, which is outside oci.network.vcn {vcn}")
    if public.overlaps(wanted.private):
        yield Breach(
            "oci.network.private", f"is {wanted.private}, which overlaps oci.network.public {public}; they must not overlap"
        )


@rule("subnet-room", ERROR, "OCI Networking: three addresses of each subnet are reserved")
def subnet_room(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """More machines and servers than the private subnet has addresses; an existing subnet's addresses are looked up."""
    own = wanted.network.existing
    private = ipaddress.IPv4Network(known(facts.subnets, own.private_subnet, "subnet").cidr) if own else wanted.private
    room = private.num_addresses - _RESERVED_ADDRESSES
    nodes = sum(pool.nodes + pool.dynamic for pool in wanted.pools)
    servers = sum(system.addresses for system in wanted.storage.made.values())
    if room < nodes:
        yield Breach(
            wanted.network.at("private"),
            f"is {private}, which has room for {room} machines; {nodes} nodes are requested",
        )
    elif room < nodes + servers:
        yield Breach(
            wanted.network.at("private"),
            f"is {private}, which has {room} addresses; {nodes} nodes and the servers of the file systems need "
            f"{nodes + servers}, so it must be larger",
        )


@rule(
    "rails-subnet",
    ERROR,
    "oracle-japan/ocitutorials, section 1-1: y of 192.168.x.y is the last octet of the node's address",
)
def rails_subnet(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A subnet in which two nodes would share a rail's address."""
    for pool in wanted.pools:
        if pool.family.rdma == "ifcfg" and wanted.private.prefixlen < 24:  # noqa: PLR2004 - one octet
            yield Breach(
                wanted.network.at("private"),
                f"is {wanted.private}; it must be /24 or smaller, because on {pool.image_family} a rail's address ends with "
                "the last octet of its node's address, so in a larger subnet two nodes could get the same rail address",
            )
