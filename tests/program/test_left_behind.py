"""Machines that a killed update has created: nothing is rented beside them, and they are imported into the state."""

from __future__ import annotations

import functools
import json
from typing import Any

import pulumi
import pytest
from aws_program import PROFILE, nodes, program, ran
from conftest import HOOKS, Engine, run_program
from created import URN, asked
from dev_stack import LINES

from components import left_behind
from components.oci.tagged_machines import networks_named
from tools import take_in
from tools.stack_commands import RefusedError

#: A cluster network with the name and the tags that the program sets, as the first test checks.
NETWORK = {
    "id": "ocid1.clusternetwork.oc1..lost",
    "displayName": "busbar-gpu",
    "state": "RUNNING",
    "timeCreated": "2026-11-24",
    "freeformTags": {"busbar-stack": "dev"},
}


@pytest.fixture
def account(monkeypatch):
    """The cluster networks that the account reports."""
    found: list[dict[str, Any]] = []
    genuine = Engine.call

    def call(self, args):
        return {"clusterNetworks": found} if args.token.endswith(":getClusterNetworks") else genuine(self, args)

    monkeypatch.setattr(Engine, "call", call)
    return found


@pytest.fixture(autouse=True)
def state(monkeypatch) -> set[str]:
    """The ids of the resources in the engine's state; a test may add ids."""
    known: set[str] = set()
    monkeypatch.setattr(left_behind, "ids_in_state", lambda: known)
    monkeypatch.delenv(left_behind.NOTED, raising=False)
    return known


def test_a_running_network_that_is_missing_from_the_stacks_state_prevents_the_creation_of_another_network(account):
    (made,) = [inputs for _, name, inputs in run_program(LINES).resources if name == "cluster-pool-gpu-nodes"]
    assert NETWORK["displayName"] == made["displayName"]
    assert NETWORK["freeformTags"].items() <= made["freeformTags"].items()
    hook = HOOKS["cluster-pool-gpu-nodes-never-twice"]
    asked(hook)
    account.append(NETWORK)
    with pytest.raises(pulumi.RunError) as refused:
        asked(hook)
    said = str(refused.value)
    assert said.startswith("busbar-gpu (ocid1.clusternetwork.oc1..lost, since 2026-11-24) runs under this stack's name")
    assert "Import it into the state with `python -m tools.take_in dev`" in said


OTHERS = [{"state": "TERMINATING"}, {"freeformTags": {"busbar-stack": "second"}}, {"freeformTags": None}]


@pytest.mark.parametrize("other", OTHERS)
def test_a_terminating_network_or_a_network_of_another_stack_does_not_prevent_the_creation_of_a_network(account, other):
    run_program(LINES)
    account.append(NETWORK | other)
    asked(HOOKS["cluster-pool-gpu-nodes-never-twice"])


def test_a_network_in_the_state_can_be_replaced(account, state):
    run_program(LINES)
    account.append(NETWORK)
    state.add(NETWORK["id"])
    asked(HOOKS["cluster-pool-gpu-nodes-never-twice"])


def test_a_preview_also_refuses_a_second_network_and_notes_the_id_of_the_first_network_for_the_import_tool(
    account, monkeypatch, tmp_path
):
    run_program(LINES, preview=True)
    account.append(NETWORK)
    find = functools.partial(networks_named, "ocid1.compartment.oc1..aaaa", "busbar-gpu")
    (hook,) = left_behind.never_twice("nodes", find, right="look", preflight=True).before_create or ()
    assert isinstance(hook, pulumi.ResourceHook)
    with pytest.raises(pulumi.RunError, match="an update that was killed created this machine"):
        asked(hook)
    monkeypatch.setenv(left_behind.NOTED, str(tmp_path / "note"))
    asked(hook)
    assert json.loads((tmp_path / "note").read_text()) == [URN, NETWORK["id"]]
    (tmp_path / "note").unlink()
    account.append(NETWORK | {"id": "ocid1.clusternetwork.oc1..another"})
    asked(hook)
    noted = [tuple(json.loads(line)) for line in (tmp_path / "note").read_text().splitlines()]
    assert noted == [(URN, NETWORK["id"]), (URN, "ocid1.clusternetwork.oc1..another")]
    with pytest.raises(RefusedError, match=f"^{NETWORK['id']} and ocid1.clusternetwork.oc1..another run for one resource of"):
        take_in.found([{"op": "create", "urn": URN, "newState": {}}], noted)


def test_without_preflight_only_an_update_asks_the_account_for_machines_left_behind(account):
    account.append(NETWORK)
    run_program(LINES, preview=True, oci={"preflight": False})
    asked(HOOKS["cluster-pool-gpu-nodes-never-twice"])
    run_program(LINES, oci={"preflight": False})
    with pytest.raises(pulumi.RunError, match="is not in its state"):
        asked(HOOKS["cluster-pool-gpu-nodes-never-twice"])


def test_without_preflight_the_preview_of_the_import_tool_finds_machines_left_behind(account, monkeypatch, tmp_path):
    account.append(NETWORK)
    monkeypatch.setenv(left_behind.NOTED, str(tmp_path / "note"))
    run_program(LINES, preview=True, oci={"preflight": False})
    asked(HOOKS["cluster-pool-gpu-nodes-never-twice"])
    assert json.loads((tmp_path / "note").read_text()) == [URN, NETWORK["id"]]


