"""CIDRs and private addresses: which of them are valid, which of them AWS reserves, and which addresses are free."""

from __future__ import annotations

from ipaddress import IPv4Network, ip_address, ip_network

from rehearsal.aws.errors import Problem, refused
from rehearsal.plugin.addresses import cidr
from rehearsal.plugin.store import Database, Record

#: VPC user guide, "VPC CIDR blocks": a block is from /16 to /28, for a VPC and for a subnet.
WIDEST, NARROWEST = 16, 28

#: VPC user guide, "Subnet sizing": the first four addresses and the last one are reserved.
_FIRST_HOST = 4

_RESERVED = tuple(IPv4Network(one) for one in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4"))
ASSOCIATION = "aws:ec2/vpcIpv4CidrBlockAssociation:VpcIpv4CidrBlockAssociation"


def public_names(address: str | None, region: str) -> dict[str, str]:
    """Return `publicIp` and `publicDns` of a public address in a region; both are empty if `address` is None.

    Source: VPC user guide, "DNS hostnames": ec2-ADDRESS.compute-1.amazonaws.com in us-east-1,
    ec2-ADDRESS.REGION.compute.amazonaws.com elsewhere.
    """
    outside = "compute-1" if region == "us-east-1" else f"{region}.compute"
    return {
        "publicIp": address or "",
        "publicDns": f"ec2-{address.replace('.', '-')}.{outside}.amazonaws.com" if address else "",
    }


def malformed(path: str, text: str) -> Problem:
    """Return the refusal of an invalid CIDR."""
    return refused(
        path,
        "InvalidParameterValue",
        f"Value ({text}) for parameter {path} is invalid. This is not a valid CIDR block: it must be like 10.0.0.0/16, without "
        "host bits.",
    )


def block(path: str, text: str, code: str) -> Problem | None:
    """Return the refusal of the CIDR `text` for a VPC or a subnet, or None; `code` is the error code for a forbidden range."""
    found = cidr(text)
    if found is None:
        return malformed(path, text)
    if not WIDEST <= found.prefixlen <= NARROWEST:
        return refused(path, code, f"The CIDR '{text}' is invalid: it must be from /{WIDEST} to /{NARROWEST}.")
    if any(found.overlaps(one) for one in _RESERVED):
        return refused(path, code, f"The CIDR '{text}' is invalid: AWS reserves it or the Internet does not route it.")
    return None


def vpc_cidrs(database: Database, vpc: Record) -> tuple[str, ...]:
    """Return a VPC's address ranges, the primary range first."""
    more = [str(one.inputs["cidrBlock"]) for one in database.of(ASSOCIATION, vpcId=vpc.id)]
    return (str(vpc.inputs["cidrBlock"]), *more)


def taken(database: Database) -> set[str]:
    """Return all private addresses that are in use."""
    return {address for one in database.records.values() for address in one.private.get("addresses", ())}


def usable(subnet: Record) -> int:
    """Return the number of addresses that a subnet can assign."""
    return ip_network(subnet.inputs["cidrBlock"]).num_addresses - _FIRST_HOST - 1


def free(database: Database, subnet: Record, count: int = 1) -> list[str] | None:
    """Return the lowest free addresses of a subnet, or None if there are too few."""
    used, network = taken(database), ip_network(subnet.inputs["cidrBlock"])
    found: list[str] = []
    for number in range(_FIRST_HOST, network.num_addresses - 1):
        if len(found) == count:
            break
        if str(network[number]) not in used:
            found.append(str(network[number]))
    return found if len(found) == count else None


def room(database: Database, subnet: Record) -> int:
    """Return the number of free addresses of a subnet."""
    network = ip_network(subnet.inputs["cidrBlock"])
    return usable(subnet) - sum(ip_network(one).subnet_of(network) for one in taken(database))  # type: ignore[arg-type]


def within(address: str, subnet: Record) -> bool:
    """Return whether an address can be assigned in a subnet."""
    network = ip_network(subnet.inputs["cidrBlock"])
    return network[_FIRST_HOST] <= ip_address(address) < network[-1]  # type: ignore[operator]
