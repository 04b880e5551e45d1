"""The program looks up the account's facts before anything is created, and refuses a stack with one sentence that says why."""

from __future__ import annotations

import base64
import json
from typing import Any

import pulumi
import pytest
from dev_stack import LINES
from failed_invoke import FailedInvoke
from oci_account import ELSEWHERE, HERE, IMAGE, OWN, POOL, PRIVATE, PUBLIC, SHAPE, account, asking, network_of
from parsed_stack import GIVEN

from catalogue.oci.imports import IMPORTS
from catalogue.oci.marketplace import MARKETPLACE
from components.oci import preflight as oci_preflight
from config import read
from config.oci.model import Oci
from tools.stack_changes import DEFAULT, merged, settled


@pytest.fixture
def asked(monkeypatch):
    return asking(monkeypatch, LINES)


def of_one_image(args: dict[str, Any]) -> dict[str, Any]:
    """Answer the look-up of shapes; the account's image fits only the shapes without GPUs."""
    return {"shapes": account()["getShapes"]["shapes"][1:]} if "imageId" in args else account()["getShapes"]


REFUSED = [
    (
        {"getAvailabilityDomains": {"availabilityDomains": [{"name": ELSEWHERE}]}},
        f"region has {ELSEWHERE}. [domain]",
    ),
    (
        {"getShapes": {"shapes": account()["getShapes"]["shapes"][1:]}},
        "it offers BM.Standard.E5.192. [shape-offered]",
    ),
    ({"getShapes": {"shapes": []}}, "does not offer BM.GPU4.8; it offers no bare metal. [shape-offered]"),
    (
        {"getShapes": of_one_image},
        f"image is {IMAGE}, which does not fit shape BM.GPU4.8; it fits BM.Standard.E5",
    ),
    (
        {"getShapes": {"shapes": [{"name": SHAPE, "gpus": 4}]}},
        "which has 4 GPUs according to the account and 8 according to the catalogue",
    ),
    ({"getImage": {"operatingSystem": "Canonical Ubuntu", "operatingSystemVersion": "7.9"}}, "is Canonical Ubuntu 7.9"),
    ({"getImage": {"operatingSystem": "Oracle Linux", "operatingSystemVersion": "8.7"}}, "is Oracle Linux 8.7"),
    ({"getResourceAvailability": {"available": "15"}}, "2 more nodes need 16 GPUs of the limit gpu4-count"),
]


def test_if_the_oci_account_has_everything_that_the_stack_needs_the_program_continues(asked):
    engine, refused = asked(account())
    assert refused == ""
    assert engine.of("ClusterNetwork")


@pytest.mark.parametrize(("changes", "sentence"), REFUSED, ids=[sentence[:40] for _, sentence in REFUSED])
def test_a_stack_is_refused_before_anything_is_registered_if_the_oci_account_lacks_what_the_stack_needs(
    asked, changes, sentence
):
    engine, refused = asked(account(**changes))
    assert sentence in refused
    assert [kind for kind, _, _ in engine.resources if not kind.startswith("pulumi:")] == []


@pytest.mark.parametrize(
    ("state", "available", "passes"),
    [("RUNNING", "0", True), ("SCALING", "0", True), ("TERMINATING", "0", False), ("TERMINATED", "16", True)],
)
def test_running_nodes_do_not_count_as_new_nodes_against_the_limit(asked, state, available, passes):
    there = {"clusterNetworks": [{"state": state, "displayName": POOL, "instancePools": [{"size": 2}]}]}
    _, refused = asked(account(getClusterNetworks=there, getResourceAvailability={"available": available}))
    assert (refused == "") is passes


def test_the_nodes_of_a_shrinking_pool_are_looked_up_and_the_oldest_node_is_named(asked):
    there = [{"id": "cn", "state": "RUNNING", "displayName": POOL, "instancePools": [{"size": 3}]}]
    nodes = [{"displayName": f"inst-{name}", "timeCreated": f"2026-11-2{at} 00:00"} for at, name in enumerate("bca")]
    answers = {"getClusterNetworks": {"clusterNetworks": there}, "getClusterNetworkInstances": {"instances": nodes[::-1]}}
    engine, refused = asked(account(**answers))
    assert (
        "the vendor terminates the oldest nodes first: 1 running nodes would be terminated (price unknown): inst-b; to "
        "allow this, set oci.allowReplace to 1" in refused
    )
    (question,) = [args for token, args in engine.invokes if token.endswith(":getClusterNetworkInstances")]
    assert question["clusterNetworkId"] == "cn"


