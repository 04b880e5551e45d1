"""The vendor's CLI on the operator's machine, limited to the commands in our docs: `oci compute-management ...`.

Sources: OCI CLI, `compute-management instance-pool-instance detach`, `compute-management cluster-network list-instances`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from rehearsal.oci.cloud import Cloud
from rehearsal.oci.lookups import answer
from rehearsal.oci.pools import ClusterNetwork
from rehearsal.plugin.errors import RequestTimeoutError, ServiceError
from rehearsal.world.world import World

#: Number of rows on one page; without `--all`, the CLI prints one page. The service's pages are larger.
_PAGE = 10


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("oci", allow_abbrev=False)
    verbs = (
        parser.add_subparsers(required=True).add_parser("compute-management", allow_abbrev=False).add_subparsers(required=True)
    )
    detach = verbs.add_parser("instance-pool-instance").add_subparsers(required=True).add_parser("detach", allow_abbrev=False)
    detach.add_argument("--instance-pool-id", required=True)
    detach.add_argument("--instance-id", required=True)
    # This stand-in detaches an instance only if it is also terminated. --is-decrement-size is required here; in the vendor's
    # CLI the option may be omitted, and is then true.
    detach.add_argument("--is-auto-terminate", required=True, choices=["true"])
    detach.add_argument("--is-decrement-size", required=True, choices=["true", "false"])
    detach.add_argument("--region")
    detach.set_defaults(work=_detach)
    listing = verbs.add_parser("cluster-network").add_subparsers(required=True).add_parser("list-instances", allow_abbrev=False)
    listing.add_argument("--compartment-id", required=True)
    listing.add_argument("--cluster-network-id", required=True)
    listing.add_argument("--region")
    listing.add_argument("--all", action="store_true")
    listing.set_defaults(work=_instances)
    return parser.parse_args(words)


def _detach(cloud: Cloud, asked: argparse.Namespace) -> None:
    smaller = asked.is_decrement_size == "true"
    ClusterNetwork().detach(cloud, asked.instance_pool_id, asked.instance_id, smaller=smaller)


def _instances(cloud: Cloud, asked: argparse.Namespace) -> None:
    question = {"compartmentId": asked.compartment_id, "clusterNetworkId": asked.cluster_network_id}
    found = answer("oci:Core/getClusterNetworkInstances:getClusterNetworkInstances", question, cloud.store.read())
    shown = ("id", "displayName", "state", "timeCreated")
    names = ("id", "display-name", "lifecycle-state", "time-created")
    rows = [dict(zip(names, (one[key] for key in shown), strict=True)) for one in found["instances"]]
    if not asked.all:
        rows = rows[:_PAGE]
    if rows:
        sys.stdout.write(json.dumps({"data": rows}, indent=2) + "\n")


def main(words: Sequence[str]) -> int:
    """Carry out the command line `words`; return 1 if the service refuses."""
    asked = _arguments(words)
    try:
        asked.work(Cloud(World.current()), asked)
    except (ServiceError, RequestTimeoutError) as refused:
        sys.stderr.write(f"ServiceError:\n{refused}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
