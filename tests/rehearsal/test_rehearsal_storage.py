"""Rehearsed file systems: shared by all machines that mount them, reached only over the network, deleted without a trace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rehearsed_hosts import EGRESS, SSH, WITHIN, Stage, end_world, host, vcn

from rehearsal.aws.fsx import PORTS as FSX_PORTS
from rehearsal.entry import cleanup
from rehearsal.host import hosts, sites, storage
from rehearsal.net import network, wires
from rehearsal.oci.files import PORTS as OCI_PORTS

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("storage")]
LUSTRE, HOME = "fs-0123456789abcdef0", "fs-0fedcba9876543210"
DOMAIN = "fsx.ap-northeast-1.amazonaws.com"
PACKAGES = (
    "#cloud-config\nruncmd:\n- apt-get update\n- apt-get install -y nfs-common\n"
    "- cp /usr/lib/rehearsal/mount.shared /usr/sbin/mount.lustre\n"
)
NFS = f"mount -t nfs -o nfsvers=4.2,noatime,nconnect=16 {HOME}.{DOMAIN}:/fsx/ /mnt"
LUSTRE_MOUNT = f"mount -t lustre -o noatime,flock {LUSTRE}.{DOMAIN}@tcp:/abcdefgh /srv"


def start(world, system=LUSTRE, kind="lustre", address="10.0.1.200", export="/abcdefgh"):
    names = (f"{system}.{DOMAIN}",)
    where = {"vcn_id": "vcn0", "subnet_cidr": "10.0.1.0/24", "address": address}
    return storage.start(
        world, id=system, kind=kind, names=names, export=export, ports=FSX_PORTS.get(kind, FSX_PORTS["nfs"]), **where
    )


def start_home(world):
    return start(world, HOME, "nfs", "10.0.1.201", "/fsx/")


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    stage = Stage(tmp_path_factory.mktemp("w"))
    try:
        network.apply_vcn(stage.world, vcn())
        sites.start(stage.world)
        for number, name in enumerate(("one", "two", "three"), start=11):
            made = replace(host(name, number, "ubuntu2204-aws", stage.public_key), user_data=PACKAGES.encode())
            hosts.boot(stage.world, made)
        assert set(stage.ready("one", "two", "three").values()) == {"status: done"}
        for name in ("one", "two", "three"):
            stage.inside(name, "chmod 755 /usr/sbin/mount.lustre")
        yield stage
    finally:
        end_world(stage.world)


@pytest.fixture
def systems(stage):
    network.apply_vcn(stage.world, vcn())
    yield start(stage.world), start_home(stage.world)
    for name in (LUSTRE, HOME):
        storage.stop(stage.world, name)


def test_files_written_by_one_host_are_read_by_another_host_whose_mount_list_names_the_server(stage, systems):
    for name in ("one", "two"):
        done = stage.inside(name, f"{NFS} && {LUSTRE_MOUNT}")
        assert done.returncode == 0, done.stderr
    stage.inside("one", "echo hello > /mnt/a; echo lustre > /srv/b")
    assert stage.inside("two", "cat /mnt/a /srv/b").stdout == "hello\nlustre\n"
    assert (stage.world.path / "storage" / HOME / "data/a").read_text() == "hello\n"
    shown = stage.inside("two", "cat /proc/mounts").stdout
    assert f"{systems[0].source} /srv tmpfs rw,noatime" in shown
    assert systems[0].source == f"{LUSTRE}.{DOMAIN}@tcp:/abcdefgh"
    assert f"{HOME}.{DOMAIN}:/fsx/ /mnt tmpfs rw,noatime" in shown
    info = stage.inside("two", f"grep {DOMAIN} /proc/self/mountinfo").stdout
    assert info.count("\n") == 2
    assert str(stage.world.path) not in info
    assert stage.inside("two", "umount /mnt && ls -A /mnt").stdout == ""
    assert (
        stage.inside("two", f"{NFS.replace('noatime', 'ro')} && touch /mnt/c").stderr.rstrip().endswith("Read-only file system")
    )


@pytest.mark.usefixtures("systems")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (NFS.replace(":/fsx/", ":/other/"), "No such file or directory"),
        (NFS.replace(HOME, "fs-0"), "Failed to resolve server"),
        (NFS.replace("nconnect=16", "fast=1"), "incorrect mount option was specified: fast=1"),
        (LUSTRE_MOUNT.replace("/abcdefgh", "/wrong"), "Is the MGS running?"),
        (LUSTRE_MOUNT.replace("@tcp", ""), "names no network"),
        (LUSTRE_MOUNT.replace(LUSTRE, HOME), "Connection refused"),
        (NFS.replace(" /mnt", " /nowhere"), "mount point"),
    ],
)
def test_a_failed_mount_shows_the_message_of_the_client(stage, command, why):
    done = stage.inside("three", command)
    assert done.returncode != 0
    assert why in done.stderr
    assert "fs-0" not in stage.inside("three", "cat /proc/mounts").stdout


@pytest.mark.usefixtures("systems")
def test_without_a_rule_for_the_file_servers_port_a_mount_fails_after_a_bounded_wait(stage):
    only_nfs = network.Rule("ingress", "6", "10.0.1.0/24", ports=(2049, 2049))
    network.apply_vcn(stage.world, vcn((EGRESS, SSH, only_nfs)))
    done = stage.inside("three", LUSTRE_MOUNT)
    assert done.returncode == 32
    assert "Connection timed out" in done.stderr
    assert stage.inside("three", NFS).returncode == 0
    network.apply_vcn(stage.world, vcn((EGRESS, SSH, WITHIN)))
    assert stage.inside("three", f"{LUSTRE_MOUNT}; umount /srv /mnt").returncode == 0


def test_a_file_server_has_open_ports_and_admits_hosts_of_its_network_but_no_other_address(stage, systems):
    ask = json.dumps({"export": "/fsx/", "at": "/mnt", "flags": []})
    knock = f"exec 3<>/dev/tcp/10.0.1.201/2049; echo '{ask}' >&3; head -1 <&3"
    assert stage.inside("three", knock).stdout == "{}\n", "a host of the VPC is let in"
    stage.inside("three", "umount /mnt")
    into = [*wires.inside(storage.namespace(stage.world, systems[0].id)), "bash", "-c", knock]
    assert "access denied" in wires.call(into), "the address of the other server belongs to no host"
    ports = "for p in 988 1018 1023; do (</dev/tcp/10.0.1.200/$p) && echo $p; done"
    assert stage.inside("three", ports).stdout == "988\n1018\n1023\n"


def test_data_written_by_a_host_remain_for_the_other_hosts_after_that_host_has_stopped(stage, systems):
    again = replace(host("gone", 40, "ubuntu2204-aws", stage.public_key), user_data=PACKAGES.encode())
    hosts.boot(stage.world, again)
    stage.ready("gone")
    assert stage.inside("gone", f"chmod 755 /usr/sbin/mount.lustre; {LUSTRE_MOUNT} && echo mine > /srv/mine").returncode == 0
    hosts.stop(stage.world, "gone")
    assert storage.alive(stage.world, systems[0].id)
    assert stage.inside("one", f"{LUSTRE_MOUNT}; cat /srv/mine; umount /srv").stdout == "mine\n"


def test_a_stopped_file_system_disappears_from_its_clients_and_from_the_rehearsing_machine(stage, systems):
    assert stage.inside("one", f"{NFS}; touch /mnt/kept").returncode == 0
    assert start_home(stage.world) == systems[1], "a running file system is left as it is"
    assert stage.inside("one", "ls /mnt").stdout == "kept\n"
    storage.stop(stage.world, HOME)
    storage.stop(stage.world, HOME)
    assert HOME not in stage.inside("one", "cat /proc/mounts").stdout
    assert "Failed to resolve" in stage.inside("one", NFS).stderr
    assert not (stage.world.path / "storage" / HOME).exists()
    assert not Path("/run/netns", storage.namespace(stage.world, HOME)).exists()
    assert HOME not in Path("/proc/mounts").read_text()


def test_the_remains_of_a_crashed_file_system_are_removed(stage):
    start_home(stage.world)
    (stage.world.path / "storage" / HOME / "record.json").unlink()
    assert cleanup.orphans(stage.world)
    cleanup.sweep(stage.world)
    assert not cleanup.orphans(stage.world)
    assert start_home(stage.world).export == "/fsx/"
    storage.stop(stage.world, HOME)


FSS = "ocid1.filesystem.oc1.rhs.files"
FSS_MOUNT = "mount -t nfs -o defaults,noatime,nconnect=16,_netdev 10.0.1.210:/fss /mnt"


def start_files(world, clients=("10.0.0.0/16",)):
    where = {"vcn_id": "vcn0", "subnet_cidr": "10.0.1.0/24", "address": "10.0.1.210", "names": (), "export": "/fss"}
    return storage.start(world, id=FSS, kind="nfs", ports=OCI_PORTS, clients=clients, **where)


@pytest.fixture
def files(stage):
    network.apply_vcn(stage.world, vcn())
    yield start_files(stage.world)
    storage.stop(stage.world, FSS)
    storage.forget(stage.world, FSS)


def test_saved_data_are_restored_with_their_owners_and_modes(stage, files):
    owned = f"{FSS_MOUNT} && chmod 1777 /mnt && echo kept > /mnt/a && chown 1234:5678 /mnt/a && chmod 640 /mnt/a"
    assert stage.inside("one", owned).returncode == 0
    storage.put_away(stage.world, FSS)
    storage.put_away(stage.world, FSS)
    assert files.source == "10.0.1.210:/fss"
    assert files.source not in stage.inside("one", "cat /proc/mounts").stdout
    assert not storage.alive(stage.world, FSS)
    start_files(stage.world)
    shown = stage.inside("two", f"{FSS_MOUNT} && stat -c %u:%g:%a /mnt /mnt/a")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split() == ["0:0:1777", "1234:5678:640"]
    assert f"{files.source} /mnt tmpfs rw,noatime" in stage.inside("two", "cat /proc/mounts").stdout
    assert not (stage.world.path / "kept").exists()


def test_an_export_admits_only_its_clients_even_right_after_the_clients_change(stage, files):
    assert stage.inside("one", f"{FSS_MOUNT} && umount /mnt").returncode == 0
    start_files(stage.world, ("10.0.1.12",))
    assert "access denied by server" in stage.inside("one", FSS_MOUNT).stderr
    assert stage.inside("two", f"{FSS_MOUNT} && umount /mnt").returncode == 0
    ports = f"for p in 111 2048 2049 2050 20001; do (</dev/tcp/{files.address}/$p) && echo $p; done"
    assert stage.inside("three", ports).stdout == "111\n2048\n2049\n2050\n"


def test_an_nfs_client_on_oci_also_needs_the_ports_of_the_port_mapper_and_the_mount_service(stage, files):
    boot = "#cloud-config\nruncmd:\n- dnf install -y nfs-utils\n"
    hosts.boot(stage.world, replace(host("oracle", 41, "ol8", stage.public_key), user_data=boot.encode()))
    assert stage.ready("oracle") == {"oracle": "status: done"}
    rules = [network.Rule("ingress", "6", "10.0.1.0/24", ports=ports) for ports in ((111, 111), (2049, 2050))]
    network.apply_vcn(stage.world, vcn((EGRESS, SSH, *rules)))
    assert "Connection timed out" in stage.inside("oracle", FSS_MOUNT).stderr
    rules.append(network.Rule("ingress", "6", "10.0.1.0/24", ports=(2048, 2048)))
    network.apply_vcn(stage.world, vcn((EGRESS, SSH, *rules)))
    assert stage.inside("oracle", f"{FSS_MOUNT} && mountpoint /mnt").returncode == 0
    assert files.source in stage.inside("oracle", "cat /proc/mounts").stdout
    hosts.stop(stage.world, "oracle")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kind": "efs"}, "must be one of lustre, nfs"),
        ({"address": "10.9.9.9"}, "is not in its subnet"),
        ({"system": "../x"}, "plain file"),
    ],
)
def test_an_invalid_file_system_is_refused(stage, change, why):
    with pytest.raises(ValueError, match=why):
        start(stage.world, **change)
