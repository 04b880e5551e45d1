"""A new login node is a new Slurm controller: it is refused while it would terminate nodes that Slurm started."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
from aws_program import nodes, program
from conftest import HOOKS, Engine
from created import asked
from on_demand_stack import POOL
from on_demand_stack import program as oci

from components.oci import slurms_machines

HOOK = "cluster-login-instance-new-controller"
FAMILY = {"imageFamily": "ubuntu2404"}
SLURM = nodes(static=0, dynamic=4) | FAMILY | {"slurm": {}, "storage": {"home": {}}, "login": FAMILY}
NETWORK = {"id": "ocid1.clusternetwork.oc1..a", "state": "RUNNING", "timeCreated": "2026-11-27"}


def started(name: str = "training", **tags: str) -> dict[str, dict[str, str]]:
    """Return the tags of two machines that Slurm started, by id."""
    its = {
        "busbar:stack": "organization/busbar/aws/slurm",
        "busbar:launch": "a1b2",
        "busbar:cluster": name,
    } | tags
    return {"i-8": its, "i-9": its}


def refusal() -> str:
    """Return the error with which the login node's hook refuses; fail if the hook does not refuse."""
    with pytest.raises(pulumi.RunError) as refused:
        asked(HOOKS[HOOK])
    return str(refused.value)


def aws(running: dict[str, dict[str, str]], *, preview: bool = False, **changes: Any) -> None:
    program(SLURM | changes, running=running, preview=preview)


@pytest.fixture
def account(monkeypatch):
    """Let the account return these lists of its cluster networks and instances. The keys are the names of fields in answers."""
    found: dict[str, list[dict[str, Any]]] = {"clusterNetworks": [], "instances": []}
    genuine = Engine.call

    def call(self, args):
        noun = args.token.rpartition(":get")[2]
        key = noun[:1].lower() + noun[1:]
        return {key: found[key]} if key in found else genuine(self, args)

    monkeypatch.setattr(Engine, "call", call)
    monkeypatch.setattr(slurms_machines, "ids_in_state", lambda: {"ocid1.instance.oc1..mine"})
    return found


def network(label: str, name: str = "busbar", stack: str = "dev/slurm") -> dict[str, Any]:
    return NETWORK | {"displayName": label, "freeformTags": {"busbar": name, "busbar-stack": stack}}


def test_on_aws_the_refusal_of_a_new_controller_names_the_nodes_that_slurm_started_and_their_price():
    aws({})
    asked(HOOKS[HOOK])
    aws(started())
    assert refusal() == (
        "aws.allowReplace is 0, and 2 running machines would be terminated by this update (2 x p5.48xlarge of Slurm's nodes, "
        "110.08 USD an hour by list price: i-8 (10.1.0.20), i-9 (10.1.0.19)): the login node is Slurm's controller, and a new "
        "login node terminates all nodes that Slurm started (jobs that run there start again from the beginning, or end if "
        "they must not be requeued), and the capacity may not be available again. Set aws.allowReplace to 2 to allow this, or "
        "undo the change."
    )


def test_nodes_that_slurm_started_are_terminated_with_a_warning_only_if_the_stack_file_allows_that_many(monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", said.append)
    aws(started(), allowReplace=2)
    asked(HOOKS[HOOK])
    assert [text.partition(",")[0] for text in said] == ["this update terminates 2 machines"]
    aws(started(), allowReplace=1)
    with pytest.raises(pulumi.RunError, match=r"^aws\.allowReplace is 1, and 2 running machines would be terminated"):
        asked(HOOKS[HOOK])


def test_nodes_are_counted_even_if_the_stack_file_no_longer_has_their_type():
    aws(started(**{"its type": "p4d.24xlarge"}))
    with pytest.raises(pulumi.RunError, match=r"\(2 x machines of Slurm's nodes, price unknown: i-8"):
        asked(HOOKS[HOOK])


def test_a_new_controller_is_allowed_if_slurm_started_the_machines_for_another_stack():
    aws(started(**{"busbar:stack": "organization/busbar/second/slurm"}))
    asked(HOOKS[HOOK])


def test_an_additional_login_node_may_be_replaced_at_any_time():
    oci(slurm={"loginNodes": 1})
    assert "cluster-login-1-instance-never-twice" in HOOKS
    assert "cluster-login-1-instance-new-controller" not in HOOKS


def test_a_preview_without_preflight_does_not_ask_which_nodes_slurm_started():
    aws(started(), preview=True)  # `preflight` is false in these tests
    asked(HOOKS[HOOK])


def test_a_changed_name_of_the_cluster_is_refused_because_no_controller_would_find_the_nodes():
    aws(started("old"), allowReplace=2)
    assert refusal() == (
        "aws.name had another value when Slurm started i-8 (10.1.0.20), i-9 (10.1.0.19). A controller finds its machines by "
        "this name, so after this update nothing would terminate these machines, and they would be billed. Undo the change of "
        "aws.name, or terminate the machines before you change it."
    )


def test_no_new_controller_is_created_if_the_account_does_not_say_which_nodes_slurm_started():
    def refuse(_: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("api error UnauthorizedOperation: not allowed")

    cloud, _ = program(SLURM)
    cloud.answers["getInstances"] = refuse
    assert refusal() == (
        "Which machines Slurm has started could not be looked up: UnauthorizedOperation: not allowed. The look-up needs valid "
        "credentials and this permission: ec2:DescribeInstances. cluster-login-instance is created only after this "
        "look-up, because a new controller terminates these machines, and their jobs then start again or end."
    )


def test_on_oci_the_refusal_of_a_new_controller_names_the_nodes_in_the_networks_that_the_old_controller_created(account):
    oci()
    asked(HOOKS[HOOK])
    account["clusterNetworks"] += [network("busbar-gpu-slurm-0a1b2c3d"), network("busbar-gpu", stack="dev")]
    said = refusal()
    assert said.startswith("oci.allowReplace is 0, and 2 running machines would be terminated by this update (2 x BM.GPU")
    assert (
        "of Slurm's nodes, price unknown: inst-0 (busbar-gpu-slurm-0a1b2c3d), inst-1 (busbar-gpu-slurm-0a1b2c3d)): the lo"
        in said
    )
    oci(allowReplace=2)
    asked(HOOKS[HOOK])


def test_if_slurm_is_removed_from_the_stack_file_the_new_login_node_is_refused_while_slurms_nodes_run(account):
    account["clusterNetworks"].append(network("busbar-gpu-slurm-0a1b2c3d"))
    oci(slurm=None, pools=[POOL | {"nodes": 2, "dynamic": 0}])
    with pytest.raises(pulumi.RunError, match=r"^oci\.allowReplace is 0, and 2 running machines would be terminated"):
        asked(HOOKS[HOOK])


def test_on_oci_nodes_of_a_cluster_with_another_name_are_counted_only_if_that_clusters_login_node_is_in_the_state(account):
    oci()
    account["clusterNetworks"].append(network("old-gpu-slurm-0a1b2c3d", "old"))
    login = {"id": "ocid1.instance.oc1..another", "state": "RUNNING", "displayName": "old-login", "timeCreated": "today"}
    account["instances"].append(login | {"freeformTags": {"busbar": "old", "busbar-stack": "dev"}})
    asked(HOOKS[HOOK])
    account["instances"][0]["id"] = "ocid1.instance.oc1..mine"
    refused = r"^oci\.name had another value when Slurm started inst-0 \(old-gpu-slurm-0a1b2c3d\), "
    with pytest.raises(pulumi.RunError, match=refused):
        asked(HOOKS[HOOK])