def test_a_stack_in_another_availability_domain_than_its_running_nodes_is_refused_with_the_number_of_these_nodes(asked):
    tags = {"busbar": "busbar", "busbar-stack": "dev"}
    there = [{"id": "cn", "state": "RUNNING", "displayName": POOL, "instancePools": [{"size": 2}], "freeformTags": tags}]
    nodes = [
        {"id": at, "displayName": f"inst-{at}", "state": "RUNNING", "timeCreated": at, "availabilityDomain": ELSEWHERE}
        for at in ("i0", "i1")
    ]
    answers = {"getClusterNetworks": {"clusterNetworks": there}, "getClusterNetworkInstances": {"instances": nodes}}
    engine, refused = asked(account(**answers))
    assert (
        f"oci.pools[0] needs new machines in {HERE}, because its machines run in {ELSEWHERE}: 2 running nodes would be "
        "terminated (price unknown); to allow this, set oci.allowReplace to 2" in refused
    )
    assert not engine.of("ClusterNetwork")
    _, refused = asked(account(**answers), allowReplace=2)
    assert refused == ""


@pytest.mark.parametrize(("stack", "refuses"), [("dev", True), ("another", False)])
def test_nodes_with_the_same_names_in_another_stack_are_not_taken_for_nodes_of_this_stack(asked, stack, refuses):
    tags = {"busbar": "busbar", "busbar-stack": stack, "busbar-machines": "made for something else"}
    there = [
        {"id": name, "state": "RUNNING", "displayName": name, "instancePools": [{"size": 2}], "freeformTags": tags}
        for name in (POOL, "busbar-gone")
    ]
    _, refused = asked(account(getClusterNetworks={"clusterNetworks": there}))
    assert ("oci.pools[0] needs new machines" in refused) is refuses
    assert ("oci.pools has no pool for busbar-gone any more: 2 running nodes would be terminated" in refused) is refuses
    assert ("set oci.allowReplace to 4" in refused) is refuses


def named_before() -> dict[str, Any]:
    """Return the answers of an account in which the cluster's nodes run under a former name and with another image."""
    tags = {"busbar": "before", "busbar-stack": "dev", "busbar-machines": "made for another image"}
    there = {"id": "cn", "state": "RUNNING", "displayName": "before-gpu", "instancePools": [{"size": 2}], "freeformTags": tags}
    return network_of(getClusterNetworks={"clusterNetworks": [there]})


@pytest.mark.parametrize(("known", "changes", "refuses"), [({"cn"}, {}, True), (set(), {}, False), ({"cn"}, OWN, False)])
def test_a_changed_cluster_name_that_would_replace_the_network_and_its_nodes_is_refused(
    asked, monkeypatch, known, changes, refuses
):
    monkeypatch.setattr(oci_preflight, "ids_in_state", lambda: known)
    _, refused = asked(account(**named_before()), **changes)
    assert ("has no pool for before-gpu any more: 2 running nodes would be terminated" in refused) is refuses, refused


@pytest.mark.parametrize(("known", "refuses"), [({"cn"}, True), (set(), False)])
def test_in_existing_subnets_nodes_are_counted_as_terminated_even_if_the_cluster_name_changes_in_the_same_update(
    asked, monkeypatch, known, refuses
):
    monkeypatch.setattr(oci_preflight, "ids_in_state", lambda: known)
    _, refused = asked(account(**named_before()), **OWN)
    assert ("oci.pools[0] needs new machines" in refused) is refuses, refused
    assert ("2 running nodes would be terminated" in refused) is refuses


def test_only_the_nodes_that_an_update_adds_must_fit_into_the_rest_of_the_limit(asked):
    there = {"clusterNetworks": [{"state": "RUNNING", "displayName": POOL, "instancePools": [{"size": 1}]}]}
    _, refused = asked(account(getClusterNetworks=there, getResourceAvailability={"available": "8"}))
    assert refused == ""
    _, refused = asked(account(getClusterNetworks=there, getResourceAvailability={"available": "7"}))
    assert "1 more nodes need 8 GPUs" in refused


