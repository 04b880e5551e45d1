"""Compares the log of NCCL's network plugin with the shape: which provider the plugin selected, and how many devices.

If the plugin is missing or finds no device, NCCL uses its own sockets, at a small part of the rails' rate. If the plugin
selects another provider than the shape's, such as tcp, the bytes do not use the shape's provider, so its rate is not measured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalogue import ENVIRONMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalogue import Shape

#: The plugin aws-ofi-nccl always logs the provider. It logs the number of devices since its version 1.6, and the fabric's name
#: since 1.14.
_SELECTED = re.compile(
    r"Selected [Pp]rovider is (?P<name>[^\s,]+)(?:, fabric is (?P<fabric>\S+))?(?:.*\(found (?P<nics>\d+) nics\))?"
)
#: The plugin's name in NCCL's log: "AWS Libfabric" before version 1.13 of the plugin. Since 1.16 it is "OFI" if NCCL_NET is
#: OFI.
_NETWORK = re.compile(r"(?:AWS )?Libfabric|OFI")


@dataclass(frozen=True)
class Told:
    """What NCCL's log shows: what is `wrong`, the `proof` that nothing is wrong, and which information is `missing`.

    All three are empty if no check is needed.
    """

    wrong: tuple[str, ...] = ()
    proof: tuple[str, ...] = ()
    missing: str = ""


def told(said: Mapping[str, Any], shape: Shape) -> Told:
    """Return what NCCL's log (`said`: networks, devices and channels with their counts) reports about the plugin of `shape`."""
    wanted = ENVIRONMENTS[shape.environment].provider if shape.environment else ""
    if not wanted or shape.rdma is None:
        return Told()
    networks, channels, devices = (_words(said.get(name)) for name in ("networks", "channels", "devices"))
    others = [f"NET/{name}" for name in networks if not _NETWORK.fullmatch(name)]
    others += [way.rpartition("/")[0] for way in channels if way.startswith("NET/") and not _NETWORK.search(way)]
    if others:
        why = "the loader does not find the plugin, a container has its own NCCL, or the plugin found no device"
        return Told(wrong=(f"NCCL fell back to {', '.join(dict.fromkeys(others))}: its {wanted} plugin was not used ({why})",))
    found = [match for match in map(_SELECTED.search, devices) if match]
    wrong = [sentence for match in found for sentence in _mismatches(match["name"], match["nics"], wanted, shape.rdma.ports)]
    if wrong:
        return Told(wrong=tuple(dict.fromkeys(wrong)))
    if not found:
        return Told(missing=f"NCCL did not log which provider carried its bytes; the provider must be {wanted}")
    if not all(match["nics"] for match in found):
        return Told(missing=f"NCCL's plugin did not log how many {wanted} devices it found; versions from 1.6 on do")
    fabric = ", ".join(sorted({str(match["fabric"]) for match in found if match["fabric"]}))
    return Told(
        proof=(f"NCCL used provider {wanted}{f' (fabric {fabric})' if fabric else ''} with {shape.rdma.ports} devices",)
    )


def _mismatches(name: str, nics: str | None, wanted: str, ports: int) -> list[str]:
    if name != wanted:
        return [f"NCCL's plugin selected provider {name} instead of {wanted}"]
    if nics is not None and int(nics) != ports:
        return [f"NCCL's plugin found {nics} {wanted} devices on some node, but the shape has {ports}"]
    return []


def _words(said: Any) -> list[str]:
    return sorted(str(word) for word in said) if isinstance(said, dict) else []
