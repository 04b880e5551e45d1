"""Finds the shape of a machine from its facts: the row of the catalogue that fits, or a shape built from those facts.

A row with rails fits only if the machine has all these rails.
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

#: Chassis asset tag of machines on OCI (cloud-init recognises OCI by this tag, too).
OCI_TAG = "OracleCloud.com"
_SAID = "reported by the machine at first contact"


@dataclass(frozen=True)
class Hca:
    """One RDMA device: its name, line rate (Gb/s, one direction) and interface, whether its port is active, and its driver."""

    name: str
    rate_gbit_s: int
    netdev: str | None
    active: bool
    driver: str = ""


@dataclass(frozen=True)
class Facts:
    """What one machine reported about itself.

    Attributes:
        gpu: the driver's name of the machine's GPUs; empty if there are no GPUs.
        gpus: number of GPUs.
        hcas: the machine's RDMA devices.
        front: interface of the front-end network.
        network: CIDR of the front-end network.
        tag: chassis asset tag; empty if the firmware has none.
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
        hcas = tuple(
            Hca(str(name), int(rate), netdev, bool(active), "".join(driver))
            for name, rate, netdev, active, *driver in found["hca"]
        )
        return cls(found["gpu"], int(found["gpus"]), hcas, found["front"], found["network"], found["tag"])

    @property
    def present(self) -> tuple[Hca, ...]:
        """Return the RDMA devices, up or down, that do not belong to the front-end network.

        If there are EFA devices, only EFA devices count: B200 and B300 machines on AWS also show their NVLink controllers as
        devices of driver mlx5 (aws/sagemaker-hyperpod-cli PR 282; awsome-distributed-ai's EFA cheat sheet).
        """
        found = tuple(hca for hca in self.hcas if hca.netdev != self.front)
        return tuple(hca for hca in found if hca.driver == "efa") or found


def named(name: str) -> Shape | None:
    """Return the row called `name`, or None. A row without an environment gets the environment `GENERIC`."""
    row = SHAPES.get(name) or SERVERS.get(name)
    return row if row is None or row.environment else replace(row, environment=GENERIC)


def complete(shape: Shape, nodes: int) -> bool:
    """Tell whether a row has everything that `nodes` machines need; a single machine needs no rails."""
    return nodes == 1 or shape.rdma is not None


def recognise(
    facts: Facts, nodes: int, row: Shape | None = None, fronts: Collection[str] = (), rails: tuple[str, ...] = ()
) -> Shape:
    """Return the shape of `nodes` equal machines that report `facts`; `row` is the row that the user named, if any.

    The front-end interface may have different names on different machines: `fronts` are all these names. `rails` are the
    devices that the user named as rails. If the user named none, all devices that are present are considered, also
    devices that are down, because otherwise a broken fabric would lower its own ceiling.

    Raises:
        ValueError: the machines have no GPU, or their GPUs or number of rails differ from the row that was named; or the facts
            do not show which devices are rails.
    """
    if not facts.gpus:
        msg = "nvidia-smi shows no GPU on the machines, so NCCL cannot be measured"
        raise ValueError(msg)
    if row is not None and (row.gpus != facts.gpus or not gpus.same(row.gpu, facts.gpu)):
        msg = (
            f"shape is {row.name}, which has {row.gpus} x {row.gpu}, but the hosts have {facts.gpus} x {facts.gpu}; "
            "name the hosts' shape, or set shape: detect"
        )
        raise ValueError(msg)
    found = row or _catalogued(facts) or Shape(f"{facts.gpus} x {facts.gpu}", facts.gpu, facts.gpus, 0, 0, None, GENERIC, _SAID)
    if complete(found, nodes):
        return found
    return replace(found, rdma=_rdma(facts, found, rails), front=",".join(sorted({facts.front, *fronts} - {""})))


def remark(shape: Shape) -> str:
    """Return what is unusual about a shape that was built from facts; empty if nothing is."""
    if shape.rdma is None or shape.rdma.ports >= shape.gpus:
        return ""
    return (
        f"{shape.gpus} GPUs share {shape.rdma.ports} rails; machines of this kind often have one rail for each GPU, and busbar "
        "does not notice a rail that the machine does not show"
    )


def _catalogued(facts: Facts) -> Shape | None:
    """Return a row with the machine's GPUs: on OCI, a row whose rails are all present; elsewhere, a row without rails."""
    if facts.tag == OCI_TAG:
        present = {hca.name for hca in facts.present}  # rails that are down count: the measurement reports them
        rows = [row for row in SHAPES.values() if row.rdma and set(row.rdma.hca) <= present]
    else:
        rows = [row for row in SERVERS.values() if row.rdma is None]
    return next((row for row in rows if row.gpus == facts.gpus and gpus.same(row.gpu, facts.gpu)), None)


def _rdma(facts: Facts, shape: Shape, rails: tuple[str, ...]) -> Rdma | None:
    if shape.unnamed is not None:
        return _counted([hca for hca in facts.present if hca.active], shape, *shape.unnamed)
    if rails:
        found = _named_rails(facts, rails)
    else:
        found = facts.present
        doubt = _doubt(found, shape)
        if doubt:
            raise ValueError(f"{doubt}; name the devices that carry the fabric in hosts.rails")
    slowest = min((rail.rate_gbit_s for rail in found), default=0)
    return Rdma(len(found), slowest, tuple(rail.name for rail in found), "") if found else None


def _counted(found: list[Hca], shape: Shape, count: int, rate_gbit_s: int) -> Rdma:
    if len(found) != count:
        raise ValueError(
            f"shape is {shape.name}, which has {count} rails, but the machines show {len(found)} active RDMA devices"
        )
    # The numbers in a device's name give its PCI bus. The order of the buses is also the order of the GPUs that are near them.
    names = sorted((rail.name for rail in found), key=lambda name: [int(digits) for digits in re.findall(r"\d+", name)])
    return Rdma(count, rate_gbit_s, tuple(names), "")


def _named_rails(facts: Facts, rails: tuple[str, ...]) -> tuple[Hca, ...]:
    by_name = {hca.name: hca for hca in facts.hcas}
    absent = [name for name in rails if name not in by_name]
    if absent:
        known = ", ".join(by_name) or "none"
        raise ValueError(
            f"hosts.rails names {', '.join(absent)}, but the machines have {known}; name the devices that carry the fabric"
        )
    down = [name for name in rails if not by_name[name].active]
    if down:
        raise ValueError(
            f"hosts.rails names {', '.join(down)} without an active port; bring the ports up, or leave these devices out"
        )
    return tuple(by_name[name] for name in rails)


def _doubt(found: tuple[Hca, ...], shape: Shape) -> str:
    """Return why the facts do not show which of the devices in `found` are rails; empty if all of them are rails."""
    down = [hca.name for hca in found if not hca.active]
    if down:
        return f"RDMA devices {', '.join(down)} of the machines are not active"
    rates = sorted({hca.rate_gbit_s for hca in found})
    if len(rates) > 1:
        by_rate = [f"{', '.join(hca.name for hca in found if hca.rate_gbit_s == rate)} at {rate} Gbit/s" for rate in rates]
        return f"the machines' RDMA devices have different rates ({'; '.join(by_rate)})"
    if found and len(found) % shape.gpus and shape.gpus % len(found):
        return (
            f"the machines have {len(found)} RDMA devices that are not the front end's, and {shape.gpus} GPUs cannot share "
            f"{len(found)} devices evenly"
        )
    return ""
