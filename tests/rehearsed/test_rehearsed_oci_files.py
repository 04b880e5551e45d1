"""File systems of an OCI stack: the real engine, real hosts that mount them, and data that survives a destroy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from rehearsal.entry import cleanup
from rehearsal.world.world import World
from tools.stack_changes import DEFAULT, merged
from tools.stage import Stage

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("oci-files")]

HOLDERS = {"FileSystem", "FileStorageLustreFileSystem"}
#: The dev stack's own image is too old for any Lustre client.
OL8 = {"image": "ocid1.image.oc1..rehearsed-ol8-gpu", "imageFamily": "ol8"}
#: Another shape, with an image that the update imports from Object Storage.
UBUNTU = {"oci": {"pools": [{"shape": "BM.GPU.H100.8", "image": "ubuntu2404-nv580", "imageFamily": DEFAULT}]}}


def files(on_destroy: str = "refuse", **home: Any) -> dict[str, Any]:
    """Return changes that give a stack a home file system and a Lustre file system."""
    storage = {"home": {"mount": "/fss", "onDestroy": on_destroy} | home, "lustre": {"onDestroy": on_destroy}}
    return {"oci": {"pools": [OL8], "storage": storage, "allowReplace": 2}}


def nodes(stage: Stage) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words with which ssh reaches the first and the second node."""
    first, second = (node["address"] for node in stage.outputs()["nodes"])
    words = stage.outputs()["ssh"].split()[1:]
    assert words[-1].endswith(f"@{first}")
    return tuple(words), (*words[:-1], f"{words[-1].partition('@')[0]}@{second}")


@pytest.fixture(scope="module")
def stage(tmp_path_factory) -> Iterator[Stage]:
    """One stack for all tests: each test continues where the previous test ended."""
    made = Stage(tmp_path_factory.mktemp("oci-files"))
    world = World.at(made.world)
    yield made
    if made.resources():  # so that protected resources can be deleted
        made.build(**files("delete"))
    made.close(retained=True)
    cleanup.demolish(world)


def test_a_preview_refuses_a_new_mount_target_with_a_throughput_that_oci_gives_only_to_existing_ones(stage):
    found = stage.preview(**files(throughput="20 Gbit/s"))
    assert found.status != 0
    assert "oci.storage.home.throughput is 20 Gbit/s, but OCI creates mount targets with 1 Gbit/s only" in found.text, found


def test_a_first_boot_on_an_image_without_a_lustre_client_names_the_step_that_failed(stage):
    # The stack file names the wrong operating system for the image. A preview would refuse this stack if the preview queried
    # the account, so preflight is off here. The test is about a later failure, in the first boot.
    unasked = {
        "preflight": False,
        "tenancy": "ocid1.tenancy.oc1..rehearsed",
        "availabilityDomain": "Uocm:REHEARSED-AD-1",
    }
    lustre = {"pools": [{"imageFamily": "ol8"}], "storage": {"lustre": {"onDestroy": "delete"}}}
    found = stage.build(oci=unasked | lustre)
    assert found.status != 0
    assert "first boot failed in step lustre-client" in found.text, found


def test_files_written_by_one_node_are_read_by_the_other_node(stage):
    found = stage.build(**files(mount="/data"))
    assert found.status == 0, found
    first, second = nodes(stage)
    stage.on_host("echo files > /data/mark && echo lustre > /lustre/mark", *first)
    assert stage.on_host("cat /data/mark /lustre/mark", *second).split() == ["files", "lustre"]
    table = stage.on_host("cat /etc/fstab", *second)
    assert re.search(r"^10\.0\.1\.\d+:/files /data nfs defaults,noatime,nconnect=16,_netdev 0 0$", table, re.MULTILINE)
    assert re.search(r"^10\.0\.1\.\d+@tcp:/lustre /lustre lustre defaults,_netdev 0 0$", table, re.MULTILINE)
    way_in = stage.outputs()["ssh"].split()[2]
    assert "/data" not in stage.on_host("cat /etc/fstab", way_in), "the login node mounts nothing"


