"""Start the provider plugin of the stand-in AWS; the engine reads the port that the plugin prints."""

# ruff: noqa: E402  start_fast must run before imports from pulumi

from __future__ import annotations

import os
import sys

# The engine does not need gRPC's fork handlers, and their warnings would appear in a user's output.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from rehearsal import protocol

protocol.start_fast()

from rehearsal.aws import models
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.server import Provider
from rehearsal.plugin.server import serve
from rehearsal.world.world import World

try:
    models.present()
    serve(Provider(Cloud(World.current())))
except (RuntimeError, ValueError) as problem:
    sys.stderr.write(f"pulumi-resource-aws: {problem}\n")
    sys.exit(2)
