"""File systems on OCI on a recording engine: what is registered, what a first boot mounts, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from conftest import HOOKS
from created import asked
from parsed_stack import GIVEN

from components.oci.network import Network
from components.oci.preflight import Place
from components.oci.storage import Storage
from config import read
from config.oci.model import Oci
from tools.stack_changes import merged, settled

MANAGED = {"managementServiceAddress": "10.9.1.10", "lnet": "tcp"}


class Recorder(pulumi.runtime.Mocks):
    """Records inputs by type and answers with the values that the cloud would add."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self.named: dict[str, dict[str, Any]] = {}
        self.read: dict[str, str] = {}
        self.exports = ["/files"]

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        if args.resource_id:  # the resource exists: it is read, not created
            self.read[args.typ.rpartition(":")[2]] = args.resource_id
            there = {"compartmentId": "theirs", "subnetId": "where-it-is", "fileSystemName": "data"}
            return args.resource_id, there | {"ipAddress": "10.9.1.4", "exportSetId": "set", **MANAGED}
        self.made[args.typ.rpartition(":")[2]] = self.named[args.name] = args.inputs
        answers = {"ipAddress": "10.0.1.9", "exportSetId": "set", "managementServiceAddress": "10.0.1.10", "lnet": "tcp"}
        return f"{args.name}-id", args.inputs | answers

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        if args.token.endswith(":getSubnet"):
            assert args.args == {"subnetId": "where-it-is"}
            return {"vcnId": "ocid1.vcn.oc1..own"}
        if args.token.endswith(":getExports"):
            assert (args.args["compartmentId"], args.args["exportSetId"]) == ("theirs", "set")
            return {"exports": [{"path": path} for path in self.exports]}
        assert args.token.endswith(":getServices")
        return {"services": [{"id": "svc", "cidrBlock": "all-nrt-services", "name": "All"}]}


def recorded(register: Callable[[], None], *exports: str) -> Recorder:
    recorder = Recorder()
    recorder.exports = list(exports) or recorder.exports
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(recorder, project="busbar", stack="oci", organization="organization", preview=False)
    pulumi.runtime.test(register)()
    return recorder


def wanted(**changes: Any) -> Oci:
    """Return the settings of a cluster with `changes`."""
    found, wrong = read.group("oci", Oci, json.dumps(settled(merged(GIVEN["oci"], changes))))
    assert isinstance(found, Oci), wrong
    return found


def program(**systems: Any) -> tuple[Recorder, tuple[str, ...]]:
    seen = []
    place = Place("ocid1.tenancy.oc1..t", "Uocm:PHX-AD-1")

    def run() -> None:
        Storage("storage", wanted(storage=systems), place, "private").mounts.apply(seen.append)

    recorder = recorded(run)
    return recorder, tuple(mount.line for mount in seen[0])


def existing(*exports: str, vcn: str = "ocid1.vcn.oc1..own", **systems: Any) -> tuple[Recorder, tuple[str, ...]]:
    """Run the component for existing file systems; `exports` are the paths that the mount target exports."""
    seen = []
    place = Place("ocid1.tenancy.oc1..t", "Uocm:PHX-AD-1", vcn=vcn)

    def run() -> None:
        Storage("storage", wanted(storage=systems), place, "private").mounts.apply(seen.append)

    recorder = recorded(run, *exports)
    return recorder, tuple(mount.line for mount in seen[0])


TARGET, LUSTRE = "ocid1.mounttarget.oc1..a", "ocid1.lustrefilesystem.oc1..a"


def test_existing_file_systems_are_looked_up_and_mounted_and_none_is_created():
    recorder, mounts = existing(home={"existing": {"mountTarget": TARGET}}, lustre={"existing": LUSTRE, "mount": "/data"})
    assert recorder.read == {"MountTarget": TARGET, "FileStorageLustreFileSystem": LUSTRE}
    assert set(recorder.made) == {"Storage"}
    assert mounts == (
        "10.9.1.4:/files /home nfs defaults,noatime,nconnect=16,_netdev 0 0",
        "10.9.1.10@tcp:/data /data lustre defaults,_netdev 0 0",
    )


def test_with_several_exports_the_stack_file_must_name_an_export_that_exists():
    def home(**path: str) -> dict[str, Any]:
        return {"existing": {"mountTarget": TARGET, **path}}

    assert existing("/a", "/b", home=home(path="/b"))[1][0].startswith("10.9.1.4:/b /home nfs ")
    with pytest.raises(pulumi.RunError, match=rf"path is not set, but {TARGET} exports /a, /b; name an export of this"):
        existing("/a", "/b", home=home())
    with pytest.raises(pulumi.RunError, match=rf"path is /c, but {TARGET} exports /a; name an export"):
        existing("/a", home=home(path="/c"))
    for key, name, system in (("home.existing.mountTarget", TARGET, {"home": home()}), ("lustre.existing", LUSTRE, None)):
        with pytest.raises(pulumi.RunError, match=rf"{key} is {name}, which is in ocid1.vcn.oc1..own, but nodes are in other"):
            existing(vcn="other", **(system or {"lustre": {"existing": LUSTRE}}))


def test_a_change_to_another_existing_file_system_replaces_the_machines():
    def machines(**systems: Any) -> str:
        found = wanted(storage=systems)
        return found.machines(found.pools[0])

    of_one = [machines(lustre={"existing": f"{LUSTRE}{at}"}) for at in range(2)]
    assert len({*of_one, machines(lustre={})}) == 3


