"""The AWS stand-in refuses what AWS refuses, and replaces what the AWS provider replaces."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from aws_cloud import (
    GPU_IMAGE,
    OTHER,
    TRUST,
    Fakes,
    Stack,
    cloud,
    fakes,
    fleet,
    furnished,
    head,
    openzfs,
    refusals,
    token,
)

# ruff: noqa: F401, F811  fixtures are imported here, and tests take them as parameters of the same names
from stand_in import put

from rehearsal.aws import account, launch_rules, members, models
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.diff import REPLACED, changes
from rehearsal.aws.launch import Nic
from rehearsal.aws.registry import KINDS
from rehearsal.aws.sdk import SDK
from rehearsal.aws.types import TYPES
from rehearsal.plugin import wire
from rehearsal.plugin.errors import ServiceError

STATEMENT = {"Effect": "Allow", "Action": "ssm:PutParameter", "Resource": "*"}


def document(**changes: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [STATEMENT | changes]})


EXPORTS = "rootVolumeConfiguration.nfsExports.clientConfigurations"
TEMPLATE = "launchTemplateConfigs.0.launchTemplateSpecification"
REFUSED = [
    # Types, checked against the SDK.
    ("Vpc", "vpc", "cidrBlok", "x", "did you mean 'cidrBlock'?"),
    ("Vpc", "vpc", "enableDnsSupport", "yes", "must be a boolean"),
    ("Subnet", "public", "vpcId", None, "MissingParameter"),
    ("LaunchTemplate", "template", "networkInterfaces.0.networkCardIndex", "0", "must be a whole number"),
    ("Fleet", "fleet", "targetCapacitySpecification.totalTargetCapacity", "2", "must be a whole number"),
    # Enumerations, patterns and ranges, checked against the API models.
    ("Vpc", "vpc", "instanceTenancy", "shared", "it must be one of default, dedicated, host (Tenancy)"),
    ("PlacementGroup", "group", "strategy", "close", "it must be one of cluster, spread, partition"),
    ("LaunchTemplate", "template", "instanceInitiatedShutdownBehavior", "hibernate", "(ShutdownBehavior)"),
    ("LaunchTemplate", "template", "metadataOptions", {"httpTokens": "needed"}, "LaunchTemplateHttpTokensState"),
    ("LaunchTemplate", "template", "ebsOptimized", "perhaps", "true or false"),
    ("LaunchTemplate", "template", "name", "x", "3 to 128 characters"),
    ("Instance", "instance", "metadataOptions.httpTokens", "needed", "optional, required"),
    ("Fleet", "fleet", "onDemandOptions.allocationStrategy", "cheapest", "lowest-price, prioritized"),
    ("Role", "role", "name", "a role", "ValidationError"),
    ("Role", "role", "maxSessionDuration", 60, "from 3600 to 43200"),
    ("LustreFileSystem", "lustre", "deploymentType", "PERSISTENT_3", "SCRATCH_1, SCRATCH_2, PERSISTENT_1, PERSISTENT_2"),
    ("LustreFileSystem", "lustre", "fileSystemTypeVersion", "two", "BadRequest"),
    ("OpenZfsFileSystem", "home", "automaticBackupRetentionDays", 91, "from 0 to 90"),
    ("OpenZfsFileSystem", "home", f"{EXPORTS}.0.clients", "", "1 to 128 characters"),
    ("DataRepositoryAssociation", "mirror", "s3.autoImportPolicy.events", ["MADE"], "NEW, CHANGED, DELETED"),
    ("DataRepositoryAssociation", "mirror", "s3.autoExportPolicy.events", ["NEW"] * 4, "has 4 entries; it must be 0 to 3"),
    ("BucketOwnershipControls", "owned", "rule.objectOwnership", "Everybody", "BucketOwnerEnforced"),
    ("Parameter", "parameter", "type", "Text", "String, StringList, SecureString"),
    # Networks: rules that only the service knows.
    ("Vpc", "vpc", "cidrBlock", "10.0.0.0/15", "InvalidVpc.Range"),
    ("Vpc", "vpc", "cidrBlock", "10.0.0.1/16", "not a valid CIDR block"),
    ("Vpc", "vpc", "cidrBlock", "169.254.0.0/16", "AWS reserves it"),
    ("Vpc", "vpc", "enableDnsSupport", False, "DNS host names need DNS support"),
    ("Vpc", "vpc", "assignGeneratedIpv6CidrBlock", True, "NotRehearsed"),
    ("VpcIpv4CidrBlockAssociation", "range", "cidrBlock", "10.0.128.0/17", "conflicts with 10.0.0.0/16"),
    ("VpcIpv4CidrBlockAssociation", "range", "vpcId", "vpc-0none", "The vpc ID 'vpc-0none' does not exist"),
    ("Subnet", "public", "availabilityZone", "us-east-1z", "parameter availabilityZone is invalid"),
    ("Subnet", "public", "cidrBlock", "10.1.64.0/18", "InvalidSubnet.Conflict"),
    ("Subnet", "public", "cidrBlock", "10.0.0.0/29", "InvalidSubnet.Range"),
    ("InternetGateway", "igw", "tags", {"Name": "second"}, "already has an internet gateway attached"),
    ("Eip", "eip", "instance", "i-0none", "InvalidInstanceID.NotFound"),
    ("NatGateway", "nat", "subnetId", "subnet-0none", "InvalidSubnetID.NotFound"),
    ("NatGateway", "nat", "allocationId", None, "must contain the parameter AllocationId"),
    ("NatGateway", "nat", "tags", {"Name": "second"}, "already belongs to another NAT gateway"),
    ("Route", "public-route", "gatewayId", "igw-0none", "InvalidInternetGatewayID.NotFound"),
    ("Route", "public-route", "destinationCidrBlock", "anywhere", "not a valid CIDR block"),
    ("Route", "public-route", "gatewayId", None, "one target is needed"),
    ("Route", "public-route", "tags", None, "RouteAlreadyExists"),
    ("RouteTableAssociation", "public-joined", "routeTableId", "rtb-0none", "InvalidRouteTableID.NotFound"),
    ("RouteTableAssociation", "public-joined", "region", "us-east-1", "Resource.AlreadyAssociated"),
    ("VpcEndpoint", "s3", "serviceName", "com.amazonaws.us-east-1.s4", "InvalidServiceName"),
    ("VpcEndpoint", "s3", "vpcEndpointType", "Interface", "NotRehearsed"),
    ("VpcEndpoint", "s3", "tags", {"Name": "second"}, "RouteAlreadyExists"),
    # Security groups.
    ("SecurityGroup", "nodes", "name", "sg-mine", "may not be in the format sg-*"),
    ("SecurityGroup", "nodes", "name", "default", "InvalidGroup.Duplicate"),
    ("SecurityGroup", "nodes", "ingress", [{"protocol": "quic", "fromPort": 1, "toPort": 2}], "ingress[0].protocol"),
    ("SecurityGroupIngressRule", "nodes-in", "referencedSecurityGroupId", "sg-0none", "InvalidGroup.NotFound"),
    ("SecurityGroupIngressRule", "nodes-in", "cidrIpv4", "10.0.0.0/16", "exactly one of"),
    ("SecurityGroupIngressRule", "nodes-in", "description", "twice", "InvalidPermission.Duplicate"),
    ("SecurityGroupIngressRule", "nodes-in", "fromPort", 22, "protocol -1 covers all ports"),
    ("SecurityGroupIngressRule", "ssh", "toPort", 21, "Invalid TCP/UDP port range (22:21)"),
    ("SecurityGroupIngressRule", "ssh", "toPort", None, "must contain fromPort and toPort"),
    ("SecurityGroupIngressRule", "ssh", "ipProtocol", "quic", "Unknown protocol"),
    ("SecurityGroupIngressRule", "ssh", "cidrIpv4", "198.51.100.1/24", "not a valid CIDR block"),
    # Roles.
    ("Role", "role", "assumeRolePolicy", "{", "contains invalid Json"),
    ("Role", "role", "assumeRolePolicy", document(), "a trust policy must name a principal"),
    ("RolePolicy", "policy", "policy", TRUST, "should not specify a principal"),
    ("RolePolicy", "policy", "policy", document(Action="PutParameter"), "must be prefaced by a vendor"),
    ("RolePolicy", "policy", "policy", document(Effect="Maybe"), "Effect Allow or Deny"),
    ("RolePolicy", "policy", "policy", document(Resource="parameter/x"), "must be in ARN format"),
    ("RolePolicy", "policy", "role", "nobody", "The role with name nobody cannot be found"),
    ("RolePolicyAttachment", "attached", "policyArn", "arn:aws:iam::aws:policy/Everything", "is not attachable"),
    # Machines: rules that only the service knows.
    ("Instance", "instance", "ami", "ami-0none", "InvalidAMIID.NotFound"),
    ("Instance", "instance", "instanceType", "m5.9xlarge", "Invalid value 'm5.9xlarge' for InstanceType"),
    ("Instance", "instance", "instanceType", "m7g.2xlarge", "does not match the architecture 'x86_64'"),
    ("Instance", "instance", "subnetId", "subnet-0none", "InvalidSubnetID.NotFound"),
    ("Instance", "instance", "vpcSecurityGroupIds", ["sg-0none"], "InvalidGroup.NotFound"),
    ("Instance", "instance", "iamInstanceProfile", "nobody", "Invalid IAM Instance Profile name"),
    ("Instance", "instance", "keyName", "nobody", "InvalidKeyPair.NotFound"),
    ("Instance", "instance", "userData", "#" * 16_385, "limited to 16384 bytes"),
    ("Instance", "instance", "rootBlockDevice.volumeSize", 7, "smaller than snapshot"),
    ("Instance", "instance", "rootBlockDevice.throughput", 1000, "throughput to iops ratio is too high"),
    ("Instance", "instance", "rootBlockDevice.iops", 90_000, "not in the range of gp3"),
    ("Instance", "instance", "privateIp", "10.0.0.3", "does not fall within the subnet's address range"),
    ("Instance", "instance", "privateIp", "10.0.0.5", "InvalidIPAddress.InUse"),
    ("Instance", "instance", "placementGroup", "nobody", "InvalidPlacementGroup.Unknown"),
    ("Instance", "instance", "launchTemplate", {"id": "lt-0none", "version": "1"}, "with template ID lt-0none, does not exist"),
    ("LaunchTemplate", "template", "userData", "#cloud-config", "Invalid BASE64 encoding"),
    ("LaunchTemplate", "template", "networkInterfaces.3.securityGroups", ["sg-0none"], "InvalidGroup.NotFound"),
    ("LaunchTemplate", "template", "networkInterfaces.3.subnetId", "subnet-0none", "InvalidSubnetID.NotFound"),
    ("LaunchTemplate", "template", "vpcSecurityGroupIds", ["sg-0none"], "may not be specified on the same request"),
    ("LaunchTemplate", "template", "name", "x-gpu-p5", "AlreadyExistsException"),
    ("Fleet", "fleet", f"{TEMPLATE}.version", "7", "VersionNotFound"),
    ("Fleet", "fleet", f"{TEMPLATE}.launchTemplateId", "lt-0none", "does not exist"),
    ("Fleet", "fleet", "targetCapacitySpecification.totalTargetCapacity", 0, "InvalidTargetCapacity"),
    ("Fleet", "fleet", "targetCapacitySpecification.totalTargetCapacity", 15, "VcpuLimitExceeded"),
    ("Fleet", "fleet", "onDemandOptions.minTargetCapacity", 3, "minTargetCapacity is 3, but totalTargetCapacity is only 2"),
    ("Fleet", "fleet", "onDemandOptions.singleAvailabilityZone", None, "needs singleAvailabilityZone or singleInstanceType"),
    ("Fleet", "fleet", "type", "maintain", "NotRehearsed"),
    ("PlacementGroup", "group", "partitionCount", 3, "strategy must be partition"),
    ("PlacementGroup", "group", "name", account.PLACEMENT_GROUP, "InvalidPlacementGroup.Duplicate"),
    ("KeyPair", "key", "publicKey", "AAAA", "not in valid OpenSSH public key format"),
    ("CapacityReservation", "odcr", "availabilityZone", "us-east-1f", "is not offered in us-east-1f"),
    # File systems, buckets and parameters: rules that only the service knows.
    ("LustreFileSystem", "lustre", "storageCapacity", 1300, "must be 1200, or a multiple of 2400"),
    ("LustreFileSystem", "lustre", "perUnitStorageThroughput", 200, "125, 250, 500, 1000"),
    ("LustreFileSystem", "lustre", "perUnitStorageThroughput", None, "PERSISTENT_2 needs it"),
    ("LustreFileSystem", "lustre", "efaEnabled", True, "is a multiple of 19200 GiB"),
    ("LustreFileSystem", "lustre", "importPath", "s3://x", "data repository associations"),
    ("LustreFileSystem", "lustre", "securityGroupIds", ["sg-0none"], "InvalidGroup.NotFound"),
    ("OpenZfsFileSystem", "home", "deploymentType", "SINGLE_AZ_HA_1", "is not supported in us-east-1"),
    ("OpenZfsFileSystem", "home", "throughputCapacity", 100, "Invalid throughput 100"),
    ("OpenZfsFileSystem", "home", "storageCapacity", 32, "must be 64 to 524288"),
    ("OpenZfsFileSystem", "home", "deploymentType", "MULTI_AZ_1", "needs 2 subnets"),
    ("DataRepositoryAssociation", "mirror", "fileSystemPath", "/data/sub", "overlap"),
    ("DataRepositoryAssociation", "mirror", "dataRepositoryPath", "bucket", "it must be s3://bucket"),
    ("DataRepositoryAssociation", "mirror", "fileSystemId", "fs-0123456789abcdef0", "FileSystemNotFound"),
    ("Bucket", "bucket", "bucket", "Mine", "InvalidBucketName"),
    ("Bucket", "bucket", "website", {"indexDocument": "x"}, "NotRehearsed"),
    ("BucketPublicAccessBlock", "shut", "bucket", "nobodys", "NoSuchBucket"),
    ("Parameter", "parameter", "name", "/aws/mine", "can't be prefixed"),
    ("Parameter", "parameter", "value", "twice", "exactly one of"),
    ("Parameter", "parameter", "type", "SecureString", "insecureValue cannot be set"),
    ("Parameter", "parameter", "insecureValue", "x" * 4097, "4096 bytes"),
    ("Parameter", "parameter", "description", "twice", "ParameterAlreadyExists"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]}-{case[2]}-{case[4]}")
def test_inputs_that_aws_refuses_or_that_cannot_be_rehearsed_are_refused_with_these_words(
    furnished: Stack, case: tuple[str, str, str, Any, str]
) -> None:
    noun, name, path, value, words = case
    inputs = furnished.inputs[name]
    # The value None removes the input. If the original inputs lack that input, the test creates the same resource a second
    # time, and the duplicate is refused.
    changed = inputs if value is None and path.rpartition(".")[2] not in str(inputs) else put(inputs, path, value)
    assert words in refusals(furnished.cloud, noun, changed)


@pytest.mark.parametrize(
    ("rate", "size_gib", "words"),
    [
        (12, 6000, ""),
        (40, 1800, ""),
        (40, 6000, "Invalid StorageCapacity 6000 GiB: it must be a multiple of 1800 GiB."),
        (12, 1200, "Invalid StorageCapacity 1200 GiB: it must be a multiple of 6000 GiB."),
    ],
)
def test_the_throughput_of_lustre_on_hard_disks_decides_which_sizes_are_accepted(
    furnished: Stack, rate: int, size_gib: int, words: str
) -> None:
    disks = {"deploymentType": "PERSISTENT_1", "storageType": "HDD", "driveCacheType": "NONE", "storageCapacity": size_gib}
    plain = {key: value for key, value in furnished.inputs["lustre"].items() if key != "metadataConfiguration"}
    found = refusals(furnished.cloud, "LustreFileSystem", plain | disks | {"perUnitStorageThroughput": rate})
    assert words in found
    assert bool(words) == ("StorageCapacity" in found)


def leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
        # The items of a list are alike, such as 33 interfaces. So the test changes only the first three.
        for key, one in pairs[:3] if isinstance(value, list) else pairs:
            yield from leaves(one, f"{path}.{key}".lstrip("."))
    if path:
        yield path


def test_an_input_whose_value_is_not_known_yet_is_never_refused(furnished: Stack) -> None:
    for name, inputs in furnished.inputs.items():
        noun = furnished.nouns[name]
        known = set(refusals(furnished.cloud, noun, inputs).splitlines())
        for path in leaves(inputs):
            said = set(refusals(furnished.cloud, noun, put(inputs, path, wire.UNKNOWN)).splitlines())
            assert said <= known, f"{noun}: unknown {path} must not be judged"


@pytest.mark.parametrize("kind", KINDS)
def test_every_property_is_a_member_of_the_api_or_listed_as_an_exception(kind: str) -> None:
    assert list(members.unmapped(SDK, kind)) == []
    service = members.REQUESTS[kind][0]
    listed = members.MEMBERS.get(kind, {})
    assert [path for path, named in listed.items() if named and models.member(service, named) is None] == []


def test_every_pattern_of_the_api_models_compiles_in_python() -> None:
    unread = {
        (service, name)
        for service in ("iam", "fsx", "ssm")
        for name, shape in models.shapes(service).items()
        if "pattern" in shape and models._pattern(shape["pattern"]) is None  # noqa: SLF001 - the public functions skip patterns that Python cannot compile
    }
    assert not unread


def test_without_the_api_models_the_plugin_names_the_missing_package_and_the_command_that_installs_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(RuntimeError, match=r"botocore is not installed, .* `tools/setup python` installs it"):
        models.present()


# Interfaces


def nics(*places: tuple[int, int, str]) -> tuple[Nic, ...]:
    return tuple(Nic(card, device, kind, None, None, None, f"n{at}") for at, (card, device, kind) in enumerate(places))


PRIMARY = (0, 0, "interface")
LAYOUTS = [
    ("p5.48xlarge", ((0, 1, "efa-only"),), "A primary network interface is needed"),
    ("p5.48xlarge", ((0, 0, "efa-only"),), "cannot be the primary"),
    ("p5.48xlarge", (PRIMARY, (1, 1, "efa"), (1, 1, "efa")), "unique device index"),
    ("p5.48xlarge", (PRIMARY, (32, 1, "efa")), "network card index 32 exceeds what p5.48xlarge has: 32 network cards"),
    ("p5.48xlarge", (PRIMARY, (1, 2, "efa")), "specified number '2' for the device index exceeds"),
    ("p4d.24xlarge", (PRIMARY, (0, 1, "efa"), (0, 2, "efa")), "takes one EFA interface"),
    ("g5.48xlarge", (PRIMARY, (0, 1, "efa"), (0, 2, "efa")), "Interface count 2 exceeds the 1 EFAs"),
    ("p6-b300.48xlarge", (PRIMARY, (0, 1, "efa-only")), "card 0 of p6-b300.48xlarge does not support EFA"),
    ("p6e-gb200.36xlarge", (PRIMARY, (1, 1, "efa-only")), "which takes 1 interfaces"),
    ("m5.8xlarge", (PRIMARY, (0, 1, "efa")), "not supported on m5.8xlarge"),
]


@pytest.mark.parametrize(("kind", "places", "words"), LAYOUTS)
def test_interfaces_that_a_type_cannot_have_are_refused(kind: str, places: Any, words: str) -> None:
    assert words in "\n".join(one.message for one in launch_rules.layout(TYPES[kind], nics(*places)))


@pytest.mark.parametrize("kind", [one for one in TYPES.values() if one.efa], ids=lambda one: one.name)
def test_every_instance_type_accepts_as_many_efa_devices_as_the_type_has(kind: Any) -> None:
    first = 1 if kind.efa < len(kind.cards) else 0
    front = [PRIMARY, *([] if first else [(0, 1, "efa-only")])]
    places = [(0, 0, "efa")] if kind.cards[0] == 1 and not first else front
    places += [(card, kind.cards[card] > 1, "efa-only") for card in range(1, len(kind.cards))]
    assert list(launch_rules.layout(kind, nics(*places))) == []
    assert sum(place[2] != "interface" for place in places) == kind.efa == len(set(kind.hcas))


# Launch errors that appear only when a template is used


def launched(stack: Stack, **changes: Any) -> str:
    """Return the errors for an instance launched from the stack's template with these changes."""
    inputs = copy.deepcopy(stack.inputs["template"]) | {"name": f"other-{len(stack.ids)}"} | changes
    made = stack.make("LaunchTemplate", f"template-{len(stack.ids)}", **{k: v for k, v in inputs.items() if v is not None})
    return refusals(stack.cloud, "Instance", {"launchTemplate": {"id": made.id, "version": "1"}})


