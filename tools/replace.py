"""Have one node of a stack made anew, and measure: pulumi stack export | python -m tools.replace NODE ENGINE-WORD...

The words are those of `pulumi up` that name stack and stack file; on AWS the file's `allowReplace` becomes 1, so give a copy.
On OCI the pool makes it anew when the vendor's own tool detaches it. Machines that the stack did not make are refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

Run = Callable[[list[str]], str]


class RefusedError(Exception):
    """The node cannot be made anew; the message is one sentence."""


def replace(state: dict[str, Any], name: str, where: list[str], run: Run) -> None:
    """Replace the node `name` of the exported `state`; `run` runs a command and returns what it prints.

    Raises:
        RefusedError: there is no such node, or the stack does not make it.
    """
    resources = state["deployment"].get("resources") or []
    target, nodes = nodes_of(state)
    if name not in nodes:
        raise RefusedError(f"NODE is {name!r}; it must be one of {', '.join(nodes) or 'none, as the stack has no nodes'}")
    again = ["pulumi", "up", "--yes", "--skip-preview", "--suppress-outputs", *where]
    if target == "hosts":
        raise RefusedError(
            f"{name} is yours, and the stack cannot make it anew: mend it and measure again, or take it out of hosts.nodes"
        )
    if target == "aws":
        urn = _instance(resources, nodes[name]["address"])
        run(["pulumi", "config", "set", "--path", "busbar:aws.allowReplace", "1", *where])
        run([*again, "--replace", urn])
        return
    detach(resources, nodes[name], run, smaller=False)
    run(again)


def nodes_of(state: dict[str, Any]) -> tuple[str, dict[str, dict[str, str]]]:
    """Return target and nodes by name of an exported state; an empty one has neither."""
    resources = state["deployment"].get("resources") or []
    stack = [one for one in resources if one["type"] == "pulumi:pulumi:Stack"]
    found: dict[str, Any] = stack[0].get("outputs", {}) if stack else {}
    return found.get("target", ""), {one["name"]: one for one in found.get("nodes") or []}


def _instance(resources: list[dict[str, Any]], address: str) -> str:
    """Return the URN of the EC2 instance with that private address."""
    for one in resources:
        if one["type"].endswith(":Instance") and one.get("outputs", {}).get("privateIp") == address:
            return str(one["urn"])
    raise RefusedError(f"the state has no instance at {address}; refresh it with `pulumi refresh`")


def detach(resources: list[dict[str, Any]], node: dict[str, str], run: Run, *, smaller: bool) -> None:
    """Let OCI end the node; its pool makes another one unless it is to be `smaller`."""
    (pool,) = [one["outputs"] for one in resources if one["urn"].endswith(f"::cluster-pool-{node['pool']}-nodes")]
    place = ["--compartment-id", pool["compartmentId"], "--cluster-network-id", pool["id"]]
    listed = json.loads(run(["oci", "compute-management", "cluster-network", "list-instances", *place]))["data"]
    ids = [one["id"] for one in listed if one["display-name"] == node["name"]]
    if not ids:
        raise RefusedError(f"{node['name']} is not in its pool any more; the next update takes what is")
    which = ["--instance-pool-id", pool["instancePools"][0]["id"], "--instance-id", ids[0]]
    how = ["--is-auto-terminate", "true", "--is-decrement-size", "true" if smaller else "false"]
    run(["oci", "compute-management", "instance-pool-instance", "detach", *which, *how])


def _shown(words: list[str]) -> str:
    """Run a command of which only the vendor's listing is read; all else goes to the screen."""
    reads = "list-instances" in words
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE if reads else None).stdout or ""


def main(argv: list[str]) -> int:
    """Replace the node that `argv` names; return an exit status."""
    if not argv or not argv[0]:
        sys.stderr.write("replace: say which node: make replace NODE=NAME, with a name that `make status` shows\n")
        return 2
    try:
        replace(json.load(sys.stdin), argv[0], argv[1:], _shown)
    except RefusedError as refused:
        sys.stderr.write(f"replace: {refused}\n")
        return 1
    except subprocess.CalledProcessError as failed:
        return failed.returncode or 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