def network(ingress: str = "ssh", **systems: Any) -> Recorder:
    """Return the registrations of a network whose nodes accept, by default, only SSH and what their file systems need."""
    return recorded(lambda: Network("network", wanted(network={"ingress": ingress}, storage=systems)) and None)


def test_files_are_exported_to_the_network_without_squash_and_mounted_over_16_connections():
    recorder, mounts = program(home={"mount": "/fss"})
    (option,) = recorder.made["Export"]["exportOptions"]
    assert option == {
        "source": "10.0.0.0/16",
        "access": "READ_WRITE",
        "identitySquash": "NONE",
        "requirePrivilegedSourcePort": True,
    }
    assert recorder.made["Export"]["exportSetId"] == "set"
    assert recorder.made["MountTarget"]["subnetId"] == "private"
    assert "requestedThroughput" not in recorder.made["MountTarget"]
    assert recorder.made["FileSystem"]["availabilityDomain"] == recorder.made["MountTarget"]["availabilityDomain"]
    assert mounts == ("10.0.1.9:/files /fss nfs defaults,noatime,nconnect=16,_netdev 0 0",)
    assert "FileStorageLustreFileSystem" not in recorder.made


def test_another_mount_point_does_not_change_the_export():
    recorder, mounts = program(home={"mount": "/data"})
    assert recorder.made["Export"]["path"] == program(home={"mount": "/fss"})[0].made["Export"]["path"]
    assert mounts[0].startswith("10.0.1.9:/files /data nfs ")


def test_the_throughput_in_the_stack_file_is_requested_for_the_mount_target():
    assert program(home={"throughput": "80 Gbit/s"})[0].made["MountTarget"]["requestedThroughput"] == "80"


def test_a_mount_target_is_not_created_with_a_throughput_that_only_an_update_can_give_it():
    HOOKS.clear()
    program(home={})
    assert "storage-target-speed" not in HOOKS
    program(home={"throughput": "20 Gbit/s"})
    with pytest.raises(pulumi.RunError) as refused:
        asked(HOOKS["storage-target-speed"])
    assert str(refused.value) == (
        "oci.storage.home.throughput is 20 Gbit/s, but OCI creates mount targets with 1 Gbit/s only: remove this key, update, "
        "then set the key again and update once more."
    )


def test_lustre_has_the_requested_tier_and_is_mounted_by_its_lnet_address():
    recorder, mounts = program(lustre={"size": "62400 GB", "throughput": "500 MB/s"})
    made = recorder.made["FileStorageLustreFileSystem"]
    assert (made["capacityInGbs"], made["performanceTier"]) == (62_400, "MBPS_PER_TB_500")
    assert made["rootSquashConfiguration"] == {"identitySquash": "NONE"}
    assert mounts == ("10.0.1.10@tcp:/lustre /lustre lustre defaults,_netdev 0 0",)
    assert "FileSystem" not in recorder.made


def test_a_stack_can_request_two_file_systems_or_no_file_system():
    assert len(program(home={}, lustre={})[1]) == 2
    assert program()[1] == ()


@pytest.mark.parametrize(
    ("on_destroy", "kept"), [("refuse", (True, False)), ("retain", (False, True)), ("delete", (False, False))]
)
def test_only_file_systems_are_protected_or_retained(on_destroy, kept, protection):
    program(home={"onDestroy": on_destroy}, lustre={"onDestroy": on_destroy})
    assert protection["storage-files"] == protection["storage-lustre"] == kept
    assert protection["storage-target"] == protection["storage-export"] == (False, False)


def ports(recorder: Recorder) -> set[tuple[str, int, int]]:
    found = set()
    for rule in recorder.named["network-private-rules"]["ingressSecurityRules"]:
        assert rule["source"] == "10.0.0.0/16"
        span = rule.get("tcpOptions") or rule["udpOptions"]
        found.add((rule["protocol"], span["min"], span["max"]))
    return found


def test_the_ports_of_the_file_systems_are_open_even_if_nodes_otherwise_accept_only_ssh():
    ssh, lustre = ("6", 22, 22), ("6", 988, 988)
    nfs = {("6", 111, 111), ("6", 2048, 2050), ("17", 111, 111), ("17", 2048, 2048)}
    assert ports(network()) == {ssh}
    assert ports(network(home={})) == {ssh, *nfs}
    assert ports(network(home={}, lustre={})) == {ssh, lustre, *nfs}


def test_if_nodes_accept_everything_from_the_network_no_port_has_its_own_rule():
    made = network("all", home={}, lustre={}).named["network-private-rules"]["ingressSecurityRules"]
    assert [(rule["protocol"], rule["source"]) for rule in made] == [("all", "10.0.0.0/16")]


def test_the_network_of_a_retained_file_system_is_also_retained(protection):
    network(lustre={"onDestroy": "retain"})
    kept = {name for name, (_, retained) in protection.items() if retained}
    assert kept == {f"network-{noun}" for noun in ("vcn", "nat", "sgw", "private-routes", "private-rules", "private")}
    assert not any(protected for protected, _ in protection.values())
    protection.clear()
    network(lustre={})
    assert not any(retained for _, retained in protection.values())