@pytest.fixture
def stack(cloud: Cloud) -> Stack:
    made = Stack(cloud).network().rules().roles()
    made.template()
    return made


def target(reservation: str) -> dict[str, Any]:
    return {"capacityReservationTarget": {"capacityReservationId": reservation}}


BLOCK = {"marketType": "capacity-block"}
BLOCK_RESERVATION = "cr-0bbbbbbbbbbbbbbb1"
LAUNCHES: list[tuple[dict[str, Any], str]] = [
    ({"instanceType": "m5.8xlarge"}, "EFA interfaces are not supported on m5.8xlarge"),
    ({"instanceType": "t3.micro", "networkInterfaces": None}, "Cluster placement groups are not supported by the 't3.micro'"),
    ({"instanceType": "p6e-gb200.36xlarge"}, "is not sold as on-demand"),
    ({"instanceMarketOptions": BLOCK}, "must target a capacity reservation"),
    ({"instanceMarketOptions": BLOCK, "capacityReservationSpecification": target("cr-0none")}, "does not exist"),
    (
        {"instanceMarketOptions": BLOCK, "capacityReservationSpecification": target(account.POOLED[0])},
        "is an on-demand reservation",
    ),
    ({"capacityReservationSpecification": target(BLOCK_RESERVATION)}, "is a Capacity Block"),
    ({"capacityReservationSpecification": target("cr-0aaaaaaaaaaaaaaa3")}, "holds p5en.48xlarge"),
    ({"capacityReservationSpecification": target("cr-0aaaaaaaaaaaaaaa3")}, "was created in placement group rehearsed-cluster"),
    (
        {"instanceMarketOptions": BLOCK, "capacityReservationSpecification": target(BLOCK_RESERVATION)},
        "InsufficientInstanceCapacity",
    ),
    ({"iamInstanceProfile": {"name": "nobody"}}, "Invalid IAM Instance Profile name"),
    ({"blockDeviceMappings": [{"deviceName": "/dev/sda1", "ebs": {"volumeSize": 40}}]}, "expect size >= 75GB"),
]


