"""EC2's Query API as the controller calls it: signatures, credentials, requests, answers and errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Known
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from scheduler.elastic.aws import Aws, Credentials, signed
from scheduler.elastic.cloud import BusyError, CapacityError, CloudError, Launch, Machine
from scheduler.elastic.http_client import Answer

ENDPOINT = "https://ec2.us-east-1.amazonaws.com/"
OWN = {"AccessKeyId": "ASIA1", "SecretAccessKey": "secret", "Token": "session"}
SPEC = {"template": "lt-0123456789abcdef0", "tags": {"busbar:pool": "gpu-p5"}}
MODEL = ServiceModel(Loader().load_service_model("ec2", "service-2"))


class Service:
    """The metadata service, and EC2 with `answers` by action; `asked` contains every request to EC2."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.asked = answers, []
        self.metadata: list[str] = []

    def __call__(self, method, url, headers, body, timeout_s) -> Answer:
        assert timeout_s > 0
        if url.startswith("http://169.254.169.254/latest/"):
            return self._metadata(method, url.removeprefix("http://169.254.169.254/latest/"), headers)
        assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=ASIA1/")
        asked = dict(parse_qsl(body.decode()))
        self.asked.append(asked)
        answer = self.answers[asked["Action"]]
        answer = answer.pop(0) if isinstance(answer, list) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _metadata(self, method, path, headers) -> Answer:
        self.metadata.append(path)
        if path == "api/token":
            assert (method, headers["X-aws-ec2-metadata-token-ttl-seconds"]) == ("PUT", "60")
            return Answer(200, b"proof")
        assert headers == {"X-aws-ec2-metadata-token": "proof"}
        texts = {"meta-data/iam/security-credentials/": "role\n", "meta-data/iam/security-credentials/role": json.dumps(OWN)}
        return Answer(200, texts[path].encode())


def ok(action: str, inside: str) -> Answer:
    space = "http://ec2.amazonaws.com/doc/2016-11-15/"
    return Answer(200, f'<?xml version="1.0"?><{action}Response xmlns="{space}">{inside}</{action}Response>'.encode())


def refused(code: str, message: str = "no", status: int = 400) -> Answer:
    return Answer(
        status, f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors></Response>".encode()
    )


def instance(its: str, state: str = "running", launched: str = "t", address: str = "10.0.0.1", why: str = "") -> str:
    tags = f"<tagSet><item><key>busbar:launch</key><value>{launched}</value></item></tagSet>"
    nics = "<networkInterfaceSet><item><networkInterfaceId>eni-1</networkInterfaceId></item></networkInterfaceSet>"
    reason = f"<stateReason><message>{why}</message></stateReason>" if why else ""
    state = f"<instanceState><code>1</code><name>{state}</name></instanceState>"
    return (
        f"<item><instanceId>{its}</instanceId>{state}<privateIpAddress>{address}</privateIpAddress>{reason}{nics}{tags}</item>"
    )


def listed(*instances: str, following: str = "") -> Answer:
    more = f"<nextToken>{following}</nextToken>" if following else ""
    inside = "".join(f"<item><reservationId>r-1</reservationId><instancesSet>{one}</instancesSet></item>" for one in instances)
    return ok("DescribeInstances", f"<reservationSet>{inside}</reservationSet>{more}")


def cloud(**answers: Any) -> tuple[Aws, Service]:
    service = Service(**answers)
    given = {"region": "us-east-1", "endpoint": ENDPOINT, "tags": {"busbar:stack": "org/project/dev"}}
    return Aws(given, service, lambda: 1_764_000_000.0), service


def launch(aws: Aws, count: int = 4, least: int = 4) -> list[str]:
    return aws.launch(Launch("0123abcd", "gpu/p5", count, least, SPEC))


def test_a_request_is_signed_as_the_vendors_own_library_signs_it(monkeypatch):
    now = 1_764_000_000.0
    body = b"Action=DescribeInstances&Filter.1.Name=tag%3Abusbar%3Astack&Version=2016-11-15"
    ours = signed(ENDPOINT, "us-east-1", body, Credentials("ASIA1", "secret", "session"), now)
    theirs = AWSRequest("POST", ENDPOINT, {"Content-Type": ours["content-type"]}, body)
    at = datetime.fromtimestamp(now, UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda **_: at.replace(tzinfo=None), raising=False)
    auth = SigV4Auth(Known("ASIA1", "secret", "session"), "ec2", "us-east-1")
    auth.add_auth(theirs)
    assert ours["x-amz-date"] == theirs.headers["X-Amz-Date"]
    assert ours["authorization"] == theirs.headers["Authorization"]


