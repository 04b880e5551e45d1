"""EC2's API, called by the role of a fake instance through the vendor's own client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier
from typing import Any

import pytest
from aws_caller import REGION, client
from aws_cloud import TRUST, ZONE, Fakes, Stack, cloud, fakes, head
from botocore.exceptions import ClientError

# ruff: noqa: F401, F811  fixtures are imported here, and tests take them as parameters of the same names
from stand_in import faults, work_done
from wait_until import wait_until

from rehearsal.aws import sessions
from rehearsal.aws.api import query
from rehearsal.aws.api.service import Service
from rehearsal.aws.capacity import offering_id
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.metadata_service import Service as Metadata
from rehearsal.aws.places import ACCOUNT
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.https_service import Answer, Request, Silence

ROLE = "controller"
#: The controller's permissions: to launch and list instances, to tag what it launches, to terminate instances with the tag of
#: its cluster, and to pass roles to instances.
STATEMENTS: dict[str, dict[str, Any]] = {
    "launch": {"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": "*"},
    "fleet": {"Effect": "Allow", "Action": "ec2:CreateFleet", "Resource": "*"},
    "see": {"Effect": "Allow", "Action": ["ec2:DescribeInstances"], "Resource": "*"},
    "tag": {
        "Effect": "Allow",
        "Action": "ec2:CreateTags",
        "Resource": "arn:aws:ec2:*:*:*/*",
        "Condition": {"StringEquals": {"ec2:CreateAction": ["RunInstances", "CreateFleet"]}},
    },
    "end": {
        "Effect": "Allow",
        "Action": "ec2:Terminate*",
        "Resource": f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/*",
        "Condition": {"StringEquals": {"aws:ResourceTag/busbar": "one"}},
    },
    "pass": {"Effect": "Allow", "Action": "iam:PassRole", "Resource": f"arn:aws:iam::{ACCOUNT}:role/*"},
}
TAGS = [{"Key": "busbar", "Value": "one"}, {"Key": "busbar:launch", "Value": "0123"}]


class Account:
    """A stack with a launch template and a head node. `ec2` calls EC2 with the head node's role, whose policy is STATEMENTS."""

    def __init__(self, cloud: Cloud, **changes: Any) -> None:
        self.cloud, self.stack = cloud, Stack(cloud).network().rules().roles()
        self.stack.template()
        self.stack.make("Role", "controller", name=ROLE, assumeRolePolicy=TRUST)
        self.statements = [one for one in {**STATEMENTS, **changes}.values() if one]
        policy = json.dumps({"Version": "2012-10-17", "Statement": self.statements or [STATEMENTS["see"]]})
        self.stack.make("RolePolicy", "own", role=ROLE, policy=policy)
        self.stack.make("InstanceProfile", "own-profile", name="own", role=ROLE)
        self.head = self.stack.make("Instance", "head-node", **{**head(self.stack.ids), "iamInstanceProfile": "own"})
        self.service = Service(cloud)
        self.ec2 = client(cloud.world, self.service, self.head, ROLE)

    def launch(self, least: int = 2, most: int = 2, named: str = "t", **more: Any) -> list[dict[str, Any]]:
        asked = {
            "LaunchTemplate": {"LaunchTemplateId": self.stack.ids["template"], "Version": "$Default"},
            "MinCount": least,
            "MaxCount": most,
            "ClientToken": named,
            "TagSpecifications": [{"ResourceType": noun, "Tags": TAGS} for noun in ("instance", "volume")],
        }
        found: list[dict[str, Any]] = self.ec2.run_instances(**(asked | more))["Instances"]
        return found

    def listed(self, **asked: Any) -> dict[str, dict[str, Any]]:
        pages = self.ec2.get_paginator("describe_instances").paginate(**asked)
        return {one["InstanceId"]: one for page in pages for group in page["Reservations"] for one in group["Instances"]}

    def until(self, ids: list[str], state: str) -> None:
        wait_until(lambda: {self.listed(InstanceIds=ids)[one]["State"]["Name"] for one in ids} == {state}, f"{ids} are {state}")


