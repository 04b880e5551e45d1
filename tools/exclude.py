"""Leave one node of a stack out; the next update measures the other nodes.

pulumi stack export --stack STACK | python -m tools.exclude NODE STACK FILE && pulumi up --stack STACK

FILE is the stack file; the program changes it, so that it no longer requests the node. On OCI the program also runs the
vendor's own tool, which detaches and terminates the node and shrinks its pool. On AWS, machines are numbered, and the program
adds the node's number to the list of numbers that are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from tools.replace import detach, instance_at, node_of
from tools.stack_commands import RefusedError, Run, ended, shown


def exclude(state: dict[str, Any], name: str, stack: str, file: Path, run: Run) -> None:
    """Leave out the node `name` of the exported `state`; `run` runs a command and returns what it prints.

    Raises:
        RefusedError: the node does not exist or cannot be left out.
    """
    target, node = node_of(state, name)
    resources = state["deployment"]["resources"]
    config = yaml.safe_load(file.read_text())["config"]
    if target == "kubernetes":
        change = _of_cluster(config, name)
    elif target == "hosts":
        change = _hosts(config, name)
    elif target == "aws":
        change = _machine(config, node, int(instance_at(resources, node["address"])["outputs"]["tags"]["busbar:index"]))
    else:
        change = _pool(config, node)
        detach(resources, node, run, smaller=True)
    run(["pulumi", "config", *change, "--stack", stack, "--config-file", str(file)])


def _hosts(config: dict[str, Any], name: str) -> list[str]:
    """Return the change to a stack file of target `hosts` that leaves out a machine."""
    group = config["busbar:hosts"]
    if name not in group.get("nodes", {}):
        if not group.get("inventory"):
            raise RefusedError(f"{name} is not in hosts.nodes any more; run make up, which measures the other machines")
        raise RefusedError(f"{name} is named in {group['inventory']}; remove it from that file, and run make up")
    if len(group["nodes"]) == 1:
        raise RefusedError(f"{name} is the only machine; without it nothing can be measured")
    return ["rm", "--path", f'busbar:hosts.nodes["{name}"]']


def _of_cluster(config: dict[str, Any], name: str) -> list[str]:
    """Return the change to a stack file that leaves out a node of an existing Kubernetes cluster."""
    nodes = config["busbar:kubernetes"]["nodes"]
    if len(nodes) == 1:
        raise RefusedError(f"{name} is the only node; without it nothing can be measured")
    return ["rm", "--path", f"busbar:kubernetes.nodes[{nodes.index(name)}]"]


def _machine(config: dict[str, Any], node: dict[str, str], number: int) -> list[str]:
    """Return the change to a stack file that leaves out machine `number` of a queue."""
    keys = []
    for at, queue in enumerate(config["busbar:aws"]["queues"]):
        for index, one in enumerate(queue["machines"]):
            keys.append(f"{queue['name']}-{one['name']}")
            if keys[-1] == node["pool"]:
                left_out = one.get("leaveOut") or []
                if one.get("static", 0) - len({*left_out, number}) < 2:  # noqa: PLR2004 - EFA is measured from 2 on
                    raise RefusedError(
                        f"{node['name']} is one of 2 machines of {node['pool']}, but EFA is measured between machines, so at "
                        "least 2 must remain; make replace recreates a machine"
                    )
                path = f"busbar:aws.queues[{at}].machines[{index}].leaveOut[{len(left_out)}]"
                return ["set", "--path", path, str(number)]
    raise RefusedError(f"the stack file has no machines {node['pool']}; it has {', '.join(keys)}")


def _pool(config: dict[str, Any], node: dict[str, str]) -> list[str]:
    """Return the change to a stack file that makes a node's pool smaller by one."""
    pools = config["busbar:oci"]["pools"]
    for index, pool in enumerate(pools):
        if pool["name"] == node["pool"]:
            if not pool.get("clusterNetwork", True):
                raise RefusedError(f"{node['name']} is the only node of {node['pool']}; make replace recreates it")
            if pool["nodes"] <= 2:  # noqa: PLR2004 - a cluster network has at least two nodes
                raise RefusedError(
                    f"{node['pool']} has {pool['nodes']} nodes, and a cluster network needs at least 2; "
                    "make replace recreates a node"
                )
            return ["set", "--path", f"busbar:oci.pools[{index}].nodes", str(pool["nodes"] - 1)]
    raise RefusedError(f"the stack file has no pool {node['pool']}; it has {', '.join(pool['name'] for pool in pools)}")


def main(argv: list[str]) -> int:
    """Leave out the node that `argv` names; return an exit status."""
    if len(argv) != 3 or not argv[0]:  # noqa: PLR2004 - node, stack and file
        sys.stderr.write("exclude: say which node: make exclude NODE=NAME, with a name that `make status` shows\n")
        return 2
    return ended("exclude", lambda: exclude(json.load(sys.stdin), argv[0], argv[1], Path(argv[2]), shown))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
