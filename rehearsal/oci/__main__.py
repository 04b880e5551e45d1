"""Start the provider plugin of the stand-in OCI; the engine reads the port that the plugin prints."""

# ruff: noqa: E402  start_fast must run before imports from pulumi

from __future__ import annotations

import os
import sys

# The engine does not need gRPC's fork handlers, and their warnings would appear in a user's output.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from rehearsal import protocol

protocol.start_fast()

from rehearsal.oci.cloud import Cloud
from rehearsal.oci.server import Provider
from rehearsal.plugin.server import serve
from rehearsal.world.world import World

try:
    serve(Provider(Cloud(World.current())))
except RuntimeError as problem:
    sys.stderr.write(f"pulumi-resource-oci: {problem}\n")
    sys.exit(2)