@pytest.fixture(autouse=True)
def _work_done(cloud: Cloud) -> Iterator[None]:
    yield from work_done(cloud)


@pytest.fixture
def account(cloud: Cloud) -> Account:
    return Account(cloud)


def refused(work: Any, *words: Any, **more: Any) -> tuple[str, int, str]:
    with pytest.raises(ClientError) as caught:
        work(*words, **more)
    said = caught.value.response
    return said["Error"]["Code"], said["ResponseMetadata"]["HTTPStatusCode"], said["Error"]["Message"]


def test_a_launch_returns_pending_machines_with_addresses_at_once_and_the_machines_run_later(
    account: Account, fakes: Fakes
) -> None:
    made = account.launch()
    assert [one["State"]["Name"] for one in made] == ["pending", "pending"]
    assert [one["PrivateIpAddress"] for one in made] == ["10.1.0.4", "10.1.0.5"]
    ids = [one["InstanceId"] for one in made]
    account.until(ids, "running")
    shown = account.listed(InstanceIds=ids)[ids[0]]
    assert {tag["Key"]: tag["Value"] for tag in shown["Tags"]} == {
        "Name": "x-gpu-p5",
        "busbar": "one",
        "busbar:launch": "0123",
    }
    assert (shown["InstanceType"], shown["Placement"]["AvailabilityZone"], shown["ClientToken"]) == ("p5.48xlarge", ZONE, "t")
    assert {spec.instance_id for spec in fakes.running.values()} >= set(ids)
    assert sorted(spec.index for spec in fakes.running.values() if spec.instance_id in ids) == [0, 1]


def test_a_client_token_launches_once_and_a_call_with_the_same_token_but_other_parameters_is_refused(account: Account) -> None:
    first = account.launch()
    assert {one["InstanceId"] for one in account.launch()} == {one["InstanceId"] for one in first}
    assert refused(account.launch, 1, 2)[:2] == ("IdempotentParameterMismatch", 400)
    assert {one["InstanceId"] for one in account.launch(named="u")}.isdisjoint(one["InstanceId"] for one in first)


def test_machines_are_listed_by_filters_and_in_pages(account: Account) -> None:
    account.launch(3, 3, "a")
    account.launch(4, 4, "b", TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "busbar", "Value": "two"}]}])
    mine = [{"Name": "tag-key", "Values": ["busbar:launch"]}, {"Name": "tag:busbar", "Values": ["one"]}]
    assert len(account.listed(Filters=mine)) == 3
    assert len(account.listed()) == 8
    first = account.ec2.describe_instances(MaxResults=5)
    second = account.ec2.describe_instances(MaxResults=5, NextToken=first["NextToken"])
    assert [sum(len(group["Instances"]) for group in page["Reservations"]) for page in (first, second)] == [5, 3]
    assert "NextToken" not in second
    assert refused(account.ec2.describe_instances, MaxResults=4)[0] == "InvalidParameterValue"
    assert (
        refused(account.ec2.describe_instances, Filters=[{"Name": "colour", "Values": ["red"]}])[0] == "InvalidParameterValue"
    )


