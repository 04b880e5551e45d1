"""To replace one node, the method of its cloud is used, and no other machine is terminated."""

from __future__ import annotations

import json
from typing import Any

import pytest
from exported_state import INSTANCES, POOL, state

from tools import replace

WHERE = ["--stack", "dev", "--config-file", "copy.yaml"]
UP = ["pulumi", "up", "--yes", "--skip-preview", "--suppress-outputs", *WHERE]


def ran(exported: dict[str, Any], name: str, listed: list[dict[str, str]] | None = None) -> list[list[str]]:
    """Return the commands that run if the node `name` is replaced."""
    commands = []

    def run(words: list[str]) -> str:
        commands.append(words)
        return json.dumps({"data": listed}) if "list-instances" in words else ""

    replace.replace(exported, name, WHERE, run)
    return commands


def test_on_oci_the_update_comes_after_the_nodes_termination_which_does_not_shrink_the_pool():
    listed = [{"id": "ocid.2", "display-name": "gpu-2"}, {"id": "ocid.3", "display-name": "gpu-3"}]
    look, detach, up = ran(state("oci", POOL), "gpu-3", listed)
    assert look[-4:] == ["--compartment-id", "c", "--cluster-network-id", "network"]
    assert detach[2:4] == ["instance-pool-instance", "detach"]
    assert detach[4:] == [
        *("--instance-pool-id", "pool", "--instance-id", "ocid.3"),
        *("--is-auto-terminate", "true", "--is-decrement-size", "false"),
    ]
    assert up == UP


def test_on_oci_the_vendors_tool_asks_the_stacks_region_and_reads_every_page():
    provider = {"type": "pulumi:providers:oci", "urn": "urn::default_oci", "inputs": {"region": "ap-tokyo-1"}}
    look, detach, _ = ran(state("oci", POOL, provider), "gpu-3", [{"id": "ocid.3", "display-name": "gpu-3"}])
    assert "--all" in look
    assert look[-2:] == detach[-2:] == ["--region", "ap-tokyo-1"]


def test_on_oci_an_empty_pool_for_which_the_vendors_tool_prints_nothing_has_no_such_node():
    with pytest.raises(replace.RefusedError, match="gpu-2 is not in its pool any more"):
        replace.detach([POOL], {"name": "gpu-2", "pool": "gpu"}, lambda _: "", smaller=False)


def test_on_oci_a_single_instance_is_replaced():
    single = {"type": "oci:Core/instance:Instance", "urn": "urn::cluster-pool-gpu-node", "outputs": {}}
    assert ran(state("oci", single), "gpu-2") == [[*UP, "--replace", "urn::cluster-pool-gpu-node"]]


def test_replacing_a_node_on_aws_replaces_only_its_instance_and_permits_the_termination_of_one_instance():
    allow, up = ran(state("aws", *INSTANCES), "gpu-3")
    assert allow == ["pulumi", "config", "set", "--path", "busbar:aws.allowReplace", "1", *WHERE]
    assert up == [*UP, "--replace", "urn::cluster-pool-gpu-3"]


@pytest.mark.parametrize(
    ("exported", "name", "says"),
    [
        (state("oci", POOL), "gpu-9", "NODE is 'gpu-9'; it must be one of gpu-2, gpu-3"),
        ({"deployment": {}}, "gpu-2", "NODE is 'gpu-2', but the stack has no nodes"),
        (state("hosts"), "gpu-2", "gpu-2 is yours, and the stack cannot replace it"),
        (state("kubernetes"), "gpu-2", "gpu-2 is yours, and the stack cannot replace it"),
        (state("aws"), "gpu-2", "the state has no instance at 10.0.1.2"),
        (state("oci", POOL), "gpu-2", "gpu-2 is not in its pool any more"),
    ],
    ids=["an unknown name", "no nodes", "hosts", "kubernetes", "no instance", "a node that is gone"],
)
def test_a_node_that_cannot_be_replaced_is_refused_and_nothing_is_terminated(exported, name, says):
    commands = []

    def run(words: list[str]) -> str:
        commands.append(words)
        return '{"data": []}'

    with pytest.raises(replace.RefusedError) as refused:
        replace.replace(exported, name, WHERE, run)
    assert says in str(refused.value)
    assert not [words for words in commands if "detach" in words or "up" in words]


def test_make_replace_without_the_name_of_a_node_says_what_to_type(capsys):
    assert replace.main([""]) == 2
    assert "make replace NODE=NAME" in capsys.readouterr().err
