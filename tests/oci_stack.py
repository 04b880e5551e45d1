"""A small stack for the tests of the rehearsed OCI. No host, network or disk is made: a fake records these calls."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pulumi.runtime.proto import provider_pb2

from rehearsal.host import hosts, storage
from rehearsal.net import network
from rehearsal.oci import rules
from rehearsal.oci.cloud import Cloud
from rehearsal.oci.places import COMPARTMENT, SERVICES, TENANCY
from rehearsal.oci.registry import KINDS
from rehearsal.oci.sdk import SDK
from rehearsal.oci.server import Provider
from rehearsal.plugin import check, wire
from rehearsal.plugin.store import Record
from rehearsal.world.world import World

ROOT = Path(__file__).parent.parent
AD = "Uocm:REHEARSED-AD-1"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl operator"
OL7, OL9 = "ocid1.image.oc1..rehearsed-ol7-gpu", "ocid1.image.oc1..rehearsed-ol9"
LAUNCH = "instanceDetails.launchDetails"
DEAD = "999999999:1"
SERVICE, (_, SERVICE_CIDR) = next(iter(SERVICES.items()))


def token(noun: str) -> str:
    return next(one for one in KINDS if one.endswith(f":{noun}"))


class Fakes:
    """Stands in for the functions that make hosts, networks and disks: it records each call and checks the order of calls."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.plans: dict[str, network.VcnPlan] = {}
        self.fabrics: dict[str, int] = {}
        self.running: dict[str, hosts.HostSpec] = {}
        self.served: dict[str, dict[str, Any]] = {}
        self.kept: set[str] = set()
        #: A test clears this event to see the cloud's answers while machines are starting.
        self.may_boot = threading.Event()
        self.may_boot.set()

    def apply_vcn(self, world: World, plan: network.VcnPlan) -> None:
        self.plans[plan.id] = plan
        (world.folder("vcns") / f"{plan.id}.json").write_text(json.dumps({"number": 7}))

    def boot(self, world: World, spec: hosts.HostSpec) -> None:
        assert spec.vcn_id in self.plans, "a host needs the router of its VCN"
        assert spec.fabric_id is None or spec.fabric_id in self.fabrics, "rails need a fabric"
        assert self.may_boot.wait(10), "the test never let machines boot"
        self.running[spec.id] = spec
        world.folder("hosts", spec.id)

    def stop(self, world: World, host: str) -> None:
        self.running.pop(host, None)
        folder = world.path / "hosts" / host
        if folder.is_dir():
            folder.rmdir()

    def serve(self, _: World, **asked: Any) -> None:
        assert asked["vcn_id"] in self.plans, "a server needs the router of its VCN"
        self.served[asked["id"]] = asked
        self.kept.discard(asked["id"])

    def put_away(self, _: World, system: str) -> None:
        if self.served.pop(system, None):
            self.kept.add(system)

    def patch_storage(self, patch: pytest.MonkeyPatch) -> None:
        patch.setattr(storage, "start", self.serve)
        patch.setattr(storage, "stop", lambda _, system: self.served.pop(system, None))
        patch.setattr(storage, "put_away", self.put_away)
        patch.setattr(storage, "forget", lambda _, system: self.kept.discard(system))


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
    monkeypatch.setattr("rehearsal.plugin.faults._FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr("rehearsal.oci.api.networks._LEAST_START_S", 0)
    made.patch_storage(monkeypatch)
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

    def urn(self, noun: str, name: str) -> str:
        return f"urn:pulumi:dev::p::{token(noun)}::{name}"

    def make(self, noun: str, name: str, /, **inputs: Any) -> Record:
        asked = inputs if noun in {"ConsoleHistory", "Export"} else {"compartmentId": COMPARTMENT, **inputs}
        assert not list(check.misfits(asked, SDK.inputs(token(noun))))
        assert not list(rules.broken(token(noun), asked))
        assert not self.cloud.problems(token(noun), asked, self.urn(noun, name))
        record = self.cloud.create(token(noun), self.urn(noun, name), asked)
        self.ids[name], self.inputs[name] = record.id, asked
        return record

    def network(self) -> Stack:
        vcn = self.make("Vcn", "vcn", cidrBlocks=["10.0.0.0/16"], dnsLabel="cluster").id
        igw = self.make("InternetGateway", "igw", vcnId=vcn).id
        nat = self.make("NatGateway", "nat", vcnId=vcn).id
        sgw = self.make("ServiceGateway", "sgw", vcnId=vcn, services=[{"serviceId": SERVICE}]).id
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

    def files(self) -> Stack:
        """Create a file system behind a mount target in the private subnet, and Lustre."""
        here = {"availabilityDomain": AD}
        system = self.make("FileSystem", "files", displayName="files", **here).id
        target = self.make("MountTarget", "target", subnetId=self.ids["private"], displayName="target", **here)
        option = {"source": "10.0.0.0/16", "access": "READ_WRITE", "identitySquash": "NONE"}
        self.make("Export", "export", fileSystemId=system, exportSetId=target.computed["exportSetId"], path="/fss",
                  exportOptions=[option])  # fmt: skip
        self.make("FileStorageLustreFileSystem", "lustre", subnetId=self.ids["private"], capacityInGbs=31_200,
                  fileSystemName="lustre", performanceTier="MBPS_PER_TB_125",
                  rootSquashConfiguration={"identitySquash": "NONE"}, **here)  # fmt: skip
        return self

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


def refusals(cloud: Cloud, noun: str, inputs: dict[str, Any]) -> str:
    """Return the provider's refusals of `inputs` in a preview, one refusal on each line."""
    request = provider_pb2.CheckRequest(urn=f"urn:pulumi:dev::p::{token(noun)}::other", news=wire.dumps(inputs))
    return "\n".join(f"{one.property}: {one.reason}" for one in Provider(cloud).Check(request, None).failures)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that has most kinds of resources, for tests that change nothing."""
    with pytest.MonkeyPatch.context() as patch:
        made = Fakes(World.at(tmp_path_factory.mktemp("furnished") / "world"))
        for name, fake in (
            ("apply_vcn", made.apply_vcn),
            ("apply_fabric", lambda *_: made.fabrics.update({_[1]: _[2]})),
        ):
            patch.setattr(network, name, fake)
        patch.setattr(hosts, "boot", made.boot)
        patch.setattr(hosts, "console", lambda *_: "0123456789" * 2000)
        made.patch_storage(patch)
        stack = Stack(Cloud(made.world)).network()
        stack.bastion()
        stack.pool()
        stack.make("ConsoleHistory", "history", instanceId=stack.ids["bastion"])
        rule = f"all {{instance.compartment.id = '{COMPARTMENT}'}}"
        stack.make("DynamicGroup", "group", compartmentId=TENANCY, name="nodes", description="d", matchingRule=rule)
        allowed = [f"Allow dynamic-group nodes to use instance-family in compartment id {COMPARTMENT}"]
        stack.make("Policy", "policy", name="p", description="d", statements=allowed)
        stack.files()
        yield stack