def test_an_account_that_does_not_answer_is_reported_and_nothing_is_created(monkeypatch):
    run_program(LINES)
    genuine = Engine.call

    def call(self, args):
        if args.token.endswith(":getClusterNetworks"):
            raise ValueError('returned an error: Get "https://iaas": dial tcp: no such host\n* and more')
        return genuine(self, args)

    monkeypatch.setattr(Engine, "call", call)
    with pytest.raises(pulumi.RunError) as refused:
        asked(HOOKS["cluster-pool-gpu-nodes-never-twice"])
    said = str(refused.value)
    assert said.startswith("Whether a machine already runs for cluster-pool-gpu-nodes could not be looked up: ")
    assert "The look-up needs valid credentials and this permission: inspect instances and cluster networks" in said
    assert "\n" not in said


def test_a_login_node_left_behind_is_found_by_its_name_and_tags(monkeypatch):
    (made,) = [inputs for _, its, inputs in run_program(LINES).resources if its == "cluster-login-instance"]
    given = {key: made[key] for key in ("displayName", "freeformTags")}
    machine = {"id": "ocid1.instance.oc1..lost", "state": "PROVISIONING", "timeCreated": "today", **given}
    genuine = Engine.call

    def call(self, args):
        if not args.token.endswith(":getInstances"):
            return genuine(self, args)
        return {"instances": [machine] if args.args.get("displayName") == machine["displayName"] else []}

    monkeypatch.setattr(Engine, "call", call)
    with pytest.raises(
        pulumi.RunError, match=r"^busbar-login \(ocid1\.instance\.oc1\.\.lost, since today\) runs under this stack's"
    ):
        asked(HOOKS["cluster-login-instance-never-twice"])


def test_on_aws_a_running_machine_prevents_only_the_creation_of_the_node_with_the_same_number():
    two = {name: tags for name, tags in ran().items() if name != "i-2"}
    program(nodes(static=3), running=two)
    asked(HOOKS["cluster-pool-gpu-p5-2-never-twice"])
    with pytest.raises(pulumi.RunError, match=r"^i-1 \(10\.1\.0\.20\) runs under this stack's name but is not in its state"):
        asked(HOOKS["cluster-pool-gpu-p5-1-never-twice"])


def test_on_aws_a_second_login_node_of_this_stack_is_refused_and_nodes_of_other_stacks_prevent_nothing():
    program(nodes(static=3), running=ran(**{"busbar:stack": "second"}))
    asked(HOOKS["cluster-pool-gpu-p5-1-never-twice"])
    asked(HOOKS["cluster-login-instance-never-twice"])
    made = program()[0].named("cluster-login-instance")
    program(running={"i-login": made["tags"] | {PROFILE: "the login node's"}})
    with pytest.raises(pulumi.RunError, match=r"^i-login \(10\.1\.0\.20\) runs under this stack's name"):
        asked(HOOKS["cluster-login-instance-never-twice"])


def test_the_refusal_says_to_terminate_one_of_two_running_networks_by_hand(account, monkeypatch, tmp_path):
    monkeypatch.setenv(left_behind.NOTED, str(tmp_path / "note"))
    run_program(LINES)
    account += [NETWORK, NETWORK | {"id": "ocid1.clusternetwork.oc1..another"}]
    said = r"run under this stack's name but are not in its state: .* Terminate all machines but one by hand; `python -m tools"
    with pytest.raises(pulumi.RunError, match=said):
        asked(HOOKS["cluster-pool-gpu-nodes-never-twice"])
    assert not (tmp_path / "note").exists(), "the import tool cannot import two machines, so no id may be noted for it"


def test_the_import_takes_running_machines_that_are_missing_from_the_state_and_not_those_that_an_update_would_replace():
    ids = [(URN, "ocid1"), ("urn:replaced", "ocid2"), ("urn:replaced", "ocid4"), ("urn:gone", "ocid3")]
    new = {"urn": URN, "custom": True, "inputs": {"a": 1}}
    steps = [
        {"op": "create", "urn": URN, "newState": new},
        {"op": "create", "urn": "urn:other", "newState": {}},
        {"op": "create-replacement", "urn": "urn:replaced", "newState": {}},
    ]
    assert take_in.found(steps, ids) == [new | {"id": "ocid1", "outputs": {}}]
    assert take_in.NOTED == left_behind.NOTED


def test_the_imported_resources_are_added_to_the_state_and_the_rest_of_the_state_is_kept():
    mine, other = ({"type": "creating", "resource": {"urn": urn}} for urn in (URN, "urn:other"))
    state = {"manifest": {}, "resources": [{"urn": "urn:stack"}], "pending_operations": [mine, other]}
    after = take_in.taken(state, [{"urn": URN, "id": "ocid1"}])
    assert after == {
        "manifest": {},
        "resources": [{"urn": "urn:stack"}, {"urn": URN, "id": "ocid1"}],
        "pending_operations": [other],
    }
    assert take_in.taken({}, []) == {"resources": [], "pending_operations": []}
