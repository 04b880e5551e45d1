"""What the measurement has to reach to be accepted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from config.measure import Collective
from config.model import Model
from config.units import Bytes, GbS

Skippable = Literal["transport", "spread", "looks", "proofs", "upgrade"]
_Rate = Annotated[GbS, Field(gt=0)]


@dataclass(frozen=True)
class Limit:
    """A minimum in the stack file: `collective` must reach `busbw_gb_s` at `size_bytes`, out-of-place.

    The minimum is for real machines; in a rehearsal it is divided by the scale.
    """

    collective: str
    size_bytes: int
    busbw_gb_s: float


class Accept(Model):
    """When a measured cluster is accepted."""

    gate_gb_s: _Rate | None = Field(
        default=None,
        description="Bus bandwidth that the largest size must reach. null sets it to a fraction of what the line rates allow.",
    )
    limits: dict[Collective, dict[Bytes, _Rate]] = Field(
        default={},
        description="Out-of-place bus bandwidth that a collective must reach at a size, by collective and size.",
        examples=[{"all_gather": {"1G": "300 GB/s"}}],
    )
    allow_skipped: tuple[Skippable, ...] = Field(
        default=(), description="Checks that may be skipped without making the verdict unknown.", examples=[["spread"]]
    )

    scale: int = Field(
        default=1,
        ge=1,
        description="For a rehearsal: how many times slower its links are than real links. The preview divides the expected "
        "bus bandwidth and the gate by this number.",
        examples=[4000],
    )

    @property
    def own_limits(self) -> tuple[Limit, ...]:
        """The minimums for individual collectives and sizes."""
        return tuple(Limit(name, size, rate) for name, by_size in self.limits.items() for size, rate in by_size.items())
