"""`make exclude` leaves one node out of the stack, and no other machine is terminated."""

from __future__ import annotations

import json

import pytest
from exported_state import INSTANCES, POOL, state

from tools import exclude
from tools.replace import RefusedError

OCI = """config:
  busbar:oci:
    pools:
      - {name: other, nodes: 2}
      - {name: gpu, nodes: 3}
"""
HOSTS = """config:
  busbar:hosts:
    nodes:
      gpu-2: 10.0.1.2
      gpu-3: 10.0.1.3
"""


AWS = """config:
  busbar:aws:
    queues:
      - {name: other, machines: [{name: p5, static: 4}]}
      - {name: g, machines: [{name: x, static: 2}, {name: pu, static: 4}]}
"""
NUMBERED = [
    {**one, "outputs": {**one["outputs"], "tags": {"busbar:index": str(number)}}} for number, one in enumerate(INSTANCES, 1)
]


def aws(*resources):
    """Return the state of a stack on AWS whose nodes all belong to one entry: `pu` under `machines` of queue `g`."""
    found = state("aws", *resources)
    (stack,) = [one for one in found["deployment"]["resources"] if one["urn"] == "urn::dev"]
    stack["outputs"] = stack["outputs"] | {"nodes": [one | {"pool": "g-pu"} for one in stack["outputs"]["nodes"]]}
    return found


@pytest.fixture
def left_out(tmp_path):
    """Return a function that leaves a node out of a stack, and returns the commands that ran and the reason of a refusal."""

    def commands(exported, name, text, listed=()):
        (tmp_path / "stack.yaml").write_text(text)
        ran: list[list[str]] = []

        def run(words):
            ran.append(words)
            return json.dumps({"data": list(listed)}) if "list-instances" in words else ""

        try:
            exclude.exclude(exported, name, "dev", tmp_path / "stack.yaml", run)
        except RefusedError as refused:
            return ran, str(refused)
        return ran, ""

    return commands


def test_on_oci_the_node_is_terminated_and_its_pool_shrinks_and_the_stack_file_has_one_node_less(left_out, tmp_path):
    listed = [{"id": "ocid.2", "display-name": "gpu-2"}, {"id": "ocid.3", "display-name": "gpu-3"}]
    (_look, detach, config), why = left_out(state("oci", POOL), "gpu-3", OCI, listed)
    assert why == ""
    assert detach[-6:] == ["--instance-id", "ocid.3", "--is-auto-terminate", "true", "--is-decrement-size", "true"]
    place = ["--stack", "dev", "--config-file", str(tmp_path / "stack.yaml")]
    assert config == ["pulumi", "config", "set", "--path", "busbar:oci.pools[1].nodes", "2", *place]


@pytest.mark.parametrize(("already", "place"), [("", 0), (", leaveOut: [0]", 1)], ids=["the first index", "a further index"])
def test_on_aws_leaving_out_a_node_only_sets_its_index_in_the_stack_file(left_out, already, place):
    (config,), why = left_out(aws(*NUMBERED), "gpu-3", AWS.replace("pu, static: 4", f"pu, static: 4{already}"))
    assert why == ""
    assert config[2:6] == ["set", "--path", f"busbar:aws.queues[1].machines[1].leaveOut[{place}]", "2"]


def test_an_existing_machine_is_removed_from_the_stack_file_and_nothing_else_happens(left_out, tmp_path):
    ran, why = left_out(state("hosts"), "gpu-3", HOSTS)
    place = ["--stack", "dev", "--config-file", str(tmp_path / "stack.yaml")]
    assert (ran, why) == ([["pulumi", "config", "rm", "--path", 'busbar:hosts.nodes["gpu-3"]', *place]], "")


@pytest.mark.parametrize(
    ("exported", "name", "text", "says"),
    [
        (state("oci", POOL), "gpu-9", OCI, "NODE is 'gpu-9'; it must be one of gpu-2, gpu-3"),
        (state("oci", POOL), "gpu-3", OCI.replace("nodes: 3", "nodes: 2"), "a cluster network needs at least 2"),
        (state("oci", POOL), "gpu-3", OCI.replace("nodes: 3", "nodes: 1, clusterNetwork: false"), "is the only node of gpu"),
        (state("oci", POOL), "gpu-3", OCI.replace("name: gpu", "name: more"), "has no pool gpu; it has other, more"),
        (aws(*NUMBERED), "gpu-3", AWS.replace("pu, static: 4", "pu, static: 2"), "is one of 2 machines of g-pu"),
        (aws(*NUMBERED), "gpu-3", AWS.replace("pu", "un"), "no machines g-pu; it has other-p5, g-x"),
        (aws(), "gpu-3", AWS, "the state has no instance at 10.0.1.3"),
        (state("hosts"), "gpu-3", HOSTS.replace("      gpu-2: 10.0.1.2\n", ""), "is the only machine"),
        (state("hosts"), "gpu-3", "config: {busbar:hosts: {inventory: machines.ini}}", "is named in machines.ini"),
        (state("hosts"), "gpu-3", "config: {busbar:hosts: {nodes: {gpu-2: 10.0.1.2}}}", "gpu-3 is not in hosts.nodes any more"),
    ],
    ids=[
        "an unknown name",
        "a network of two nodes",
        "the only node",
        "another pool",
        "two machines are left",
        "another entry",
        "no instance",
        "the only machine",
        "an inventory",
        "already removed",
    ],
)
def test_a_node_that_cannot_be_left_out_is_refused_and_nothing_is_terminated(left_out, exported, name, text, says):
    ran, why = left_out(exported, name, text)
    assert says in why
    assert ran == []


def test_make_exclude_without_a_name_says_what_to_type(capsys):
    assert exclude.main(["", "dev", "file"]) == 2
    assert "make exclude NODE=NAME" in capsys.readouterr().err


def test_on_kubernetes_the_node_is_removed_from_the_list_but_the_only_node_is_refused(left_out, tmp_path):
    text = "config:\n  busbar:kubernetes: {nodes: [gpu-2, gpu-3]}\n"
    ran, why = left_out(state("kubernetes"), "gpu-3", text)
    place = ["--stack", "dev", "--config-file", str(tmp_path / "stack.yaml")]
    assert (ran, why) == ([["pulumi", "config", "rm", "--path", "busbar:kubernetes.nodes[1]", *place]], "")
    ran, why = left_out(state("kubernetes"), "gpu-3", "config:\n  busbar:kubernetes: {nodes: [gpu-3]}\n")
    assert (ran, why) == ([], "gpu-3 is the only node; without it nothing can be measured")
