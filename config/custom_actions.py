"""A user's own scripts at the first boot of nodes: custom actions, as ParallelCluster calls them."""

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
            f"is {value!r}; it must be an https or http address, without a user, spaces, quotes or backslashes, that nodes can "
            "fetch with curl"
        )
    return value


class Action(Model):
    """One script."""

    script: Annotated[str, AfterValidator(_address)] = Field(
        description="Address of the script; every node fetches it at first boot.", examples=["https://example.com/setup.sh"]
    )
    sha256: Sha256 = Field(
        description="sha256 of the script; if the fetched content differs, first boot fails.",
        examples=["adbd3d27ba6c00bd7b7cf98cc8811c6ad860427ecd5de59527466b21472c0d93"],
    )
    args: tuple[str, ...] = Field(
        default=(),
        description="Arguments of the script. They are stored in user-data and in the state, so they must contain no secrets.",
        examples=[["--cache", "/scratch"]],
    )


class CustomActions(Model):
    """Scripts that root runs at the first boot of every node, in the given order; if a script fails, first boot fails."""

    on_node_start: tuple[Action, ...] = Field(default=(), description="Scripts that run before all other steps of first boot.")
    on_node_configured: tuple[Action, ...] = Field(
        default=(),
        description="Scripts that run after all other steps of first boot; on nodes that Slurm starts, before slurmd starts.",
    )
