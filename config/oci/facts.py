"""What the OCI account answered; empty if it was not asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OfferedShape:
    """A shape as an availability domain offers it: its GPUs, and the names of the limits that it counts against."""

    gpus: int
    limits: tuple[str, ...]


@dataclass(frozen=True)
class Image:
    """An image: its operating system and version, and the shapes that it fits."""

    system: str
    version: str
    shapes: frozenset[str]


@dataclass(frozen=True)
class Facts:
    """Everything that was asked; what is absent was not.

    Attributes:
        domains: the region's availability domains; empty if it was not asked.
        shapes: shapes that an availability domain offers, by domain and name.
        images: by OCID; None if there is none.
        available: what is left of a limit, by its name; None where the service does not say.
        login_image: OCID of the newest platform image for the login node; None if there is none, or it is given.
        made: what the machines of a pool were made for (`Oci.machines`), by the pool's name, where they say.
        strays: nodes of this stack's cluster networks for which it has no pool any more, by display name.
        running: nodes that a pool has already, by the pool's name.
        oldest: names of the nodes of a pool that shrinks, oldest first, by the pool's name.
    """

    domains: tuple[str, ...] = ()
    shapes: Mapping[str, Mapping[str, OfferedShape]] = field(default_factory=dict)
    images: Mapping[str, Image | None] = field(default_factory=dict)
    available: Mapping[str, int | None] = field(default_factory=dict)
    login_image: str | None = None
    made: Mapping[str, str] = field(default_factory=dict)
    strays: Mapping[str, int] = field(default_factory=dict)
    running: Mapping[str, int] = field(default_factory=dict)
    oldest: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def offering(self, shapes: frozenset[str]) -> tuple[str, ...]:
        """Return the availability domains that offer all of `shapes`."""
        return tuple(domain for domain in self.domains if shapes <= set(self.shapes.get(domain, {})))
