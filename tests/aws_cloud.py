"""A small stack for the tests of the rehearsed AWS. Its world is a fake that starts no hosts."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime.proto import provider_pb2

from rehearsal.aws import members
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.errors import Problem
from rehearsal.aws.registry import KINDS
from rehearsal.aws.sdk import SDK
from rehearsal.aws.server import Provider
from rehearsal.host import hosts, storage
from rehearsal.net import network
from rehearsal.plugin import check, wire
from rehearsal.plugin.store import Record
from rehearsal.world.world import World, write_whole

ROOT = Path(__file__).parent.parent
REGION, ZONE, OTHER = "us-east-1", "us-east-1a", "us-east-1b"
GPU_IMAGE, PLAIN_IMAGE = "ami-0123456789abcdef0", "ami-0123456789abcdef2"
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl operator"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)
DEAD = "999999999:1"
#: Network interfaces of a p5.48xlarge: one ENA on network card 0, and one EFA on each of the 32 network cards.
P5_NICS = [(0, 0, "interface"), *((card, 1, "efa-only") for card in range(32))]


def token(noun: str) -> str:
    return next(one for one in KINDS if one.endswith(f":{noun}"))


class Fakes:
    """Records the cloud's calls to the world instead of running them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.one_at_a_time = threading.Lock()
        self.plans: dict[str, network.VcnPlan] = {}
        self.fabrics: dict[str, int] = {}
        self.pairs: dict[str, set[tuple[str, str]]] = {}
        self.running: dict[str, hosts.HostSpec] = {}
        self.served: dict[str, dict[str, Any]] = {}

    def apply_vcn(self, _: World, plan: network.VcnPlan) -> None:
        self.plans[plan.id] = plan

    def apply_fabric(self, world: World, fabric: str, rails: int) -> None:
        self.fabrics[fabric] = rails
        with self.one_at_a_time:  # the real function holds a lock, too
            write_whole(world.folder("fabrics") / f"{fabric}.json", json.dumps({"rails": rails}))

    def guard_fabric(self, _: World, fabric: str, pairs: Sequence[tuple[str, str]]) -> None:
        assert fabric in self.fabrics, "rules are set only for a fabric that exists"
        self.pairs[fabric] = set(pairs)

    def delete_fabric(self, world: World, fabric: str) -> None:
        self.fabrics.pop(fabric, None)
        (world.path / "fabrics" / f"{fabric}.json").unlink(missing_ok=True)

    def boot(self, world: World, spec: hosts.HostSpec) -> None:
        assert spec.vcn_id in self.plans, "a host needs the router of its VPC"
        assert spec.fabric_id is None or spec.fabric_id in self.fabrics, "rails need a fabric"
        self.running[spec.id] = spec
        world.folder("hosts", spec.id)

    def stop(self, world: World, host: str) -> None:
        self.running.pop(host, None)
        folder = world.path / "hosts" / host
        if folder.is_dir():
            folder.rmdir()

    def serve(self, world: World, **asked: Any) -> None:
        assert asked["vcn_id"] in self.plans, "a server needs the router of its VPC"
        self.served[asked["id"]] = asked
        world.folder("storage", asked["id"], "data")

    def patch(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(network, "apply_vcn", self.apply_vcn)
        patch.setattr(network, "delete_vcn", lambda _, vcn: self.plans.pop(vcn, None))
        patch.setattr(network, "apply_fabric", self.apply_fabric)
        patch.setattr(network, "guard_fabric", self.guard_fabric)
        patch.setattr(network, "delete_fabric", self.delete_fabric)
        patch.setattr(hosts, "boot", self.boot)
        patch.setattr(hosts, "stop", self.stop)
        patch.setattr(hosts, "alive", lambda _, host: host in self.running)
        patch.setattr(storage, "start", self.serve)
        patch.setattr(storage, "stop", lambda _, system: self.served.pop(system, None))
        patch.setattr("rehearsal.plugin.faults._FIRST_PAUSE_S", 0.001)
        patch.setattr("rehearsal.aws.api.launches._LEAST_START_S", 0)


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    made = Fakes(World.at(tmp_path / "world"))
    made.patch(monkeypatch)
    return made


@pytest.fixture
def cloud(fakes: Fakes) -> Cloud:
    return Cloud(fakes.world)


class Stack:
    """A small stack in the cloud, whose resources are created as the engine would create them."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.ids: dict[str, str] = {}
        self.inputs: dict[str, dict[str, Any]] = {}
        self.nouns: dict[str, str] = {}

    def urn(self, noun: str, name: str) -> str:
        return f"urn:pulumi:dev::p::{token(noun)}::{name}"

    def make(self, noun: str, name: str, /, **inputs: Any) -> Record:
        kind = token(noun)
        asked = {**Provider(self.cloud).defaults(kind), **inputs}
        assert not list(check.misfits(asked, SDK.inputs(kind), Problem))
        assert not list(members.broken(SDK, kind, asked))
        assert not self.cloud.problems(kind, asked, self.urn(noun, name))
        record = self.cloud.create(kind, self.urn(noun, name), asked)
        self.ids[name], self.inputs[name], self.nouns[name] = KINDS[kind].shown(record), asked, noun
        return record

    def record(self, name: str) -> Record:
        kind = KINDS[token(self.nouns[name])]
        return self.cloud.store.read().records[kind.key(self.ids[name])]

    def delete(self, name: str) -> None:
        self.cloud.delete(KINDS[token(self.nouns[name])].key(self.ids[name]))

    def network(self) -> Stack:
        vpc = self.make("Vpc", "vpc", cidrBlock="10.0.0.0/16", enableDnsSupport=True, enableDnsHostnames=True).id
        self.make("VpcIpv4CidrBlockAssociation", "range", vpcId=vpc, cidrBlock="10.1.0.0/16")
        igw = self.make("InternetGateway", "igw", vpcId=vpc).id
        for name in ("public", "private"):
            self.make("RouteTable", f"{name}-table", vpcId=vpc)
        ids = self.ids
        anywhere = {"destinationCidrBlock": "0.0.0.0/0"}
        self.make("Route", "public-route", routeTableId=ids["public-table"], gatewayId=igw, **anywhere)
        subnet = {"vpcId": vpc, "availabilityZone": ZONE}
        self.make("Subnet", "public", cidrBlock="10.0.0.0/17", mapPublicIpOnLaunch=True, **subnet)
        self.make("Subnet", "private", cidrBlock="10.1.0.0/17", **subnet)
        for name in ("public", "private"):
            self.make("RouteTableAssociation", f"{name}-joined", subnetId=ids[name], routeTableId=ids[f"{name}-table"])
        self.make("Eip", "eip", domain="vpc")
        self.make("NatGateway", "nat", allocationId=ids["eip"], subnetId=ids["public"])
        self.make("Route", "private-route", routeTableId=ids["private-table"], natGatewayId=ids["nat"], **anywhere)
        self.make(
            "VpcEndpoint", "s3", vpcId=vpc, serviceName=f"com.amazonaws.{REGION}.s3", routeTableIds=[ids["private-table"]]
        )
        for name in ("nodes", "head", "storage"):
            self.make("SecurityGroup", name, vpcId=vpc, description=name, revokeRulesOnDelete=True)
        return self

    def rule(self, direction: str, name: str, group: str, **peer: Any) -> Record:
        """Create a rule of a security group with the inputs `peer`; the default of ipProtocol is all traffic."""
        given = {"ipProtocol": "-1", **peer}
        if "peer" in given:
            given["referencedSecurityGroupId"] = self.ids[given.pop("peer")]
        return self.make(f"SecurityGroup{direction}Rule", name, securityGroupId=self.ids[group], **given)

    def rules(self) -> Stack:
        self.rule("Ingress", "nodes-in", "nodes", peer="nodes")
        self.rule("Egress", "nodes-out", "nodes", peer="nodes")
        self.rule("Egress", "nodes-anywhere", "nodes", cidrIpv4="0.0.0.0/0")
        self.rule("Ingress", "nodes-from-head", "nodes", peer="head")
        ssh = {"ipProtocol": "tcp", "fromPort": 22, "toPort": 22}
        self.rule("Ingress", "ssh", "head", cidrIpv4="198.51.100.0/24", **ssh)
        self.rule("Egress", "head-anywhere", "head", cidrIpv4="0.0.0.0/0")
        for first, last in ((988, 988), (1018, 1023)):
            ports = {"ipProtocol": "tcp", "fromPort": first, "toPort": last}
            self.rule("Ingress", f"lustre-in-{first}", "storage", peer="storage", **ports)
            self.rule("Egress", f"lustre-out-{first}", "storage", peer="storage", **ports)
        return self

    def roles(self) -> Stack:
        role = self.make("Role", "role", assumeRolePolicy=TRUST)
        name = KINDS[role.token].shown(role)
        arn = f"arn:aws:ssm:{REGION}:*:parameter/busbar/x/head-host-key"
        allowed = {"Effect": "Allow", "Action": "ssm:PutParameter", "Resource": arn}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        self.make("RolePolicy", "policy", role=name, policy=policy)
        managed = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
        self.make("RolePolicyAttachment", "attached", role=name, policyArn=managed)
        self.make("InstanceProfile", "profile", role=name)
        return self

    def head(self) -> Record:
        return self.make("Instance", "instance", **head(self.ids))

    def template(self, **changes: Any) -> Record:
        if "group" not in self.ids:
            self.make("PlacementGroup", "group", strategy="cluster")
        return self.make("LaunchTemplate", "template", **template(self.ids), **changes)

    def fleet(self, size: int = 2) -> Record:
        return self.make("Fleet", "fleet", **fleet(self.ids["template"], size))

    def storage(self) -> Stack:
        self.make("LustreFileSystem", "lustre", **lustre(self.ids))
        self.make("OpenZfsFileSystem", "home", **openzfs(self.ids))
        bucket = self.make("Bucket", "bucket", forceDestroy=True)
        named = KINDS[bucket.token].shown(bucket)
        shut = dict.fromkeys(("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"), True)
        self.make("BucketPublicAccessBlock", "shut", bucket=named, **shut)
        self.make("BucketOwnershipControls", "owned", bucket=named, rule={"objectOwnership": "BucketOwnerEnforced"})
        events = {"events": ["NEW", "CHANGED", "DELETED"]}
        self.make("DataRepositoryAssociation", "mirror", fileSystemId=self.ids["lustre"], fileSystemPath="/data",
                  dataRepositoryPath=f"s3://{named}", batchImportMetaDataOnCreate=True,
                  s3={"autoImportPolicy": events, "autoExportPolicy": events})  # fmt: skip
        return self


def head(ids: dict[str, str]) -> dict[str, Any]:
    return {
        "ami": PLAIN_IMAGE, "instanceType": "m5.8xlarge", "subnetId": ids["public"], "vpcSecurityGroupIds": [ids["head"]],
        "associatePublicIpAddress": True, "iamInstanceProfile": ids["profile"], "userData": "#cloud-config\n",
        "userDataReplaceOnChange": True, "metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 1},
        "rootBlockDevice": {"volumeType": "gp3", "volumeSize": 500, "iops": 3000, "throughput": 250, "encrypted": True},
        "tags": {"Name": "x-head"},
    }  # fmt: skip


def template(ids: dict[str, str]) -> dict[str, Any]:
    nics = [
        {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind, "subnetId": ids["private"],
         "securityGroups": [ids["nodes"]], "deleteOnTermination": "true"}
        for card, device, kind in P5_NICS
    ]  # fmt: skip
    root = {"volumeType": "gp3", "volumeSize": 512, "encrypted": "true", "deleteOnTermination": "true"}
    return {
        "name": "x-gpu-p5", "imageId": GPU_IMAGE, "instanceType": "p5.48xlarge", "ebsOptimized": "true",
        "networkInterfaces": nics, "placement": {"groupName": ids["group"]}, "updateDefaultVersion": True,
        "blockDeviceMappings": [{"deviceName": "/dev/sda1", "ebs": root}],
        "userData": base64.b64encode(b"#cloud-config\n").decode(), "iamInstanceProfile": {"name": ids["profile"]},
        "tagSpecifications": [{"resourceType": "instance", "tags": {"Name": "x-gpu-p5"}}],
    }  # fmt: skip


def fleet(template: Any, size: Any) -> dict[str, Any]:
    return {
        "type": "instant", "terminateInstances": True,
        "launchTemplateConfigs": [{"launchTemplateSpecification": {"launchTemplateId": template, "version": "1"}}],
        "targetCapacitySpecification": {"defaultTargetCapacityType": "on-demand", "totalTargetCapacity": size},
        "onDemandOptions": {"minTargetCapacity": size, "singleAvailabilityZone": True, "allocationStrategy": "lowestPrice"},
    }  # fmt: skip


def lustre(ids: dict[str, str]) -> dict[str, Any]:
    return {
        "deploymentType": "PERSISTENT_2", "storageType": "SSD", "fileSystemTypeVersion": "2.15", "storageCapacity": 1200,
        "perUnitStorageThroughput": 250, "dataCompressionType": "LZ4", "metadataConfiguration": {"mode": "AUTOMATIC"},
        "subnetIds": ids["private"], "securityGroupIds": [ids["storage"]], "skipFinalBackup": True,
    }  # fmt: skip


def openzfs(ids: dict[str, str]) -> dict[str, Any]:
    exports = {"clientConfigurations": [{"clients": "*", "options": ["rw", "no_root_squash", "crossmnt"]}]}
    return {
        "deploymentType": "SINGLE_AZ_HA_2", "storageType": "SSD", "storageCapacity": 512, "throughputCapacity": 320,
        "rootVolumeConfiguration": {"dataCompressionType": "NONE", "nfsExports": exports}, "subnetIds": [ids["private"]],
        "securityGroupIds": [ids["storage"]], "deleteOptions": ["DELETE_CHILD_VOLUMES_AND_SNAPSHOTS"],
    }  # fmt: skip


def refusals(cloud: Cloud, noun: str, inputs: dict[str, Any]) -> str:
    """Return the provider's refusals of `inputs` in a preview, one refusal on each line."""
    request = provider_pb2.CheckRequest(urn=f"urn:pulumi:dev::p::{token(noun)}::other", news=wire.dumps(inputs))
    return "\n".join(f"{one.property}: {one.reason}" for one in Provider(cloud).Check(request, None).failures)


def whole(cloud: Cloud) -> Stack:
    """A stack that has every kind of resource except a Capacity Block."""
    stack = Stack(cloud).network().rules().roles()
    stack.make("KeyPair", "key", keyName="operator", publicKey=PUBLIC_KEY)
    stack.make("Parameter", "parameter", name="/busbar/x/head-host-key", type="String", insecureValue="not written yet")
    stack.storage()
    stack.head()
    stack.template()
    stack.fleet()
    stack.make("CapacityReservation", "odcr", instanceType="p5.48xlarge", instancePlatform="Linux/UNIX", instanceCount=2,
               availabilityZone=ZONE, instanceMatchCriteria="targeted")  # fmt: skip
    return stack


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that has every kind of resource except a Capacity Block, for tests that change nothing."""
    with pytest.MonkeyPatch.context() as patch:
        made = Fakes(World.at(tmp_path_factory.mktemp("furnished") / "world"))
        made.patch(patch)
        yield whole(Cloud(made.world))
