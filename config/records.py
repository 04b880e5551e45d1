"""Records of measurements that are kept in addition to the stack's state."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from catalogue import Price
from config.model import Model
from config.units import Days, Usd


def _key(value: str) -> str:
    path = Path(value).expanduser()
    if not path.is_file():
        raise ValueError(f"is {value!r}, but there is no such file; name an ed25519 private key, or leave the key out")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ValueError(f"is {value!r}, whose mode is {mode:04o}, so other users may use it; type `chmod 600 {path}`")
    return value


class Certificate(Model):
    """A signed statement of a pass."""

    key: Annotated[str, AfterValidator(_key)] | None = Field(
        default=None,
        description="File with the ed25519 private key (PEM or OpenSSH) that signs a pass; the key itself never enters the "
        "state. null for none.",
        examples=["~/.busbar/certificate.pem"],
    )
    days: Annotated[Days, Field(ge=1, le=3650)] = Field(default=30, description="How long a certificate is valid.")


class Records(Model):
    """Records of measurements that are kept in addition to the stack's state."""

    history: str | None = Field(
        default=".busbar/history",
        description="Where earlier runs are kept: a folder, or a URL such as s3://bucket/folder. null for none.",
        examples=["s3://bucket/folder"],
    )
    report: str | None = Field(
        default=".busbar/report",
        description="Folder for each stack's report, which is a page with pictures. null for none.",
        examples=["/srv/www"],
    )
    certificate: Certificate = Field(default=Certificate(), description="A signed statement of a pass.")
    price_per_node_hour_usd: Annotated[Usd, Field(gt=0)] | None = Field(
        default=None, description="Your hourly price of a node; null takes the list price if the catalogue has one."
    )

    @property
    def price(self) -> Price | None:
        """A node's price as the stack file gives it; None without `pricePerNodeHour`."""
        if self.price_per_node_hour_usd is None:
            return None
        return Price(self.price_per_node_hour_usd, "the stack's own records.pricePerNodeHour")
