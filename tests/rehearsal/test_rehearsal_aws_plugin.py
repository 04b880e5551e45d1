"""The stand-in for AWS as the engine and the SDK see it: data sources, outputs and the provider protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pulumi_aws
import pytest

# ruff: noqa: F401, F811  fixtures are imported here, and tests take them as parameters of the same names
from aws_cloud import (
    GPU_IMAGE,
    REGION,
    ZONE,
    Stack,
    cloud,
    fakes,
    furnished,
    lustre,
    template,
    token,
)
from pulumi import _types as sdk_types
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from rehearsal.aws import account
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.kinds import INSTANCE
from rehearsal.aws.lookups import LOOKUPS, answer
from rehearsal.aws.registry import KINDS
from rehearsal.aws.sdk import SDK
from rehearsal.aws.server import Provider
from rehearsal.plugin import wire
from rehearsal.plugin.errors import ServiceError

#: Look-ups and their inputs. If an input is the name of one of the stack's resources, asked() replaces it by the resource's id.
QUESTIONS: dict[str, dict[str, Any]] = {
    "getRegion": {},
    "getAvailabilityZones": {},
    "getCallerIdentity": {},
    "getParameter": {"name": "/busbar/x/head-host-key"},
    "getEips": {},
    "getInstanceProfile": {"name": "profile"},
    "getInstances": {"filters": [{"name": "instance-type", "values": ["p5.*"]}]},
    "getVpc": {"id": "vpc"},
    "getSubnet": {"id": "private"},
    "getRouteTable": {"subnetId": "private"},
    "getSecurityGroup": {"id": "nodes"},
    "getSecurityGroupRules": {"filters": []},
    "getSecurityGroupRule": {"securityGroupRuleId": "ssh"},
    "getInstanceTypeOfferings": {
        "filters": [{"name": "instance-type", "values": ["p5.48xlarge"]}],
        "locationType": "availability-zone",
    },
    "getInstanceType": {"instanceType": "p5.48xlarge"},
    "getAmi": {"filters": [{"name": "image-id", "values": [GPU_IMAGE]}]},
    "getServiceQuota": {"serviceCode": "ec2", "quotaName": "Running On-Demand P instances"},
    "getResource": {"typeName": "AWS::EC2::CapacityReservation", "identifier": account.POOLED[0]},
    "getCapacityBlockReservation": {"id": "cr-0bbbbbbbbbbbbbbb1"},
    "getResources": {"tagFilters": [{"key": "Name", "values": ["x"]}], "resourceTypeFilters": ["ec2:capacity-reservation"]},
    "getCapacityBlockOffering": {"instanceType": "p5.48xlarge", "instanceCount": 2, "capacityDurationHours": 24},
}


def asked(stack: Stack, name: str, /, **changes: Any) -> dict[str, Any]:
    given = {
        key: stack.ids.get(value, value) if isinstance(value, str) else value
        for key, value in (QUESTIONS[name] | changes).items()
    }
    return answer(next(one for one in LOOKUPS if one.endswith(f":{name}")), given, stack.cloud)


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_data_source_answers_with_the_names_that_the_sdk_reads(furnished: Stack, lookup: str) -> None:
    name = lookup.rpartition(":")[2]
    room = lookup.partition("/")[0].rpartition(":")[2]
    module = pulumi_aws if room == "index" else getattr(pulumi_aws, room)
    result = getattr(module, f"{name[0].upper()}{name[1:]}Result")
    read = {wire_name for _, wire_name, _ in sdk_types._py_properties(result)}  # noqa: SLF001  the SDK's own index
    answered = asked(furnished, name)
    assert set(answered) - {"region", "id"} <= read
    assert len(set(answered) & read) > 2


def test_lookups_find_the_created_resources(furnished: Stack) -> None:
    found = asked(furnished, "getInstances")
    assert (len(found["ids"]), found["privateIps"]) == (2, ["10.1.0.6", "10.1.0.7"])
    assert asked(furnished, "getInstances", filters=[], instanceTags={"Name": "x-head"})["ids"] == [furnished.ids["instance"]]
    of_spot = {"name": "instance-lifecycle", "values": ["spot", "capacity-block"]}
    assert asked(furnished, "getInstances", filters=[{"name": "instance-type", "values": ["p*"]}, of_spot])["ids"] == []
    assert asked(furnished, "getInstanceProfile")["roleName"] == furnished.ids["role"]
    with pytest.raises(ServiceError, match=r"NoSuchEntity.*reading IAM Instance Profile \(nobody\)"):
        asked(furnished, "getInstanceProfile", name="nobody")
    with pytest.raises(ServiceError, match="filter 'colour' is invalid"):
        asked(furnished, "getInstances", filters=[{"name": "colour", "values": ["red"]}])
    placement = asked(furnished, "getResource", typeName="AWS::EC2::PlacementGroup", identifier=furnished.ids["group"])
    assert json.loads(placement["properties"])["Strategy"] == "cluster"
    with pytest.raises(ServiceError, match="NotFound"):
        asked(furnished, "getResource", typeName="AWS::EC2::PlacementGroup", identifier="nobody")
    odcr = asked(furnished, "getResource", identifier=furnished.ids["odcr"])
    assert json.loads(odcr["properties"])["TotalInstanceCount"] == 2


def test_lookups_in_another_region_find_nothing(furnished: Stack) -> None:
    there = {"region": "eu-west-1"}
    assert asked(furnished, "getEips")["allocationIds"]
    assert asked(furnished, "getEips", **there)["allocationIds"] == []
    assert asked(furnished, "getInstances", filters=[], **there)["ids"] == []
    assert asked(furnished, "getSecurityGroupRules", **there)["ids"] == []
    for name in ("getVpc", "getSubnet", "getSecurityGroup", "getSecurityGroupRule"):
        with pytest.raises(ServiceError, match=r"no matching .* found"):
            asked(furnished, name, **there)
    with pytest.raises(ServiceError, match="query returned no results"):
        asked(furnished, "getRouteTable", **there)


def test_an_instance_that_is_being_terminated_is_shutting_down_and_not_running(furnished: Stack) -> None:
    ident = furnished.ids["instance"]
    with furnished.cloud.store.change() as database:
        database.records[ident].private["ending"] = True
    assert ident not in asked(furnished, "getInstances", filters=[])["ids"]
    assert asked(furnished, "getInstances", filters=[], instanceStateNames=["shutting-down"])["ids"] == [ident]


def test_the_rehearsed_look_ups_return_an_existing_networks_routes_and_free_addresses_and_rules(cloud: Cloud) -> None:
    stack = Stack(cloud).network().rules()
    ids = stack.ids
    assert asked(stack, "getVpc") | {"id": 0} == asked(stack, "getVpc", id="vpc") | {"id": 0}
    assert (asked(stack, "getVpc")["enableDnsSupport"], asked(stack, "getVpc")["enableDnsHostnames"]) == (True, True)
    private = asked(stack, "getSubnet")
    assert (private["vpcId"], private["availabilityZone"], private["cidrBlock"]) == (ids["vpc"], ZONE, "10.1.0.0/17")
    assert private["availableIpAddressCount"] == 2**15 - 5
    (out,) = asked(stack, "getRouteTable")["routes"]
    assert (out["cidrBlock"], out["natGatewayId"], out["gatewayId"]) == ("0.0.0.0/0", ids["nat"], "")
    assert asked(stack, "getRouteTable", subnetId="public")["routes"][0]["gatewayId"] == ids["igw"]
    listed = asked(stack, "getSecurityGroupRules", filters=[{"name": "group-id", "values": [ids["nodes"]]}])["ids"]
    rules = [asked(stack, "getSecurityGroupRule", securityGroupRuleId=one) for one in listed]
    peers = {(one["isEgress"], one["ipProtocol"], one["referencedSecurityGroupId"] or one["cidrIpv4"]) for one in rules}
    nodes, head = ids["nodes"], ids["head"]
    assert peers == {(False, "-1", nodes), (True, "-1", nodes), (True, "-1", "0.0.0.0/0"), (False, "-1", head)}
    ssh = asked(stack, "getSecurityGroupRule")
    assert (ssh["fromPort"], ssh["toPort"], rules[0]["fromPort"]) == (22, 22, -1)


def test_lookups_of_missing_resources_and_of_a_subnet_on_the_main_route_table_fail_with_the_providers_errors(
    cloud: Cloud,
) -> None:
    stack = Stack(cloud).network()
    stack.make("Subnet", "lonely", vpcId=stack.ids["vpc"], availabilityZone=ZONE, cidrBlock="10.1.128.0/17")
    with pytest.raises(ServiceError, match="query returned no results"):
        asked(stack, "getRouteTable", subnetId="lonely")
    main = asked(stack, "getVpc")["mainRouteTableId"]
    assert asked(stack, "getRouteTable", subnetId=None, routeTableId=main)["routes"] == []
    for name, noun in (("getVpc", "VPC"), ("getSubnet", "Subnet"), ("getSecurityGroup", "Security Group")):
        with pytest.raises(ServiceError, match=f"no matching EC2 {noun} found"):
            asked(stack, name, id="nothing")
    with pytest.raises(ServiceError, match="no matching Security Group Rule found"):
        asked(stack, "getSecurityGroupRule", securityGroupRuleId="nothing")


def test_a_subnet_look_up_by_tags_fails_with_the_providers_error_unless_exactly_one_subnet_matches(cloud: Cloud) -> None:
    stack = Stack(cloud).network()
    place = {"vpcId": stack.ids["vpc"], "availabilityZone": f"{REGION}b"}
    for at, noun in enumerate(("one", "other")):
        stack.make("Subnet", noun, **place, cidrBlock=f"10.1.{128 + at}.0/24", tags={"Name": noun, "of": "us"})

    def by(**tags: str) -> Any:
        return asked(stack, "getSubnet", id=None, tags=tags)

    assert by(Name="other", of="us")["availabilityZone"] == f"{REGION}b"
    assert by(Name="other")["id"] == stack.ids["other"]
    with pytest.raises(ServiceError, match="no matching EC2 Subnet found"):
        by(Name="other", of="them")
    with pytest.raises(ServiceError, match="multiple EC2 Subnets matched; use additional constraints"):
        by(of="us")


def test_lookups_show_the_vendors_offers(furnished: Stack) -> None:
    kind = asked(furnished, "getInstanceType")
    assert (kind["efaMaximumInterfaces"], len(kind["networkCards"]), kind["networkCards"][31]["maximumInterfaces"]) == (
        32,
        32,
        2,
    )
    assert asked(furnished, "getInstanceTypeOfferings")["locations"] == [ZONE, f"{REGION}b"]
    image = asked(furnished, "getAmi")
    assert (image["rootDeviceName"], image["blockDeviceMappings"][0]["ebs"]["volume_size"]) == ("/dev/sda1", "75")
    assert asked(furnished, "getServiceQuota")["value"] == 3072.0
    pool = asked(furnished, "getResource", typeName="AWS::ResourceGroups::Group", identifier=account.GROUP)
    assert json.loads(pool["properties"])["Resources"][0].endswith(f"capacity-reservation/{account.POOLED[0]}")
    with pytest.raises(ServiceError, match="returned more than one result"):
        asked(furnished, "getAmi", filters=[{"name": "architecture", "values": ["x86_64"]}])
    with pytest.raises(ServiceError, match="do not exist"):
        asked(furnished, "getInstanceType", instanceType="p9.metal")


def test_an_offered_capacity_block_can_be_bought_and_an_instance_can_be_launched_into_the_block(cloud: Cloud) -> None:
    stack = Stack(cloud).network().rules().roles()
    offer = asked(stack, "getCapacityBlockOffering")
    assert (offer["availabilityZone"], offer["upfrontFee"], offer["currencyCode"]) == (ZONE, f"{48 * 31.464:.2f}", "USD")
    block = stack.make(
        "CapacityBlockReservation",
        "block",
        capacityBlockOfferingId=offer["capacityBlockOfferingId"],
        instancePlatform="Linux/UNIX",
        tags={"Name": "x"},
    )
    assert (block.computed["instanceType"], block.computed["instanceCount"]) == ("p5.48xlarge", 2)
    into = {"capacityReservationSpecification": {"capacityReservationTarget": {"capacityReservationId": block.id}}}
    bare = {key: value for key, value in template(stack.ids | {"group": ""}).items() if key != "placement"}
    made = stack.make("LaunchTemplate", "template", **bare, **into, instanceMarketOptions={"marketType": "capacity-block"})
    stack.make("Instance", "one", launchTemplate={"id": made.id, "version": "1"})
    assert asked(stack, "getCapacityBlockReservation", id=block.id)["instanceCount"] == 2
    (found,) = asked(stack, "getResources")["resourceTagMappingLists"]
    assert (found["resourceArn"].rpartition("/")[2], found["tags"]) == (block.id, {"Name": "x"})
    for missed in ({"tagFilters": [{"key": "Name", "values": ["y"]}]}, {"resourceTypeFilters": ["ec2:instance"]}):
        assert asked(stack, "getResources", **missed)["resourceTagMappingLists"] == []
    assert asked(stack, "getResources", tagFilters=[{"key": "Name"}])["resourceTagMappingLists"] == [found]
    with pytest.raises(ServiceError, match="finds resources by tags and types"):
        asked(stack, "getResources", resourceArnLists=["arn"])


def test_resources_answer_with_names_that_the_sdk_reads(furnished: Stack) -> None:
    provider = Provider(furnished.cloud)
    for record in furnished.cloud.store.read().records.values():
        names = set(KINDS[record.token].outputs(record))
        own = {"ownerId", "tagsAll", "region", "name"}  # outputs that the SDK reads only for some kinds
        assert names <= SDK.output_names(record.token) | own, record.token
        assert set(provider.outputs(record)) <= SDK.output_names(record.token)


class Served:
    """The provider, served in this process by the protocol that the engine uses."""

    def __init__(self, cloud: Cloud) -> None:
        self.server = grpc.server(ThreadPoolExecutor(4))
        provider_pb2_grpc.add_ResourceProviderServicer_to_server(Provider(cloud), self.server)
        port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self.stub: Any = provider_pb2_grpc.ResourceProviderStub(grpc.insecure_channel(f"127.0.0.1:{port}"))


@pytest.fixture
def served(cloud: Cloud) -> Iterator[Any]:
    running = Served(cloud)
    yield running.stub
    running.server.stop(None)


def urn(noun: str, name: str) -> str:
    return f"urn:pulumi:dev::p::parent${token(noun)}::{name}"


def test_without_a_configured_region_the_region_of_the_environment_is_used(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert not served.CheckConfig(provider_pb2.CheckRequest(urn="", news=wire.dumps({}))).failures
    monkeypatch.setenv("AWS_REGION", "ap-northeast-1")
    served.Configure(provider_pb2.ConfigureRequest(args=wire.dumps({})))
    checked = served.Check(provider_pb2.CheckRequest(urn=urn("Vpc", "v"), news=wire.dumps({"cidrBlock": "10.0.0.0/16"})))
    assert wire.loads(checked.inputs)["region"] == "ap-northeast-1"


def test_a_region_is_required_and_is_set_on_every_resource(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    missing = served.CheckConfig(provider_pb2.CheckRequest(urn="", news=wire.dumps({})))
    assert "Missing region configuration" in missing.failures[0].reason
    wrong = served.CheckConfig(provider_pb2.CheckRequest(urn="", news=wire.dumps({"region": "moon-base-1"})))
    assert "invalid AWS Region: moon-base-1" in wrong.failures[0].reason
    served.Configure(provider_pb2.ConfigureRequest(args=wire.dumps({"region": "ap-northeast-1"})))
    checked = served.Check(provider_pb2.CheckRequest(urn=urn("Vpc", "v"), news=wire.dumps({"cidrBlock": "10.0.0.0/16"})))
    assert wire.loads(checked.inputs) == {"cidrBlock": "10.0.0.0/16", "region": "ap-northeast-1"}
    made = served.Create(provider_pb2.CreateRequest(urn=urn("Vpc", "v"), properties=checked.inputs))
    assert ":ec2:ap-northeast-1:" in wire.loads(made.properties)["arn"]
    tokens = {"tok": "aws:index/getRegion:getRegion", "args": wire.dumps({})}
    assert wire.loads(getattr(served.Invoke(provider_pb2.InvokeRequest(**tokens)), "return"))["region"] == "ap-northeast-1"


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ({"k" * 129: "x"}, "InvalidParameterValue: Tag key exceeds the maximum length of 128 characters"),
        ({"k": "x" * 257}, "InvalidParameterValue: Tag value exceeds the maximum length of 256 characters"),
        ({"": "x"}, "InvalidParameterValue: Tag keys may not be empty"),
        ({"aws:k": "x"}, "InvalidParameterValue: Tag keys starting with 'aws:' are reserved"),
        (
            {str(number): "x" for number in range(51)},
            "TagLimitExceeded: The maximum number of Tags allowed on a resource is 50",
        ),
        ({"k" * 128: "x" * 256} | {str(number): "" for number in range(49)}, None),
    ],
)
def test_tags_that_ec2_does_not_accept_are_refused_on_a_resource_and_in_a_launch_template(
    served: Any, tags: dict[str, str], said: str | None
) -> None:
    for kind, inputs, path in (
        ("Vpc", {"cidrBlock": "10.0.0.0/16", "tags": tags}, "tags"),
        ("LaunchTemplate", {"tagSpecifications": [{"resourceType": "instance", "tags": tags}]}, "tagSpecifications[0].tags"),
    ):
        found = served.Check(provider_pb2.CheckRequest(urn=urn(kind, "one"), news=wire.dumps(inputs))).failures
        assert [one.property for one in found] == ([path] if said else [])
        assert all(one.reason.startswith(said or "") for one in found)


def test_a_preview_knows_the_given_inputs_but_no_computed_outputs(served: Any) -> None:
    inputs = wire.dumps({"cidrBlock": "10.0.0.0/16"})
    made = wire.loads(
        served.Create(provider_pb2.CreateRequest(urn=urn("Vpc", "v"), properties=inputs, preview=True)).properties
    )
    assert made["cidrBlock"] == "10.0.0.0/16"
    assert made["mainRouteTableId"] is wire.UNKNOWN


def test_resources_can_be_read_and_changed_and_deleted_by_the_ids_that_the_vendors_provider_uses(
    served: Any, cloud: Cloud
) -> None:
    stack = Stack(cloud).network().rules().roles()
    name = stack.ids["role"]
    read = served.Read(provider_pb2.ReadRequest(urn=urn("Role", "role"), id=name))
    assert (read.id, wire.loads(read.properties)["name"]) == (name, name)
    bucket = {"bucket": "training-data"}
    made = served.Create(provider_pb2.CreateRequest(urn=urn("Bucket", "b"), properties=wire.dumps(bucket)))
    assert made.id == "training-data"
    shut = served.Create(provider_pb2.CreateRequest(urn=urn("BucketPublicAccessBlock", "s"), properties=wire.dumps(bucket)))
    assert shut.id == "training-data", "the setting's id is the bucket's, as with the vendor's provider"
    news, olds = wire.dumps(bucket | {"tags": {"a": "b"}}), wire.dumps(bucket)
    request = provider_pb2.DiffRequest(urn=urn("Bucket", "b"), id=made.id, old_inputs=olds, olds=olds, news=news)
    assert list(served.Diff(request).diffs) == ["tags"]
    served.Update(provider_pb2.UpdateRequest(urn=urn("Bucket", "b"), id=made.id, olds=olds, news=news))
    for noun, logical in (("BucketPublicAccessBlock", "s"), ("Bucket", "b")):
        served.Delete(provider_pb2.DeleteRequest(urn=urn(noun, logical), id="training-data"))
        gone = served.Read(provider_pb2.ReadRequest(urn=urn(noun, logical), id="training-data"))
        assert gone.id == ""
    with pytest.raises(grpc.RpcError, match="api error DeleteConflict"):
        served.Delete(provider_pb2.DeleteRequest(urn=urn("Role", "role"), id=name))


def test_the_engine_gets_the_id_of_a_file_system_whose_creation_fails(served: Any, cloud: Cloud) -> None:
    stack = Stack(cloud).network()
    inputs = lustre(stack.ids)
    with pytest.raises(grpc.RpcError) as refused:
        served.Create(provider_pb2.CreateRequest(urn=urn("LustreFileSystem", "l"), properties=wire.dumps(inputs)))
    details = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    failed = provider_pb2.ErrorResourceInitFailed()
    assert status_pb2.Status.FromString(details).details[0].Unpack(failed)
    assert failed.id in cloud.store.read().records
    assert "unexpected state 'FAILED'" in failed.reasons[0]
    served.Delete(provider_pb2.DeleteRequest(urn=urn("LustreFileSystem", "l"), id=failed.id))
    assert failed.id not in cloud.store.read().records


def test_reading_a_terminated_instance_reports_that_the_instance_is_gone(served: Any, cloud: Cloud, fakes: Any) -> None:
    stack = Stack(cloud).network().rules().roles()
    record = stack.head()
    read = provider_pb2.ReadRequest(urn=urn("Instance", "instance"), id=record.id)
    assert served.Read(read).id == record.id
    fakes.running.clear()
    assert served.Read(read).id == ""
    assert cloud.store.read().of(INSTANCE) == []