def test_a_launch_is_one_all_or_nothing_call_with_a_token_and_the_clusters_tags():
    started = "".join(instance(f"i-{at:017x}") for at in range(4))
    aws, service = cloud(RunInstances=ok("RunInstances", f"<instancesSet>{started}</instancesSet>"))
    assert launch(aws) == [f"i-{at:017x}" for at in range(4)]
    (asked,) = service.asked
    assert (asked["MinCount"], asked["MaxCount"], asked["ClientToken"]) == ("4", "4", "0123abcd")
    assert (asked["LaunchTemplate.LaunchTemplateId"], asked["LaunchTemplate.Version"]) == (SPEC["template"], "$Default")
    tags = {asked[f"TagSpecification.1.Tag.{at}.Key"]: asked[f"TagSpecification.1.Tag.{at}.Value"] for at in (1, 2, 3)}
    assert tags == {"busbar:launch": "0123abcd", "busbar:pool": "gpu-p5", "busbar:stack": "org/project/dev"}


def nested(asked: dict[str, str]) -> dict[str, Any]:
    """Return the parameters of a request of the Query API, nested as in the vendor's model."""
    members = {
        "LaunchTemplate": {
            "LaunchTemplateId": asked["LaunchTemplate.LaunchTemplateId"],
            "Version": asked["LaunchTemplate.Version"],
        },
        "TagSpecifications": [{"ResourceType": asked["TagSpecification.1.ResourceType"]}],
    }
    flat = {key: int(value) if key in {"MinCount", "MaxCount"} else value for key, value in asked.items() if "." not in key}
    return {**{key: value for key, value in flat.items() if key not in {"Action", "Version"}}, **members}


def test_a_launch_is_valid_by_the_vendors_model_of_the_api():
    aws, service = cloud(RunInstances=ok("RunInstances", "<instancesSet/>"))
    launch(aws)
    shape = MODEL.operation_model("RunInstances").input_shape
    assert not ParamValidator().validate(nested(service.asked[0]), shape).has_errors()
    # The model names a list in the plural; the Query API names the same list in the singular.
    assert shape.members["TagSpecifications"].serialization["name"] == "TagSpecification"


@pytest.mark.parametrize(
    "code",
    ["InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity", "InsufficientCapacity",
     "InsufficientFreeAddressesInSubnet", "VcpuLimitExceeded", "InstanceLimitExceeded", "MaxSpotInstanceCountExceeded",
     "ReservationCapacityExceeded", "UnfulfillableCapacity", "SpotMaxPriceTooLow"],
)  # fmt: skip
def test_errors_about_quotas_or_spot_prices_or_missing_capacity_or_addresses_are_capacity_errors(code):
    aws, _ = cloud(RunInstances=refused(code, "We currently do not have sufficient capacity"))
    with pytest.raises(CapacityError, match=f"{code}: RunInstances: We currently do not have"):
        launch(aws)


@pytest.mark.parametrize(
    "answer",
    [
        refused("RequestLimitExceeded", status=503),
        refused("ThrottlingException"),
        refused("InternalError", status=500),
        Answer(502, b"<html>Bad gateway"),
        Answer(200, b"half an answ"),
        TimeoutError("timed out"),
        ConnectionResetError("reset"),
    ],
)
def test_errors_of_calls_that_may_succeed_later_are_busy_errors(answer):
    aws, _ = cloud(RunInstances=answer)
    with pytest.raises(BusyError):
        launch(aws)


def test_a_missing_permission_is_neither_a_capacity_nor_a_busy_error():
    aws, _ = cloud(RunInstances=refused("UnauthorizedOperation", "You are not authorized", 403))
    with pytest.raises(CloudError, match="UnauthorizedOperation: RunInstances: You are not authorized") as caught:
        launch(aws)
    assert type(caught.value) is CloudError


def test_without_a_role_the_error_asks_whether_the_machine_has_a_role():
    aws = Aws({"region": "r", "endpoint": ENDPOINT, "tags": {}}, lambda *_: Answer(404, b"not found"))
    with pytest.raises(CloudError, match="the metadata service answers 404 to api/token; does this machine have a role"):
        aws.listing()


