"""OCI's API, called by a fake instance as an instance principal: signatures, policies, launches, faults."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from oci_caller import Caller
from oci_stack import AD, COMPARTMENT, TENANCY, Fakes, Stack, cloud, configuration, fakes

# ruff: noqa: F401, F811  fixtures are imported here, and tests take them as parameters of the same names
from stand_in import faults, work_done
from wait_until import wait_until

from rehearsal.oci.api import federation
from rehearsal.oci.api.service import Service
from rehearsal.oci.cloud import Cloud
from rehearsal.oci.metadata_service import Service as Metadata
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.https_service import Answer, Request, Silence

ALLOWED = (
    "manage compute-management-family",
    "manage instance-family",
    "use virtual-network-family",
    "use volumes",
    "inspect work-requests",
)
TAGS = {"busbar": "one"}


class Account:
    """A stack with a head node and its permissions, and a caller of OCI's API on that node."""

    def __init__(self, cloud: Cloud, rights: tuple[str, ...] = ALLOWED, rule: str = "") -> None:
        self.cloud, self.stack = cloud, Stack(cloud).network()
        self.head = self.stack.bastion()
        rule = rule or f"ALL {{instance.id = '{self.head.id}', instance.compartment.id = '{COMPARTMENT}'}}"
        self.stack.make("DynamicGroup", "g", compartmentId=TENANCY, name="Head", description="d", matchingRule=rule)
        self.stack.make("InstanceConfiguration", "conf", **configuration(self.stack.ids["private"]))
        self.allow("first", *rights)
        self.service = Service(cloud)
        self.caller = Caller(cloud.world, self.service, self.head)

    def allow(self, name: str, *rights: str, where: str = "") -> None:
        said = [f"Allow dynamic-group head to {one} in compartment id {COMPARTMENT}{where}" for one in rights]
        if said:
            self.stack.make("Policy", name, name=name, description="d", statements=said)

    def asked(self, size: int = 2, **more: Any) -> dict[str, Any]:
        return {
            "compartmentId": COMPARTMENT,
            "displayName": "train",
            "freeformTags": TAGS,
            "instancePools": [{"instanceConfigurationId": self.stack.ids["conf"], "size": size}],
            "placementConfiguration": {"availabilityDomain": AD, "primarySubnetId": self.stack.ids["private"]},
            **more,
        }

    def launch(self, size: int = 2, token: str = "", **more: Any) -> Answer:
        headers = {"opc-retry-token": token} if token else {}
        return self.caller.call("POST", "/clusterNetworks", self.asked(size, **more), more=headers)

    def get(self, path: str, **query: Any) -> Answer:
        words = "&".join(f"{name}={value}" for name, value in {"compartmentId": COMPARTMENT, **query}.items())
        return self.caller.call("GET", f"{path}?{words}")

    def network(self, ocid: str, state: str) -> dict[str, Any]:
        """Wait until a cluster network is in state `state`, and return the network."""
        shown: dict[str, Any] = {}

        def there() -> bool:
            shown.update(self.caller.call("GET", f"/clusterNetworks/{ocid}").body)
            return shown["lifecycleState"] == state

        wait_until(there, f"{ocid} is {state}")
        return shown

    def work_request(self, ocid: str) -> dict[str, Any]:
        """Wait until a work request has ended, and return the work request.

        The resource of a work request reaches the final state shortly before the work request ends.
        """
        shown: dict[str, Any] = {}

        def ended() -> bool:
            shown.update(self.caller.call("GET", f"/workRequests/{ocid}").body)
            return shown["status"] not in {"ACCEPTED", "IN_PROGRESS"}

        wait_until(ended, f"{ocid} has ended")
        return shown

    def launched(self, size: int = 2) -> dict[str, Any]:
        return self.network(self.launch(size).body["id"], "RUNNING")


@pytest.fixture(autouse=True)
def _work_done(cloud: Cloud) -> Iterator[None]:
    yield from work_done(cloud)


