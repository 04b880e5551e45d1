"""The stand-in for AWS: what it creates in the world, how it recovers after its process dies, and what planted faults do."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from aws_cloud import (
    DEAD,
    GPU_IMAGE,
    PUBLIC_KEY,
    ZONE,
    Fakes,
    Stack,
    cloud,
    fakes,
    fleet,
    head,
    lustre,
    template,
    token,
    whole,
)
from pulumi.runtime.proto import provider_pb2

# ruff: noqa: F401, F811  fixtures are imported here, and tests take them as parameters of the same names
from stand_in import faults

from rehearsal.aws import parameters
from rehearsal.aws.capacity import offering_id
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.instance_metadata import metadata
from rehearsal.aws.kinds import INSTANCE
from rehearsal.aws.lookups import answer
from rehearsal.aws.places import ACCOUNT
from rehearsal.aws.registry import KINDS
from rehearsal.aws.server import Provider
from rehearsal.host import hosts
from rehearsal.net import network
from rehearsal.plugin import wire
from rehearsal.plugin.errors import PartlyCreatedError, RequestTimeoutError, ServiceError
from rehearsal.plugin.store import Record, Store

# On import, the SDK warns about its own deprecated classes.

# The network


def test_the_rehearsed_network_matches_the_resources_of_the_stack(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().rules().roles()
    assert not fakes.plans, "a network without machines is not built"
    record = stack.head()
    (plan,) = fakes.plans.values()
    public, private = plan.subnets
    assert plan.cidrs == ("10.0.0.0/16", "10.1.0.0/16")
    assert public.routes == (network.Route("0.0.0.0/0", "internet"),)
    assert private.routes == (network.Route("0.0.0.0/0", "nat"),)
    assert dict(plan.public_ips) == {"10.0.0.5": record.computed["publicIp"]}
    assert plan.nat_ip == stack.record("eip").computed["publicIp"] != record.computed["publicIp"]
    assert plan.resolver == "169.254.169.253"


def test_a_rule_names_its_peer_group_if_it_has_one_and_otherwise_its_cidr(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().rules().roles()
    stack.head()
    (plan,) = fakes.plans.values()
    assert plan.groups is not None
    groups = {one.id: one for one in plan.groups}
    head_group, nodes = groups[stack.record("head").short], groups[stack.record("nodes").short]
    assert (head_group.members, nodes.members) == (("10.0.0.5",), ())
    assert network.Rule("ingress", "all", "0.0.0.0/0", group=head_group.id) in nodes.rules
    assert network.Rule("ingress", "6", "198.51.100.0/24", ports=(22, 22)) in head_group.rules
    default = groups[cloud.store.read().records[stack.record("vpc").computed["defaultSecurityGroupId"]].short]
    assert {rule.group for rule in default.rules} == {default.id, ""}


def test_a_security_group_created_by_a_program_allows_no_egress_by_default(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().roles()
    stack.head()
    (plan,) = fakes.plans.values()
    assert next(one for one in plan.groups or () if one.members).rules == ()


def test_a_nat_gateway_in_a_subnet_without_a_route_to_the_internet_is_created_but_fails(cloud: Cloud) -> None:
    stack = Stack(cloud).network()
    address = stack.make("Eip", "other", domain="vpc").id
    with pytest.raises(PartlyCreatedError, match="has no Internet gateway attached"):
        cloud.create(token("NatGateway"), "urn:x::p::t::n", {"allocationId": address, "subnetId": stack.ids["private"]})


# Machines


def test_an_instance_boots_with_the_properties_that_the_stack_requested(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().rules().roles()
    record = stack.head()
    (spec,) = fakes.running.values()
    assert (spec.hostname, spec.address, spec.gateway, spec.index) == ("ip-10-0-0-5", "10.0.0.5", "10.0.0.1", -1)
    assert (spec.image.name, spec.shape, spec.rails, spec.search_domain) == ("ubuntu2204-aws", "m5.8xlarge", (), "ec2.internal")
    assert (spec.instance_id, spec.user_data, spec.may_put) == (record.id, b"#cloud-config\n", ("/busbar/x/head-host-key",))
    assert spec.metadata["latest/meta-data/instance-id"] == record.id
    assert spec.metadata["latest/meta-data/public-ipv4"] == record.computed["publicIp"]
    document = json.loads(spec.metadata["latest/dynamic/instance-identity/document"])
    assert (document["instanceId"], document["accountId"], document["availabilityZone"]) == (record.id, ACCOUNT, ZONE)
    assert record.state == "running"
    outputs = KINDS[INSTANCE].outputs(record)
    assert (outputs["privateDns"], outputs["rootBlockDevice"]["volumeSize"]) == ("ip-10-0-0-5.ec2.internal", 500)


def test_an_elastic_address_replaces_an_instances_public_address_and_can_move_to_another_instance(
    cloud: Cloud, fakes: Fakes
) -> None:
    stack = Stack(cloud).network().rules().roles()
    first, before = stack.head().id, stack.record("instance").computed["publicIp"]
    kept = stack.make("Eip", "kept", domain="vpc", instance=first).computed["publicIp"]

    def publics() -> dict[str, str]:
        (plan,) = fakes.plans.values()
        return dict(plan.public_ips)

    assert publics() == {"10.0.0.5": kept}, "the instance's own address is released"
    assert kept != before
    second = stack.make("Instance", "successor", **head(stack.ids)).id
    cloud.update(stack.ids["kept"], stack.inputs["kept"] | {"instance": second})
    assert publics()["10.0.0.6"] == kept
    own = publics()["10.0.0.5"]
    assert own not in {kept, ""}, "the first instance gets another address from the vendor"
    assert stack.record("instance").computed["publicDns"] == f"ec2-{own.replace('.', '-')}.compute-1.amazonaws.com"
    stack.delete("kept")
    assert publics()["10.0.0.6"] not in {kept, ""}
    for name in "abcd":  # an account may have five addresses: these four and the NAT gateway's
        stack.make("Eip", name, domain="vpc")
    (full,) = cloud.problems(token("Eip"), {"domain": "vpc"}, stack.urn("Eip", "e"))
    assert full.code == "AddressLimitExceeded"


def test_an_instance_without_a_profile_cannot_write_a_parameter(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().roles()
    inputs = {key: value for key, value in head(stack.ids).items() if key != "iamInstanceProfile"}
    stack.make("Instance", "instance", **inputs)
    (spec,) = fakes.running.values()
    assert spec.may_put == ()


def test_the_public_key_of_a_key_pair_is_authorised_on_the_instance(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().roles()
    stack.make("KeyPair", "key", keyName="operator", publicKey=PUBLIC_KEY)
    stack.make("Instance", "instance", **head(stack.ids), keyName="operator")
    (spec,) = fakes.running.values()
    assert spec.ssh_authorized_keys == (PUBLIC_KEY,)


def test_hosts_of_a_fleet_share_one_fabric_and_have_the_interfaces_of_their_template(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().rules().roles()
    stack.template()
    record = stack.fleet()
    specs = sorted(fakes.running.values(), key=lambda spec: spec.index)
    assert [(spec.index, spec.address) for spec in specs] == [(0, "10.1.0.4"), (1, "10.1.0.5")]
    assert list(fakes.fabrics.values()) == [32]
    assert {spec.fabric_id for spec in specs} == set(fakes.fabrics)
    assert (len(specs[0].rails), specs[0].rails[0]) == (32, hosts.Rail("rdmap0", "rdmap79s0", 100_000_000_000, "efa"))
    assert specs[0].gpus == ("NVIDIA H100 80GB HBM3",) * 8
    macs = {path.split("/")[5] for path in specs[0].metadata if "/network/interfaces/macs/" in path}
    assert len(macs) == 33, "every interface has its own entry"
    addressed = [path for path in specs[0].metadata if path.endswith("/local-ipv4s")]
    assert len(addressed) == 1, "an efa-only interface has no address"
    (sets,) = cloud.store.read().records[record.id].computed["fleetInstanceSets"]
    assert (len(sets["instanceIds"]), sets["instanceType"], sets["lifecycle"]) == (2, "p5.48xlarge", "on-demand")
    found = answer(
        "aws:ec2/getInstances:getInstances", {"filters": [{"name": "instance-id", "values": sets["instanceIds"]}]}, cloud
    )
    assert found["privateIps"] == ["10.1.0.4", "10.1.0.5"]
    cloud.delete(record.id)
    assert (fakes.running, fakes.fabrics) == ({}, {})


def test_a_launch_uses_the_latest_or_the_requested_version_of_the_launch_template(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().rules().roles()
    record = stack.template()
    changed = stack.inputs["template"] | {
        "instanceType": "p4d.24xlarge",
        "networkInterfaces": stack.inputs["template"]["networkInterfaces"][:2],
    }
    cloud.update(record.id, changed)
    assert stack.record("template").computed["latestVersion"] == 2
    stack.make("Instance", "one", launchTemplate={"id": record.id, "version": "$Latest"})
    stack.make("Instance", "two", launchTemplate={"id": record.id, "version": "1"})
    assert [(one.shape, one.index) for one in fakes.running.values()] == [("p4d.24xlarge", 0), ("p5.48xlarge", 1)]


# EFA and security groups


def test_efa_traffic_passes_only_if_rules_by_group_id_allow_all_traffic_in_both_directions(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().rules().roles()
    stack.template()
    stack.fleet()
    (fabric,) = fakes.fabrics
    both = {(one, other) for one in fakes.running for other in fakes.running if one != other}
    assert fakes.pairs[fabric] == both
    for name in ("nodes-out", "nodes-in"):
        kept = stack.inputs[name]
        stack.delete(name)
        assert fakes.pairs[fabric] == set(), f"without {name} nothing passes: a rule for 0.0.0.0/0 is no rule by group id"
        everything = "nodes-out-tcp" if name == "nodes-out" else "nodes-in-tcp"
        direction = "Egress" if name == "nodes-out" else "Ingress"
        stack.rule(direction, everything, "nodes", peer="nodes", ipProtocol="tcp", fromPort=0, toPort=65535)
        assert fakes.pairs[fabric] == set(), "EFA is not TCP"
        stack.make(f"SecurityGroup{direction}Rule", name, **kept)
        assert fakes.pairs[fabric] == both


# File systems


def test_file_systems_are_servers_with_the_names_and_exports_that_clients_use(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().rules().roles().storage()
    made, home = stack.record("lustre"), stack.record("home")
    served = fakes.served[made.id]
    assert (served["kind"], served["address"], served["export"]) == ("lustre", "10.1.0.4", f"/{made.computed['mountName']}")
    assert served["names"] == (f"{made.id}.fsx.us-east-1.amazonaws.com",)
    assert (fakes.served[home.id]["kind"], fakes.served[home.id]["export"]) == ("nfs", "/fsx/")
    (plan,) = fakes.plans.values()
    storage = next(one for one in plan.groups or () if one.id == stack.record("storage").short)
    assert storage.members == ("10.1.0.4", "10.1.0.5")
    for name in ("mirror", "lustre", "home"):
        stack.delete(name)
    assert fakes.served == {}


@pytest.mark.parametrize("missing", ["lustre-in-988", "lustre-out-1018"])
def test_a_lustre_file_system_whose_ports_no_rule_allows_is_created_but_fails(cloud: Cloud, fakes: Fakes, missing: str) -> None:
    stack = Stack(cloud).network().rules()
    stack.delete(missing)
    with pytest.raises(PartlyCreatedError, match="do not permit Lustre LNET network traffic on port") as partly:
        cloud.create(token("LustreFileSystem"), stack.urn("LustreFileSystem", "l"), lustre(stack.ids))
    assert fakes.served == {}
    with pytest.raises(PartlyCreatedError, match="stays so"):
        cloud.update(partly.value.resource_id, lustre(stack.ids))
    cloud.delete(partly.value.resource_id)


def test_lustre_over_efa_works_only_if_all_traffic_is_allowed_by_group_id(cloud: Cloud) -> None:
    stack = Stack(cloud).network().rules()
    wanted = lustre(stack.ids) | {"efaEnabled": True, "storageCapacity": 19_200}
    with pytest.raises(PartlyCreatedError, match="which EFA needs"):
        cloud.create(token("LustreFileSystem"), stack.urn("LustreFileSystem", "l"), wanted)
    stack.rule("Ingress", "storage-in", "storage", peer="storage")
    stack.rule("Egress", "storage-out", "storage", peer="storage")
    stack.make("LustreFileSystem", "lustre", **wanted)


def test_a_buckets_objects_are_in_the_file_system_folder_that_mirrors_the_bucket(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().rules()
    stack.make("Bucket", "bucket", bucket="sets")
    (fakes.world.path / "s3" / "sets" / "train.idx").write_text("0 1\n")
    stack.make("LustreFileSystem", "lustre", **lustre(stack.ids))
    stack.make("DataRepositoryAssociation", "mirror", fileSystemId=stack.ids["lustre"], fileSystemPath="/in/sets",
               dataRepositoryPath="s3://sets", batchImportMetaDataOnCreate=True)  # fmt: skip
    assert (fakes.world.path / "storage" / stack.ids["lustre"] / "data/in/sets/train.idx").read_text() == "0 1\n"
    with pytest.raises(ServiceError, match="has a data repository association"):
        stack.delete("lustre")
    stack.delete("mirror")
    with pytest.raises(ServiceError, match="BucketNotEmpty"):
        stack.delete("bucket")


# Parameters


def test_a_parameter_contains_what_the_machine_wrote(cloud: Cloud) -> None:
    stack = Stack(cloud)
    stack.make("Parameter", "parameter", name="/busbar/x/key", type="String", insecureValue="not written yet")
    ask = {"name": "/busbar/x/key"}
    assert answer("aws:ssm/getParameter:getParameter", ask, cloud)["insecureValue"] == "not written yet"
    parameters.put(cloud.world, "/busbar/x/key", "i-1 ssh-ed25519 AAAA", overwrite=True)
    found = answer("aws:ssm/getParameter:getParameter", ask, cloud)
    assert (found["insecureValue"], found["version"]) == ("i-1 ssh-ed25519 AAAA", 2)
    public = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"
    assert answer("aws:ssm/getParameter:getParameter", {"name": public}, cloud)["value"] == GPU_IMAGE
    stack.delete("parameter")
    with pytest.raises(ServiceError, match="ParameterNotFound"):
        answer("aws:ssm/getParameter:getParameter", ask, cloud)


def test_a_parameter_created_by_somebody_else_is_not_overwritten(cloud: Cloud) -> None:
    parameters.put(cloud.world, "/theirs", "1")
    with pytest.raises(ServiceError, match="ParameterAlreadyExists"):
        cloud.create(token("Parameter"), "urn:x::p::t::n", {"name": "/theirs", "type": "String", "value": "2"})
    assert parameters.get(cloud.world, "/theirs") == parameters.Parameter("/theirs", "1", "String", 1)


# Deletion and recovery


def test_resources_in_use_cannot_be_deleted_but_all_resources_can_be_deleted_in_reverse_order_of_creation(
    cloud: Cloud, fakes: Fakes
) -> None:
    stack = whole(cloud)
    for used, code in (
        ("vpc", "DependencyViolation"), ("public", "DependencyViolation"), ("nodes", "DependencyViolation"),
        ("igw", "DependencyViolation"), ("eip", r"InvalidIPAddress\.InUse"), ("private-table", "DependencyViolation"),
        ("range", "DependencyViolation"), ("role", "DeleteConflict"), ("group", r"InvalidPlacementGroup\.InUse"),
        ("bucket", "DependencyViolation"), ("lustre", "BadRequest"), ("nat", "DependencyViolation"),
    ):  # fmt: skip
        with pytest.raises(ServiceError, match=code):
            stack.delete(used)
    for name in reversed(list(stack.ids)):
        stack.delete(name)
        stack.delete(name)
    assert not (cloud.world.path / "aws.json").exists(), "an empty cloud leaves no file"
    assert (fakes.running, fakes.fabrics, fakes.served, fakes.plans) == ({}, {}, {}, {})
    assert not (cloud.world.path / "s3").exists()


def forge(cloud: Cloud, record_id: str, **fields: Any) -> None:
    with cloud.store.change() as database:
        for name, value in fields.items():
            setattr(database.records[record_id], name, value)


def test_recovery_finishes_the_operations_of_a_dead_process_as_the_real_cloud_would(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().rules().roles()
    head_record = stack.head()
    stack.template()
    pool = stack.fleet()
    forge(cloud, head_record.id, state="TERMINATING", worker=DEAD)
    forge(cloud, pool.id, state="PROVISIONING", worker=DEAD)
    before = set(fakes.running) - {head_record.short}
    fakes.world.folder("hosts", "deadbeef")
    Cloud(fakes.world).recover()
    kept = cloud.store.read().records
    assert head_record.id not in kept
    assert kept[pool.id].worker == ""
    assert set(fakes.running) == before != set()
    assert not (fakes.world.path / "hosts" / "deadbeef").exists()


def test_recovery_keeps_the_hosts_of_another_cloud(cloud: Cloud, fakes: Fakes) -> None:
    theirs = Record("ocid1.instance.oc1..x", "oci:Core/instance:Instance", "", "RUNNING", {})
    with Store(fakes.world, "oci").change() as database:
        database.records[theirs.id] = theirs
    fakes.world.folder("hosts", theirs.short)
    cloud.recover()
    assert (fakes.world.path / "hosts" / theirs.short).is_dir()


# Faults


def test_a_fleet_without_capacity_is_created_empty_and_without_an_error(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().rules().roles()
    template = stack.template().id
    faults(cloud, {"kind": "capacity", "after": 1})
    empty = cloud.create(token("Fleet"), stack.urn("Fleet", "fleet"), fleet(template, 2))
    assert (empty.computed["fulfilledCapacity"], empty.computed["fleetInstanceSets"]) == (0, [])
    assert (fakes.running, fakes.fabrics) == ({}, {})
    partial = fleet(template, 2)
    partial["onDemandOptions"] = {"allocationStrategy": "lowestPrice"}
    made = cloud.create(token("Fleet"), stack.urn("Fleet", "fleet"), partial)
    assert made.computed["fulfilledCapacity"] == 1, "without a minimum, a fleet accepts partial capacity"
    faults(cloud, {"kind": "capacity", "after": 1, "times": 1})
    assert cloud.create(token("Fleet"), stack.urn("Fleet", "short"), fleet(template, 2)).computed["fulfilledCapacity"] == 0
    assert cloud.create(token("Fleet"), stack.urn("Fleet", "whole"), fleet(template, 2)).computed["fulfilledCapacity"] == 2


def node(stack: Stack) -> dict[str, Any]:
    """Return the inputs of one machine that uses the stack's template."""
    return {"launchTemplate": {"id": stack.ids["template"], "version": "1"}, "tags": {"Name": "x-gpu-p5", "team": "a"}}


