"""File systems on OCI on a recording engine: what is registered, what a first boot mounts, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pulumi
import pytest

from catalogue.oci_storage import Lustre, Nfs
from components.oci.network import Network, NetworkArgs
from components.oci.storage import Storage, StorageArgs


class Recorder(pulumi.runtime.Mocks):
    """Records inputs by type and answers with what the cloud would add."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self.named: dict[str, dict[str, Any]] = {}

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.made[args.typ.rpartition(":")[2]] = self.named[args.name] = args.inputs
        answers = {"ipAddress": "10.0.1.9", "exportSetId": "set", "managementServiceAddress": "10.0.1.10", "lnet": "tcp"}
        return f"{args.name}-id", args.inputs | answers

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        assert args.token.endswith(":getServices")
        return {"services": [{"id": "svc", "cidrBlock": "all-nrt-services", "name": "All"}]}


def recorded(register: Callable[[], None]) -> Recorder:
    recorder = Recorder()
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(recorder, project="busbar", stack="oci", preview=False)
    pulumi.runtime.test(register)()
    return recorder


def program(**wanted: Any) -> tuple[Recorder, tuple[str, ...]]:
    seen = []

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

    recorder = recorded(run)
    return recorder, tuple(mount.line for mount in seen[0])


def network(**wanted: Any) -> Recorder:
    """Return what a network registers in which nodes accept no more of each other than they must."""
    cidrs = {"vcn_cidr": "10.0.0.0/16", "public_cidr": "10.0.0.0/24", "private_cidr": "10.0.1.0/24"}
    given = {"compartment": "c", "label": "busbar", "ssh_from": (), "private_ingress": "ssh"}
    return recorded(lambda: Network("network", NetworkArgs(**cidrs, **(given | wanted))) and None)


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
    assert mounts == ("10.0.1.9:/files /fss nfs defaults,noatime,nconnect=16,_netdev 0 0",)
    assert "FileStorageLustreFileSystem" not in recorder.made


def test_another_mount_point_is_no_other_export():
    recorder, mounts = program(nfs=Nfs(mount="/data"))
    assert recorder.made["Export"]["path"] == program(nfs=Nfs())[0].made["Export"]["path"]
    assert mounts[0].startswith("10.0.1.9:/files /data nfs ")


def test_a_faster_mount_target_is_asked_for_by_its_throughput():
    assert program(nfs=Nfs(target_gbit_s=80))[0].made["MountTarget"]["requestedThroughput"] == "80"


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


def ports(recorder: Recorder) -> set[tuple[str, int, int]]:
    found = set()
    for rule in recorder.named["network-private-rules"]["ingressSecurityRules"]:
        assert rule["source"] == "10.0.0.0/16"
        span = rule.get("tcpOptions") or rule["udpOptions"]
        found.add((rule["protocol"], span["min"], span["max"]))
    return found


def test_where_nodes_accept_ssh_alone_the_ports_of_the_file_systems_are_open_all_the_same():
    ssh, lustre = ("6", 22, 22), ("6", 988, 988)
    nfs = {("6", 111, 111), ("6", 2048, 2050), ("17", 111, 111), ("17", 2048, 2048)}
    assert ports(network()) == {ssh}
    assert ports(network(nfs=True)) == {ssh, *nfs}
    assert ports(network(nfs=True, lustre=True)) == {ssh, lustre, *nfs}


def test_where_nodes_accept_everything_of_the_network_no_port_needs_a_rule_of_its_own():
    made = network(private_ingress="all", nfs=True, lustre=True).named["network-private-rules"]["ingressSecurityRules"]
    assert [(rule["protocol"], rule["source"]) for rule in made] == [("all", "10.0.0.0/16")]


def test_the_network_that_a_retained_file_system_stands_in_is_retained_with_it(protection):
    network(lustre=True, retain=True)
    kept = {name for name, (_, retained) in protection.items() if retained}
    assert kept == {f"network-{noun}" for noun in ("vcn", "nat", "sgw", "private-routes", "private-rules", "private")}
    assert not any(protected for protected, _ in protection.values())
    protection.clear()
    network(lustre=True)
    assert not any(retained for _, retained in protection.values())


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda: Nfs(target_gbit_s=10), "the vendor offers 1, 20, 40, 80"),
        (lambda: Nfs(on_destroy="keep"), "one of refuse, retain, delete"),
        (lambda: Lustre(capacity_gb=50_000), "must be a multiple of 31200"),
        (lambda: Lustre(throughput=300), "tiers are 125, 250, 500, 1000"),
    ],
)
def test_what_the_vendor_does_not_offer_is_refused(make, part):
    with pytest.raises(ValueError, match=part):
        make()
