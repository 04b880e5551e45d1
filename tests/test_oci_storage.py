"""File systems on OCI on a recording engine: what is registered, what a first boot mounts, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pulumi
import pytest

from components.oci.storage import Lustre, Nfs, Storage, StorageArgs


class Recorder(pulumi.runtime.Mocks):
    """Records inputs by type and answers with what the cloud would add."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.made[args.typ.rpartition(":")[2]] = args.inputs
        answers = {"ipAddress": "10.0.1.9", "exportSetId": "set", "managementServiceAddress": "10.0.1.10", "lnet": "tcp"}
        return f"{args.name}-id", args.inputs | answers

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        raise AssertionError(args.token)


def program(**wanted: Any) -> tuple[Recorder, tuple[str, ...]]:
    recorder, seen = Recorder(), []
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(recorder, project="busbar", stack="oci", preview=False)

    @pulumi.runtime.test
    def run() -> None:
        args = StorageArgs(
            compartment="ocid1.compartment.oc1..a",
            label="busbar",
            availability_domain="Uocm:PHX-AD-1",
            network="10.0.0.0/16",
            subnet_id="private",
            **wanted,
        )
        Storage("storage", args).mounts.apply(seen.append)

    run()
    return recorder, seen[0]


def test_files_are_exported_to_the_network_without_squash_and_mounted_over_16_connections():
    recorder, mounts = program(nfs=Nfs())
    (option,) = recorder.made["Export"]["exportOptions"]
    assert option == {
        "source": "10.0.0.0/16",
        "access": "READ_WRITE",
        "identitySquash": "NONE",
        "requirePrivilegedSourcePort": False,
    }
    assert recorder.made["Export"]["exportSetId"] == "set"
    assert recorder.made["MountTarget"]["subnetId"] == "private"
    assert "requestedThroughput" not in recorder.made["MountTarget"]
    assert recorder.made["FileSystem"]["availabilityDomain"] == recorder.made["MountTarget"]["availabilityDomain"]
    assert mounts == ("10.0.1.9:/fss /fss nfs defaults,noatime,nconnect=16,_netdev 0 0",)
    assert "FileStorageLustreFileSystem" not in recorder.made


def test_a_faster_mount_target_is_asked_for_by_its_throughput():
    assert program(nfs=Nfs(target_gbps=80))[0].made["MountTarget"]["requestedThroughput"] == "80"


def test_lustre_has_the_tier_that_was_asked_for_and_is_mounted_by_its_network():
    recorder, mounts = program(lustre=Lustre(capacity_gb=62_400, throughput=500))
    made = recorder.made["FileStorageLustreFileSystem"]
    assert (made["capacityInGbs"], made["performanceTier"]) == (62_400, "MBPS_PER_TB_500")
    assert made["rootSquashConfiguration"] == {"identitySquash": "NONE"}
    assert mounts == ("10.0.1.10@tcp:/lustre /lustre lustre defaults,_netdev 0 0",)
    assert "FileSystem" not in recorder.made


def test_both_may_be_wanted_and_none():
    assert len(program(nfs=Nfs(), lustre=Lustre())[1]) == 2
    assert program()[1] == ()


@pytest.mark.parametrize(
    ("on_destroy", "kept"), [("refuse", (True, False)), ("retain", (False, True)), ("delete", (False, False))]
)
def test_only_what_holds_data_is_protected_or_retained(on_destroy, kept, protection):
    program(nfs=Nfs(on_destroy=on_destroy), lustre=Lustre(on_destroy=on_destroy))
    assert protection["storage-files"] == protection["storage-lustre"] == kept
    assert protection["storage-target"] == protection["storage-export"] == (False, False)


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: Nfs(target_gbps=10), "the vendor offers 1, 20, 40, 80"),
        (lambda: Nfs(mount="fss"), "must be an absolute path"),
        (lambda: Nfs(on_destroy="keep"), "one of refuse, retain, delete"),
        (lambda: Lustre(capacity_gb=50_000), "must be a multiple of 31200"),
        (lambda: Lustre(throughput=300), "tiers are 125, 250, 500, 1000"),
    ],
)
def test_what_the_vendor_does_not_offer_is_refused(make, part):
    with pytest.raises(ValueError, match=part):
        make()
