"""What can be monitored on the nodes, and by whom."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import AfterValidator, Field

from config.model import Model
from config.shared_values import Cidr

#: The lowest port that needs no privilege, and the highest port.
_FREE, _HIGHEST = 1024, 65535
#: Networks that are not reachable from the Internet (RFC 1918, RFC 6598).
_PRIVATE = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))


def _private(value: str) -> str:
    if not is_inside(value, *_PRIVATE):
        raise ValueError(f"is {value}, which is no private network; counters must not be public")
    return value


def _collector(value: str) -> str:
    address, colon, port = value.rpartition(":")
    try:
        private = is_inside(f"{ipaddress.IPv4Address(address)}/32", *_PRIVATE)
    except ValueError:
        private = False
    if not colon or not private or not port.isdigit() or not 0 < int(port) <= _HIGHEST:
        raise ValueError(f"is {value!r}; it must be a private IPv4 address and a port, such as 10.20.9.5:9804")
    return value


def is_inside(cidr: str, *networks: ipaddress.IPv4Network) -> bool:
    """Tell whether all addresses of `cidr` are in one of `networks`."""
    return any(ipaddress.IPv4Network(cidr).subnet_of(network) for network in networks)


class Monitoring(Model):
    """What can be monitored on the nodes, and by whom."""

    exporter: bool | None = Field(
        default=None,
        description="true installs the exporter of RDMA counters on the measured nodes, and false removes the exporter; null "
        "leaves the nodes as they are.",
        examples=[True],
    )
    port: Annotated[int, Field(ge=_FREE, le=65535)] = Field(
        default=9879, description="TCP port of the exporter, on each node's private address.", examples=[9500]
    )
    read_from: tuple[Annotated[Cidr, AfterValidator(_private)], ...] = Field(
        default=(),
        description="Private networks that may read the exporter, besides the login node or jump host.",
        examples=[["10.20.9.0/24"]],
    )
    dcgm_port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None,
        description="TCP port of a dcgm-exporter that you run on the nodes; null leaves it out of the scrape configuration.",
        examples=[9400],
    )

    switches: tuple[Annotated[str, AfterValidator(_collector)], ...] = Field(
        default=(),
        description="address:port of each gNMI collector that you run, such as gNMIc. Its Prometheus output is scraped, too. "
        "The collector queries the switches; this stack does not.",
        examples=[["10.20.9.5:9804"]],
    )

    @property
    def wanted(self) -> bool:
        """Whether there is anything to scrape."""
        return bool(self.exporter) or self.dcgm_port is not None or bool(self.switches)
