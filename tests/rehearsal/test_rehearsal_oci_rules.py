"""The stand-in for OCI refuses what OCI refuses, and replaces what the OCI provider replaces."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oci_stack import (
    LAUNCH,
    Stack,
    cloud,
    fakes,
    furnished,
    refusals,
    token,
)

# ruff: noqa: F401, F811  fixtures are imported here, and tests take them as parameters of the same names
from stand_in import put

from rehearsal.oci import rules
from rehearsal.oci.cloud import Cloud
from rehearsal.oci.diff import changes
from rehearsal.oci.identity import _CONDITION, matches
from rehearsal.oci.places import COMPARTMENT, TENANCY
from rehearsal.oci.registry import KINDS
from rehearsal.oci.shapes import SHAPES, front_name, rail_names
from rehearsal.plugin import wire
from rehearsal.plugin.errors import ServiceError

REFUSED = [
    # Types, checked against the SDK.
    ("Vcn", "vcn", "dnsLable", "x", "did you mean 'dnsLabel'?"),
    ("Vcn", "vcn", "compartmentId", None, "compartmentId: 400-MissingParameter"),
    ("Vcn", "vcn", "cidrBlocks", "10.0.0.0/16", "must be a list"),
    ("Instance", "bastion", "shapeConfig.ocpus", "1", "must be a number"),
    ("Instance", "bastion", "createVnicDetails.assignPublicIp", True, "must be a string"),
    ("InstanceConfiguration", "conf", f"{LAUNCH}.createVnicDetails.subnet", "x", "is not a property of"),
    ("ClusterNetwork", "cn", "instancePools.0.size", "2", "must be a whole number"),
    # Networks: rules that only the service knows.
    ("Vcn", "vcn", "compartmentId", "ocid1.compartment.oc1..other", "404-NotAuthorizedOrNotFound"),
    ("Vcn", "vcn", "cidrBlocks", ["10.0.0.0/15"], "from /16 to /30"),
    ("Vcn", "vcn", "cidrBlocks", ["10.0.0.1/16"], "without host bits"),
    ("Vcn", "vcn", "cidrBlocks", ["169.254.0.0/16"], "the service reserves"),
    ("Vcn", "vcn", "cidrBlocks", ["10.0.0.0/16", "10.0.128.0/17"], "overlaps another range"),
    ("Vcn", "vcn", "dnsLabel", "1cluster", "a letter first"),
    ("Vcn", "vcn", "dnsLabel", "a-cluster", "letters and digits"),
    ("Vcn", "vcn", "isIpv6enabled", True, "501-NotRehearsed"),
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
    ("SecurityList", "open", "ingressSecurityRules.1.protocol", "17", "is only for protocol '6'"),
    ("SecurityList", "open", "ingressSecurityRules.1.tcpOptions.max", 21, "which is not a range"),
    ("SecurityList", "open", "ingressSecurityRules.1.tcpOptions.max", None, "needs both"),
    ("SecurityList", "open", "ingressSecurityRules.1.tcpOptions.min", 0, "from 1 to 65535"),
    ("SecurityList", "open", "ingressSecurityRules.1.source", "anywhere", "must be an IPv4 CIDR"),
    # Instances: rules that only the service knows.
    ("Instance", "bastion", "availabilityDomain", "Uocm:REHEARSED-AD-9", "404"),
    ("Instance", "bastion", "shape", "VM.Standard.E9.Flex", "is not offered in this region"),
    ("Instance", "bastion", "shape", "BM.GPU4.8", "is not valid for image ocid1.image.oc1..rehearsed-ol9"),
    ("Instance", "bastion", "shapeConfig", None, "needs ocpus"),
    ("Instance", "bastion", "shapeConfig.ocpus", 127, "takes 1 to 126"),
    ("Instance", "bastion", "shapeConfig.memoryInGbs", 65, "takes 1 to 64"),
    ("Instance", "bastion", "sourceDetails.sourceId", "ocid1.image.oc1..none", "404"),
    ("Instance", "bastion", "sourceDetails.bootVolumeSizeInGbs", "49", "from 50 to 32768"),
    ("Instance", "bastion", "createVnicDetails.subnetId", "ocid1.subnet.oc1.rhs.none", "404"),
    ("Instance", "bastion", "createVnicDetails.privateIp", "10.0.0.1", "is not a host's address"),
    ("Instance", "bastion", "createVnicDetails.hostnameLabel", "bastion-1", "is taken in subnet"),
    ("Instance", "bastion", "createVnicDetails.hostnameLabel", "under_score", "RFC 952"),
    ("Instance", "bastion", "createVnicDetails.nsgIds", ["ocid1.nsg"], "501-NotRehearsed"),
    ("Instance", "bastion", "metadata.ssh_authorized_keys", "ssh-ed25519 AAAA operator", "not a public SSH key"),
    ("Instance", "bastion", "metadata.user_data", "#cloud-config", "is not base64"),
    ("Instance", "bastion", "metadata.user_data", "QUJD" * 8001, "the maximum is 32000"),
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
    # File systems: rules that only the service knows.
    ("FileSystem", "files", "availabilityDomain", "Uocm:REHEARSED-AD-9", "404"),
    ("FileSystem", "files", "sourceSnapshotId", "ocid1.snapshot", "501-NotRehearsed"),
    ("FileSystem", "files", "compartment", COMPARTMENT, "did you mean 'compartmentId'?"),
    ("MountTarget", "target", "subnetId", "ocid1.subnet.oc1.rhs.none", "404"),
    ("MountTarget", "target", "requestedThroughput", 20, "must be a string"),
    ("MountTarget", "target", "requestedThroughput", "10", "must be one of 1, 20, 40, 80"),
    ("MountTarget", "target", "requestedThroughput", "80", "0 of 0 are in use. Request a service limit increase"),
    ("MountTarget", "target", "ipAddress", "10.0.1.1", "is not a host's address"),
    ("MountTarget", "target", "ipAddress", "10.0.1.2", "is taken"),
    ("MountTarget", "target", "hostnameLabel", "under_score", "RFC 952"),
    ("MountTarget", "target", "nsgIds", ["ocid1.nsg"], "501-NotRehearsed"),
    ("Export", "export", "path", "fss", "an absolute path"),
    ("Export", "export", "path", "/fss/", "an absolute path"),
    ("Export", "export", "path", "/a/../b", "an absolute path"),
    ("Export", "export", "path", "/fss/deeper", "overlap"),
    ("Export", "export", "fileSystemId", "ocid1.filesystem.oc1.rhs.none", "404"),
    ("Export", "export", "exportSetId", "ocid1.exportset.oc1.rhs.none", "404"),
    ("Export", "export", "path", "/other", "is in the export set already"),
    ("Export", "export", "exportOptions.0.source", "10.0.0.1/16", "without host bits"),
    ("Export", "export", "exportOptions.0.access", "READ", "must be one of READ_WRITE, READ_ONLY"),
    ("Export", "export", "exportOptions.0.identitySquash", None, "identitySquash is ROOT, but the rehearsal"),
    ("Export", "export", "compartmentId", COMPARTMENT, "is not a property of Export"),
    ("FileStorageLustreFileSystem", "lustre", "capacityInGbs", 20_800, "at least 31200, in steps of 10400"),
    ("FileStorageLustreFileSystem", "lustre", "capacityInGbs", 32_000, "at least 31200, in steps of 10400"),
    ("FileStorageLustreFileSystem", "lustre", "capacityInGbs", 520_000, "does not have the 312 free addresses"),
    ("FileStorageLustreFileSystem", "lustre", "performanceTier", "MBPS_PER_TB_300", "MBPS_PER_TB_125, MBPS_PER_TB_250"),
    ("FileStorageLustreFileSystem", "lustre", "fileSystemName", "too-long-a-name", "at most 8"),
    ("FileStorageLustreFileSystem", "lustre", "rootSquashConfiguration.identitySquash", "ROOT", "501-NotRehearsed"),
    ("FileStorageLustreFileSystem", "lustre", "rootSquashConfiguration", None, "rootSquashConfiguration is missing"),
    ("FileStorageLustreFileSystem", "lustre", "subnetId", "ocid1.subnet.oc1.rhs.none", "404"),
    ("DynamicGroup", "group", "compartmentId", COMPARTMENT, "dynamic groups exist only in the tenancy"),
    ("DynamicGroup", "group", "matchingRule", "instances in c", "matchingRule"),
    ("DynamicGroup", "group", "name", "my group", "hyphens, periods and underscores"),
    ("Policy", "policy", "statements.0", "Allow dynamic-group nodes to manage all-resources", "cannot be parsed"),
    ("Policy", "policy", "statements.0", "Allow group a to manage instance-families in tenancy", "not a resource type"),
    ("Policy", "policy", "statements.0", "Allow dynamic-group nodes to write instances in tenancy", "cannot be parsed"),
    ("Policy", "policy", "statements.0", "Allow group a to use vnics in compartment elsewhere", "which does not exist"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]}-{case[2]}-{case[4]}")
def test_inputs_that_oci_refuses_are_refused_with_the_message_of_oci(
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


def test_an_input_whose_value_is_not_known_yet_is_never_refused(furnished: Stack) -> None:
    for name, inputs in furnished.inputs.items():
        noun = next(t for t in KINDS if furnished.ids[name].split(".")[1] == KINDS[t].noun).rpartition(":")[2]
        known = set(refusals(furnished.cloud, noun, inputs).splitlines())
        for path in leaves(inputs):
            said = set(refusals(furnished.cloud, noun, put(inputs, path, wire.UNKNOWN)).splitlines())
            assert said <= known, f"{noun}: unknown {path} must not be judged"


def test_a_secret_is_unwrapped_and_an_unset_output_is_unknown() -> None:
    signature = "4dabf18193072939515e22adb298388d"
    secret = {signature: "1b47061264138c4ac30d75fd1eb44270", "value": {"a": [1, 2.5, True, "x"]}}
    output = {signature: "d0e6a833031e9bbcd3f4e8bde6ca49a4"}
    assert wire.loads(wire.dumps({"s": secret, "o": output})) == {"s": {"a": [1, 2.5, True, "x"]}, "o": wire.UNKNOWN}


@pytest.mark.parametrize("ocid", [COMPARTMENT, TENANCY])
def test_iam_statements_from_the_vendors_documentation_are_accepted(furnished: Stack, ocid: str) -> None:
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
            refusals(furnished.cloud, "Policy", put(furnished.inputs["policy"] | {"name": "q"}, "statements.0", sentence)) == ""
        )
    assert matches("any {request.user.name = 'x', all {a.b in ('1','2'), c != /d*/}}", _CONDITION)
    assert not matches("any {request.user.name 'x'}", _CONDITION)


def test_a_policy_for_a_missing_group_is_refused_only_at_creation(cloud: Cloud) -> None:
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
    ("Instance", "bastion", "sourceDetails.sourceId", "ocid1.image.oc1..rehearsed-ol8", False),
    ("Instance", "bastion", "createVnicDetails.subnetId", "ocid1.subnet.x", True),
    ("Instance", "bastion", "createVnicDetails.assignPublicIp", "false", False),
    ("Instance", "bastion", "shape", "VM.Standard.E4.Flex", False),
    ("Instance", "bastion", "shape", "BM.GPU4.8", True),
    ("InstanceConfiguration", "conf", f"{LAUNCH}.metadata.user_data", "QUJD", True),
    ("ClusterNetwork", "cn", "instancePools.0.size", 3, False),
    ("ClusterNetwork", "cn", "placementConfiguration.primarySubnetId", "ocid1.subnet.x", True),
    ("DynamicGroup", "group", "matchingRule", "instance.id = 'x'", False),
    ("Policy", "policy", "name", "other", True),
    ("FileSystem", "files", "displayName", "other", False),
    ("FileSystem", "files", "availabilityDomain", "Uocm:REHEARSED-AD-2", True),
    ("MountTarget", "target", "requestedThroughput", "20", False),
    ("MountTarget", "target", "subnetId", "ocid1.subnet.x", True),
    ("Export", "export", "exportOptions.0.source", "10.0.1.0/24", False),
    ("Export", "export", "path", "/other", True),
    ("FileStorageLustreFileSystem", "lustre", "capacityInGbs", 62_400, False),
    ("FileStorageLustreFileSystem", "lustre", "performanceTier", "MBPS_PER_TB_250", True),
]  # fmt: skip


@pytest.mark.parametrize("case", DIFFS, ids=lambda case: f"{case[0]}-{case[2]}")
def test_a_change_replaces_what_the_vendors_provider_replaces(furnished: Stack, case: tuple[str, str, str, Any, bool]) -> None:
    noun, name, path, value, replaces = case
    old = furnished.inputs[name]
    found = changes(token(noun), old, put(old, path, value))
    assert found.changed
    assert bool(found.replaced) is replaces
    assert changes(token(noun), old, copy.deepcopy(old)).changed == []


def test_every_row_of_the_table_of_shapes_is_consistent() -> None:
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


#: Enumerations of OCI's own Python SDK, by `PACKAGE:MODEL.PREFIX`. They are a copy, so the SDK (30 MB) need not be installed.
ENUMERATIONS = json.loads((Path(__file__).parents[1] / "golden" / "oci" / "enumerations.json").read_text())


def test_enumerations_match_the_vendors_sdk() -> None:
    ruled = [(path, rule) for listed in rules.RULES.values() for path, rule in listed.items() if isinstance(rule, rules.OneOf)]
    compared = [(path, rule) for path, rule in ruled if rule.model]
    assert len(compared) > 27
    for path, rule in compared:
        assert sorted(rule.values) == ENUMERATIONS["values"][rule.model], path
    assert {rule.model for _, rule in compared} == set(ENUMERATIONS["values"])
