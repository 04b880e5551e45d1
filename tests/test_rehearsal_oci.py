"""The stand-in cloud: what it refuses, what it makes of the world, and that it survives its own death."""

from __future__ import annotations

import base64
import copy
import importlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from pulumi import _types as sdk_types
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from rehearsal import hosts, network
from rehearsal.oci import check, rules, sdk, wire
from rehearsal.oci.cloud import Cloud
from rehearsal.oci.diff import changes
from rehearsal.oci.errors import PartlyCreatedError, RequestTimeoutError, ServiceError
from rehearsal.oci.identity import _CONDITION, matches
from rehearsal.oci.images import IMAGES
from rehearsal.oci.lookups import LOOKUPS, answer
from rehearsal.oci.places import COMPARTMENT, REGION, SERVICES, TENANCY
from rehearsal.oci.registry import KINDS
from rehearsal.oci.server import Provider
from rehearsal.oci.shapes import SHAPES, front_name, rail_names
from rehearsal.oci.store import Record, Store
from rehearsal.world import World

ROOT = Path(__file__).parent.parent
AD = "Uocm:REHEARSED-AD-1"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl operator"
OL7, OL9 = "ocid1.image.oc1..rehearsed-ol7-gpu", "ocid1.image.oc1..rehearsed-ol9"
DEAD = "999999999:1"
SERVICE, (_, SERVICE_CIDR) = next(iter(SERVICES.items()))


def token(noun: str) -> str:
    return next(one for one in KINDS if one.endswith(f":{noun}"))


class Fakes:
    """Records what the cloud asks of the world instead of doing it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.plans: dict[str, network.VcnPlan] = {}
        self.fabrics: dict[str, int] = {}
        self.running: dict[str, hosts.HostSpec] = {}

    def apply_vcn(self, world: World, plan: network.VcnPlan) -> None:
        self.plans[plan.id] = plan
        (world.folder("vcns") / f"{plan.id}.json").write_text(json.dumps({"number": 7}))

    def boot(self, world: World, spec: hosts.HostSpec) -> None:
        assert spec.vcn_id in self.plans, "a host needs the router of its VCN"
        assert spec.fabric_id is None or spec.fabric_id in self.fabrics, "rails need a fabric"
        self.running[spec.id] = spec
        world.folder("hosts", spec.id)

    def stop(self, world: World, host: str) -> None:
        self.running.pop(host, None)
        folder = world.path / "hosts" / host
        if folder.is_dir():
            folder.rmdir()


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    made = Fakes(World.at(tmp_path / "world"))
    monkeypatch.setattr(network, "apply_vcn", made.apply_vcn)
    monkeypatch.setattr(network, "delete_vcn", lambda _, vcn: made.plans.pop(vcn, None))
    monkeypatch.setattr(network, "apply_fabric", lambda _, fabric, rails: made.fabrics.update({fabric: rails}))
    monkeypatch.setattr(network, "delete_fabric", lambda _, fabric: made.fabrics.pop(fabric, None))
    monkeypatch.setattr(hosts, "boot", made.boot)
    monkeypatch.setattr(hosts, "stop", made.stop)
    monkeypatch.setattr(hosts, "alive", lambda _, host: host in made.running)
    monkeypatch.setattr(hosts, "console", lambda _, host: f"console of {made.running[host].hostname}\n")
    monkeypatch.setattr("rehearsal.oci.faults._FIRST_PAUSE_S", 0.001)
    return made


@pytest.fixture
def cloud(fakes: Fakes) -> Cloud:
    return Cloud(fakes.world)


class Stack:
    """A small stack in the cloud, whose resources are made as the engine would make them."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.ids: dict[str, str] = {}
        self.inputs: dict[str, dict[str, Any]] = {}

    def urn(self, noun: str, name: str) -> str:
        return f"urn:pulumi:dev::p::{token(noun)}::{name}"

    def make(self, noun: str, name: str, /, **inputs: Any) -> Record:
        asked = inputs if noun == "ConsoleHistory" else {"compartmentId": COMPARTMENT, **inputs}
        assert not list(check.misfits(asked, sdk.args_class(token(noun))))
        assert not list(rules.broken(token(noun), asked))
        assert not self.cloud.problems(token(noun), asked, self.urn(noun, name))
        record = self.cloud.create(token(noun), self.urn(noun, name), asked)
        self.ids[name], self.inputs[name] = record.ocid, asked
        return record

    def network(self) -> Stack:
        vcn = self.make("Vcn", "vcn", cidrBlocks=["10.0.0.0/16"], dnsLabel="cluster").ocid
        igw = self.make("InternetGateway", "igw", vcnId=vcn).ocid
        nat = self.make("NatGateway", "nat", vcnId=vcn).ocid
        sgw = self.make("ServiceGateway", "sgw", vcnId=vcn, services=[{"serviceId": SERVICE}]).ocid
        world = {"destination": "0.0.0.0/0", "destinationType": "CIDR_BLOCK"}
        self.make("RouteTable", "out", vcnId=vcn, routeRules=[{**world, "networkEntityId": igw}])
        service = {"destination": SERVICE_CIDR, "destinationType": "SERVICE_CIDR_BLOCK", "networkEntityId": sgw}
        self.make("RouteTable", "in", vcnId=vcn, routeRules=[{**world, "networkEntityId": nat}, service])
        inside = [{"protocol": "all", "source": "10.0.0.0/16"}]
        ssh = [{"protocol": "6", "source": "198.51.100.0/24", "tcpOptions": {"min": 22, "max": 22}}]
        everywhere = [{"protocol": "all", "destination": "0.0.0.0/0"}]
        for name, ingress in (("open", inside + ssh), ("closed", inside)):
            self.make("SecurityList", name, vcnId=vcn, ingressSecurityRules=ingress, egressSecurityRules=everywhere)
        ids = self.ids
        self.make(
            "Subnet",
            "public",
            vcnId=vcn,
            cidrBlock="10.0.0.0/24",
            dnsLabel="public",
            routeTableId=ids["out"],
            securityListIds=[ids["open"]],
        )
        self.make("Subnet", "private", vcnId=vcn, cidrBlock="10.0.1.0/24", dnsLabel="private", routeTableId=ids["in"],
                  securityListIds=[ids["closed"]], prohibitPublicIpOnVnic=True)  # fmt: skip
        return self

    def bastion(self) -> Record:
        return self.make("Instance", "bastion", **bastion(self.ids["public"]))

    def pool(self, size: int = 2) -> Record:
        self.make("InstanceConfiguration", "conf", **configuration(self.ids["private"]))
        return self.make("ClusterNetwork", "cn", **cluster_network(self.ids["conf"], self.ids["private"], size))