def test_a_launch_without_capacity_is_retried_and_finally_refused_with_the_reason(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().rules().roles()
    stack.template()
    faults(cloud, {"kind": "capacity", "after": 0, "times": 3})
    stack.make("Instance", "late", **node(stack))
    assert len(fakes.running) == 1
    faults(cloud, {"kind": "capacity", "after": 1})
    with pytest.raises(ServiceError, match=r"InsufficientInstanceCapacity: We currently do not have sufficient p5\.48xlarge"):
        cloud.create(token("Instance"), stack.urn("Instance", "never"), node(stack))
    assert len(fakes.running) == 1, "the machine that was launched first stays"


def test_a_deletion_waits_until_the_instance_has_terminated_and_a_timeout_does_not_lose_the_instance(
    cloud: Cloud, fakes: Fakes
) -> None:
    stack = Stack(cloud).network().rules().roles()
    stack.template()
    slow = stack.make("Instance", "slow", **node(stack)).id
    faults(cloud, {"kind": "slow_end", "operation": "TerminateInstances", "seconds": 0.05, "times": 2})
    with pytest.raises(RequestTimeoutError, match=r"'terminated' \(last state: 'shutting-down', timeout: 0\.01s\)"):
        cloud.delete(slow, 0.01)
    assert answer("aws:ec2/getInstances:getInstances", {}, cloud)["ids"] == [], (
        "an instance that is shutting down is not listed"
    )
    assert fakes.running, "the instance exists until it has terminated"
    cloud.delete(slow, 1)
    assert not fakes.running
    assert slow not in cloud.store.read().records


def test_a_bought_capacity_block_accepts_machines_only_after_the_block_has_begun(cloud: Cloud) -> None:
    stack = Stack(cloud).network().rules().roles()
    faults(cloud, {"kind": "block_scheduled", "seconds": 2})
    block = stack.make("CapacityBlockReservation", "block", capacityBlockOfferingId=offering_id("p5.48xlarge", 2),
                       instancePlatform="Linux/UNIX")  # fmt: skip
    target = {"capacityReservationTarget": {"capacityReservationId": block.id}}
    stack.make("PlacementGroup", "group", strategy="cluster")
    block_only = {"instanceMarketOptions": {"marketType": "capacity-block"}, "capacityReservationSpecification": target}
    stack.make("LaunchTemplate", "template", **template(stack.ids) | block_only | {"placement": {}})
    told = answer("aws:ec2/getCapacityBlockReservation:getCapacityBlockReservation", {"id": block.id}, cloud)
    assert told["state"] == "scheduled"
    with pytest.raises(ServiceError, match=r"is scheduled and begins at .*; it is not active yet"):
        cloud.create(token("Instance"), stack.urn("Instance", "early"), node(stack))
    time.sleep(2)
    stack.make("Instance", "late", **node(stack))


def differences(stack: Stack, name: str, old: dict[str, Any], new: dict[str, Any], **state: Any) -> dict[str, str]:
    """Return the provider's diff of an update: the kind of each difference, by path."""
    noun = stack.nouns[name]
    request = provider_pb2.DiffRequest(
        id=stack.ids[name], urn=stack.urn(noun, name), old_inputs=wire.dumps(old), olds=wire.dumps(state), news=wire.dumps(new)
    )
    kinds = provider_pb2.PropertyDiff.Kind
    found = Provider(stack.cloud).Diff(request, None)
    return {path: kinds.Name(one.kind) for path, one in found.detailedDiff.items()}


def test_the_diff_of_an_instance_whose_inputs_lack_tags_reports_that_its_tags_change(cloud: Cloud) -> None:
    stack = Stack(cloud).network().rules().roles()
    stack.template()
    made = stack.make("Instance", "node", **node(stack))
    with_tags = made.outputs()["tags"]
    assert differences(stack, "node", node(stack), node(stack), tags=with_tags) == {}
    bare = {key: value for key, value in node(stack).items() if key != "tags"}
    assert differences(stack, "node", bare, bare, tags=with_tags) == {"tags": "UPDATE"}
    cloud.update(made.id, node(stack) | {"tags": {"Name": "x-gpu-p5"}})
    assert cloud.read(made.id).outputs()["tags"] == {"Name": "x-gpu-p5"}


def test_a_preview_of_a_changed_template_knows_the_latest_version_only_if_nothing_but_tags_changed(cloud: Cloud) -> None:
    stack = Stack(cloud).network().rules().roles()
    made = stack.template()
    for changed, unknown in (({"ebsOptimized": "false"}, True), ({"tags": {"team": "x"}}, False)):
        request = provider_pb2.UpdateRequest(
            id=made.id, urn=stack.urn("LaunchTemplate", "template"), preview=True, old_inputs=wire.dumps(made.inputs),
            olds=wire.dumps(made.outputs()), news=wire.dumps(made.inputs | changed),
        )  # fmt: skip
        foreseen = wire.loads(Provider(cloud).Update(request, None).properties)
        assert (foreseen["latestVersion"] is wire.UNKNOWN) == unknown


def test_a_launch_that_does_not_see_its_new_instance_profile_yet_is_retried_and_finally_refused(cloud: Cloud) -> None:
    stack = Stack(cloud).network().rules().roles()
    faults(cloud, {"kind": "eventual", "operation": "RunInstances", "times": 3})
    stack.head()
    faults(cloud, {"kind": "eventual", "operation": "RunInstances", "times": 300})
    with pytest.raises(ServiceError, match="Invalid IAM Instance Profile name"):
        cloud.create(token("Instance"), stack.urn("Instance", "b"), head(stack.ids))


def test_a_throttled_call_is_retried_and_finally_reported(cloud: Cloud) -> None:
    stack = Stack(cloud)
    faults(cloud, {"kind": "throttle", "operation": "CreateVpc", "times": 3})
    stack.make("Vpc", "vpc", cidrBlock="10.0.0.0/16")
    faults(cloud, {"kind": "throttle", "operation": "CreateVpc", "times": 300})
    with pytest.raises(ServiceError, match=r"api error RequestLimitExceeded: Request limit exceeded\."):
        stack.make("Vpc", "other", cidrBlock="10.0.0.0/16")
    faults(cloud, {"kind": "api_timeout", "operation": "DeleteVpc"})
    with pytest.raises(RequestTimeoutError, match=r"Client\.Timeout exceeded"):
        stack.delete("vpc")


def test_creation_takes_the_requested_fraction_of_the_vendors_time(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setenv("BUSBAR_PACE", "0.5")
    stack = Stack(Cloud(fakes.world)).network().rules()
    stack.make("LustreFileSystem", "lustre", **lustre(stack.ids))
    assert 300 in waited, "Lustre takes half of the vendor's ten minutes"
    monkeypatch.setenv("BUSBAR_PACE", "2")
    with pytest.raises(ValueError, match="a number from 0 to 1"):
        Cloud(fakes.world)


def test_metadata_is_served_only_while_the_endpoint_is_enabled(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().roles()
    stack.make("Instance", "instance", **(head(stack.ids) | {"metadataOptions": {"httpEndpoint": "disabled"}}))
    (spec,) = fakes.running.values()
    assert not spec.metadata
    assert metadata(stack.record("instance"), "us-east-1", None)["latest/meta-data/services/domain"] == "amazonaws.com"