@pytest.mark.parametrize("status", [429, 503])
def test_a_throttled_metadata_service_raises_a_busy_error_so_that_the_controller_repeats_its_call(status):
    aws = Aws({"region": "r", "endpoint": ENDPOINT, "tags": {}}, lambda *_: Answer(status, b"slow down"))
    with pytest.raises(BusyError, match=f"NoAnswer: the metadata service answers {status} to api/token"):
        aws.listing()


def test_all_pages_of_machines_with_the_clusters_tags_are_listed():
    pages = [
        listed(instance("i-1"), instance("i-2", "pending", address=""), following="more"),
        listed(instance("i-3", "shutting-down", why="Server.Spot") + instance("i-4", "stopped")),
    ]
    aws, service = cloud(DescribeInstances=pages)
    assert aws.listing().machines == [
        Machine("i-1", "t", "10.0.0.1"),
        Machine("i-2", "t", ""),
        Machine("i-3", "t", "10.0.0.1", ended=True, why="Server.Spot"),
        Machine("i-4", "t", "10.0.0.1", ended=True, stopped=True),
    ]
    first, second = service.asked
    assert (first["Filter.1.Name"], first["Filter.1.Value.1"]) == ("tag-key", "busbar:launch")
    assert (first["Filter.2.Name"], first["Filter.2.Value.1"]) == ("tag:busbar:stack", "org/project/dev")
    assert "NextToken" not in first
    assert second["NextToken"] == "more"


def test_credentials_are_fetched_once_for_several_calls_but_again_before_they_can_expire():
    service, now = Service(DescribeInstances=[listed(), listed(), listed()]), [1000.0]
    aws = Aws({"region": "us-east-1", "endpoint": ENDPOINT, "tags": {}}, service, lambda: now[0])
    aws.listing()
    now[0] += 200
    aws.listing()
    assert service.metadata.count("api/token") == 1
    now[0] += 99
    aws.listing()
    assert service.metadata.count("api/token") == 2


def test_a_machine_that_is_protected_against_termination_does_not_keep_other_machines_running():
    ended: list[str] = []

    def terminate(asked: dict[str, str]) -> Answer:
        ids = [its for key, its in asked.items() if key.startswith("InstanceId")]
        if "i-3" in ids:
            return refused("OperationNotPermitted", "The instance 'i-3' may not be terminated")
        ended.extend(ids)
        return ok("TerminateInstances", "")

    aws, service = cloud()
    genuine = service.__call__

    class Protected(Service):
        def __call__(self, method, url, headers, body, timeout_s) -> Answer:
            asked = dict(parse_qsl(body.decode()))
            return terminate(asked) if asked.get("Action") else genuine(method, url, headers, body, timeout_s)

    aws = Aws({"region": "us-east-1", "endpoint": ENDPOINT, "tags": {}}, Protected())
    with pytest.raises(CloudError, match="'i-3' may not be terminated"):
        aws.terminate([f"i-{number}" for number in range(6)])
    assert sorted(ended) == ["i-0", "i-1", "i-2", "i-4", "i-5"]


def test_many_machines_are_terminated_with_one_call_for_each_thousand():
    aws, service = cloud(TerminateInstances=[ok("TerminateInstances", "")] * 3)
    aws.terminate([f"i-{number:x}" for number in range(2001)])
    assert [len([key for key in asked if key.startswith("InstanceId")]) for asked in service.asked] == [1000, 1000, 1]


def test_machines_that_ec2_no_longer_knows_do_not_prevent_the_termination_of_other_machines():
    forgotten = refused("InvalidInstanceID.NotFound", "The instance IDs 'i-0a, i-0b' do not exist")
    aws, service = cloud(TerminateInstances=[forgotten, ok("TerminateInstances", "")])
    aws.terminate(["i-0a", "i-0b", "i-0c"])
    assert [value for key, value in service.asked[-1].items() if key.startswith("InstanceId")] == ["i-0c"]
    aws, service = cloud(TerminateInstances=[forgotten])
    aws.terminate(["i-0a", "i-0b"])
    assert len(service.asked) == 1


def test_a_refusal_to_terminate_machines_that_exist_is_reported():
    aws, _ = cloud(TerminateInstances=refused("OperationNotPermitted", "termination protection"))
    with pytest.raises(CloudError, match="termination protection"):
        aws.terminate(["i-0a"])


