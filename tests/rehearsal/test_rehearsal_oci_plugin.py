"""The stand-in for OCI as the engine and the SDK see it: data sources, outputs and the provider protocol."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pulumi_oci
import pytest
from oci_stack import (
    AD,
    SERVICE_CIDR,
    Stack,
    cloud,
    cluster_network,
    configuration,
    fakes,
    furnished,
    token,
)
from pulumi import _types as sdk_types
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

# ruff: noqa: F401, F811  fixtures are imported here, and tests take them as parameters of the same names
from stand_in import faults

from rehearsal.oci.cloud import Cloud
from rehearsal.oci.images import IMAGES
from rehearsal.oci.lookups import LOOKUPS, answer
from rehearsal.oci.places import COMPARTMENT, REGION, TENANCY
from rehearsal.oci.provider_defaults import DEFAULTS
from rehearsal.oci.registry import KINDS
from rehearsal.oci.sdk import SDK
from rehearsal.oci.server import Provider
from rehearsal.plugin import wire

LIMITS = {"compartmentId": TENANCY, "serviceName": "compute", "availabilityDomain": AD}
QUESTIONS: dict[str, dict[str, Any]] = {
    "getServices": {"filters": [{"name": "name", "values": ["All .* Services In Oracle Services Network"], "regex": True}]},
    "getShapes": {"compartmentId": COMPARTMENT, "availabilityDomain": AD, "imageId": next(iter(IMAGES))},
    "getImage": {"imageId": next(iter(IMAGES))},
    "getImages": {"compartmentId": COMPARTMENT, "operatingSystem": "Oracle Linux", "shape": "BM.GPU4.8"},
    "getImageShapes": {"imageId": next(iter(IMAGES))},
    "getClusterNetworkInstances": {"compartmentId": COMPARTMENT, "clusterNetworkId": "cn"},
    "getClusterNetworks": {"compartmentId": COMPARTMENT},
    "getInstance": {"instanceId": "bastion"},
    "getInstances": {"compartmentId": COMPARTMENT},
    "getVnicAttachments": {"compartmentId": COMPARTMENT, "instanceId": "bastion"},
    "getVnic": {"vnicId": "vnic"},
    "getPrivateIps": {"subnetId": "private"},
    "getSubnet": {"subnetId": "private"},
    "getExports": {"compartmentId": COMPARTMENT},
    "getRouteTables": {"compartmentId": COMPARTMENT, "vcnId": "vcn"},
    "getSecurityLists": {"compartmentId": COMPARTMENT, "vcnId": "vcn"},
    "getConsoleHistoryData": {"consoleHistoryId": "history", "length": 20000, "offset": 5},
    "getAvailabilityDomains": {"compartmentId": TENANCY},
    "getAvailabilityDomain": {"compartmentId": TENANCY, "adNumber": 2},
    "getCompartment": {"id": COMPARTMENT},
    "getRegionSubscriptions": {"tenancyId": TENANCY},
    "getLimitValues": {**LIMITS, "name": "gpu4-count"},
    "getResourceAvailability": {**LIMITS, "limitName": "gpu4-count"},
}


def asked(furnished: Stack, name: str) -> dict[str, Any]:
    ids = furnished.ids | {"vnic": furnished.ids["bastion"].replace("instance", "vnic", 1)}
    args = {key: ids.get(value, value) if isinstance(value, str) else value for key, value in QUESTIONS[name].items()}
    return answer(next(one for one in LOOKUPS if one.endswith(f":{name}")), args, furnished.cloud.store.read())


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_a_data_source_answers_with_the_names_that_the_sdk_reads(furnished: Stack, lookup: str) -> None:
    name = lookup.rpartition(":")[2]
    room = lookup.partition("/")[0].rpartition(":")[2].lower()
    module = getattr(pulumi_oci, room)
    outputs = module.outputs
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
    found = [value for key, value in answered.items() if isinstance(value, list) and name.lower().endswith(key.lower())]
    assert all(found), f"{name} found nothing"


def test_lookups_find_the_created_resources(furnished: Stack) -> None:
    assert asked(furnished, "getServices")["services"][0]["cidrBlock"] == SERVICE_CIDR
    members = asked(furnished, "getClusterNetworkInstances")["instances"]
    assert [one["shape"] for one in members] == ["BM.GPU4.8"] * 2
    listed = asked(furnished, "getPrivateIps")["privateIps"]
    nodes = {one["ipAddress"] for one in listed if one["hostnameLabel"].startswith("inst-")}
    assert nodes == {"10.0.1.2", "10.0.1.3"}
    assert len(listed) > len(nodes), "servers of file systems have addresses there too"
    assert asked(furnished, "getVnic")["publicIpAddress"] == "203.0.113.1"
    data = asked(furnished, "getConsoleHistoryData")["data"]
    assert (len(data), data[:6]) == (19995, "567890")
    available = asked(furnished, "getResourceAvailability")
    assert (available["used"], available["available"]) == ("16", "496")
    assert asked(furnished, "getLimitValues")["limitValues"][0]["value"] == "512"
    assert asked(furnished, "getAvailabilityDomain")["name"] == "Uocm:REHEARSED-AD-2"
    assert asked(furnished, "getInstance")["region"] == REGION


def test_the_rehearsed_look_ups_return_an_existing_networks_routes_and_addresses_and_rules(furnished: Stack) -> None:
    ids, found = furnished.ids, asked(furnished, "getSubnet")
    assert (found["vcnId"], found["cidrBlock"], found["subnetDomainName"]) == (
        ids["vcn"],
        "10.0.1.0/24",
        "private.cluster.oraclevcn.com",
    )
    assert (found["prohibitPublicIpOnVnic"], found["availabilityDomain"]) == (True, "")
    tables = {one["id"]: one["routeRules"] for one in asked(furnished, "getRouteTables")["routeTables"]}
    ways = [(rule["destination"], rule["destinationType"], rule["networkEntityId"]) for rule in tables[found["routeTableId"]]]
    assert ways == [("0.0.0.0/0", "CIDR_BLOCK", ids["nat"]), (SERVICE_CIDR, "SERVICE_CIDR_BLOCK", ids["sgw"])]
    lists = {one["id"]: one for one in asked(furnished, "getSecurityLists")["securityLists"]}
    assert len(lists) == 3, "two lists of the stack, and the VCN's default list"
    (inside,) = lists[found["securityListIds"][0]]["ingressSecurityRules"]
    assert (inside["protocol"], inside["source"], inside["sourceType"], inside["tcpOptions"]) == (
        *("all", "10.0.0.0/16", "CIDR_BLOCK"),
        [],
    )
    ssh = lists[ids["open"]]["ingressSecurityRules"][1]
    assert (ssh["tcpOptions"][0]["min"], ssh["tcpOptions"][0]["max"]) == (22, 22)


def test_resources_answer_with_names_that_the_sdk_reads(furnished: Stack) -> None:
    for record in furnished.cloud.store.read().records.values():
        names = set(KINDS[record.token].outputs(record))
        assert names <= SDK.output_names(record.token) | {"instanceConfigurationId", "state"}, record.token


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


def test_a_preview_knows_the_given_inputs_and_leaves_computed_outputs_unknown(served: Any) -> None:
    urn = f"urn:pulumi:dev::p::{token('Vcn')}::vcn"
    inputs = wire.dumps({"compartmentId": COMPARTMENT, "cidrBlocks": ["10.0.0.0/16"]})
    made = wire.loads(served.Create(provider_pb2.CreateRequest(urn=urn, properties=inputs, preview=True)).properties)
    assert made["cidrBlocks"] == ["10.0.0.0/16"]
    assert made["defaultRouteTableId"] is wire.UNKNOWN


@pytest.mark.parametrize(
    ("kind", "given", "filled"),
    [
        ("InternetGateway", {"enabled": False}, {"enabled": False}),
        ("InternetGateway", {}, {"enabled": True}),
        (
            "SecurityList",
            {
                "ingressSecurityRules": [
                    {"icmpOptions": {"type": 3}},
                    {"icmpOptions": {"type": 3, "code": 4}},
                    {"stateless": True},
                ]
            },
            {
                "ingressSecurityRules": [
                    {"icmpOptions": {"type": 3, "code": -1}, "stateless": False},
                    {"icmpOptions": {"type": 3, "code": 4}, "stateless": False},
                    {"stateless": True},
                ]
            },
        ),
        ("Instance", {}, {}),
        ("Instance", {"createVnicDetails": {}}, {"createVnicDetails": {"assignPublicIp": "true"}}),
        (
            "InstanceConfiguration",
            {"instanceDetails": {"launchDetails": {"createVnicDetails": {"assignPublicIp": False}}}},
            {
                "instanceDetails": {
                    "launchDetails": {"createVnicDetails": {"assignPublicIp": False, "assignPrivateDnsRecord": True}}
                }
            },
        ),
    ],
)
def test_inputs_that_are_not_set_get_the_defaults_of_the_vendors_provider(served: Any, kind, given, filled) -> None:
    urn = f"urn:pulumi:dev::p::{token(kind)}::one"
    checked = served.Check(provider_pb2.CheckRequest(urn=urn, news=wire.dumps(given)))
    assert wire.loads(checked.inputs) == filled


def test_every_default_belongs_to_a_property_of_the_sdk() -> None:
    for kind, filled in DEFAULTS.items():
        for path, value in filled.items():
            text = SDK.inputs(kind)
            *parents, last = path.replace("[]", "").split(".")
            for parent in parents:
                inner = text.fields[parent].type
                text = getattr(inner, "element", inner)
            assert last in text.fields, path
            assert isinstance(value, str | int | bool)


def test_the_engine_gets_the_id_of_a_partial_creation_and_the_message_of_a_refusal(cloud: Cloud, served: Any) -> None:
    stack = Stack(cloud).network()
    conf = stack.make("InstanceConfiguration", "conf", **configuration(stack.ids["private"])).id
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