@pytest.fixture
def account(cloud: Cloud) -> Account:
    return Account(cloud)


def code(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.body["code"]


NOT_AUTHENTICATED = (401, "NotAuthenticated")
NOT_FOUND = (404, "NotAuthorizedOrNotFound")


def test_a_request_without_a_signature_or_with_a_wrong_signature_is_not_authenticated(account: Account) -> None:
    assert account.caller.call("GET", f"/instances?compartmentId={COMPARTMENT}").status == 200
    target = f"/20160918/instances?compartmentId={COMPARTMENT}"
    assert code(account.service.answer(Request("GET", target, {"host": "x"}, b""))) == NOT_AUTHENTICATED
    other = Caller(account.cloud.world, account.service, account.head)
    other.federate()
    account.caller.session = other.session
    answer = account.caller.call("GET", f"/instances?compartmentId={COMPARTMENT}")
    assert code(answer) == NOT_AUTHENTICATED
    assert answer.body["message"].startswith("The required information to complete authentication was not provided")


@pytest.mark.parametrize(
    "change",
    [
        lambda headers: headers.update(date="Mon, 01 Jan 2024 00:00:00 GMT"),
        lambda headers: headers.update(date="yesterday"),
        lambda headers: headers.update(names="date (request-target)"),
        lambda headers: headers.update(names="(request-target) host"),
        lambda headers: headers.update(names="date host"),
        lambda headers: headers.update(names="date (request-target) host content-length content-type"),
        lambda headers: headers.update({"x-content-sha256": base64.b64encode(bytes(32)).decode()}),
    ],
)
def test_a_signature_must_be_recent_and_cover_host_and_request_target_and_body(
    account: Account, change: Callable[[dict[str, str]], None]
) -> None:
    assert code(account.caller.call("POST", "/clusterNetworks", account.asked(), change)) == NOT_AUTHENTICATED
    assert account.get("/clusterNetworks").body == []


def test_a_certificate_of_another_authority_or_with_a_wrong_key_gets_no_token(account: Account, tmp_path: Path) -> None:
    foreign = Caller(Cloud(type(account.cloud.world).at(tmp_path / "other")).world, account.service, account.head)
    assert code(foreign.federate()) == NOT_AUTHENTICATED
    own = Caller(account.cloud.world, account.service, account.head)
    assert code(own.federate(**{"key.pem": foreign.papers["key.pem"]})) == NOT_AUTHENTICATED
    assert code(own.federate(**{"intermediate.pem": foreign.papers["intermediate.pem"]})) == NOT_AUTHENTICATED
    assert own.federate().status == 200


def test_a_token_expires_after_twenty_minutes_or_when_its_instance_is_deleted(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert account.get("/instances").status == 200
    with monkeypatch.context() as patch:
        patch.setattr(federation, "time", SimpleNamespace(time=lambda: time.time() + 20 * 60 + 1))
        assert code(account.get("/instances")) == NOT_AUTHENTICATED
    assert account.get("/instances").status == 200
    account.cloud.delete(account.head.id)
    assert code(account.get("/instances")) == NOT_AUTHENTICATED


@pytest.mark.parametrize(
    ("rule", "member"),
    [
        ("instance.compartment.id = '{compartment}'", True),
        ("ANY {{instance.id = 'ocid1.instance.oc1..other', instance.id = '{head}'}}", True),
        ("ALL {{instance.id = 'ocid1.instance.oc1..other', instance.compartment.id = '{compartment}'}}", False),
        ("instance.id != '{head}'", False),
        ("tag.ops.role.value = 'head'", True),
        ("tag.ops.role.value", True),
        ("tag.ops.role.value = 'node'", False),
        ("ALL {{resource.type = 'fnfunc', resource.compartment.id = '{compartment}'}}", False),
    ],
)
def test_an_instance_has_the_rights_of_a_dynamic_group_only_if_it_matches_the_rule_of_the_group(
    cloud: Cloud, rule: str, member: bool
) -> None:
    account = Account(cloud, rule="instance.id = 'ocid1.instance.oc1..nobody'")
    assert code(account.get("/clusterNetworks")) == NOT_FOUND
    with cloud.store.change() as database:
        database.records[account.head.id].inputs["definedTags"] = {"ops.role": "head"}
        group = database.records[account.stack.ids["g"]]
        group.inputs["matchingRule"] = rule.format(head=account.head.id, compartment=COMPARTMENT)
    assert (account.get("/clusterNetworks").status == 200) is member


@pytest.mark.parametrize("missing", ALLOWED)
def test_each_right_is_needed_for_the_calls_in_the_vendors_table(cloud: Cloud, missing: str) -> None:
    account = Account(cloud, tuple(one for one in ALLOWED if one != missing))
    made = account.launch()
    assert (made.status == 202) is (missing in {"use volumes", "inspect work-requests"})
    account.allow("late", missing)
    network = made.body["id"] if made.status == 202 else account.launch().body["id"]
    account.network(network, "RUNNING")
    with cloud.store.change() as database:
        del database.records[account.stack.ids["late"]]
    ended = account.caller.call("DELETE", f"/clusterNetworks/{network}")
    assert (ended.status == 204) is (missing == "inspect work-requests")
    assert (account.get("/workRequests").status == 200) is (missing != "inspect work-requests")


@pytest.mark.parametrize(
    ("where", "may"),
    [
        (" where request.operation = 'ListClusterNetworks'", True),
        (" where request.operation = 'GetClusterNetwork'", False),
        (" where any {request.permission = 'INSTANCE_READ', request.operation = /List*/}", True),
        (" where target.resource.name = 'x'", False),
        (" where target.compartment.name != 'clusters'", False),
    ],
)
def test_a_policy_with_a_condition_allows_only_matching_calls_and_none_if_a_variable_is_unknown(
    cloud: Cloud, where: str, may: bool
) -> None:
    account = Account(cloud, ())
    account.allow("narrow", "inspect cluster-networks", where=where)
    assert (account.get("/clusterNetworks").status == 200) is may
    assert code(account.get("/instances")) == NOT_FOUND


def test_a_cluster_network_exists_at_once_and_its_machines_exist_later(account: Account, fakes: Fakes) -> None:
    made = account.launch(2, "token-1")
    assert (made.status, made.body["lifecycleState"]) == (202, "PROVISIONING")
    ocid, pool = made.body["id"], made.body["instancePools"][0]["id"]
    assert account.network(ocid, "RUNNING")["instancePools"][0]["currentSize"] == 2
    request = account.work_request(made.headers["opc-work-request-id"])
    assert (request["operationType"], request["status"]) == ("CreateClusterNetwork", "SUCCEEDED")
    assert request["resources"][0]["identifier"] == ocid
    (listed,) = account.get("/clusterNetworks").body
    assert (listed["id"], listed["freeformTags"], listed["instancePools"][0]["id"]) == (ocid, TAGS, pool)
    members = account.get(f"/clusterNetworks/{ocid}/instances").body
    assert [one["state"] for one in members] == ["Running"] * 2
    addresses = {
        one["vnicId"]: one["ipAddress"] for one in account.get("/privateIps", subnetId=account.stack.ids["private"]).body
    }
    attached = {one["instanceId"]: one["vnicId"] for one in account.get("/vnicAttachments").body}
    assert {addresses[attached[one["id"]]] for one in members} == {"10.0.1.2", "10.0.1.3"}
    assert {spec.shape for spec in fakes.running.values() if spec.fabric_id} == {"BM.GPU4.8"}


def test_a_retry_token_creates_only_one_network_even_after_a_restart_of_the_service(account: Account) -> None:
    first = account.launch(2, "again")
    assert account.launch(2, "again").body["id"] == first.body["id"]
    assert account.launch(2, "another").body["id"] != first.body["id"]
    account.network(first.body["id"], "RUNNING")
    again = Service(account.cloud)
    account.caller = Caller(account.cloud.world, again, account.head)
    assert account.launch(2, "again").body["id"] == first.body["id"], "a restarted service still knows the token"
    assert account.caller.call("DELETE", f"/clusterNetworks/{first.body['id']}").status == 204
    assert account.network(first.body["id"], "TERMINATED")
    account.service = again


def test_the_retry_token_of_a_terminated_network_is_refused(account: Account) -> None:
    ocid = account.launch(1, "once").body["id"]
    account.network(ocid, "RUNNING")
    account.caller.call("DELETE", f"/clusterNetworks/{ocid}")
    account.network(ocid, "TERMINATED")
    assert code(account.launch(1, "once")) == (409, "InvalidatedRetryToken")


def test_terminating_a_network_also_terminates_its_machines_and_keeps_the_network_listed_as_terminated(
    account: Account, fakes: Fakes
) -> None:
    ocid = account.launched()["id"]
    members = account.get(f"/clusterNetworks/{ocid}/instances").body
    assert account.caller.call("DELETE", f"/clusterNetworks/{ocid}").status == 204
    account.network(ocid, "TERMINATED")
    assert [spec.hostname for spec in fakes.running.values()] == ["bastion-1"]
    assert account.caller.call("GET", f"/instances/{members[0]['id']}").body["lifecycleState"] == "TERMINATED"
    assert [one["lifecycleState"] for one in account.get("/clusterNetworks").body] == ["TERMINATED"]
    assert account.get(f"/clusterNetworks/{ocid}/instances").body == []
    assert code(account.caller.call("DELETE", f"/clusterNetworks/{ocid}")) == NOT_FOUND


def test_a_network_can_be_terminated_while_it_starts(account: Account, fakes: Fakes) -> None:
    ocid = account.launch(3).body["id"]
    assert account.caller.call("DELETE", f"/clusterNetworks/{ocid}").status == 204
    account.network(ocid, "TERMINATED")
    assert len(fakes.running) == 1


def test_detaching_and_terminating_a_machine_shrinks_the_pool_by_one_machine(account: Account, fakes: Fakes) -> None:
    shown = account.launched(3)
    pool, members = shown["instancePools"][0]["id"], account.get(f"/clusterNetworks/{shown['id']}/instances").body
    body = {"instanceId": members[1]["id"], "isDecrementSize": True, "isAutoTerminate": True}
    assert account.caller.call("POST", f"/instancePools/{pool}/actions/detachInstance", body).status == 202
    left = account.network(shown["id"], "RUNNING")["instancePools"][0]
    wait_until(lambda: len(fakes.running) == 3, "the machine has ended")
    assert (left["size"], [one["id"] for one in account.get(f"/clusterNetworks/{shown['id']}/instances").body]) == (
        2,
        [members[0]["id"], members[2]["id"]],
    )
    assert code(account.caller.call("POST", f"/instancePools/{pool}/actions/detachInstance", body)) == NOT_FOUND


def resized(account: Account, network: dict[str, Any], size: int, **tags: str) -> Answer:
    pool = network["instancePools"][0]["id"]
    asked = {"instancePools": [{"id": pool, "size": size}], "freeformTags": {**network["freeformTags"], **tags}}
    return account.caller.call("PUT", f"/clusterNetworks/{network['id']}", asked)


def test_enlarging_a_pool_starts_machines_in_the_pools_cluster_network_and_returns_no_work_request(
    account: Account, fakes: Fakes
) -> None:
    made = account.launched(1)
    fakes.may_boot.clear()
    answer = resized(account, made, 2, why="more")
    assert (answer.status, "opc-work-request-id" in answer.headers) == (200, False)
    assert account.caller.call("GET", f"/clusterNetworks/{made['id']}").body["lifecycleState"] == "SCALING"
    assert code(resized(account, made, 3)) == (409, "IncorrectState")
    fakes.may_boot.set()
    grown = account.network(made["id"], "RUNNING")
    assert (grown["instancePools"][0]["size"], grown["freeformTags"]) == (2, {**TAGS, "why": "more"})
    assert len(fakes.running) == 3  # two machines and the head node
    assert len(account.get(f"/clusterNetworks/{made['id']}/instances").body) == 2
    assert resized(account, made, 2).body["lifecycleState"] == "RUNNING"


def test_a_pool_can_refer_to_another_configuration_after_which_the_earlier_one_can_be_deleted(account: Account) -> None:
    made = account.launched(1)
    pool = made["instancePools"][0]
    other = account.stack.make("InstanceConfiguration", "other", **configuration(account.stack.ids["private"])).id
    earlier = account.stack.ids["conf"]

    def renewed(configuration: str) -> Answer:
        asked = {"instancePools": [{"id": pool["id"], "instanceConfigurationId": configuration}]}
        return account.caller.call("PUT", f"/clusterNetworks/{made['id']}", asked)

    assert code(renewed("ocid1.instanceconfiguration.oc1..x")) == NOT_FOUND
    with pytest.raises(ServiceError, match="is associated to one or more Instance Pools"):
        account.cloud.delete(earlier)
    answer = renewed(other)
    assert (answer.body["lifecycleState"], answer.body["instancePools"][0]["size"]) == ("RUNNING", 1)
    assert account.network(made["id"], "RUNNING")["instancePools"][0]["instanceConfigurationId"] == other
    account.cloud.delete(earlier)
    assert account.cloud.store.read().find(earlier, "oci:Core/instanceConfiguration:InstanceConfiguration") is None


def test_a_pool_that_cannot_grow_has_the_reason_in_its_work_request_and_keeps_its_machines_and_the_requested_size(
    account: Account, fakes: Fakes
) -> None:
    made = account.launched(1)
    faults(account.cloud, {"kind": "capacity", "domain": AD})
    resized(account, made, 2)
    found = account.network(made["id"], "RUNNING")
    assert found["instancePools"][0]["size"] == 2
    assert len(account.get(f"/clusterNetworks/{made['id']}/instances").body) == 1
    assert len(fakes.running) == 2
    failed = [one for one in account.get("/workRequests", resourceId=made["id"]).body if one["status"] == "FAILED"]
    (error,) = account.caller.call("GET", f"/workRequests/{failed[0]['id']}/errors").body
    assert error["message"] == "Out of host capacity."


def test_an_availability_domain_without_capacity_does_not_affect_another_domain(account: Account, fakes: Fakes) -> None:
    faults(account.cloud, {"kind": "capacity", "domain": "Uocm:REHEARSED-AD-2"})
    assert account.launched(1)["lifecycleState"] == "RUNNING"
    assert len(fakes.running) == 2


def test_without_capacity_no_machine_remains_and_the_work_request_has_the_reason(account: Account, fakes: Fakes) -> None:
    faults(account.cloud, {"kind": "capacity", "after": 1, "times": 1})
    made = account.launch(2)
    account.network(made.body["id"], "TERMINATED")
    (request,) = account.get("/workRequests", resourceId=made.body["id"]).body
    assert request["status"] == "FAILED"
    (error,) = account.caller.call("GET", f"/workRequests/{request['id']}/errors").body
    assert error["message"] == "Out of host capacity."
    assert len(fakes.running) == 1
    assert account.launched(2)["lifecycleState"] == "RUNNING", "the fault affected only one launch"


def test_the_machines_of_an_incomplete_launch_run_until_their_network_is_terminated(account: Account, fakes: Fakes) -> None:
    faults(account.cloud, {"kind": "capacity", "after": 1, "partial": True})
    ocid = account.launch(2).body["id"]
    wait_until(lambda: account.get("/workRequests", resourceId=ocid).body[0]["status"] == "FAILED", "the launch has failed")
    assert account.caller.call("GET", f"/clusterNetworks/{ocid}").body["lifecycleState"] == "PROVISIONING"
    assert len(account.get(f"/clusterNetworks/{ocid}/instances").body) == 1
    account.caller.call("DELETE", f"/clusterNetworks/{ocid}")
    account.network(ocid, "TERMINATED")
    assert len(fakes.running) == 1


def test_a_throttling_or_timeout_or_lost_answer_planted_for_one_call_affects_only_that_call(account: Account) -> None:
    faults(
        account.cloud,
        {"kind": "throttle", "operation": "ListClusterNetworks", "times": 1},
        {"kind": "api_timeout", "operation": "ListInstances", "times": 1},
        {"kind": "answer_lost", "operation": "CreateClusterNetwork", "times": 1},
    )
    assert code(account.get("/clusterNetworks")) == (429, "TooManyRequests")
    with pytest.raises(Silence):
        account.get("/instances")
    with pytest.raises(Silence):
        account.launch(1, "lost")
    (listed,) = account.get("/clusterNetworks").body
    assert account.launch(1, "lost").body["id"] == listed["id"]


def test_lists_come_in_pages(account: Account) -> None:
    account.launched(3)
    pages, page = [], ""
    while page is not None:
        answer = account.get("/vnicAttachments", limit=3, **({"page": page} if page else {}))
        pages.append(len(answer.body))
        page = answer.headers.get("opc-next-page")
    assert pages == [3, 1]
    assert code(account.get("/vnicAttachments", limit=0)) == (400, "InvalidParameter")
    assert code(account.get("/vnicAttachments", page="x")) == (400, "InvalidParameter")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"instancePools": None}, (400, "MissingParameter")),
        ({"placementConfiguration": {"primarySubnetId": "x"}}, (400, "MissingParameter")),
        ({"instancePools": [{"instanceConfigurationId": "ocid1.instanceconfiguration.oc1..x", "size": 2}]}, NOT_FOUND),
        ({"instancePools": [{"instanceConfigurationId": "conf", "size": 0}]}, (400, "InvalidParameter")),
        ({"compartmentId": "ocid1.compartment.oc1..x"}, NOT_FOUND),
        ({"displayName": 7}, (400, "InvalidParameter")),
        ({"freeformTags": "busbar"}, (400, "InvalidParameter")),
        ({"freeformTags": {"busbar": 1}}, (400, "InvalidParameter")),
        ({"definedTags": {"space": "busbar"}}, (400, "InvalidParameter")),
        ({"placementConfiguration": {"availabilityDomain": AD, "primarySubnetId": ["x"]}}, (400, "InvalidParameter")),
        ({"placementConfiguration": {"availabilityDomain": AD, "primaryVnicSubnets": {}}}, (400, "MissingParameter")),
        ({"instancePools": [{"instanceConfigurationId": "conf", "size": True}]}, (400, "InvalidParameter")),
    ],
)
def test_invalid_requests_to_the_service_are_refused_at_once(
    account: Account, change: dict[str, Any], expected: tuple[int, str]
) -> None:
    assert code(account.launch(2, **change)) == expected
    assert account.get("/clusterNetworks").body == []