def bastion(subnet: Any) -> dict[str, Any]:
    return {
        "availabilityDomain": AD, "shape": "VM.Standard.E5.Flex", "shapeConfig": {"ocpus": 1, "memoryInGbs": 16},
        "displayName": "Bastion 1", "createVnicDetails": {"subnetId": subnet, "assignPublicIp": "true"},
        "sourceDetails": {"sourceType": "image", "sourceId": OL9, "bootVolumeSizeInGbs": "50"},
        "metadata": {"ssh_authorized_keys": KEY, "user_data": base64.b64encode(b"#cloud-config\n").decode()},
        "agentConfig": {"pluginsConfigs": [{"name": "Bastion", "desiredState": "DISABLED"}]},
    }  # fmt: skip


def configuration(subnet: Any) -> dict[str, Any]:
    return {
        "displayName": "conf",
        "instanceDetails": {
            "instanceType": "compute",
            "launchDetails": {
                "availabilityDomain": AD, "compartmentId": COMPARTMENT, "shape": "BM.GPU4.8",
                "createVnicDetails": {"subnetId": subnet, "assignPublicIp": False},
                "sourceDetails": {"sourceType": "image", "imageId": OL7, "bootVolumeSizeInGbs": "256"},
                "metadata": {"ssh_authorized_keys": KEY},
                "platformConfig": {"type": "AMD_ROME_BM_GPU", "numaNodesPerSocket": "NPS4"},
                "agentConfig": {"pluginsConfigs": [{"name": "Compute RDMA GPU Monitoring", "desiredState": "ENABLED"}]},
            },
        },
    }  # fmt: skip


def cluster_network(conf: Any, subnet: Any, size: Any) -> dict[str, Any]:
    return {
        "displayName": "gpu",
        "instancePools": [{"instanceConfigurationId": conf, "size": size, "displayName": "pool"}],
        "placementConfiguration": {"availabilityDomain": AD, "primarySubnetId": subnet},
    }


def faults(cloud: Cloud, *listed: dict[str, object]) -> None:
    cloud.world.folder()
    (cloud.world.path / "faults.json").write_text(json.dumps(listed))


