"""Recreate one node of a stack, and measure: pulumi stack export | python -m tools.replace NODE ENGINE-WORD...

The ENGINE-WORDs are the arguments of `pulumi up` that name the stack and its stack file. On AWS, this program sets
`allowReplace` to 1 in that file, so name a copy of your stack file.
On OCI the vendor's own tool detaches the node, and the node's pool creates another node; an instance outside a pool is
replaced.
Machines that the stack did not make are refused.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tools.stack_commands import RefusedError, Run, ended, shown


def replace(state: dict[str, Any], name: str, where: list[str], run: Run) -> None:
    """Replace the node `name` of the exported `state`; `run` runs a command and returns what it prints.

    Raises:
        RefusedError: there is no such node, the stack does not create it, or the cloud does not have it any more.
    """
    resources = state["deployment"].get("resources") or []
    target, node = node_of(state, name)
    again = ["pulumi", "up", "--yes", "--skip-preview", "--suppress-outputs", *where]
    if target in {"hosts", "kubernetes"}:
        raise RefusedError(
            f"{name} is yours, and the stack cannot replace it: repair it and measure again, or remove it from {target}.nodes"
        )
    if target == "aws":
        urn = str(instance_at(resources, node["address"])["urn"])
        run(["pulumi", "config", "set", "--path", "busbar:aws.allowReplace", "1", *where])
        run([*again, "--replace", urn])
        return
    single = [one["urn"] for one in resources if one["urn"].endswith(f"::cluster-pool-{node['pool']}-node")]
    if single:
        run([*again, "--replace", single[0]])
        return
    detach(resources, node, run, smaller=False)
    run(again)


def node_of(state: dict[str, Any], name: str) -> tuple[str, dict[str, str]]:
    """Return the target of an exported state (`oci`, `aws` ...), and the node with this name.

    Raises:
        RefusedError: there is no such node.
    """
    resources = state["deployment"].get("resources") or []
    stack = [one for one in resources if one["type"] == "pulumi:pulumi:Stack"]
    found: dict[str, Any] = stack[0].get("outputs", {}) if stack else {}
    nodes = {one["name"]: one for one in found.get("nodes") or []}
    if name not in nodes:
        raise RefusedError(
            f"NODE is {name!r}" + (f"; it must be one of {', '.join(nodes)}" if nodes else ", but the stack has no nodes")
        )
    return found["target"], nodes[name]


def instance_at(resources: list[dict[str, Any]], address: str) -> dict[str, Any]:
    """Return the EC2 instance with that private address.

    Raises:
        RefusedError: the state has no such instance.
    """
    for one in resources:
        if one["type"].endswith(":Instance") and one.get("outputs", {}).get("privateIp") == address:
            return one
    raise RefusedError(f"the state has no instance at {address}; refresh it with `pulumi refresh`")


def detach(resources: list[dict[str, Any]], node: dict[str, str], run: Run, *, smaller: bool) -> None:
    """Let OCI terminate the node. Then the pool creates another node or, if `smaller` is true, shrinks by one node."""
    (pool,) = [one["outputs"] for one in resources if one["urn"].endswith(f"::cluster-pool-{node['pool']}-nodes")]
    place = ["--compartment-id", pool["compartmentId"], "--cluster-network-id", pool["id"]]
    providers = [one.get("inputs", {}) for one in resources if one["type"] == "pulumi:providers:oci"]
    regions = {one["region"] for one in providers if "region" in one}
    here = ["--region", regions.pop()] if len(regions) == 1 else []  # without --region, `oci` reads ~/.oci/config
    listing = ["oci", "compute-management", "cluster-network", "list-instances", "--all", *place, *here]
    listed = json.loads(run(listing) or "{}").get("data", [])  # the CLI prints nothing if there are no instances
    ids = [one["id"] for one in listed if one["display-name"] == node["name"]]
    if not ids:
        raise RefusedError(f"{node['name']} is not in its pool any more; run make up, which measures the pool's current nodes")
    which = ["--instance-pool-id", pool["instancePools"][0]["id"], "--instance-id", ids[0]]
    how = ["--is-auto-terminate", "true", "--is-decrement-size", "true" if smaller else "false"]
    run(["oci", "compute-management", "instance-pool-instance", "detach", *which, *how, *here])


def main(argv: list[str]) -> int:
    """Replace the node that `argv` names; return an exit status."""
    if not argv or not argv[0]:
        sys.stderr.write("replace: say which node: make replace NODE=NAME, with a name that `make status` shows\n")
        return 2
    return ended("replace", lambda: replace(json.load(sys.stdin), argv[0], argv[1:], shown))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