@pytest.mark.parametrize("preflight", [True, False])
def test_a_component_in_another_program_refuses_settings_that_break_a_rule_without_a_query_of_the_account(
    monkeypatch, preflight
):
    """The project's own program refuses such settings earlier, when it reads the stack file."""
    monkeypatch.setattr(oci_preflight, "_gather", lambda *_: pytest.fail("the account was asked"))
    wanted, _ = read.group(
        "oci", Oci, json.dumps(settled(merged(GIVEN["oci"], {"preflight": preflight, "pools": [{"nodes": 1}]})))
    )
    assert isinstance(wanted, Oci)
    with pytest.raises(pulumi.RunError, match=r"oci\.pools\[0\]\.nodes is 1; a cluster network joins 2 or more"):
        oci_preflight.judge(wanted)


def test_limits_are_looked_up_in_the_availability_domain_of_the_nodes(asked):
    engine, _ = asked(account())
    (limit,) = [args for token, args in engine.invokes if token.endswith(":getResourceAvailability")]
    assert (limit["availabilityDomain"], limit["serviceName"], limit["limitName"]) == (HERE, "compute", "gpu4-count")


UNSAID = {"tenancy": DEFAULT, "availabilityDomain": DEFAULT}


def test_a_tenancy_and_an_availability_domain_that_are_not_set_are_looked_up(asked):
    one = account(
        getShapes=lambda args: account()["getShapes"] if args.get("availabilityDomain") != ELSEWHERE else {"shapes": []},
        getCompartment={"compartmentId": "ocid1.tenancy.oc1..above"},
    )
    engine, refused = asked(one, **UNSAID)
    assert refused == ""
    (limit,) = [args for token, args in engine.invokes if token.endswith(":getResourceAvailability")]
    assert limit["compartmentId"] == "ocid1.tenancy.oc1..above"
    (network,) = engine.of("ClusterNetwork")
    assert network["placementConfiguration"]["availabilityDomain"] == HERE
    assert not [name for kind, name, _ in engine.resources if kind == "pulumi:providers:oci"]


def test_nothing_is_written_into_the_tenancys_iam(asked):
    engine, _ = asked(account())
    assert not [kind for kind, _, _ in engine.resources if kind.startswith(("oci:Identity/", "pulumi:providers:oci"))]


@pytest.mark.parametrize(
    ("noun", "what", "right"),
    [
        (
            "getCompartment",
            "compartment ocid1.compartment.oc1..",
            "inspect compartments in tenancy (or set oci.tenancy)",
        ),
        ("getAvailabilityDomains", "the availability domains for ocid1.compartment", "inspect compartments in tenancy"),
        ("getShapes", f"the shapes of {HERE}", "inspect instances"),
        ("getImage", f"image {IMAGE}", "read instance-images"),
        ("getClusterNetworks", "the cluster networks in ocid1.compartment", "read compute-management-family"),
        ("getInstances", "the instances in ocid1.compartment", "read instance-family"),
        ("getResourceAvailability", "what is left of limit gpu4-count", "inspect limits in tenancy"),
    ],
)
def test_the_error_of_a_failed_look_up_names_the_needed_permission_and_the_way_to_skip_look_ups(asked, noun, what, right):
    def denied(_: dict[str, Any]) -> dict[str, Any]:
        raise Denied

    changes = UNSAID | {"availabilityDomain": HERE} if noun == "getCompartment" else {}
    _, refused = asked(account(**{noun: denied}), **changes)
    assert refused.startswith(f"oci.preflight is true, but {what}")
    assert "could not be looked up: 401-NotAuthenticated, The required information to complete authentication" in refused
    assert f"this permission: {right}" in refused
    assert refused.endswith("To skip such look-ups, set oci.preflight: false.")
    assert "Traceback" not in refused


@pytest.mark.parametrize("silent", ["404", "null"])
def test_a_limit_that_the_service_does_not_know_is_a_warning_and_not_a_refusal(asked, monkeypatch, silent):
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: said.append(text))

    def gone(_: dict[str, Any]) -> dict[str, Any]:
        if silent == "null":
            return {"available": None}
        raise Refused

    engine, refused = asked(account(getResourceAvailability=gone))
    assert refused == ""
    assert engine.of("ClusterNetwork")
    assert any("does not report what is left of the limit gpu4-count" in text for text in said)


def test_the_stack_file_must_name_an_availability_domain_if_several_domains_offer_the_shape(asked):
    _, refused = asked(account(getCompartment={"compartmentId": "ocid1.tenancy.oc1..above"}), **UNSAID)
    assert refused.startswith(f"oci.availabilityDomain is not set, and BM.GPU4.8 is offered in {HERE}, {ELSEWHERE}; name one")