def test_terminated_machines_stay_listed_and_a_call_with_an_unknown_id_terminates_no_machine(
    account: Account, fakes: Fakes
) -> None:
    ids = [one["InstanceId"] for one in account.launch()]
    missing = "i-00000000000000000"
    said = refused(account.ec2.terminate_instances, InstanceIds=[ids[0], missing])
    assert said == ("InvalidInstanceID.NotFound", 400, f"The instance ID '{missing}' does not exist")
    changed = account.ec2.terminate_instances(InstanceIds=ids)["TerminatingInstances"]
    assert [one["CurrentState"]["Name"] for one in changed] == ["shutting-down"] * 2
    account.until(ids, "terminated")
    assert account.listed(InstanceIds=ids)[ids[0]]["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    assert len(fakes.running) == 1
    again = account.ec2.terminate_instances(InstanceIds=ids)["TerminatingInstances"]
    assert [one["PreviousState"]["Name"] for one in again] == ["terminated"] * 2


def test_a_machine_that_dies_is_shown_with_the_clouds_reason(account: Account, fakes: Fakes) -> None:
    ids = [one["InstanceId"] for one in account.launch()]
    account.until(ids, "running")
    fakes.stop(account.cloud.world, next(its for its, spec in fakes.running.items() if spec.instance_id == ids[0]))
    assert account.listed(InstanceIds=[ids[0]])[ids[0]]["StateReason"]["Code"] == "Server.InternalError"


def test_a_launch_gets_the_available_machines_but_no_machine_if_fewer_than_the_minimum_are_available(account: Account) -> None:
    faults(account.cloud, {"kind": "capacity", "after": 1})
    code, status, message = refused(account.launch)
    assert (code, status) == ("InsufficientInstanceCapacity", 500)
    assert message.startswith("We currently do not have sufficient p5.48xlarge capacity")
    assert len(account.listed()) == 1
    assert len(account.launch(1, 2, "u")) == 1
    faults(account.cloud, {"kind": "capacity"})
    assert refused(account.launch, 1, 2, "v")[0] == "InsufficientInstanceCapacity"


def test_a_fleet_answers_with_its_machines_and_with_the_reason_why_other_machines_were_not_launched(account: Account) -> None:
    template = {"LaunchTemplateId": account.stack.ids["template"], "Version": "$Default"}

    def fleet(least: int, most: int, **more: Any) -> dict[str, Any]:
        asked = {
            "Type": "instant",
            "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": template}],
            "TargetCapacitySpecification": {"TotalTargetCapacity": most, "DefaultTargetCapacityType": "on-demand"},
            "OnDemandOptions": {"MinTargetCapacity": least, "SingleInstanceType": True},
            "TagSpecifications": [{"ResourceType": "instance", "Tags": TAGS}],
        }
        found: dict[str, Any] = account.ec2.create_fleet(**(asked | more))
        return found

    whole = fleet(2, 2)
    assert (whole["FleetId"][:6], len(whole["Instances"][0]["InstanceIds"]), whole["Errors"]) == ("fleet-", 2, [])
    account.until(whole["Instances"][0]["InstanceIds"], "running")
    faults(account.cloud, {"kind": "capacity", "after": 1})
    part = fleet(1, 2)
    assert (len(part["Instances"][0]["InstanceIds"]), part["Errors"][0]["ErrorCode"]) == (1, "InsufficientInstanceCapacity")
    none = fleet(2, 2)
    assert (none["Instances"], none["Errors"][0]["ErrorCode"]) == ([], "InsufficientInstanceCapacity")
    assert len(account.listed()) == 4
    assert refused(fleet, 1, 2, Type="maintain")[0] == "NotRehearsed"
    assert refused(fleet, 3, 2)[0] == "InvalidFleetConfig"


def test_a_fault_of_the_api_that_is_planted_for_one_call_affects_only_that_call(account: Account) -> None:
    faults(
        account.cloud,
        {"kind": "throttle", "operation": "DescribeInstances", "times": 1},
        {"kind": "answer_lost", "operation": "RunInstances", "times": 1},
        {"kind": "eventual", "operation": "TerminateInstances", "times": 1},
    )
    assert refused(account.listed)[:2] == ("RequestLimitExceeded", 503)
    with pytest.raises(Silence):
        account.launch()
    ids = [one["InstanceId"] for one in account.launch()]
    assert len(account.listed()) == 3
    assert refused(account.ec2.terminate_instances, InstanceIds=ids)[0] == "InvalidInstanceID.NotFound"
    account.ec2.terminate_instances(InstanceIds=ids)
    account.until(ids, "terminated")


