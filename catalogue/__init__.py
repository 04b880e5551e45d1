"""Facts with sources: shapes, images and the environment that NCCL wants on them.

Pure data on the standard library. It deliberately knows nothing of Pulumi, of a cloud's API or of what a user asked for.
"""

from __future__ import annotations

from catalogue.environments import ENVIRONMENTS, Environment
from catalogue.images import IMAGES, ImageFamily
from catalogue.shapes import SHAPES, Rdma, Shape, nearest

__all__ = ["ENVIRONMENTS", "IMAGES", "SHAPES", "Environment", "ImageFamily", "Rdma", "Shape", "nearest"]