@pytest.mark.parametrize(("changed", "words"), LAUNCHES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_launch_from_a_template_is_refused_if_a_call_of_run_instances_would_be_refused(
    stack: Stack, changed: dict[str, Any], words: str
) -> None:
    assert words in launched(stack, **changed)


def test_a_full_reservation_refuses_the_next_instance(stack: Stack) -> None:
    targeted = {"capacityReservationSpecification": target(account.POOLED[1])}
    made = stack.make("LaunchTemplate", "targeted", **(stack.inputs["template"] | {"name": "targeted"} | targeted))
    for name in ("one", "two"):
        stack.make("Instance", name, launchTemplate={"id": made.id, "version": "1"})
    assert "ReservationCapacityExceeded" in refusals(
        stack.cloud, "Instance", {"launchTemplate": {"id": made.id, "version": "1"}}
    )


def test_an_instance_with_several_interfaces_cannot_have_a_public_address(stack: Stack) -> None:
    listed = copy.deepcopy(stack.inputs["template"]["networkInterfaces"][:2])
    listed[0]["associatePublicIpAddress"] = "true"
    words = "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces."
    assert words in launched(stack, networkInterfaces=listed)
    public = [one | {"subnetId": stack.ids["public"]} for one in stack.inputs["template"]["networkInterfaces"][:2]]
    assert "assigns public addresses at launch" in launched(stack, networkInterfaces=public)


def test_groups_and_subnets_of_different_vpcs_cannot_be_combined(stack: Stack) -> None:
    other = stack.make("Vpc", "other-vpc", cidrBlock="10.9.0.0/16").id
    theirs = stack.make("SecurityGroup", "theirs", vpcId=other).id
    listed = [one | {"securityGroups": [theirs]} for one in stack.inputs["template"]["networkInterfaces"]]
    assert "belong to different networks" in launched(stack, networkInterfaces=listed)
    rule = {"securityGroupId": theirs, "referencedSecurityGroupId": stack.ids["nodes"], "ipProtocol": "-1"}
    assert "belong to different networks" in refusals(stack.cloud, "SecurityGroupIngressRule", rule)
    table = stack.make("RouteTable", "their-table", vpcId=other).id
    wrong = {"routeTableId": table, "destinationCidrBlock": "0.0.0.0/0", "gatewayId": stack.ids["igw"]}
    assert "belong to different networks" in refusals(stack.cloud, "Route", wrong)
    joined = {"subnetId": stack.ids["private"], "routeTableId": table}
    assert "belong to different networks" in refusals(stack.cloud, "RouteTableAssociation", joined)
    apart = openzfs(stack.ids) | {"securityGroupIds": [theirs]}
    assert "belongs to another VPC than the subnet" in refusals(stack.cloud, "OpenZfsFileSystem", apart)


def test_a_subnet_outside_the_address_ranges_of_its_vpc_is_refused_at_creation(cloud: Cloud) -> None:
    vpc = Stack(cloud).make("Vpc", "vpc", cidrBlock="10.0.0.0/16").id
    inputs = {"vpcId": vpc, "cidrBlock": "10.1.0.0/17"}
    assert not refusals(cloud, "Subnet", inputs), "the same update may still add the range"
    with pytest.raises(ServiceError, match=r"InvalidSubnet\.Range: The CIDR '10\.1\.0\.0/17' is invalid"):
        cloud.create(token("Subnet"), "urn:x::p::t::n", inputs)


def test_an_instance_type_is_offered_only_in_some_zones(stack: Stack) -> None:
    far = stack.make("Subnet", "far", vpcId=stack.ids["vpc"], cidrBlock="10.1.128.0/17", availabilityZone="us-east-1c").id
    listed = [one | {"subnetId": far} for one in stack.inputs["template"]["networkInterfaces"]]
    words = "is not supported in your requested Availability Zone (us-east-1c)"
    assert words in launched(stack, networkInterfaces=listed)


def test_a_full_subnet_takes_no_more_instances(stack: Stack) -> None:
    small = stack.make("Subnet", "small", vpcId=stack.ids["vpc"], cidrBlock="10.1.128.0/28", availabilityZone="us-east-1a").id
    listed = [one | {"subnetId": small} for one in stack.inputs["template"]["networkInterfaces"]]
    made = stack.make("LaunchTemplate", "tight", **(stack.inputs["template"] | {"name": "tight", "networkInterfaces": listed}))
    assert "InsufficientFreeAddressesInSubnet" in refusals(stack.cloud, "Fleet", fleet(made.id, 12))
    assert "InsufficientFreeAddressesInSubnet" not in refusals(stack.cloud, "Fleet", fleet(made.id, 11))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"instanceMarketOptions": {"marketType": "spot"}}, "InstanceMarketOptions must not be in its template"),
        ({"capacityReservationSpecification": target(account.POOLED[0])}, "has a reservation id"),
    ],
)
def test_a_fleet_refuses_a_template_that_sets_the_market_or_targets_a_reservation_by_id(
    stack: Stack, changed: dict[str, Any], words: str
) -> None:
    made = stack.make("LaunchTemplate", "single", **(stack.inputs["template"] | {"name": "single"} | changed))
    assert words in refusals(stack.cloud, "Fleet", fleet(made.id, 1))