def test_an_optional_property_that_is_null_counts_as_missing(account: Account) -> None:
    made = account.launch(1, displayName=None, freeformTags=None, definedTags=None)
    assert made.status == 202
    shown = account.network(made.body["id"], "RUNNING")
    path, pool = f"/clusterNetworks/{shown['id']}", {"id": shown["instancePools"][0]["id"]}
    for asked in ({"instancePools": None}, {"instancePools": [{**pool, "size": None, "instanceConfigurationId": None}]}):
        assert account.caller.call("PUT", path, asked).status == 200
    assert account.network(shown["id"], "RUNNING")["instancePools"] == shown["instancePools"]


@pytest.mark.parametrize("change", [{"size": -1}, {"size": "2"}, {"size": True}, {"instanceConfigurationId": 7}])
def test_a_change_of_a_pool_to_a_value_of_the_wrong_type_or_a_negative_size_is_refused_and_has_no_effect(
    account: Account, change: dict[str, Any]
) -> None:
    shown = account.launched(1)
    asked = {"instancePools": [{"id": shown["instancePools"][0]["id"], **change}]}
    assert code(account.caller.call("PUT", f"/clusterNetworks/{shown['id']}", asked)) == (400, "InvalidParameter")
    assert account.network(shown["id"], "RUNNING")["instancePools"] == shown["instancePools"]