def test_the_refusal_of_an_image_that_does_not_exist_names_the_key_of_the_stack_file(asked):
    def gone(_: dict[str, Any]) -> dict[str, Any]:
        raise Refused

    _, refused = asked(account(getImage=gone))
    assert refused.startswith(f"oci.pools[0].image is {IMAGE}, which is not in this region, or this account may not see it.")


LISTED = [
    {"id": "minimal", "displayName": "Canonical-Ubuntu-22.04-Minimal-2026", "operatingSystemVersion": "22.04 Minimal"},
    {"id": "gpu", "displayName": "Oracle-Linux-9.5-Gen2-GPU-2026", "operatingSystemVersion": "9"},
    {"id": "other", "displayName": "Oracle-Linux-8.10-2026", "operatingSystemVersion": "8"},
    {"id": "own", "displayName": "ours", "operatingSystemVersion": "9", "compartmentId": "ocid1.compartment.oc1..ours"},
    {"id": "newest", "displayName": "Oracle-Linux-9.7-2026.02.28-0", "operatingSystemVersion": "9"},
    {"id": "older", "displayName": "Oracle-Linux-9.5-2025.05.19-0", "operatingSystemVersion": "9"},
]
LOGIN = {"login": {"image": DEFAULT, "imageFamily": DEFAULT, "shape": DEFAULT}}


def test_a_login_node_without_an_image_gets_the_newest_platform_image_of_its_family(asked):
    engine, refused = asked(account(getImages={"images": LISTED}), **LOGIN)
    assert refused == ""
    (login,) = engine.of("instance:Instance")
    assert login["sourceDetails"]["sourceId"] == "newest"
    (request,) = [args for token, args in engine.invokes if token.endswith(":getImages")]
    assert (request["operatingSystem"], request["shape"]) == ("Oracle Linux", "VM.Standard.E5.Flex")
    assert (request["sortBy"], request["sortOrder"]) == ("TIMECREATED", "DESC")


def test_the_refusal_names_the_key_that_sets_an_image_if_a_region_has_no_platform_image_for_the_login_node(asked):
    _, refused = asked(account(getImages={"images": LISTED[:4]}), **LOGIN)
    assert refused.startswith(
        "oci.login.image is not set, and this region has no platform image of ol9 that fits VM.Standard.E5"
    )


def test_if_a_stack_names_a_marketplace_image_the_program_subscribes_to_the_image_and_does_not_look_it_up(asked):
    engine, refused = asked(account(getImage={}), pools=[{"image": "ol8-nv570", "imageFamily": DEFAULT}])
    assert refused == ""
    assert not [token for token, _ in engine.invokes if token.endswith(":getImage")]
    (agreement,) = engine.of("AppCatalogListingResourceVersionAgreement")
    (subscription,) = engine.of("AppCatalogSubscription")
    row = MARKETPLACE["ol8-nv570"]
    for one in (agreement, subscription):
        assert (one["listingId"], one["listingResourceVersion"]) == (row.listing, row.version)
    (configuration,) = engine.of("InstanceConfiguration")
    launch = configuration["instanceDetails"]["launchDetails"]
    assert launch["sourceDetails"]["imageId"] == "ocid1.image.oc1..subscribed"


def test_an_image_in_object_storage_is_imported_once_for_the_shapes_of_its_pools_and_a_warning_announces_the_import(
    asked, monkeypatch
):
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: said.append(text))
    pool = {"image": "ol9-nv580", "imageFamily": DEFAULT}
    engine, refused = asked(account(getImage={}), pools=[pool])
    assert refused == ""
    assert not [token for token, _ in engine.invokes if token.endswith(":getImage")]
    (image,) = engine.of("Image")
    source, row = image["imageSourceDetails"], IMPORTS["ol9-nv580"]
    assert (source["sourceType"], source["sourceUri"], image["displayName"]) == ("objectStorageUri", row.url, row.name)
    assert (source["operatingSystem"], source["operatingSystemVersion"]) == ("Oracle Linux", "9")
    assert "sourceImageType" not in source, "sourceImageType is only for image files that OCI did not export"
    (added,) = engine.of("ShapeManagement")
    assert added["shapeName"] == SHAPE
    (configuration,) = engine.of("InstanceConfiguration")
    launch = configuration["instanceDetails"]["launchDetails"]
    assert launch["sourceDetails"]["imageId"] == added["imageId"]
    (told,) = [text for text in said if "[image-import]" in text]
    assert told.startswith("oci.pools[0].image is ol9-nv580, which the first update imports into the compartment")