def test_openzfs_in_two_zones_needs_a_subnet_in_each_zone(stack: Stack) -> None:
    near = stack.make("Subnet", "near", vpcId=stack.ids["vpc"], cidrBlock="10.1.128.0/18", availabilityZone="us-east-1a").id
    far = stack.make("Subnet", "far", vpcId=stack.ids["vpc"], cidrBlock="10.1.192.0/18", availabilityZone=OTHER).id
    two = openzfs(stack.ids) | {"deploymentType": "MULTI_AZ_1", "preferredSubnetId": stack.ids["private"]}
    assert "both subnets are in us-east-1a" in refusals(
        stack.cloud, "OpenZfsFileSystem", two | {"subnetIds": [stack.ids["private"], near]}
    )
    assert not refusals(stack.cloud, "OpenZfsFileSystem", two | {"subnetIds": [stack.ids["private"], far]})


# Changes

DIFFS = [
    ("Vpc", "vpc", "cidrBlock", "10.2.0.0/16", True),
    ("Vpc", "vpc", "tags", {"Name": "x"}, False),
    ("Subnet", "public", "availabilityZone", OTHER, True),
    ("Subnet", "public", "mapPublicIpOnLaunch", False, False),
    ("Route", "public-route", "destinationCidrBlock", "10.0.0.0/8", True),
    ("RouteTableAssociation", "public-joined", "routeTableId", "rtb-x", False),
    ("SecurityGroup", "nodes", "description", "other", True),
    ("SecurityGroupIngressRule", "ssh", "cidrIpv4", "10.0.0.0/8", False),
    ("Instance", "instance", "ami", GPU_IMAGE, True),
    ("Instance", "instance", "userData", "#cloud-config\n#", True),
    ("Instance", "instance", "rootBlockDevice.volumeSize", 600, False),
    ("Instance", "instance", "rootBlockDevice.encrypted", False, True),
    ("LaunchTemplate", "template", "instanceType", "p5e.48xlarge", False),
    ("LaunchTemplate", "template", "name", "other", True),
    ("Fleet", "fleet", "launchTemplateConfigs.0.launchTemplateSpecification.version", "2", True),
    ("Fleet", "fleet", "targetCapacitySpecification.totalTargetCapacity", 3, False),
    ("PlacementGroup", "group", "strategy", "spread", True),
    ("Role", "role", "assumeRolePolicy", "{}", False),
    ("LustreFileSystem", "lustre", "storageCapacity", 2400, False),
    ("LustreFileSystem", "lustre", "deploymentType", "SCRATCH_2", True),
    ("OpenZfsFileSystem", "home", "throughputCapacity", 640, False),
    ("OpenZfsFileSystem", "home", "deploymentType", "SINGLE_AZ_2", True),
    ("DataRepositoryAssociation", "mirror", "fileSystemPath", "/other", True),
    ("Parameter", "parameter", "insecureValue", "x", False),
    ("Parameter", "parameter", "name", "/x", True),
]