def test_an_unauthenticated_rail_that_has_a_link_and_an_address_is_named_before_anything_is_measured(stage):
    """A changed readyTimeout repeats first contact. The timeout may be short, because the machines have booted already."""
    stage.refault({"kind": "rail_unauthenticated", "host": 1, "rail": 3})
    found = stage.build(**files(mount="/data"), measure={"readyTimeout": "5 s"})
    stage.refault()
    assert found.status != 0
    rail = "1 of 16 rails are not authenticated (802.1X; wpa_cli status), so they carry no traffic: mlx5_3"
    assert rail in " ".join(found.text.split()), found
    again = stage.build(**files(mount="/data"))
    assert again.status == 0, again


def test_a_changed_mount_point_keeps_the_data_on_new_nodes_that_do_not_share_the_login_users_home(stage):
    """The new nodes also have another shape and an imported image, and each of their rails carries its share of the bytes."""
    before = stage.outputs()["nodes"]
    found = stage.pass_by(**merged(files(mount="/home"), UBUNTU))
    assert found.status == 0, found
    measured = stage.outputs()["measured"]
    assert measured["transport"]["state"] == "pass", measured["transport"]
    assert measured["versions"]["os"].startswith("Ubuntu 24.04"), measured["versions"]
    assert not {node["name"] for node in before} & {node["name"] for node in stage.outputs()["nodes"]}
    first, second = nodes(stage)
    assert stage.on_host("cat /home/mark; grep -c /data /etc/fstab || true", *first).split() == ["files", "0"]
    stage.on_host("sudo sh -c 'echo shared > /home/mark'; echo mine > ~/mark; mountpoint -q /home", *first)
    assert stage.on_host("cat /home/mark; test -e ~/mark && echo shared || echo apart", *second).split() == ["shared", "apart"]


def test_an_unchanged_update_changes_nothing(stage):
    found = stage.up(**stage.passed)
    assert found.status == 0, found
    assert "unchanged" in found.text
    assert not found.changes(), found


def test_destroys_and_replacements_keep_data_and_the_network_of_the_data_unless_the_stack_file_says_to_delete_them(stage):
    found = stage.destroy()
    assert found.status != 0
    refused = set(re.findall(r":(\w+)::[\w-]+\" cannot be deleted\s+because it is protected", found.text))
    assert refused == HOLDERS, found
    left = {each["type"].rpartition(":")[2] for each in stage.resources()}
    assert left >= HOLDERS
    assert not left & {"ClusterNetwork", "Instance", "Export", "MountTarget"}, "nodes, which cost most, are terminated anyway"

    # No machine has to be rented to change what a destroy does.
    storage = {"home": {"mount": "/home", "onDestroy": "delete"}, "lustre": {"onDestroy": "delete"}}
    found = stage.up(oci={"pools": [OL8 | {"nodes": 0}], "storage": storage})
    assert found.status == 0, found
    (lustre,) = (each["id"] for each in stage.resources() if each["type"].endswith(":FileStorageLustreFileSystem"))
    storage["lustre"]["throughput"] = "500 MB/s"
    for refused in (stage.preview, stage.up):
        found = refused(oci={"pools": [OL8 | {"nodes": 0}], "storage": storage})
        assert found.status != 0
        said = f"oci.storage.lustre.allowReplace is empty, and this update would replace cluster-storage-lustre ({lustre})"
        assert said in " ".join(found.text.split()), found
    storage["lustre"] = {"onDestroy": "retain"}
    found = stage.up(oci={"pools": [OL8 | {"nodes": 0}], "storage": storage})
    assert found.status == 0, found
    marks = sorted(mark.read_text() for mark in stage.world.glob("storage/*/data/mark"))
    assert marks == ["lustre\n", "shared\n"]
    found = stage.destroy()
    assert found.status == 0, found
    assert stage.resources() == []
    network = ["NatGateway", "RouteTable", "SecurityList", "ServiceGateway", "Subnet", "Vcn"]
    assert sorted(stage.sold("oci")) == ["FileStorageLustreFileSystem", *network]
    (mark,) = stage.world.glob("storage/*/data/mark")
    assert mark.read_text() == "lustre\n"
