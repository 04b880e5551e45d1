"""A second Pulumi program: takes the measured bandwidth of a cluster as an input, and stops if the bandwidth is too low.

The program reads only the outputs of the cluster's stack, in version 1 (docs/outputs.schema.json). If `publicKey` is set, it
also demands a certificate that this key signed, and takes the machines from the certificate. In that case, somebody who can
write to the cluster's state but lacks the signing key cannot make this program accept a slow cluster or other machines. If
`asked` is set, it is the digest of a request, and the certificate must also be for this request.
"""

from __future__ import annotations

from typing import Any

import pulumi
from busbar_certificate import require_certificate

config = pulumi.Config()
cluster = pulumi.StackReference(config.require("cluster"))
needed_gb_s = config.require_float("needGbS")
public_key = config.get("publicKey")


def usable(found: list[Any]) -> float:
    """Return the measured bus bandwidth, or end the program if no work may be planned on the cluster."""
    schema, measured = found
    if schema != 1:
        raise pulumi.RunError(f"the cluster's outputs are of version {schema}; this program reads version 1.")
    verdict, busbw_gb_s, scale = measured["verdict"], measured["busbw_gb_s"], measured["scale"]
    if verdict != "pass":
        raise pulumi.RunError(f"the cluster's verdict is {verdict}, not pass; no work is planned on it.")
    if busbw_gb_s < needed_gb_s / scale:
        raise pulumi.RunError(f"the cluster gives {busbw_gb_s:.4g} GB/s, but this work needs {needed_gb_s / scale:.4g} GB/s.")
    if scale != 1:
        pulumi.log.warn(f"the cluster is rehearsed at 1/{scale}: no work can be done on it")
    return float(busbw_gb_s)


if public_key:
    attested = require_certificate(
        cluster,
        public_key,
        collective="all_reduce",
        min_busbw_gb_s=needed_gb_s,
        allow_rehearsed=config.get_bool("allowRehearsed") or False,
        asked=config.get("asked") or None,
    )
    pulumi.export("attested_until", attested.apply(lambda said: said["expires"]))
    # Each value is machine@address. The stack's output `nodes` is not used, because it is not signed.
    hosts = attested.apply(lambda said: [machine.rpartition("@")[2] for _, machine in sorted(said["nodes"].items())])
else:
    hosts = cluster.require_output("nodes").apply(lambda nodes: [node["address"] for node in nodes])
found = pulumi.Output.all(cluster.require_output("schema"), cluster.require_output("measured"))
pulumi.export("busbw_gb_s", found.apply(usable))
pulumi.export("hosts", hosts)