@pytest.mark.parametrize("case", DIFFS, ids=lambda case: f"{case[0]}-{case[2]}")
def test_a_change_replaces_what_the_vendors_provider_replaces(furnished: Stack, case: tuple[str, str, str, Any, bool]) -> None:
    noun, name, path, value, replaces = case
    old = furnished.inputs[name]
    found = changes(token(noun), old, put(old, path, value))
    assert found.changed
    assert bool(found.replaced) is replaces


def test_resources_with_unchanged_inputs_are_kept_and_a_lustre_file_system_that_shrinks_is_replaced(furnished: Stack) -> None:
    assert set(REPLACED) == set(KINDS)
    for name, inputs in furnished.inputs.items():
        found = changes(token(furnished.nouns[name]), inputs, copy.deepcopy(inputs))
        assert (found.changed, found.replaced) == ([], []), name
    shrunk = changes(token("LustreFileSystem"), {"storageCapacity": 2400}, {"storageCapacity": 1200})
    assert shrunk.replaced == ["storageCapacity"]


def test_every_property_that_forces_replacement_exists_in_the_sdk() -> None:
    for kind, listed in REPLACED.items():
        known = set(SDK.inputs(kind).fields) | {"*"}
        assert {path.partition(".")[0] for path in listed} <= known, kind


def test_the_limit_for_base64_user_data_applies_to_the_decoded_size(furnished: Stack) -> None:
    inputs = head(furnished.ids)
    del inputs["userData"]
    fits = base64.b64encode(b"#" * 16_384).decode()
    assert "limited" not in refusals(furnished.cloud, "Instance", inputs | {"userDataBase64": fits})
    over = base64.b64encode(b"#" * 16_385).decode()
    assert "limited to 16384 bytes" in refusals(furnished.cloud, "Instance", inputs | {"userDataBase64": over})