def put(inputs: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the inputs with one value set (or, for None, removed) at a dotted path."""
    changed = copy.deepcopy(inputs)
    *way, last = path.split(".")
    here: Any = changed
    for step in way:
        here = here[int(step)] if step.isdecimal() else here.setdefault(step, {})
    if value is None:
        del here[last]
    else:
        here[int(last) if last.isdecimal() else last] = value
    return changed


def refusals(cloud: Cloud, noun: str, inputs: dict[str, Any]) -> str:
    """What a preview of these inputs says, as the provider puts it together."""
    request = provider_pb2.CheckRequest(urn=f"urn:pulumi:dev::p::{token(noun)}::other", news=wire.dumps(inputs))
    return "\n".join(f"{one.property}: {one.reason}" for one in Provider(cloud).Check(request, None).failures)


LAUNCH = "instanceDetails.launchDetails"
REFUSED = [
    # Types, against the SDK's own.
    ("Vcn", "vcn", "dnsLable", "x", "did you mean 'dnsLabel'?"),
    ("Vcn", "vcn", "compartmentId", None, "compartmentId: 400-MissingParameter"),
    ("Vcn", "vcn", "cidrBlocks", "10.0.0.0/16", "must be a list"),
    ("Instance", "bastion", "shapeConfig.ocpus", "1", "must be a number"),
    ("Instance", "bastion", "createVnicDetails.assignPublicIp", True, "must be a string"),
    ("InstanceConfiguration", "conf", f"{LAUNCH}.createVnicDetails.subnet", "x", "is not a property of"),
    ("ClusterNetwork", "cn", "instancePools.0.size", "2", "must be a whole number"),
    # What only the service knows of networks.
    ("Vcn", "vcn", "compartmentId", "ocid1.compartment.oc1..other", "404-NotAuthorizedOrNotFound"),
    ("Vcn", "vcn", "cidrBlocks", ["10.0.0.0/15"], "from /16 to /30"),
    ("Vcn", "vcn", "cidrBlocks", ["10.0.0.1/16"], "without host bits"),
    ("Vcn", "vcn", "cidrBlocks", ["169.254.0.0/16"], "keeps for itself"),
    ("Vcn", "vcn", "cidrBlocks", ["10.0.0.0/16", "10.0.128.0/17"], "overlaps another range"),
    ("Vcn", "vcn", "dnsLabel", "1cluster", "a letter first"),
    ("Vcn", "vcn", "dnsLabel", "a-cluster", "letters and digits"),
    ("Vcn", "vcn", "isIpv6enabled", True, "501-NotPlayed"),
    ("InternetGateway", "igw", "displayName", "second", "LimitExceeded"),
    ("ServiceGateway", "sgw", "services", [{"serviceId": "ocid1.service.oc1.iad.x"}], "404"),
    ("Subnet", "public", "vcnId", "ocid1.vcn.oc1.rhs.none", "404-NotAuthorizedOrNotFound"),
    ("Subnet", "public", "cidrBlock", "10.1.0.0/24", "not within its VCN's 10.0.0.0/16"),
    ("Subnet", "public", "cidrBlock", "10.0.1.128/25", "overlaps with this CIDR"),
    ("Subnet", "public", "dnsLabel", "private", "taken by another subnet"),
    ("Subnet", "public", "prohibitPublicIpOnVnic", True, "leads to an internet gateway"),
    ("RouteTable", "out", "routeRules.0.networkEntityId", "ocid1.internetgateway.oc1.rhs.none", "404"),
    ("RouteTable", "out", "routeRules.0.destinationType", "SERVICE_CIDR_BLOCK", "must be one of all-rhs-services"),
    ("RouteTable", "out", "routeRules.0.destination", "10.0.0.1/8", "without host bits"),
    ("SecurityList", "open", "ingressSecurityRules.1.protocol", "tcp", "a protocol's number as a string"),
    ("SecurityList", "open", "ingressSecurityRules.1.protocol", "17", "goes with protocol '6'"),
    ("SecurityList", "open", "ingressSecurityRules.1.tcpOptions.max", 21, "which is no range"),
    ("SecurityList", "open", "ingressSecurityRules.1.tcpOptions.max", None, "needs both"),
    ("SecurityList", "open", "ingressSecurityRules.1.tcpOptions.min", 0, "from 1 to 65535"),
    ("SecurityList", "open", "ingressSecurityRules.1.source", "anywhere", "must be an IPv4 CIDR"),
    # What only the service knows of instances.
    ("Instance", "bastion", "availabilityDomain", "Uocm:REHEARSED-AD-9", "404"),
    ("Instance", "bastion", "shape", "VM.Standard.E9.Flex", "is not one that this region offers"),
    ("Instance", "bastion", "shape", "BM.GPU4.8", "is not valid for image ocid1.image.oc1..rehearsed-ol9"),
    ("Instance", "bastion", "shapeConfig", None, "needs its ocpus"),
    ("Instance", "bastion", "shapeConfig.ocpus", 127, "takes 1 to 126"),
    ("Instance", "bastion", "shapeConfig.memoryInGbs", 65, "takes 1 to 64"),
    ("Instance", "bastion", "sourceDetails.sourceId", "ocid1.image.oc1..none", "404"),
    ("Instance", "bastion", "sourceDetails.bootVolumeSizeInGbs", "49", "from 50 to 32768"),
    ("Instance", "bastion", "createVnicDetails.subnetId", "ocid1.subnet.oc1.rhs.none", "404"),
    ("Instance", "bastion", "createVnicDetails.privateIp", "10.0.0.1", "is not a host's address"),
    ("Instance", "bastion", "createVnicDetails.hostnameLabel", "bastion-1", "is taken in subnet"),
    ("Instance", "bastion", "createVnicDetails.hostnameLabel", "under_score", "RFC 952"),
    ("Instance", "bastion", "createVnicDetails.nsgIds", ["ocid1.nsg"], "501-NotPlayed"),
    ("Instance", "bastion", "metadata.ssh_authorized_keys", "ssh-ed25519 AAAA operator", "no public SSH key"),
    ("Instance", "bastion", "metadata.user_data", "#cloud-config", "is not base64"),
    ("Instance", "bastion", "metadata.user_data", "QUJD" * 8001, "may have 32000"),
    ("Instance", "bastion", "agentConfig.pluginsConfigs.0.name", "Compute HPC RDMA Authentification", "must be one of"),
    ("Instance", "bastion", "agentConfig.pluginsConfigs.0.desiredState", "enabled", "ENABLED, DISABLED"),
    ("InstanceConfiguration", "conf", "instanceDetails.instanceType", "block", "must be one of compute"),
    ("InstanceConfiguration", "conf", f"{LAUNCH}.shape", "BM.GPU.H100.8", "is not valid for image"),
    ("InstanceConfiguration", "conf", f"{LAUNCH}.availabilityDomain", "Uocm:REHEARSED-AD-2", "is not offered in"),
    ("InstanceConfiguration", "conf", f"{LAUNCH}.createVnicDetails.assignPublicIp", True, "prohibits public IPs"),
    ("InstanceConfiguration", "conf", f"{LAUNCH}.platformConfig.type", "GENERIC_BM", "takes AMD_ROME_BM_GPU"),
    ("InstanceConfiguration", "conf", f"{LAUNCH}.shapeConfig", {"ocpus": 4}, "is not flexible"),
    ("InstanceConfiguration", "conf", LAUNCH, None, "is missing"),
    ("ClusterNetwork", "cn", "instancePools.0.size", 65, "gpu4-count. 520 more are asked for"),
    ("ClusterNetwork", "cn", "instancePools.0.instanceConfigurationId", "ocid1.instanceconfiguration.oc1.rhs.none", "404"),
    ("ClusterNetwork", "cn", "instancePools", [], "exactly one"),
    ("ClusterNetwork", "cn", "placementConfiguration.primarySubnetId", None, "needs a primary subnet"),
    ("ClusterNetwork", "cn", "placementConfiguration.availabilityDomain", "Uocm:REHEARSED-AD-3", "is not offered in"),
    ("DynamicGroup", "group", "compartmentId", COMPARTMENT, "where dynamic groups live"),
    ("DynamicGroup", "group", "matchingRule", "instances in c", "matchingRule"),
    ("DynamicGroup", "group", "name", "my group", "hyphens, periods and underscores"),
    ("Policy", "policy", "statements.0", "Allow dynamic-group nodes to manage all-resources", "cannot be parsed"),
    ("Policy", "policy", "statements.0", "Allow dynamic-group nodes to manage instance-families in tenancy", "no resource type"),
    ("Policy", "policy", "statements.0", "Allow dynamic-group nodes to write instances in tenancy", "cannot be parsed"),
    ("Policy", "policy", "statements.0", "Allow group a to use vnics in compartment elsewhere", "which does not exist"),
]  # fmt: skip


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack in which everything exists, for questions that change nothing."""
    with pytest.MonkeyPatch.context() as patch:
        made = Fakes(World.at(tmp_path_factory.mktemp("furnished") / "world"))
        for name, fake in (
            ("apply_vcn", made.apply_vcn),
            ("apply_fabric", lambda *_: made.fabrics.update({_[1]: _[2]})),
        ):
            patch.setattr(network, name, fake)
        patch.setattr(hosts, "boot", made.boot)
        patch.setattr(hosts, "console", lambda *_: "0123456789" * 2000)
        stack = Stack(Cloud(made.world)).network()
        stack.bastion()
        stack.pool()
        stack.make("ConsoleHistory", "history", instanceId=stack.ids["bastion"])
        rule = f"all {{instance.compartment.id = '{COMPARTMENT}'}}"
        stack.make("DynamicGroup", "group", compartmentId=TENANCY, name="nodes", description="d", matchingRule=rule)
        allowed = [f"Allow dynamic-group nodes to use instance-family in compartment id {COMPARTMENT}"]
        stack.make("Policy", "policy", name="p", description="d", statements=allowed)
        yield stack


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]}-{case[2]}-{case[4]}")
def test_what_the_vendor_would_refuse_is_refused_in_words(
    furnished: Stack, case: tuple[str, str, str, Any, str]
) -> None:
    noun, name, path, value, words = case
    assert words in refusals(furnished.cloud, noun, put(furnished.inputs[name], path, value))


def leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in pairs:
            yield from leaves(one, f"{path}.{key}".lstrip("."))
    if path:
        yield path


def test_what_is_not_known_yet_is_let_through_wherever_it_stands(furnished: Stack) -> None:
    for name, inputs in furnished.inputs.items():
        noun = next(t for t in KINDS if furnished.ids[name].split(".")[1] == KINDS[t].noun).rpartition(":")[2]
        known = set(refusals(furnished.cloud, noun, inputs).splitlines())
        for path in leaves(inputs):
            said = set(refusals(furnished.cloud, noun, put(inputs, path, wire.UNKNOWN)).splitlines())
            assert said <= known, f"{noun}: unknown {path} must not be judged"


def test_a_secret_is_opened_and_an_unset_output_is_unknown() -> None:
    signature = "4dabf18193072939515e22adb298388d"
    secret = {signature: "1b47061264138c4ac30d75fd1eb44270", "value": {"a": [1, 2.5, True, "x"]}}
    output = {signature: "d0e6a833031e9bbcd3f4e8bde6ca49a4"}
    assert wire.loads(wire.dumps({"s": secret, "o": output})) == {"s": {"a": [1, 2.5, True, "x"]}, "o": wire.UNKNOWN}


@pytest.mark.parametrize("ocid", [COMPARTMENT, TENANCY])
def test_iam_sentences_of_the_vendors_documentation_are_taken(furnished: Stack, ocid: str) -> None:
    for sentence in (
        "Allow group Administrators to manage all-resources in tenancy",
        "allow dynamic-group 'Default'/'nodes' to read app-catalog-listing in tenancy",
        f"Allow dynamic-group nodes to manage compute-management-family in compartment id {ocid}",
        "Allow dynamic-group id ocid1.dynamicgroup.oc1..x to use queue-push in compartment clusters",
        "Allow service compute_management to use tag-namespace in tenancy",
        "Allow any-user to read metrics in tenancy where all {request.principal.type='serviceconnector', target.x != 'a, b'}",
        "Allow group a to {INSTANCE_READ, INSTANCE_INSPECT} in compartment rehearsed:clusters",
    ):
        assert (
            refusals(
                furnished.cloud, "Policy", put(furnished.inputs["policy"] | {"name": "q"}, "statements.0", sentence)
            )
            == ""
        )
    assert matches("any {request.user.name = 'x', all {a.b in ('1','2'), c != /d*/}}", _CONDITION)
    assert not matches("any {request.user.name 'x'}", _CONDITION)


def test_a_policy_for_a_group_that_does_not_exist_is_refused_only_when_it_is_made(cloud: Cloud) -> None:
    inputs = {
        "compartmentId": COMPARTMENT,
        "name": "p",
        "description": "d",
        "statements": ["Allow dynamic-group x to read buckets in tenancy"],
    }
    assert cloud.problems(token("Policy"), inputs, "urn") == []
    with pytest.raises(ServiceError, match="names the dynamic group 'x', which does not exist"):
        cloud.create(token("Policy"), "urn", inputs)


