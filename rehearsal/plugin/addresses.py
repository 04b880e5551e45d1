"""Parses CIDRs and finds free public addresses, for all clouds."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Network, NetmaskValueError, ip_network

from rehearsal.plugin.store import Database
from rehearsal.world.world import PUBLIC_RANGE


def cidr(text: str) -> IPv4Network | None:
    """Return the network of a CIDR, or None if it is invalid or has host bits."""
    try:
        return IPv4Network(text) if "/" in text else None
    except (AddressValueError, NetmaskValueError, ValueError):
        return None


def free_public(database: Database) -> str | None:
    """Return a free public address, or None if all are taken."""
    taken = {one.computed.get("publicIp") for one in database.records.values()}
    return next((str(one) for one in ip_network(PUBLIC_RANGE).hosts() if str(one) not in taken), None)
