"""Facts about machines, by vendor and with sources: shapes, images, and the settings that NCCL needs on each shape."""

from __future__ import annotations

from catalogue.environments import ENVIRONMENTS, GENERIC, Environment
from catalogue.homes import Homes
from catalogue.oci.images import IMAGES, ImageFamily
from catalogue.oci.shapes import SHAPES
from catalogue.prices import PRICES, Price
from catalogue.servers import SERVERS
from catalogue.shape import Rdma, Shape, nearest

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