def test_detaching_refuses_text_for_a_boolean_and_takes_the_default_for_null(account: Account, fakes: Fakes) -> None:
    shown = account.launched(2)
    path = f"/instancePools/{shown['instancePools'][0]['id']}/actions/detachInstance"
    body = {"instanceId": account.get(f"/clusterNetworks/{shown['id']}/instances").body[0]["id"]}
    for wrong in ({"isDecrementSize": "false"}, {"isAutoTerminate": "false"}, {"isAutoTerminate": 0}):
        assert code(account.caller.call("POST", path, {**body, **wrong})) == (400, "InvalidParameter")
    assert len(account.get(f"/clusterNetworks/{shown['id']}/instances").body) == 2
    assert account.caller.call("POST", path, {**body, "isDecrementSize": None, "isAutoTerminate": None}).status == 202
    assert account.network(shown["id"], "RUNNING")["instancePools"][0]["size"] == 1
    assert len(fakes.running) == 3, "the detached machine still runs"


def test_a_launch_of_more_machines_than_the_limit_is_refused_at_once(account: Account) -> None:
    assert code(account.launch(65)) == (400, "LimitExceeded")


def test_resources_that_a_launched_machine_uses_cannot_be_deleted(account: Account) -> None:
    account.launched()
    with pytest.raises(
        ServiceError, match=r"409-Conflict, The Instance Configuration .* is associated to one or more Instance Pools"
    ):
        account.cloud.delete(account.stack.ids["conf"])
    with pytest.raises(ServiceError, match=r"409-Conflict, The Subnet \S+ references the VNIC ocid1\.vnic\."):
        account.cloud.delete(account.stack.ids["private"])