def test_the_places_of_machines_are_their_network_nodes_which_one_call_lists_for_up_to_a_hundred_machines():
    machines = [Machine(f"i-{at}", "t", "10.0.0.1") for at in range(101)]
    layers = "<networkNodeSet><item>nn-1</item><item>nn-2</item><item>nn-3</item></networkNodeSet>"
    # A machine that does not run yet, or whose type has no network nodes, is listed without network nodes.
    items = [
        f"<item><instanceId>{one.id}</instanceId>{layers if one.id != 'i-7' else '<networkNodeSet/>'}</item>"
        for one in machines
    ]
    pages = [
        ok("DescribeInstanceTopology", f"<instanceSet>{''.join(part)}</instanceSet>") for part in (items[:100], items[100:])
    ]
    aws, service = cloud(DescribeInstanceTopology=pages)
    found = aws.places(machines, lambda *_: pytest.fail("a machine was asked"))
    assert set(found) == {one.id for one in machines} - {"i-7"}
    assert set(found.values()) == {("nn-1", "nn-2", "nn-3")}
    asked = [[value for key, value in one.items() if key.startswith("InstanceId.")] for one in service.asked]
    assert [sorted(ids) for ids in asked] == [sorted(one.id for one in machines[:100]), ["i-100"]]


@pytest.mark.parametrize(
    ("state", "kind", "end", "why"),
    [
        ("active", "p5.48xlarge", "2026-12-08T11:30:00.000Z", ""),
        ("active", "p5.48xlarge", "", ""),
        ("scheduled", "p5.48xlarge", "", "begins at 2026-12-01T11:30:00.000Z"),
        ("active", "p5.48xlarge", "2026-12-01T12:29:59.000Z", "ends at {}, and EC2 terminates its machines 30 minutes earlier"),
        ("active", "p5.48xlarge", "2026-12-01T12:30:01.000Z", ""),
        (
            "active",
            "p6e-gb200.36xlarge",
            "2026-12-01T12:30:01.000Z",
            "ends at {}, and EC2 terminates its machines 60 minutes earlier",
        ),
        ("expired", "p5.48xlarge", "2026-12-08T11:30:00.000Z", "is expired and ends at {}"),
        ("payment-failed", "p5.48xlarge", "", "is payment-failed"),
    ],
)
def test_a_node_set_is_closed_while_its_capacity_block_is_not_active_and_shortly_before_the_block_ends(state, kind, end, why):
    now = datetime(2026, 12, 1, 12, 0, tzinfo=UTC).timestamp()
    item = (
        f"<item><capacityReservationId>cr-1</capacityReservationId><instanceType>{kind}</instanceType><state>{state}</state>"
        f"<startDate>2026-12-01T11:30:00.000Z</startDate>{f'<endDate>{end}</endDate>' if end else ''}</item>"
    )
    answer = ok("DescribeCapacityReservations", f"<capacityReservationSet>{item}</capacityReservationSet>")
    service = Service(DescribeCapacityReservations=answer)
    aws = Aws({"region": "us-east-1", "endpoint": ENDPOINT, "tags": {}}, service, lambda: now)
    sets = {"gpu/a": {"template": "lt-1", "block": "cr-1"}, "gpu/b": {"template": "lt-2", "block": "cr-1"}, "gpu/c": {}}
    said = f"Capacity Block cr-1 {why.format(end)}"
    assert aws.closed(sets) == (dict.fromkeys(("gpu/a", "gpu/b"), said) if why else {})
    (asked,) = service.asked
    assert {key: value for key, value in asked.items() if "Id" in key} == {"CapacityReservationId.1": "cr-1"}


def test_a_capacity_block_that_ec2_does_not_know_closes_its_node_sets_but_not_those_of_another_block():
    active = "<capacityReservationId>cr-02</capacityReservationId><state>active</state>"
    answers = [
        refused("InvalidCapacityReservationId.NotFound", "The capacity reservation ID 'cr-01' does not exist"),
        ok("DescribeCapacityReservations", f"<capacityReservationSet><item>{active}</item></capacityReservationSet>"),
    ]
    aws, service = cloud(DescribeCapacityReservations=answers)
    assert aws.closed({"gpu/a": {"block": "cr-01"}, "gpu/b": {"block": "cr-02"}}) == {
        "gpu/a": "EC2 knows no Capacity Block cr-01"
    }
    assert [value for key, value in service.asked[-1].items() if "Id" in key] == ["cr-02"]


def test_without_a_capacity_block_the_service_is_not_queried_about_blocks():
    aws, service = cloud()
    assert aws.closed({"gpu/a": {"template": "lt-1"}}) == {}
    assert not service.asked