@pytest.mark.parametrize(
    ("missing", "action"),
    [("launch", "ec2:RunInstances"), ("see", "ec2:DescribeInstances"), ("tag", "ec2:CreateTags"), ("pass", "iam:PassRole")],
)
def test_a_call_that_no_policy_allows_is_refused_with_the_name_of_the_denied_action(
    cloud: Cloud, missing: str, action: str
) -> None:
    account = Account(cloud, **{missing: None})
    code, status, message = refused(account.listed if missing == "see" else account.launch)
    assert (code, status) == ("UnauthorizedOperation", 403)
    assert f"is not authorized to perform: {action}" in message
    if missing != "see":
        assert len(account.listed()) == 1


def test_machines_without_the_clusters_tag_can_be_neither_terminated_nor_tagged(account: Account) -> None:
    others = [{"ResourceType": "instance", "Tags": [{"Key": "busbar", "Value": "two"}]}]
    theirs = [one["InstanceId"] for one in account.launch(named="u", TagSpecifications=others)]
    assert refused(account.ec2.terminate_instances, InstanceIds=theirs)[0] == "UnauthorizedOperation"
    assert refused(account.ec2.terminate_instances, InstanceIds=[account.head.id])[0] == "UnauthorizedOperation"
    assert refused(account.ec2.create_tags, Resources=theirs, Tags=TAGS)[0] == "UnauthorizedOperation"


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({"deny": {"Effect": "Deny", "Action": "ec2:Run*", "Resource": "*"}}, False),
        ({"deny": {"Effect": "Deny", "NotAction": "ec2:*", "Resource": "*"}}, False),
        ({"launch": {"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": "arn:aws:ec2:*:*:instance/*"}}, False),
        ({"launch": {**STATEMENTS["launch"], "Condition": {"ArnLike": {"ec2:LaunchTemplate": "*template/lt-0*"}}}}, True),
        ({"launch": {**STATEMENTS["launch"], "Condition": {"StringEquals": {"aws:RequestedRegion": "eu-west-1"}}}}, False),
        ({"launch": {**STATEMENTS["launch"], "Condition": {"NumericLessThan": {"ec2:VolumeSize": "1"}}}}, False),
        ({"tag": {**STATEMENTS["tag"], "Condition": {"ForAllValues:StringEquals": {"aws:TagKeys": ["busbar"]}}}}, False),
    ],
)  # fmt: skip
def test_policies_are_evaluated_as_iam_evaluates_them(cloud: Cloud, changes: dict[str, Any], may: bool) -> None:
    account = Account(cloud, **changes)
    if may:
        assert len(account.launch()) == 2
    else:
        assert refused(account.launch)[0] == "UnauthorizedOperation"


def test_only_requests_signed_with_credentials_of_this_world_are_answered(account: Account) -> None:
    world = account.cloud.world
    for changes in ({"SecretAccessKey": "x" * 40}, {"Token": "eA=="}, {"AccessKeyId": "ASIAXXXXXXXXXXXXXXXX"}):
        other = client(world, account.service, account.head, ROLE, **changes)
        assert refused(other.describe_instances)[:2] == ("AuthFailure", 401)
    plain = account.service.answer(Request("POST", "/", {"host": f"ec2.{REGION}.amazonaws.com"}, b"Action=DescribeInstances"))
    assert (plain.status, "MissingAuthenticationToken" in plain.body) == (403, True)
    elsewhere = account.service.answer(Request("POST", "/", {"host": "ec2.eu-west-1.amazonaws.com"}, b""))
    assert elsewhere.status == 403


def test_a_request_whose_body_was_changed_after_signing_is_refused(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Request] = []
    answer = account.service.answer

    def noted(request: Request) -> Answer:
        seen.append(request)
        return answer(request)

    monkeypatch.setattr(account.service, "answer", noted)
    account.listed()
    whole = seen[-1]
    assert answer(whole).status == 200
    assert answer(Request(whole.method, whole.target, whole.headers, whole.body + b"&MaxResults=7")).status == 401