def test_version_one_of_the_metadata_service_can_be_disabled_and_version_two_requires_a_header(
    account: Account, fakes: Fakes
) -> None:
    (folder,) = (fakes.world.path / "hosts").iterdir()
    spec = fakes.running[folder.name]
    kept: dict[str, Any] = {"metadata": dict(spec.metadata)}
    own = {"authorization": "Bearer Oracle"}
    service = Metadata(fakes.world.path, folder.name)

    def said(path: str, headers: dict[str, str], method: str = "GET") -> tuple[int, str]:
        (folder / "spec.json").write_text(json.dumps(kept))
        found = service.answer(method, path, headers, b"")
        (folder / "spec.json").unlink()  # the fakes expect an empty folder
        return found

    assert said("/opc/v2/instance/id", own) == (200, account.head.id)
    assert said("/opc/v2/instance/regionInfo/realmKey", own) == (200, "oc1")
    assert said("/opc/v2/vnics/0/privateIp", own) == (200, "10.0.0.2")
    assert said("/opc/v2/instance/", {})[0] == 401
    assert said("/opc/v2/instance/", {**own, "x-forwarded-for": "10.0.0.9"})[0] == 401
    assert said("/opc/v2/instance/nothing", own)[0] == 404
    assert said("/opc/v2/", own)[0] == 404
    assert said("/opc/v2/instance/id", own, "POST")[0] == 405
    assert said("/opc/v1/instance/id", {}) == (200, account.head.id)
    assert said("/opc/v2/host/", own)[0] == 404, "a host without RDMA has no such path"
    kept["metadata"]["legacy"] = "no"
    assert said("/opc/v1/instance/id", {})[0] == 404
    assert said("/opc/v2/instance/id", own)[0] == 200