DIFFS = [
    ("Vcn", "vcn", "dnsLabel", "other", True),
    ("Vcn", "vcn", "displayName", "other", False),
    ("Vcn", "vcn", "cidrBlocks", ["10.0.0.0/16", "10.1.0.0/16"], False),
    ("Subnet", "public", "vcnId", "ocid1.vcn.x", True),
    ("Subnet", "public", "prohibitPublicIpOnVnic", True, True),
    ("Subnet", "public", "securityListIds", ["ocid1.securitylist.x"], False),
    ("SecurityList", "open", "ingressSecurityRules.1.tcpOptions.max", 23, False),
    ("RouteTable", "out", "routeRules", [], False),
    ("Instance", "bastion", "displayName", "b", False),
    ("Instance", "bastion", "metadata.note", "b", False),
    ("Instance", "bastion", "metadata.user_data", "QUJD", True),
    ("Instance", "bastion", "metadata.ssh_authorized_keys", "k", True),
    ("Instance", "bastion", "sourceDetails.sourceId", "ocid1.image.oc1..rehearsed-ol8", True),
    ("Instance", "bastion", "createVnicDetails.subnetId", "ocid1.subnet.x", True),
    ("Instance", "bastion", "createVnicDetails.assignPublicIp", "false", False),
    ("Instance", "bastion", "shape", "VM.Standard.E4.Flex", False),
    ("Instance", "bastion", "shape", "BM.GPU4.8", True),
    ("InstanceConfiguration", "conf", f"{LAUNCH}.metadata.user_data", "QUJD", True),
    ("ClusterNetwork", "cn", "instancePools.0.size", 3, False),
    ("ClusterNetwork", "cn", "placementConfiguration.primarySubnetId", "ocid1.subnet.x", True),
    ("DynamicGroup", "group", "matchingRule", "instance.id = 'x'", False),
    ("Policy", "policy", "name", "other", True),
]  # fmt: skip


@pytest.mark.parametrize("case", DIFFS, ids=lambda case: f"{case[0]}-{case[2]}")
def test_a_change_replaces_what_the_vendors_provider_replaces(
    furnished: Stack, case: tuple[str, str, str, Any, bool]
) -> None:
    noun, name, path, value, replaces = case
    old = furnished.inputs[name]
    found = changes(token(noun), old, put(old, path, value))
    assert found.changed
    assert bool(found.replaced) is replaces
    assert changes(token(noun), old, copy.deepcopy(old)).changed == []


