"""The stand-in for OCI: what it creates in the world, and how it recovers after its process dies."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from oci_stack import (
    DEAD,
    KEY,
    Fakes,
    Stack,
    cloud,
    cluster_network,
    configuration,
    fakes,
    refusals,
    token,
)

# ruff: noqa: F401, F811  fixtures are imported here, and tests take them as parameters of the same names
from stand_in import faults

from rehearsal.host import hosts
from rehearsal.net import network
from rehearsal.oci import cli
from rehearsal.oci.cloud import Cloud
from rehearsal.oci.places import COMPARTMENT
from rehearsal.oci.registry import KINDS
from rehearsal.plugin.errors import PartlyCreatedError, RequestTimeoutError, ServiceError
from rehearsal.plugin.store import Store
from rehearsal.world.world import World

#: Where the vendor publishes its images (oci-hpc b5285a68: documentation/Prerequisites.md).
BUCKET = (
    "https://objectstorage.ca-montreal-1.oraclecloud.com/p/AIo4CP0P_DlUelDlsWgGPWmY6FcBQzJWmmFyGKdY0epkh87a9Q3ndvFYycjIxTQ9"
    "/n/idxzjcdglx2s/b/images/o/"
)


def test_the_rehearsed_network_matches_the_resources_of_the_stack(cloud: Cloud, fakes: Fakes) -> None:
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


def test_a_subnet_without_security_lists_gets_its_vcns_default_list(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud)
    vcn = stack.make("Vcn", "vcn", cidrBlock="10.0.0.0/16").id
    subnet = stack.make("Subnet", "subnet", vcnId=vcn, cidrBlock="10.0.0.0/24")
    (plan,) = fakes.plans.values()
    assert network.Rule("ingress", "6", "0.0.0.0/0", ports=(22, 22)) in plan.subnets[0].rules
    assert network.Rule("ingress", "all", "10.0.0.0/16") not in plan.subnets[0].rules
    assert plan.subnets[0].routes == ()
    assert subnet.outputs()["securityListIds"] == [cloud.store.read().records[vcn].computed["defaultSecurityListId"]]


def test_an_instance_boots_with_the_properties_that_the_stack_requested(cloud: Cloud, fakes: Fakes) -> None:
    record = Stack(cloud).network().bastion()
    (spec,) = fakes.running.values()
    assert (spec.hostname, spec.address, spec.gateway, spec.index) == ("bastion-1", "10.0.0.2", "10.0.0.1", -1)
    assert (spec.image.name, spec.front_name, spec.rails, spec.search_domain) == (
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
    assert [spec.address for spec in specs] == ["10.0.1.2", "10.0.1.3", "10.0.1.4"]
    assert all(spec.hostname.startswith("inst-") and spec.hostname.endswith("-pool") for spec in specs)
    assert specs[0].gpus == ("NVIDIA A100-SXM4-40GB",) * 8
    assert [(rail.name, rail.hca) for rail in specs[0].rails[4:6]] == [("enp72s0f0", "mlx5_6"), ("enp72s0f1", "mlx5_7")]
    assert (specs[0].front_name, specs[0].front_hca, specs[0].agent_plugins) == (
        "enp45s0f0",
        "mlx5_4",
        ("Compute RDMA GPU Monitoring",),
    )
    outputs = KINDS[record.token].outputs(cloud.store.read().records[record.id])
    assert outputs["instancePools"][0]["currentSize"] == 3
    stack.inputs["cn"]["instancePools"][0]["size"] = 1
    cloud.update(record.id, stack.inputs["cn"])
    assert [spec.index for spec in fakes.running.values()] == [2], "the oldest machines are terminated first"
    cloud.delete(record.id)
    assert fakes.running == {}
    assert fakes.fabrics == {}


def test_an_imported_image_is_launched_only_on_shapes_that_were_added_to_the_image(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network()
    url = f"{BUCKET}Oracle-Linux-9.7-2026.02.28-0-RHCK-DOCA-OFED-3.2.1-GPU-580-OPEN-CUDA-13.0-2026.03.13-0"
    source = {"sourceType": "objectStorageUri", "sourceUri": url, "operatingSystem": "Oracle Linux"}
    image = stack.make("Image", "image", displayName="ol9", imageSourceDetails=source).id
    wanted = configuration(stack.ids["private"])
    wanted["instanceDetails"]["launchDetails"]["sourceDetails"]["imageId"] = image
    assert "Shape BM.GPU4.8 is not valid for image" in refusals(
        cloud, "InstanceConfiguration", {"compartmentId": COMPARTMENT, **wanted}
    )
    stack.make("ShapeManagement", "added", imageId=image, shapeName="BM.GPU4.8")
    conf = stack.make("InstanceConfiguration", "conf", **wanted).id
    stack.make("ClusterNetwork", "cn", **cluster_network(conf, stack.ids["private"], 2))
    assert [spec.image.name for spec in fakes.running.values()] == ["ol9-gpu"] * 2
    elsewhere = {"compartmentId": COMPARTMENT, "imageSourceDetails": source | {"sourceUri": f"{BUCKET}another"}}
    assert "404-NotAuthorizedOrNotFound" in refusals(cloud, "Image", elsewhere)


def test_replacing_or_removing_one_node_of_a_pool_keeps_the_other_nodes(cloud, fakes, monkeypatch, capsys):
    stack = Stack(cloud).network()
    network_id = stack.pool(3).id
    monkeypatch.setattr(cli, "Cloud", lambda _: cloud)
    monkeypatch.setenv("BUSBAR_WORLD", str(fakes.world.path))
    listing = ("compute-management", "cluster-network", "list-instances", "--compartment-id", COMPARTMENT)

    def listed() -> list[str]:
        assert cli.main([*listing, "--cluster-network-id", network_id]) == 0
        return [one["id"] for one in json.loads(capsys.readouterr().out)["data"]]

    before, running = listed(), set(fakes.running)
    pool = cloud.kinds[token("ClusterNetwork")].outputs(cloud.store.read().records[network_id])["instancePools"][0]["id"]
    detach = ("compute-management", "instance-pool-instance", "detach", "--instance-pool-id", pool, "--instance-id", before[1])
    whole = ("--is-auto-terminate", "true", "--is-decrement-size", "false")
    assert cli.main([*detach, *whole]) == 0
    after = listed()
    assert (after[0], after[2], len(after)) == (before[0], before[2], 3)
    assert after[1] not in before
    assert len(set(fakes.running) - running) == len(running - set(fakes.running)) == 1
    assert cli.main([*detach, *whole]) == 1, "the node is gone already"
    fewer = [*detach[:-1], after[0], "--is-auto-terminate", "true", "--is-decrement-size", "true"]
    assert cli.main(fewer) == 0
    assert listed() == after[1:], "the pool is smaller, and creates no replacement"
    for unknown in (detach, [*detach, *whole, "--force"], [*detach, "--is-auto-terminate", "false", *whole[2:]]):
        with pytest.raises(SystemExit):
            cli.main(unknown)


def test_capacity_that_runs_out_half_way_leaves_a_partial_pool_that_an_update_completes_when_capacity_returns(
    cloud: Cloud, fakes: Fakes
) -> None:
    stack = Stack(cloud).network()
    faults(cloud, {"kind": "capacity", "after": 1})
    conf = stack.make("InstanceConfiguration", "conf", **configuration(stack.ids["private"])).id
    inputs = {"compartmentId": COMPARTMENT, **cluster_network(conf, stack.ids["private"], 3)}
    with pytest.raises(PartlyCreatedError, match="500-InternalError, Out of host capacity") as partly:
        cloud.create(token("ClusterNetwork"), "urn", inputs)
    assert [spec.index for spec in fakes.running.values()] == [0]
    faults(cloud, {"kind": "capacity", "after": 1, "times": 1})
    with pytest.raises(PartlyCreatedError, match="500-InternalError, Out of host capacity"):
        cloud.update(partly.value.resource_id, inputs)
    cloud.update(partly.value.resource_id, inputs)
    assert sorted(spec.index for spec in fakes.running.values()) == [0, 1, 2], "the fault has ended"


def test_resources_in_use_cannot_be_deleted_and_deleting_a_missing_resource_succeeds(cloud: Cloud) -> None:
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


def test_a_creation_that_fails_leaves_no_record_and_no_public_address(
    cloud: Cloud, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_recovery_finishes_the_operations_of_a_dead_process_as_the_real_cloud_would(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network()
    record = stack.bastion()
    pool = stack.pool()
    members = cloud.store.read().children(pool.id)
    forge(cloud, record.id, state="TERMINATING", worker=DEAD)
    forge(cloud, pool.id, state="PROVISIONING", worker=DEAD)
    forge(cloud, members[0].id, state="PROVISIONING", worker=DEAD)
    forge(cloud, stack.ids["public"], state="UPDATING", worker=DEAD)
    fakes.world.folder("hosts", "deadbeef")
    Cloud(fakes.world).recover()
    kept = cloud.store.read().records
    assert record.id not in kept
    assert (kept[pool.id].state, kept[stack.ids["public"]].state) == ("RUNNING", "AVAILABLE")
    again = cloud.store.read().children(pool.id)
    assert len(again) == len(members)
    assert {one.state for one in again} == {"RUNNING"}
    assert members[0].id not in {one.id for one in again}, "a member that never came up is replaced"
    assert set(fakes.running) == {one.short for one in again}
    assert not (fakes.world.path / "hosts" / "deadbeef").exists()


def test_a_new_image_replaces_the_system_of_an_instance_and_keeps_its_addresses(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network()
    record = stack.bastion()
    before = fakes.running[record.short]
    inputs = stack.inputs["bastion"] | {"sourceDetails": {"sourceType": "image", "sourceId": "ocid1.image.oc1..rehearsed-ol8"}}
    cloud.update(record.id, inputs)
    after = fakes.running[record.short]
    assert (before.image.name, after.image.name) == ("ol9", "ol8")
    assert (before.address, before.hostname) == (after.address, after.hostname)
    assert cloud.store.read().records[record.id].outputs()["sourceDetails"]["sourceId"].endswith("rehearsed-ol8")


def test_recovery_does_not_touch_the_operation_of_a_running_process(cloud: Cloud) -> None:
    stack = Stack(cloud).network()
    record = stack.bastion()
    forge(cloud, record.id, state="PROVISIONING", worker=cloud.process)
    Cloud(cloud.world).recover()
    assert cloud.store.read().records[record.id].state == "PROVISIONING"


def test_a_second_creation_with_the_same_inputs_makes_a_second_resource_and_keeps_the_first(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network()
    first, second = stack.bastion(), stack.bastion()
    assert set(fakes.running) == {first.short, second.short}
    cloud.delete(second.id)
    with pytest.raises(ServiceError, match="409-Conflict"):
        cloud.delete(stack.ids["public"])


def test_a_throttled_call_is_retried_and_finally_reported(cloud: Cloud) -> None:
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


def test_the_clouds_database_loses_no_change_of_concurrent_writers(tmp_path: Path) -> None:
    """Half of the writers use one store, and each other writer has its own.

    Different stores, like the stores of different processes, share only the file's lock.
    """

    def count(store: Store) -> None:
        with store.change() as database:
            database.struck["n"] = database.struck.get("n", 0) + 1

    shared = Store(World.at(tmp_path), "oci")
    stores = [shared if number % 2 else Store(World.at(tmp_path), "oci") for number in range(100)]
    with ThreadPoolExecutor(8) as many:
        list(many.map(count, stores))
    assert shared.read().struck["n"] == 100
