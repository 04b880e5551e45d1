"""Facts with sources: shapes, images, prices, and the environment that NCCL needs on them."""

from __future__ import annotations

from catalogue.environments import ENVIRONMENTS, GENERIC, Environment
from catalogue.images import IMAGES, Homes, ImageFamily
from catalogue.prices import PRICES, Price
from catalogue.servers import SERVERS
from catalogue.shapes import SHAPES, Rdma, Shape, nearest

__all__ = [
    "ENVIRONMENTS",
    "GENERIC",
    "IMAGES",
    "PRICES",
    "SERVERS",
    "SHAPES",
    "Environment",
    "Homes",
    "ImageFamily",
    "Price",
    "Rdma",
    "Shape",
    "nearest",
]