def test_the_network_is_what_the_stack_says(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network()
    record = stack.bastion()
    (plan,) = fakes.plans.values()
    public, private = plan.subnets
    assert public.cidr == "10.0.0.0/24"
    assert public.routes == (network.Route("0.0.0.0/0", "internet"),)
    assert private.routes == (network.Route("0.0.0.0/0", "nat"), network.Route("240.0.0.0/4", "service"))
    assert network.Rule("ingress", "6", "198.51.100.0/24", ports=(22, 22)) in public.rules
    assert {rule.direction for rule in private.rules} == {"ingress", "egress"}
    assert dict(plan.public_ips) == {"10.0.0.2": record.computed["publicIp"]}
    assert cloud.store.read().records[stack.ids["nat"]].computed["natIp"] == "192.0.2.7"
    stack.inputs["igw"]["enabled"] = False
    cloud.update(stack.ids["igw"], stack.inputs["igw"])
    assert fakes.plans[plan.id].subnets[0].routes == (), "a disabled gateway leads nowhere"


def test_a_subnet_without_lists_has_the_vendors_default_ones(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud)
    vcn = stack.make("Vcn", "vcn", cidrBlock="10.0.0.0/16").ocid
    subnet = stack.make("Subnet", "subnet", vcnId=vcn, cidrBlock="10.0.0.0/24")
    (plan,) = fakes.plans.values()
    assert network.Rule("ingress", "6", "0.0.0.0/0", ports=(22, 22)) in plan.subnets[0].rules
    assert network.Rule("ingress", "all", "10.0.0.0/16") not in plan.subnets[0].rules
    assert plan.subnets[0].routes == ()
    assert subnet.outputs()["securityListIds"] == [cloud.store.read().records[vcn].computed["defaultSecurityListId"]]


def test_an_instance_boots_as_what_was_asked_for(cloud: Cloud, fakes: Fakes) -> None:
    record = Stack(cloud).network().bastion()
    (spec,) = fakes.running.values()
    assert (spec.hostname, spec.address, spec.gateway, spec.index) == ("bastion-1", "10.0.0.2", "10.0.0.1", -1)
    assert (spec.image, spec.front_name, spec.rails, spec.search_domain) == (
        "ol9",
        "ens3",
        (),
        "public.cluster.oraclevcn.com",
    )
    assert spec.user_data == b"#cloud-config\n"
    assert spec.ssh_authorized_keys == (KEY,)
    assert record.state == "RUNNING"
    assert record.outputs()["publicIp"] == "203.0.113.1"
    assert record.outputs()["createVnicDetails"]["assignPublicIp"] == "true"


def test_a_cluster_network_launches_its_hosts_on_one_fabric(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network()
    record = stack.pool(3)
    assert fakes.fabrics == {record.short: 16}
    specs = sorted(fakes.running.values(), key=lambda spec: spec.index)
    assert [spec.index for spec in specs] == [0, 1, 2]
    assert len({spec.address for spec in specs}) == 3
    assert all(spec.hostname.startswith("inst-") and spec.hostname.endswith("-pool") for spec in specs)
    assert specs[0].gpus == ("NVIDIA A100-SXM4-40GB",) * 8
    assert [(rail.name, rail.hca) for rail in specs[0].rails[4:6]] == [("enp72s0f0", "mlx5_6"), ("enp72s0f1", "mlx5_7")]
    assert (specs[0].front_name, specs[0].front_hca, specs[0].agent_plugins) == (
        "enp45s0f0",
        "mlx5_4",
        ("Compute RDMA GPU Monitoring",),
    )
    outputs = KINDS[record.token].outputs(cloud.store.read().records[record.ocid])
    assert outputs["instancePools"][0]["currentSize"] == 3
    stack.inputs["cn"]["instancePools"][0]["size"] = 1
    cloud.update(record.ocid, stack.inputs["cn"])
    assert [spec.index for spec in fakes.running.values()] == [2], "the oldest go first"
    cloud.delete(record.ocid)
    assert fakes.running == {}
    assert fakes.fabrics == {}


def test_capacity_that_runs_out_half_way_leaves_a_partial_pool_that_the_next_update_completes(
    cloud: Cloud, fakes: Fakes
) -> None:
    stack = Stack(cloud).network()
    faults(cloud, {"kind": "capacity", "after": 1})
    conf = stack.make("InstanceConfiguration", "conf", **configuration(stack.ids["private"])).ocid
    inputs = {"compartmentId": COMPARTMENT, **cluster_network(conf, stack.ids["private"], 3)}
    with pytest.raises(PartlyCreatedError, match="500-InternalError, Out of host capacity") as partly:
        cloud.create(token("ClusterNetwork"), "urn", inputs)
    assert [spec.index for spec in fakes.running.values()] == [0]
    faults(cloud)
    cloud.update(partly.value.ocid, inputs)
    assert sorted(spec.index for spec in fakes.running.values()) == [0, 1, 2]


def test_what_is_in_use_cannot_be_deleted_and_what_is_gone_can(cloud: Cloud) -> None:
    stack = Stack(cloud).network()
    stack.bastion()
    stack.pool()
    for used in ("vcn", "igw", "out", "closed", "private", "public", "conf"):
        with pytest.raises(ServiceError, match="409-Conflict"):
            cloud.delete(stack.ids[used])
    for name in (
        "cn",
        "conf",
        "bastion",
        "public",
        "private",
        "out",
        "in",
        "open",
        "closed",
        "igw",
        "nat",
        "sgw",
        "vcn",
    ):
        cloud.delete(stack.ids[name])
        cloud.delete(stack.ids[name])
    assert not (cloud.world.path / "oci.json").exists(), "an empty cloud leaves no file"


def test_a_creation_that_fails_leaves_nothing(cloud: Cloud, fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack(cloud).network()
    before = set(cloud.store.read().records)

    def fails(*_: object) -> None:
        raise RuntimeError("no memory for a host")

    monkeypatch.setattr(hosts, "boot", fails)
    with pytest.raises(RuntimeError, match="no memory"):
        stack.bastion()
    assert set(cloud.store.read().records) == before
    assert dict(next(iter(fakes.plans.values())).public_ips) == {}


def forge(cloud: Cloud, ocid: str, **fields: Any) -> None:
    with cloud.store.change() as database:
        for name, value in fields.items():
            setattr(database.records[ocid], name, value)


def test_what_a_dead_process_was_making_is_undone_and_what_it_was_deleting_is_finished(
    cloud: Cloud, fakes: Fakes
) -> None:
    stack = Stack(cloud).network()
    record = stack.bastion()
    pool = stack.pool()
    forge(cloud, record.ocid, state="TERMINATING", worker=DEAD)
    forge(cloud, pool.ocid, state="PROVISIONING", worker=DEAD)
    forge(cloud, stack.ids["public"], state="UPDATING", worker=DEAD)
    fakes.world.folder("hosts", "deadbeef")
    Cloud(fakes.world).recover()
    kept = cloud.store.read().records
    assert {record.ocid, pool.ocid}.isdisjoint(kept)
    assert kept[stack.ids["public"]].state == "AVAILABLE"
    assert fakes.running == {}
    assert list((fakes.world.path / "hosts").iterdir()) == []
    assert fakes.fabrics == {}


def test_recovery_leaves_alone_what_a_living_process_is_making(cloud: Cloud) -> None:
    stack = Stack(cloud).network()
    record = stack.bastion()
    forge(cloud, record.ocid, state="PROVISIONING", worker=record.maker)
    Cloud(cloud.world).recover()
    assert record.ocid in cloud.store.read().records


def test_what_the_engine_never_heard_of_gives_way_to_its_second_try(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network()
    lost = stack.bastion()
    forge(cloud, lost.ocid, maker=DEAD)
    again = stack.bastion()
    assert list(fakes.running) == [again.short]
    forge(cloud, again.ocid, maker=DEAD)
    cloud.acknowledge(again.ocid)
    replacement = cloud.create(token("Instance"), stack.urn("Instance", "bastion"), stack.inputs["bastion"])
    assert set(fakes.running) == {again.short, replacement.short}, "a replacement leaves the old one to the engine"


def test_destroy_is_not_held_up_by_what_the_engine_never_heard_of(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud)
    vcn = stack.make("Vcn", "vcn", cidrBlocks=["10.0.0.0/16"]).ocid
    subnet = stack.make("Subnet", "lost", vcnId=vcn, cidrBlock="10.0.0.0/24").ocid
    forge(cloud, subnet, maker=DEAD, urn="urn:pulumi:other::p::x::lost")
    with pytest.raises(ServiceError, match="409-Conflict"):
        cloud.delete(vcn)
    forge(cloud, subnet, urn="urn:pulumi:dev::p::x::lost")
    cloud.delete(vcn)
    assert fakes.plans == {}


def test_throttling_is_retried_and_in_the_end_reported(cloud: Cloud) -> None:
    stack = Stack(cloud)
    faults(cloud, {"kind": "throttle", "operation": "CreateVcn", "times": 3})
    stack.make("Vcn", "vcn", cidrBlocks=["10.0.0.0/16"])
    assert list(cloud.store.read().struck.values()) == [3]
    faults(cloud, {"kind": "throttle", "operation": "CreateVcn", "times": 300})
    with pytest.raises(ServiceError, match="429-TooManyRequests"):
        stack.make("Vcn", "other", cidrBlocks=["10.0.0.0/16"])
    faults(cloud, {"kind": "api_timeout", "operation": "DeleteVcn"})
    with pytest.raises(RequestTimeoutError, match=r"Client\.Timeout exceeded"):
        cloud.delete(stack.ids["vcn"])


def test_the_database_survives_many_hands(tmp_path: Path) -> None:
    store = Store(World.at(tmp_path))

    def count(_: int) -> None:
        with store.change() as database:
            database.records["x"] = Record("x", "t", "", "S", {})
            database.struck["n"] = database.struck.get("n", 0) + 1

    with ThreadPoolExecutor(8) as many:
        list(many.map(count, range(100)))
    assert store.read().struck["n"] == 100


QUESTIONS: dict[str, dict[str, Any]] = {
    "getServices": {"filters": [{"name": "name", "values": ["All .* Services In Oracle Services Network"], "regex": True}]},
    "getShapes": {"compartmentId": COMPARTMENT, "availabilityDomain": AD, "imageId": next(iter(IMAGES))},
    "getImage": {"imageId": next(iter(IMAGES))},
    "getImages": {"compartmentId": COMPARTMENT, "operatingSystem": "Oracle Linux", "shape": "BM.GPU4.8"},
    "getImageShapes": {"imageId": next(iter(IMAGES))},
    "getClusterNetworkInstances": {"compartmentId": COMPARTMENT, "clusterNetworkId": "cn"},
    "getClusterNetworks": {"compartmentId": COMPARTMENT},
    "getInstance": {"instanceId": "bastion"},
    "getVnicAttachments": {"compartmentId": COMPARTMENT, "instanceId": "bastion"},
    "getVnic": {"vnicId": "vnic"},
    "getPrivateIps": {"subnetId": "private"},
    "getConsoleHistoryData": {"consoleHistoryId": "history", "length": 20000, "offset": 5},
    "getAvailabilityDomains": {"compartmentId": TENANCY},
    "getAvailabilityDomain": {"compartmentId": TENANCY, "adNumber": 2},
    "getCompartment": {"id": COMPARTMENT},
    "getLimitValues": {"compartmentId": TENANCY, "serviceName": "compute", "name": "gpu4-count", "availabilityDomain": AD},
    "getResourceAvailability": {"compartmentId": TENANCY, "serviceName": "compute", "limitName": "gpu4-count", "availabilityDomain": AD},
}  # fmt: skip


def asked(furnished: Stack, name: str) -> dict[str, Any]:
    ids = furnished.ids | {"vnic": furnished.ids["bastion"].replace("instance", "vnic", 1)}
    args = {key: ids.get(value, value) if isinstance(value, str) else value for key, value in QUESTIONS[name].items()}
    return answer(next(one for one in LOOKUPS if one.endswith(f":{name}")), args, furnished.cloud.store.read())


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_data_source_answers_with_the_names_that_the_sdk_reads(furnished: Stack, lookup: str) -> None:
    name = lookup.rpartition(":")[2]
    room = lookup.partition("/")[0].rpartition(":")[2].lower()
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    module = importlib.import_module(f"pulumi_oci.{room}.{snake}")
    outputs = importlib.import_module(f"pulumi_oci.{room}.outputs")
    result = getattr(module, f"{name[0].upper()}{name[1:]}Result")
    read = {wire_name: prop for _, wire_name, prop in sdk_types._py_properties(result)}  # noqa: SLF001  the SDK's own index
    answered = asked(furnished, name)
    assert set(answered) <= set(read) | {"state"}
    for key, prop in read.items():
        hint = str(prop.fget.__annotations__["return"])
        if "ForwardRef" in hint and isinstance(answered.get(key), list) and key != "filters":
            element = getattr(outputs, hint.partition("outputs.")[2].partition("'")[0])
            names = {wire_name for _, wire_name, _ in sdk_types._py_properties(element)}  # noqa: SLF001
            assert all(set(one) <= names for one in answered[key]), key
    listed = [value for key, value in answered.items() if isinstance(value, list) and key.endswith("s") and key in read]
    assert not listed or any(listed), f"{name} found nothing"


def test_lookups_find_what_was_made(furnished: Stack) -> None:
    assert asked(furnished, "getServices")["services"][0]["cidrBlock"] == SERVICE_CIDR
    members = asked(furnished, "getClusterNetworkInstances")["instances"]
    assert [one["shape"] for one in members] == ["BM.GPU4.8"] * 2
    assert {one["ipAddress"] for one in asked(furnished, "getPrivateIps")["privateIps"]} == {"10.0.1.2", "10.0.1.3"}
    assert asked(furnished, "getVnic")["publicIpAddress"] == "203.0.113.1"
    data = asked(furnished, "getConsoleHistoryData")["data"]
    assert (len(data), data[:6]) == (19995, "567890")
    available = asked(furnished, "getResourceAvailability")
    assert (available["used"], available["available"]) == ("16", "496")
    assert asked(furnished, "getLimitValues")["limitValues"][0]["value"] == "512"
    assert asked(furnished, "getAvailabilityDomain")["name"] == "Uocm:REHEARSED-AD-2"
    assert asked(furnished, "getInstance")["region"] == REGION


def test_resources_answer_with_names_that_the_sdk_reads(furnished: Stack) -> None:
    for record in furnished.cloud.store.read().records.values():
        names = set(KINDS[record.token].outputs(record))
        assert names <= sdk.output_names(record.token) | {"instanceConfigurationId", "state"}, record.token


def test_every_row_of_shapes_agrees_with_itself() -> None:
    for shape in SHAPES.values():
        assert bool(shape.gpu) == bool(shape.gpus), shape.name
        assert bool(shape.ports) == bool(shape.port_rate_bits_per_s), shape.name
        assert len({port.hca for port in shape.ports}) == len(shape.ports), shape.name
        assert shape.front_hca not in {port.hca for port in shape.ports}, shape.name
        assert shape.bare_metal == (shape.flexible is None), shape.name
        assert all(3e12 < size < 8e12 for size in shape.nvme_bytes), shape.name
    gpu4 = SHAPES["BM.GPU4.8"]
    buses = (12, 22, 72, 76, 138, 148, 195, 209)
    assert rail_names(gpu4, "ol7") == [f"enp{bus}s0f{function}" for bus in buses for function in (0, 1)]
    assert rail_names(gpu4, "ol8") == [f"rdma{index}" for index in range(16)]
    assert (front_name(gpu4, "ol7"), front_name(gpu4, "ol9")) == ("enp45s0f0", "eth0")


def test_enumerations_are_those_of_the_vendors_own_sdk() -> None:
    models = pytest.importorskip("oci.core.models")
    compared = 0
    for listed in rules.RULES.values():
        for path, rule in listed.items():
            if isinstance(rule, rules.OneOf) and rule.model:
                model, prefix = rule.model.split(".")
                theirs = {
                    value
                    for name, value in vars(getattr(models, model)).items()
                    if name.startswith(f"{prefix}_") and name.isupper()
                }
                # Accepted by the SDK's models, refused or unused by the service in this place.
                assert set(rule.values) <= theirs, path
                assert theirs - set(rule.values) <= {"ACCELERATEDPV"}, path
                compared += 1
    assert compared > 20


class Served:
    """The provider behind its real protocol, in this process."""

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


def test_a_preview_knows_what_is_given_and_leaves_the_rest_open(served: Any) -> None:
    urn = f"urn:pulumi:dev::p::{token('Vcn')}::vcn"
    inputs = wire.dumps({"compartmentId": COMPARTMENT, "cidrBlocks": ["10.0.0.0/16"]})
    made = wire.loads(served.Create(provider_pb2.CreateRequest(urn=urn, properties=inputs, preview=True)).properties)
    assert made["cidrBlocks"] == ["10.0.0.0/16"]
    assert made["defaultRouteTableId"] is wire.UNKNOWN


def test_a_partial_creation_reaches_the_engine_with_its_id_and_a_refusal_with_its_words(
    cloud: Cloud, served: Any
) -> None:
    stack = Stack(cloud).network()
    conf = stack.make("InstanceConfiguration", "conf", **configuration(stack.ids["private"])).ocid
    faults(cloud, {"kind": "capacity", "after": 0})
    inputs = {"compartmentId": COMPARTMENT, **cluster_network(conf, stack.ids["private"], 2)}
    urn = f"urn:pulumi:dev::p::parent${token('ClusterNetwork')}::cn"
    with pytest.raises(grpc.RpcError) as refused:
        served.Create(provider_pb2.CreateRequest(urn=urn, properties=wire.dumps(inputs)))
    details = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    failed = provider_pb2.ErrorResourceInitFailed()
    assert status_pb2.Status.FromString(details).details[0].Unpack(failed)
    assert failed.id in cloud.store.read().records
    assert "Out of host capacity" in failed.reasons[0]
    read = served.Read(provider_pb2.ReadRequest(urn=urn, id=failed.id))
    assert wire.loads(read.inputs) == inputs
    with pytest.raises(grpc.RpcError, match="409-Conflict"):
        served.Delete(provider_pb2.DeleteRequest(urn="", id=conf))


def test_the_plugin_starts_at_once_and_ends_quietly(tmp_path: Path) -> None:
    environment = {**os.environ, "BUSBAR_WORLD": str(tmp_path / "world"), "BUSBAR_PYTHON": os.sys.executable}  # type: ignore[attr-defined]
    started = time.monotonic()
    plugin = subprocess.Popen(
        [ROOT / "rehearsal/bin/pulumi-resource-oci", "127.0.0.1:1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert plugin.stdout is not None
    assert plugin.stdout.readline().strip().isdecimal()
    assert time.monotonic() - started < 5, (
        "the engine waits for it at every command; the bound is loose for busy machines"
    )
    plugin.send_signal(signal.SIGINT)
    rest, said = plugin.communicate(timeout=10)
    assert (plugin.returncode, rest, said) == (0, "", "")
    assert not (tmp_path / "world").exists(), "looking changes nothing"