class Refused(FailedInvoke):
    """The engine's error for an image that the account does not have or the caller may not see."""

    words = "404-NotAuthorizedOrNotFound"


class Denied(Refused):
    """The engine's error for an invoke without valid credentials."""

    words = (
        "401-NotAuthenticated, The required information to complete authentication was not provided or was incorrect.\n"
        "OPC request ID: 8c40404d/11"
    )


EMPTY_LISTS = {
    "securityLists": [{"id": f"list-{at}", "ingressSecurityRules": [], "egressSecurityRules": []} for at in range(2)]
}


def test_with_existing_subnets_no_network_is_created_and_nodes_get_addresses_and_names_of_those_subnets(asked):
    engine, refused = asked(account(**network_of()), **OWN)
    assert refused == ""
    for noun in ("Vcn", "Subnet", "RouteTable", "SecurityList", "InternetGateway", "NatGateway", "ServiceGateway"):
        assert not engine.of(f":{noun}"), noun
    (login,), (conf,) = engine.of("Core/instance:Instance"), engine.of("InstanceConfiguration")
    assert login["createVnicDetails"]["subnetId"] == PUBLIC
    launch = conf["instanceDetails"]["launchDetails"]
    assert launch["createVnicDetails"]["subnetId"] == PRIVATE
    boot = base64.b64decode(launch["metadata"]["user_data"]).decode()
    assert "own1.lab.oraclevcn.com" in boot
    assert "10.9.1.0/24" in boot
    (made,) = engine.of("ClusterNetwork")
    assert made["placementConfiguration"]["primarySubnetId"] == PRIVATE
    looked = {
        args["compartmentId"] for token, args in engine.invokes if token.endswith((":getRouteTables", ":getSecurityLists"))
    }
    assert looked == {"theirs"}, "the network may be in another compartment than the machines"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [("fd00:10::/48", ""), ("::/0", f"publicSubnet is {PUBLIC}, whose security lists allow SSH from ::/0, the whole Internet")],
)
def test_of_ipv6_rules_only_one_thing_is_checked_whether_they_allow_ssh_from_the_whole_internet(asked, source, sentence):
    own = network_of()
    for one in own["getSecurityLists"]["securityLists"]:
        every = {"protocol": "all", "tcpOptions": [], "udpOptions": []}
        one["ingressSecurityRules"].append(every | {"source": source, "sourceType": "CIDR_BLOCK"})
        one["egressSecurityRules"].append(every | {"destination": "::/0", "destinationType": "CIDR_BLOCK"})
    _, refused = asked(account(**own), **OWN)
    assert (sentence in refused) if sentence else refused == ""


def test_rules_of_a_security_list_in_another_compartment_are_noted_as_unchecked_and_the_stack_is_not_refused(
    asked, monkeypatch
):
    told: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_, **__: told.append(text))
    _, refused = asked(account(**network_of(getSecurityLists={"securityLists": []})), **OWN)
    assert refused == ""
    assert any("the rules of list-0, which are not in the compartment of their subnet" in one for one in told), told


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"getRouteTables": {"routeTables": []}}, f"publicSubnet is {PUBLIC}, which sends 0.0.0.0/0 to an unknown target"),
        (
            {"getPrivateIps": {"privateIps": [{}] * 252}},
            f"privateSubnet is {PRIVATE}, which has 1 free addresses, but the machines",
        ),
        (
            {"getSecurityLists": EMPTY_LISTS},
            f"privateSubnet is {PRIVATE}, whose security lists do not allow all traffic",
        ),
    ],
)
def test_a_stack_is_refused_if_its_existing_subnets_lack_a_route_or_a_rule_or_free_addresses(asked, changes, sentence):
    engine, refused = asked(account(**network_of(**changes)), **OWN)
    assert sentence in refused
    assert [kind for kind, _, _ in engine.resources if not kind.startswith("pulumi:")] == []


def test_the_refusal_of_an_unreadable_subnet_names_the_subnet_and_its_key_and_the_needed_permission(asked):
    def refuse(_: dict[str, Any]) -> dict[str, Any]:
        raise Refused

    engine, refused = asked(account(**network_of(getSubnet=refuse)), **OWN)
    assert refused.startswith(f"oci.network.existing.publicSubnet is {PUBLIC}, which could not be looked up: ")
    assert refused.endswith("The look-up needs this permission: read virtual-network-family in the subnet's compartment.")
    assert [kind for kind, _, _ in engine.resources if not kind.startswith("pulumi:")] == []