def test_two_processes_that_create_a_worlds_key_at_the_same_time_use_the_same_key(tmp_path, monkeypatch):
    """Use threads, which have one process id, because processes of different hosts may have the same process id, too."""
    both, genuine = Barrier(2), sessions.secrets.token_bytes

    def slow(count: int) -> bytes:
        both.wait(10)
        return genuine(count)

    monkeypatch.setattr(sessions.secrets, "token_bytes", slow)
    with ThreadPoolExecutor(2) as pool:
        issued = [*map(json.loads, pool.map(lambda host: sessions.issue(tmp_path, host, ROLE, 0), ("i-1", "i-2")))]
    found = [sessions.opened(tmp_path, one["AccessKeyId"], one["Token"]) for one in issued]
    assert [one and one.instance for one in found] == ["i-1", "i-2"]
    (file,) = (tmp_path / "identities").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_expired_credentials_are_refused(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LIFE_S", -1)
    late = client(account.cloud.world, account.service, account.head, ROLE)
    assert refused(late.describe_instances)[:2] == ("RequestExpired", 400)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"LaunchTemplate": {"LaunchTemplateId": "lt-00000000000000000"}}, "InvalidLaunchTemplateId.NotFound"),
        ({"LaunchTemplate": {"LaunchTemplateName": "x-gpu-p5", "Version": "9"}}, "InvalidLaunchTemplateId.VersionNotFound"),
        ({"MinCount": 3}, "InvalidParameterValue"),
        ({"SubnetId": "subnet-00000000000000000"}, "InvalidParameterCombination"),
        ({"MaxCount": 400}, "VcpuLimitExceeded"),
    ],
)
def test_invalid_requests_to_the_service_are_refused_at_once(account: Account, more: dict[str, Any], code: str) -> None:
    assert refused(account.launch, **more)[0] == code
    assert len(account.listed()) == 1


@pytest.mark.parametrize(("name", "value"), [("Colour", "red"), ("MinCount.1", "2"), ("MinCount", "two")])
def test_an_unknown_parameter_or_an_invalid_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(ServiceError, match=r"UnknownParameter|InvalidParameterValue"):
        query.parsed("RunInstances", {"Action": "RunInstances", "Version": "2016-11-15", name: value})


