"""File systems in the stand-in for OCI: their rehearsed servers, data that outlives its server, and refused deletions."""

from __future__ import annotations

import pytest
from oci_stack import AD, DEAD, Fakes, Stack, cloud, fakes, token

# ruff: noqa: F401, F811  fixtures are imported here, and tests take them as parameters of the same names
from rehearsal.oci.cloud import Cloud
from rehearsal.oci.files import PORTS
from rehearsal.oci.lookups import answer
from rehearsal.oci.places import COMPARTMENT
from rehearsal.plugin.errors import ServiceError

EXPORT, TARGET, LUSTRE = "Export", "MountTarget", "FileStorageLustreFileSystem"


def test_an_export_is_served_at_its_mount_targets_address_and_lustre_at_its_own_address(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().files()
    records = cloud.store.read().records
    served = fakes.served[stack.ids["files"]]
    assert (served["kind"], served["ports"], served["export"]) == ("nfs", PORTS, "/fss")
    assert served["address"] == records[stack.ids["target"]].outputs()["ipAddress"] == "10.0.1.2"
    assert served["clients"] == ["10.0.0.0/16"]
    lustre = fakes.served[stack.ids["lustre"]]
    made = records[stack.ids["lustre"]].outputs()
    assert (lustre["address"], lustre["export"]) == (made["managementServiceAddress"], "/lustre")
    assert (made["managementServiceAddress"], made["lnet"]) == ("10.0.1.5", "tcp")


def test_a_file_system_without_an_export_is_not_served_and_keeps_its_data_until_it_is_deleted(
    cloud: Cloud, fakes: Fakes
) -> None:
    stack = Stack(cloud).network().files()
    system = stack.ids["files"]
    cloud.delete(stack.ids["export"])
    assert system not in fakes.served
    assert fakes.kept == {system}
    stack.make(EXPORT, "again", **stack.inputs["export"])
    assert fakes.served[system]["export"] == "/fss"
    assert fakes.kept == set()
    cloud.delete(stack.ids["again"])
    cloud.delete(system)
    assert fakes.kept == set()


def test_addresses_of_file_servers_are_not_given_to_nodes(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().files()
    stack.pool()
    assert sorted(spec.address for spec in fakes.running.values()) == ["10.0.1.24", "10.0.1.25"]
    asked = {"subnetId": stack.ids["private"]}
    listed = answer("oci:Core/getPrivateIps:getPrivateIps", asked, cloud.store.read())["privateIps"]
    assert len({one["id"] for one in listed}) == len({one["ipAddress"] for one in listed}) == 3 + 19 + 2
    assert {one["ipAddress"] for one in listed if one["isPrimary"]} == {"10.0.1.2", "10.0.1.5", "10.0.1.24", "10.0.1.25"}


@pytest.mark.parametrize(("held", "holder"), [("private", "mounttarget"), ("files", "export")])
def test_a_subnet_or_file_system_in_use_cannot_be_deleted_and_the_refusal_names_what_uses_it(
    cloud: Cloud, held: str, holder: str
) -> None:
    stack = Stack(cloud).network().files()
    with pytest.raises(ServiceError, match=rf"409-Conflict, .* references the \w+ ocid1\.{holder}\."):
        cloud.delete(stack.ids[held])
    for name in ("export", "target", "lustre", "files", "private"):
        cloud.delete(stack.ids[name])
        cloud.delete(stack.ids[name])


def test_a_subnet_with_only_lustre_in_it_cannot_be_deleted(cloud: Cloud) -> None:
    stack = Stack(cloud).network().files()
    for name in ("export", "target"):
        cloud.delete(stack.ids[name])
    with pytest.raises(ServiceError, match="409-Conflict"):
        cloud.delete(stack.ids["private"])


def test_deleting_a_mount_target_deletes_its_exports_but_no_data(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().files()
    cloud.delete(stack.ids["target"])
    assert stack.ids["export"] not in cloud.store.read().records
    assert fakes.kept == {stack.ids["files"]}


def test_an_export_needs_a_file_system_and_a_mount_target_in_one_availability_domain(cloud: Cloud) -> None:
    stack = Stack(cloud).network().files()
    far = stack.make("FileSystem", "far", availabilityDomain="Uocm:REHEARSED-AD-2").id
    cloud.delete(stack.ids["export"])
    with pytest.raises(ServiceError, match="an export needs both in one availability domain"):
        cloud.create(token(EXPORT), stack.urn(EXPORT, "e"), stack.inputs["export"] | {"fileSystemId": far})


def test_a_second_file_system_behind_one_mount_target_is_not_rehearsed(cloud: Cloud) -> None:
    stack = Stack(cloud).network().files()
    more = stack.make("FileSystem", "more", availabilityDomain=AD).id
    wanted = stack.inputs["export"] | {"fileSystemId": more, "path": "/more"}
    with pytest.raises(ServiceError, match="501-NotRehearsed"):
        cloud.create(token(EXPORT), stack.urn(EXPORT, "more"), wanted)


def test_a_third_standard_mount_target_is_refused_and_so_is_one_in_a_subnet_with_too_few_addresses(cloud: Cloud) -> None:
    stack = Stack(cloud).network().files()
    wanted = {"subnetId": stack.ids["private"], "availabilityDomain": AD}
    second = stack.make(TARGET, "second", **wanted)
    assert second.outputs()["ipAddress"] not in {"10.0.1.2", "10.0.1.3", "10.0.1.4"}
    inputs = {"compartmentId": COMPARTMENT, **wanted}
    with pytest.raises(ServiceError, match=r"mount targets of 1 Gbps .* 2 of 2 are in use"):
        cloud.create(token(TARGET), stack.urn(TARGET, "third"), inputs)
    with pytest.raises(ServiceError, match=r"Only 1 Gbps of requestedThroughput is supported when a mount target is created"):
        cloud.create(token(TARGET), stack.urn(TARGET, "fast"), inputs | {"requestedThroughput": "20"})
    cloud.update(second.id, inputs | {"requestedThroughput": "20"})
    fast = cloud.store.read().records[second.id].outputs()
    assert (fast["requestedThroughput"], fast["observedThroughput"], fast["reservedStorageCapacity"]) == ("20", "20", "20480")
    narrow = stack.make("Subnet", "narrow", vcnId=stack.ids["vcn"], cidrBlock="10.0.9.0/30", dnsLabel="narrow").id
    with pytest.raises(ServiceError, match="does not have the 3 free addresses"):
        cloud.create(token(TARGET), stack.urn(TARGET, "n"), inputs | {"subnetId": narrow})


def test_a_change_of_an_exports_clients_takes_effect_at_once_on_the_running_server(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().files()
    option = stack.inputs["export"]["exportOptions"][0]
    cloud.update(stack.ids["export"], stack.inputs["export"] | {"exportOptions": [option | {"source": "10.0.1.7"}]})
    assert fakes.served[stack.ids["files"]]["clients"] == ["10.0.1.7"]


@pytest.mark.parametrize(
    ("size", "words"),
    [(41_600, None), (31_200, None), (62_400, None), (20_800, "in steps of"), (36_400, "in steps of 10400")],
)
def test_lustre_grows_in_the_vendors_steps(cloud: Cloud, size: int, words: str | None) -> None:
    stack = Stack(cloud).network().files()
    wanted = stack.inputs["lustre"] | {"capacityInGbs": size}
    if words is None:
        assert cloud.update(stack.ids["lustre"], wanted).inputs["capacityInGbs"] == size
        return
    with pytest.raises(ServiceError, match=words):
        cloud.update(stack.ids["lustre"], wanted)


def test_lustre_never_shrinks_and_a_large_file_system_grows_in_large_steps(cloud: Cloud) -> None:
    stack = Stack(cloud).network().files()
    cloud.update(stack.ids["lustre"], stack.inputs["lustre"] | {"capacityInGbs": 124_800})
    with pytest.raises(ServiceError, match="124800 and cannot become 114400: a file system cannot shrink"):
        cloud.update(stack.ids["lustre"], stack.inputs["lustre"] | {"capacityInGbs": 114_400})
    with pytest.raises(ServiceError, match="124800 and cannot become 135200: above 124800 it grows only in steps of 41600"):
        cloud.update(stack.ids["lustre"], stack.inputs["lustre"] | {"capacityInGbs": 135_200})


def test_if_the_process_that_starts_a_file_server_dies_the_next_process_starts_the_server(cloud: Cloud, fakes: Fakes) -> None:
    stack = Stack(cloud).network().files()
    served = dict(fakes.served)
    with cloud.store.change() as database:
        for name in ("export", "lustre"):
            database.records[stack.ids[name]].state = "PROVISIONING"
            database.records[stack.ids[name]].worker = DEAD
    fakes.served.clear()
    Cloud(fakes.world).recover()
    assert fakes.served == served != {}
    assert {cloud.store.read().records[stack.ids[name]].worker for name in ("export", "lustre")} == {""}
