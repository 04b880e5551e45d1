"""Comparison of IP networks of both versions, as the rules of security groups and security lists name them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

#: The whole Internet, in IPv4 and in IPv6.
WORLD = ("0.0.0.0/0", "::/0")


def covers(networks: Iterable[str], wanted: str) -> bool:
    """Tell whether the networks together contain all of `wanted`; networks of the other IP version do not count."""
    its = ipaddress.ip_network(wanted)
    known = (ipaddress.ip_network(one, strict=False) for one in networks)
    same: list[Any] = [one for one in known if one.version == its.version]
    return any(its.subnet_of(one) for one in ipaddress.collapse_addresses(same))
