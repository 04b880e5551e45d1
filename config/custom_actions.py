"""Scripts of a user's own at the first boot of nodes: custom actions, as ParallelCluster calls them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from config.model import Model
from config.shared_values import Sha256


def _address(value: str) -> str:
    place = urlsplit(value)
    if place.scheme not in {"http", "https"} or not place.hostname or place.username is not None or set(value) & set(" '\"\\"):
        raise ValueError(
            f"is {value!r}; it must be an https or http address without a user, spaces or quotes, which nodes fetch with curl"
        )
    return value


class Action(Model):
    """One script."""

    script: Annotated[str, AfterValidator(_address)] = Field(
        description="Its address; every node fetches it at its first boot.", examples=["https://example.com/setup.sh"]
    )
    sha256: Sha256 = Field(
        description="Its sha256; another content fails the boot.",
        examples=["adbd3d27ba6c00bd7b7cf98cc8811c6ad860427ecd5de59527466b21472c0d93"],
    )
    args: tuple[str, ...] = Field(
        default=(),
        description="Its arguments, which are in user-data and state: no secrets.",
        examples=[["--cache", "/scratch"]],
    )


class CustomActions(Model):
    """Scripts that root runs at the first boot of every node, in their order; one that fails fails the boot."""

    on_node_start: tuple[Action, ...] = Field(default=(), description="Scripts before everything else that first boot does.")
    on_node_configured: tuple[Action, ...] = Field(
        default=(), description="Scripts after everything else; on nodes that Slurm starts, before slurmd does."
    )
