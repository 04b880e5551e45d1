"""What every cloud means by a CIDR and by a free public address; knows no vendor's limits."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Network, NetmaskValueError, ip_network

from rehearsal.plugin.store import Database
from rehearsal.world.world import PUBLIC_RANGE


def cidr(text: str) -> IPv4Network | None:
    """The network that a CIDR names, or None if it names none (host bits are not allowed either)."""
    try:
        return IPv4Network(text) if "/" in text else None
    except (AddressValueError, NetmaskValueError, ValueError):
        return None


def free_public(database: Database) -> str | None:
    """A public address that nobody has, or None when all are given away."""
    taken = {one.computed.get("publicIp") for one in database.records.values()}
    return next((str(one) for one in ip_network(PUBLIC_RANGE).hosts() if str(one) not in taken), None)
