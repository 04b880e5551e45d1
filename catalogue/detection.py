"""Finds the shape of a machine from its facts: the row of the catalogue that fits, else one made from those facts.

A row with rails fits only if the machine has all of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from catalogue import gpus
from catalogue.environments import GENERIC
from catalogue.oci.shapes import SHAPES
from catalogue.servers import SERVERS
from catalogue.shape import Rdma, Shape

#: Chassis asset tag of machines that OCI rents (cloud-init recognises OCI by it as well).
OCI_TAG = "OracleCloud.com"
_SAID = "said by the machine itself at first contact"


@dataclass(frozen=True)
class Hca:
    """One RDMA device: its name, line rate (Gb/s, one direction) and interface, and whether its port is active."""

    name: str
    rate_gbit_s: int
    netdev: str | None
    active: bool


@dataclass(frozen=True)
class Facts:
    """What one machine reported about itself.

    Attributes:
        gpu: the driver's name of its GPUs; empty if there is none.
        gpus: how many of them.
        hcas: its RDMA devices.
        front: interface of the front-end network.
        network: CIDR of that network.
        tag: chassis asset tag, empty if the firmware has none.
    """

    gpu: str
    gpus: int
    hcas: tuple[Hca, ...]
    front: str
    network: str
    tag: str = ""

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Facts:
        """Return the facts in a node's answer (`components/remote_scripts/facts.py`)."""
        hcas = tuple(Hca(str(name), int(rate), netdev, bool(active)) for name, rate, netdev, active in found["hca"])
        return cls(found["gpu"], int(found["gpus"]), hcas, found["front"], found["network"], found["tag"])

    @property
    def rails(self) -> tuple[Hca, ...]:
        """Return the devices that carry the fabric: active, not the front end's, and of the highest rate among those."""
        able = [hca for hca in self.hcas if hca.active and hca.netdev != self.front and hca.rate_gbit_s > 0]
        best = max((hca.rate_gbit_s for hca in able), default=0)
        return tuple(hca for hca in able if hca.rate_gbit_s == best)


def named(name: str) -> Shape | None:
    """Return the row of that name, rented or not, with an environment; None if there is none."""
    row = SHAPES.get(name) or SERVERS.get(name)
    return row if row is None or row.environment else replace(row, environment=GENERIC)


def complete(shape: Shape, nodes: int) -> bool:
    """Tell whether a row has all that `nodes` machines need; a single machine needs no rails."""
    return nodes == 1 or shape.rdma is not None


def recognise(facts: Facts, nodes: int, row: Shape | None = None, fronts: Collection[str] = ()) -> Shape:
    """Return the shape of `nodes` equal machines that say `facts`; `row` is the catalogue's where the user named one.

    Front-end interfaces may be named differently on some of them: `fronts` are all those names.

    Raises:
        ValueError: the machines have no GPU, or other GPUs or another number of rails than the row that was named.
    """
    if not facts.gpus:
        msg = "nvidia-smi shows no GPU there, so NCCL cannot be measured"
        raise ValueError(msg)
    if row is not None and (row.gpus != facts.gpus or not gpus.same(row.gpu, facts.gpu)):
        msg = (
            f"shape is {row.name}, which has {row.gpus} x {row.gpu}, and the hosts have {facts.gpus} x {facts.gpu}; "
            "correct it, or set shape: detect"
        )
        raise ValueError(msg)
    found = row or _catalogued(facts) or Shape(f"{facts.gpus} x {facts.gpu}", facts.gpu, facts.gpus, 0, 0, None, GENERIC, _SAID)
    if complete(found, nodes):
        return found
    return replace(found, rdma=_rdma(facts.rails, found), front=",".join(sorted({facts.front, *fronts} - {""})))


def _catalogued(facts: Facts) -> Shape | None:
    """Return the row with these GPUs: OCI's on OCI where the rails are its own, elsewhere a server without rails in its row."""
    if facts.tag == OCI_TAG:
        wired = {(hca.name, hca.rate_gbit_s) for hca in facts.rails}
        rows = [row for row in SHAPES.values() if row.rdma and {(hca, row.rdma.port_gbit_s) for hca in row.rdma.hca} == wired]
    else:
        rows = [row for row in SERVERS.values() if row.rdma is None]
    return next((row for row in rows if row.gpus == facts.gpus and gpus.same(row.gpu, facts.gpu)), None)


def _rdma(rails: tuple[Hca, ...], shape: Shape) -> Rdma | None:
    if shape.unnamed is not None:
        count, rate_gbit_s = shape.unnamed
        if len(rails) != count:
            raise ValueError(
                f"shape is {shape.name}, which has {count} rails, and the machines show {len(rails)} that are active"
            )
        # By number, for their names hold PCI buses, and devices of ascending buses are near GPUs of ascending numbers.
        names = sorted((rail.name for rail in rails), key=lambda name: [int(digits) for digits in re.findall(r"\d+", name)])
        return Rdma(count, rate_gbit_s, tuple(names), "")
    return Rdma(len(rails), rails[0].rate_gbit_s, tuple(rail.name for rail in rails), "") if rails else None