def test_the_metadata_service_names_the_role_and_gives_the_roles_credentials(
    account: Account, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rehearsal.net.services.start", lambda *_: None)
    folder = account.cloud.world.folder("hosts", account.head.short)
    spec = fakes.running[account.head.short]
    record = {"metadata": dict(spec.metadata), "instance_id": spec.instance_id, "may_put": []}
    (folder / "spec.json").write_text(json.dumps(record))
    service = Metadata(account.cloud.world.path, account.head.short)
    token = service.answer("PUT", "/latest/api/token", {"x-aws-ec2-metadata-token-ttl-seconds": "60"}, b"")[1]
    place, proof = "/latest/meta-data/iam/security-credentials", {"x-aws-ec2-metadata-token": token}
    assert service.answer("GET", f"{place}/", proof, b"") == (200, ROLE)
    given = json.loads(service.answer("GET", f"{place}/{ROLE}", proof, b"")[1])
    assert (given["Code"], given["Type"], given["AccessKeyId"][:4]) == ("Success", "AWS-HMAC", "ASIA")
    assert json.loads(service.answer("GET", f"{place}/{ROLE}", proof, b"")[1]) == given, "the same credentials are given again"
    own = client(account.cloud.world, account.service, account.head, ROLE, **given)
    assert len(own.describe_instances()["Reservations"]) == 1
    assert service.answer("GET", f"{place}/other", proof, b"")[0] == 404
    assert service.answer("GET", f"{place}/{ROLE}", {}, b"")[0] == 401
    (folder / "spec.json").unlink()


def test_running_machines_are_shown_with_their_network_nodes(cloud: Cloud) -> None:
    see = {**STATEMENTS["see"], "Action": ["ec2:DescribeInstances", "ec2:DescribeInstanceTopology"]}
    account = Account(cloud, see=see)
    ids = [one["InstanceId"] for one in account.launch(3, 3)]
    account.until(ids, "running")
    found = {one["InstanceId"]: one for one in account.ec2.describe_instance_topology(InstanceIds=ids)["Instances"]}
    first, second, third = (found[its]["NetworkNodes"] for its in ids)
    assert first == second
    assert (first[:2], len(first)) == (third[:2], 3)
    assert first[2] != third[2]
    shown = account.ec2.describe_instance_topology(MaxResults=2, Filters=[{"Name": "instance-type", "Values": ["p5*"]}])
    assert len(shown["Instances"]) == 2
    assert len(account.ec2.describe_instance_topology(NextToken=shown["NextToken"])["Instances"]) == 1
    (head,) = account.ec2.describe_instance_topology(InstanceIds=[account.head.id])["Instances"]
    assert "NetworkNodes" not in head, "an m5.8xlarge has no network nodes"
    assert refused(account.ec2.describe_instance_topology, InstanceIds=ids, MaxResults=5)[0] == "InvalidParameterCombination"
    assert refused(account.ec2.describe_instance_topology, InstanceIds=["i-0"])[0] == "InvalidInstanceID.NotFound"
    assert refused(account.ec2.describe_instance_topology, GroupNames=["g"] * 101)[0] == "InvalidParameterValue"


def test_network_nodes_are_shown_only_to_a_role_that_may_describe_instance_topology(account: Account) -> None:
    code, status, message = refused(account.ec2.describe_instance_topology)
    assert (code, status) == ("UnauthorizedOperation", 403)
    assert "is not authorized to perform: ec2:DescribeInstanceTopology" in message


def test_capacity_blocks_are_shown_with_their_state_and_times(cloud: Cloud) -> None:
    see = {**STATEMENTS["see"], "Action": ["ec2:DescribeInstances", "ec2:DescribeCapacityReservations"]}
    account = Account(cloud, see=see)
    (block,) = account.ec2.describe_capacity_reservations(CapacityReservationIds=["cr-0bbbbbbbbbbbbbbb1"])[
        "CapacityReservations"
    ]
    assert (block["State"], block["ReservationType"], block["EndDateType"]) == ("active", "capacity-block", "limited")
    assert block["StartDate"] < datetime.now(UTC) < block["EndDate"]
    assert len(account.ec2.describe_capacity_reservations()["CapacityReservations"]) == 4
    faults(cloud, {"kind": "block_scheduled", "seconds": 3600})
    bought = account.stack.make(
        "CapacityBlockReservation",
        "block",
        capacityBlockOfferingId=offering_id("p5.48xlarge", 2),
        instancePlatform="Linux/UNIX",
    )
    assert reservation(account, bought.id)["State"] == "scheduled"
    with cloud.store.change() as database:
        database.records[bought.id].computed.update(startDate="2026-01-01T11:30:00Z", endDate="2026-01-02T11:30:00Z")
    assert reservation(account, bought.id)["State"] == "expired"
    code, _, _ = refused(account.ec2.describe_capacity_reservations, CapacityReservationIds=["cr-0"])
    assert code == "InvalidCapacityReservationId.NotFound"


def reservation(account: Account, block: str) -> dict[str, Any]:
    (one,) = account.ec2.describe_capacity_reservations(CapacityReservationIds=[block])["CapacityReservations"]
    return dict(one)


def test_reservations_are_shown_only_to_a_role_that_may_describe_capacity_reservations(account: Account) -> None:
    code, status, message = refused(account.ec2.describe_capacity_reservations)
    assert (code, status) == ("UnauthorizedOperation", 403)
    assert "is not authorized to perform: ec2:DescribeCapacityReservations" in message
