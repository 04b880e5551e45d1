"""Rehearsed hosts, rails and networks are real where it matters: cloud-init, sshd, rules, rates, faults, teardown."""

from __future__ import annotations

import base64
import gzip
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from child_process import started
from rail_streams import FIRST_BOOT, megabits
from rehearsed_hosts import EGRESS, HCAS, OUT, PRIVATE, PUBLIC, RAILS, SSH, Stage, end_world, vcn

from cloudinit.steps import trust
from rehearsal.host import hosts, sites
from rehearsal.net import network, wires
from rehearsal.oci import host_images
from rehearsal.world.world import World
from tools.nccl_tests_archive import archive

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("booted")]
ENTER = Path(__file__).parents[2] / "rehearsal/enter"


MPI_PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
int main(int c, char **v) {
    int rank, sum;
    MPI_Init(&c, &v);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) printf("sum %d\n", sum);
    MPI_Finalize();
}
"""
#: Restores rules as Ubuntu's netfilter-persistent does at boot. Fails if the rule that rejects all unaccepted packets is gone.
RESTORED = (
    "iptables -F; iptables-restore < /etc/iptables/rules.v4; iptables -C INPUT -j REJECT --reject-with icmp-host-prohibited"
)
#: Prints device, interface and state for every RDMA device that has an interface.
NETDEVS = "cd /sys/class/infiniband; for one in */device/net/*; do echo ${one%%/*} ${one##*/} $(cat $one/operstate); done"
STANDARD = "bin boot dev etc home lib lib32 lib64 libx32 media mnt opt proc root run sbin srv sys tmp usr var"
MPI = "source /usr/mpi/gcc/openmpi-4.1.2a1/bin/mpivars.sh; "


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    stage = Stage(tmp_path_factory.mktemp("w"))
    try:
        network.apply_vcn(stage.world, vcn())
        sites.start(stage.world)
        network.apply_fabric(stage.world, "fab0", 16)
        stage.boot("bastion", 2, "ol8")
        stage.boot("gpu0", 61, "ol7-gpu", FIRST_BOOT)
        stage.boot("gpu1", 62, "ol7-gpu", FIRST_BOOT)
        stage.boot("nine", 63, "ol9-gpu")
        stage.boot("jammy", 64, "ubuntu2204-gpu", "#cloud-config\npackages: [jq]\ntimezone: Asia/Tokyo\n")
        names = ("bastion", "gpu0", "gpu1", "nine", "jammy")
        assert stage.ready(*names) == dict.fromkeys(names, "status: done")
        yield stage
    finally:
        end_world(stage.world)


def test_the_first_boot_of_oracle_japans_tutorial_sets_up_rails_and_scratch_and_nccl(stage):
    shown = stage.inside("gpu0", "ip -br -4 addr; df -h /mnt/localdisk; ls /usr/include/nccl.h /usr/lib64/libnccl.so").stdout
    assert all(re.search(rf"{rail}\S+ +UP +192\.168\.{at}\.61/24", shown) for at, rail in enumerate(RAILS))
    assert "/dev/mapper/nvme-lvol0" in shown
    assert "libnccl.so" in shown
    calls = (stage.world.path / "calls/gpu0.log").read_text()
    assert "vgcreate nvme /dev/nvme0n1" in calls
    assert "user data was here" in hosts.console(stage.world, "gpu0")


def test_the_login_user_who_comes_through_the_bastion_resolves_names_by_the_search_domain(stage):
    seen = stage.ssh("10.0.1.61", "id -un; sudo -n cloud-init status; getent hosts gpu1; getent hosts nobody; env")
    assert seen.stdout.startswith("opc\nstatus: done\n10.0.1.62       gpu1.private.vcn.oraclevcn.com\n")
    assert "nobody" not in seen.stdout
    assert not re.search(r"proxy|TOKEN|BUSBAR", seen.stdout, re.IGNORECASE)
    assert stage.ssh(PUBLIC, "getent hosts gpu0").returncode != 0, "a bastion in another subnet has another search domain"
    assert stage.ssh(PUBLIC, "getent hosts gpu0.private.vcn.oraclevcn.com").stdout.startswith("10.0.1.61")


def test_a_host_sees_no_folder_of_the_machine_that_it_runs_on_and_cannot_change_the_machines_kernel(stage):
    of_the_machine = {one.name for one in Path("/").iterdir()} - set(STANDARD.split())
    assert not of_the_machine & set(stage.inside("gpu0", "ls -A /").stdout.split())
    assert stage.inside("gpu0", "ls -A /root /opt /mnt; ls /etc/apt /usr/local/bin").stdout.split()[-1] == "/usr/local/bin:"
    seen = stage.inside("gpu0", "mount; env; cat /proc/1/environ").stdout
    assert str(stage.world.path) not in seen
    assert "Operation not permitted" in stage.ssh("10.0.1.61", "sudo mknod /tmp/disk b 254 0").stderr
    assert stage.inside("gpu0", "echo 1 > /proc/sys/vm/overcommit_memory").returncode != 0
    keys = {name: stage.inside(name, "cat /etc/ssh/ssh_host_ed25519_key.pub").stdout for name in ("gpu0", "gpu1", "bastion")}
    assert len(set(keys.values())) == 3


def test_a_host_compiles_nccl_tests_only_after_a_source_has_changed_and_else_links_prebuilt_objects(stage):
    packed = base64.b64encode(gzip.compress(archive())).decode()
    stage.inside("gpu0", f"cd && base64 -d <<< {packed} | tar -xzf -")
    make = "cd ~/nccl-tests && make MPI=1 MPI_HOME=/usr/mpi/gcc/openmpi-4.1.2a1 CUDA_HOME=/usr/local/cuda NCCL_HOME=/usr"
    unchanged = stage.inside("gpu0", make)
    assert unchanged.returncode == 0, unchanged.stderr
    assert "Linking" in unchanged.stdout
    assert "Compiling" not in unchanged.stdout
    assert stage.inside("gpu0", "~/nccl-tests/build/all_reduce_perf --help").stdout.startswith("USAGE")
    changed = stage.inside("gpu0", f"{make} clean && echo >> src/ring.c && {make.partition('&& ')[2]}")
    assert "Compiling  src/ring.c" in changed.stdout, changed.stderr


def test_the_traffic_of_a_rail_has_its_scaled_line_rate_and_appears_in_its_byte_counter(stage):
    before = int(stage.inside("gpu0", f"cat /sys/class/net/{RAILS[3]}/statistics/tx_bytes").stdout)
    assert megabits(stage, "gpu0", "gpu1", "192.168.3.61", "192.168.3.62") == pytest.approx(25, rel=0.08)
    after = int(stage.inside("gpu0", f"cat /sys/class/net/{RAILS[3]}/statistics/tx_bytes").stdout)
    assert after - before > 4_000_000


def test_sysfs_shows_each_rdma_device_with_its_interface_and_its_unscaled_rate(stage):
    shown = stage.inside("gpu0", f"{NETDEVS}; cat /sys/class/infiniband/mlx5_0/ports/1/{{state,rate,link_layer}}").stdout
    assert all(f"{hca} {rail} up\n" in shown for hca, rail in zip(HCAS, RAILS, strict=True))
    assert "mlx5_4 enp45s0f0 up\n" in shown
    assert shown.endswith("4: ACTIVE\n100 Gb/sec (4X EDR)\nEthernet\n")


def test_mpirun_across_two_hosts_accepts_the_vendors_ucx_device_and_refuses_an_unavailable_device(stage):
    made = stage.ssh("10.0.1.61", "ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519 <<<y >/dev/null; cat .ssh/id_ed25519.pub")
    for address in ("10.0.1.61", "10.0.1.62"):
        stage.ssh(address, "cat >> .ssh/authorized_keys", given=made.stdout)
    trust = "printf 'Host *\\n StrictHostKeyChecking no\\n LogLevel ERROR\\n' > .ssh/config; chmod 600 .ssh/config"
    build = (
        "source /usr/mpi/gcc/openmpi-4.1.2a1/bin/mpivars.sh; mpicc -o m m.c && scp -q m gpu1: && printf 'gpu0\\ngpu1\\n' > h"
    )
    assert stage.ssh("10.0.1.61", f"{trust}; cat > m.c; {build}", given=MPI_PROGRAM).returncode == 0
    run = MPI + "timeout 50 mpirun -n 4 -npernode 2 -hostfile h --mca pml ucx "
    ran = stage.ssh("10.0.1.61", run + "-x UCX_NET_DEVICES=mlx5_4:1 ./m")
    assert ran.stdout == "sum 6\n", ran.stderr
    refused = stage.ssh("10.0.1.61", run + "-x UCX_NET_DEVICES=mlx5_5:1 ./m")
    assert refused.returncode != 0
    assert "network device 'mlx5_5:1' is not available" in refused.stderr


def test_newer_images_get_rails_from_oracles_agent_and_the_user_of_their_distribution_from_cloud_init(stage):
    shown = stage.inside("nine", "ip -br -4 addr; cat /proc/sys/net/ipv4/conf/rdma7/{rp_filter,arp_ignore,arp_announce}").stdout
    assert re.search(r"rdma15\S+ +UP +10\.239\.1\.63/12", shown)
    assert shown.endswith("0\n1\n2\n")
    assert "mlx5_17 rdma15 up\n" in stage.inside("nine", NETDEVS).stdout
    stage.inside("nine", "firewall-cmd --zone=trusted --add-interface=rdma3")
    assert megabits(stage, "jammy", "nine", "10.227.1.64", "10.227.1.63") == pytest.approx(25, rel=0.15)
    assert stage.ssh("10.0.1.64", "id -un; date +%Z", user="ubuntu").stdout == "ubuntu\nJST\n"
    assert 'VERSION_ID="22.04"' in stage.inside("jammy", "cat /etc/os-release").stdout


def test_a_hosts_firewall_refuses_all_but_ssh_until_a_network_is_trusted(stage):
    listen = "python3 -m http.server 8000 >/dev/null 2>&1 & sleep 0.6; echo"
    knock = "timeout 4 bash -c '</dev/tcp/{0}/8000' 2>&1"
    for name, address, open_up in (
        ("nine", "10.0.1.63", "firewall-cmd --permanent --zone=trusted --add-source=10.0.0.0/16 && firewall-cmd --reload"),
        ("jammy", "10.0.1.64", f"set -e\n{trust('iptables', ('10.0.0.0/16',)).shell}\n{RESTORED}"),
    ):
        stage.inside(name, f"setsid {listen}")
        assert "No route" in stage.inside("gpu0", knock.format(address)).stdout, name
        assert stage.inside(name, open_up).returncode == 0
        assert stage.inside("gpu0", knock.format(address)).returncode == 0, name
    assert stage.inside("nine", "systemctl stop nonsense").returncode == 5


@pytest.mark.parametrize(("name", "image"), [("gpu0", "ol7-gpu"), ("nine", "ol9-gpu"), ("jammy", "ubuntu2204-gpu")])
def test_every_rehearsed_command_refuses_an_unknown_option(stage, name, image):
    ours = host_images.image(image)
    commands = [*ours.commands, *ours.real, f"{ours.mpi}/bin/mpirun", "/usr/local/cuda/bin/nvcc", "/usr/libexec/oci-growfs"]
    each = "for one in {}; do $one --no-such-option >/dev/null 2>&1 </dev/null && echo $one; done"
    assert stage.inside(name, each.format(" ".join(commands))).stdout == ""


def test_each_rail_that_oracles_agent_authenticates_is_shown_as_authenticated_by_the_real_wpa_cli(stage):
    names = stage.inside("nine", "ls -v /run/wpa_supplicant").stdout.split()
    assert names == [f"rdma{number}" for number in range(len(names))] != []
    for name in names:
        said = stage.inside("nine", f"wpa_cli status -i {name}").stdout
        assert "Supplicant PAE state=AUTHENTICATED\n" in said
    assert stage.inside("nine", "wpa_cli status -i rdma99").returncode == 255
    assert stage.inside("nine", "wpa_cli -i rdma0 scan").stdout == "UNKNOWN COMMAND\n"


@pytest.mark.parametrize(("name", "loaded"), [("nine", False), ("jammy", True)])
def test_the_real_modprobe_loads_and_removes_only_the_modules_of_the_images_gpu_driver(stage, name, loaded):
    mark = "test -e /run/rehearsal/modules/nvidia_peermem"
    assert (stage.inside(name, mark).returncode == 0) == loaded, "only Ubuntu's images load nvidia_peermem at boot"
    assert stage.inside(name, f"modprobe nvidia_peermem && {mark}").returncode == 0
    assert stage.inside(name, f"modprobe -r nvidia_peermem && ! {mark}").returncode == 0
    other = stage.inside(name, "modprobe frobnicate")
    assert (other.returncode, "Module frobnicate not found" in other.stderr) == (1, True)
    assert stage.inside(name, f"modprobe nvidia_peermem && {mark}").returncode == 0


def test_a_connection_hangs_if_no_rule_allows_it_and_a_stateless_rule_needs_a_second_rule_for_the_reply(stage):
    knock = "timeout 2 bash -c '</dev/tcp/10.0.1.62/22' 2>&1"
    stateless = network.Rule("ingress", "6", "10.0.1.0/24", ports=(22, 22), stateless=True)
    reply = network.Rule("egress", "6", "10.0.1.0/24", source_ports=(22, 22), stateless=True)
    there = network.Rule("egress", "6", "10.0.1.0/24", ports=(22, 22))
    try:
        for rules, code in (
            ((EGRESS,), 124),  # no ingress rule: packets are dropped silently, so the connection hangs
            ((EGRESS, SSH), 0),
            ((SSH,), 124),  # no egress rule
            ((there, stateless), 124),  # no rule for the reply
            ((there, stateless, reply), 0),
        ):
            network.apply_vcn(stage.world, vcn(rules))
            assert stage.inside("gpu0", knock).returncode == code, rules
        network.apply_vcn(stage.world, vcn((EGRESS, SSH)))
        assert stage.ssh("10.0.1.61", "true").returncode == 0
    finally:
        network.apply_vcn(stage.world, vcn())


def test_private_hosts_reach_the_internet_only_through_nat_and_the_internet_cannot_reach_them(stage):
    out = "timeout 3 bash -c '</dev/tcp/198.51.100.10/443' 2>&1"
    assert "refused" in stage.inside("gpu0", out).stdout
    assert "No package htop available" in stage.inside("gpu0", "yum install -y htop").stdout
    try:
        network.apply_vcn(stage.world, vcn(PRIVATE, ()))
        assert stage.inside("gpu0", out).returncode == 124
        assert "Timeout was reached" in stage.inside("gpu0", "yum -y install libnccl").stderr
    finally:
        network.apply_vcn(stage.world, vcn(PRIVATE, OUT))
    into = [*wires.inside(stage.world.netns("op")), "timeout", "5", "bash", "-c", "</dev/tcp/10.0.1.61/22"]
    assert subprocess.run(into, capture_output=True, check=False).returncode != 0


def test_planted_faults_of_hosts_have_real_effects(stage):
    stage.faults(
        {"kind": "rail_rate", "host": 0, "rail": 2, "factor": 0.5},
        {"kind": "rail_dead", "host": 0, "rail": 5},
        {"kind": "disk_full", "host": 0},
        {"kind": "boot_fails", "host": 1},
        {"kind": "never_answers", "host": 2},
    )
    try:
        for at in range(3):
            stage.boot(f"bad{at}", 70 + at, "ol7-gpu", FIRST_BOOT if at == 0 else "", index=at)
        assert stage.ready("bad0", "bad1", "bad2") == {
            "bad0": "status: done",
            "bad1": "status: error",
            "bad2": "status: done",
        }
        assert megabits(stage, "bad0", "gpu1", "192.168.2.70", "192.168.2.62") == pytest.approx(12.5, rel=0.1)
        assert "mlx5_7 enp72s0f1 down\n" in stage.inside("bad0", NETDEVS).stdout
        assert "No space left" in stage.inside("bad0", "head -c 20000000 /dev/zero > ~/big").stderr
        assert "rehearsed fault boot_fails" in hosts.console(stage.world, "bad1")
        assert stage.ssh("10.0.1.71", "cloud-init status").stdout == "status: error\n"
        assert stage.ssh("10.0.1.72", "true").returncode == 255
        assert hosts.alive(stage.world, "bad2")
    finally:
        (stage.world.path / "faults.json").unlink()
        for at in range(3):
            hosts.stop(stage.world, f"bad{at}")


def test_stopping_a_host_is_idempotent_and_leaves_no_process_or_namespace_or_cable(stage):
    stage.boot("gone", 80, "ol7-gpu")
    pid = (stage.world.path / "hosts/gone/pid").read_text()
    stage.ready("gone")
    hosts.stop(stage.world, "gone")
    hosts.stop(stage.world, "gone")
    assert not hosts.alive(stage.world, "gone")
    assert not Path("/proc", pid).exists() or "Z" in Path("/proc", pid, "stat").read_text().split()[2]
    assert "hgone" not in wires.namespaces(stage.world)
    links = wires.call(["ip", "-n", network.fabric_namespace(stage.world, "fab0"), "-br", "link"])
    assert "hgone" not in links
    assert str(stage.world.path) not in Path("/proc/mounts").read_text()


@pytest.fixture
def door(tmp_path):
    """A new world, and a function that starts rehearsal/enter in that world with the given arguments."""
    world = World.at(tmp_path / "d")
    environment = {**os.environ, "BUSBAR_WORLD": str(world.path)}

    def enter(*argv, **more):
        return subprocess.Popen([ENTER, *argv], env=environment, stdout=subprocess.PIPE, text=True, **more)

    yield world, enter
    end_world(world)


def test_a_command_in_a_world_has_an_ssh_agent_but_no_default_route_and_leaves_nothing_behind(door):
    world, enter = door
    shown = enter("sh", "-c", "ssh-add -l; ip -4 route; ls -l $BUSBAR_WORLD/operator/id_ed25519; exit 7")
    text = shown.communicate(timeout=30)[0]
    assert shown.returncode == 7
    assert "(ED25519)" in text
    assert "default" not in text
    assert "-rw-------" in text
    assert wires.namespaces(world) == []
    assert not world.path.exists()


def test_the_program_that_enters_a_world_survives_ctrl_c_and_returns_the_exit_status_of_its_command(door):
    _, enter = door
    waits = "import signal,time; signal.signal(signal.SIGINT, lambda *_: exit(5)); print('up', flush=True); time.sleep(30)"
    running = enter(sys.executable, "-c", waits, start_new_session=True)
    assert running.stdout.readline() == "up\n"
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(timeout=10) == 5


def test_the_next_start_clears_the_remains_of_a_killed_run_but_keeps_hosts_that_still_run(door):
    world, enter = door
    network.apply_vcn(world, vcn())
    spec = Stage.__new__(Stage)
    spec.world, spec.public_key = world, "ssh-ed25519 AAAA"
    live = spec.boot("live", 5, "ol8")
    hosts.boot(world, live)
    spec.boot("dead", 6, "ol8")
    os.kill(int((world.path / "hosts/dead/pid").read_text()), signal.SIGKILL)
    wires.make_namespace(world.netns("hhalf"))
    assert enter("true").wait(timeout=30) == 0
    assert wires.namespaces(world) == ["hlive", "op", "vvcn0"]
    assert hosts.alive(world, "live")


def test_a_machine_that_replaces_another_machine_is_reached_at_the_same_address(tmp_path):
    """The new machine's device has another hardware address; packets to the old hardware address would get no answer."""
    world = World.at(tmp_path / "world")
    here, there = world.netns("here"), world.netns("there")
    listen = "import socket, time; s = socket.create_server(('10.9.0.2', 7)); print(flush=True); time.sleep(30)"
    connect = "import socket; socket.create_connection(('10.9.0.2', 7), timeout=8)"
    try:
        for name in (here, there):
            wires.make_namespace(name)
        wires.ip([f"link add x netns {here} type veth peer name x netns {there}"])
        for name, address in ((here, "10.9.0.1"), (there, "10.9.0.2")):
            wires.ip([f"addr add {address}/24 dev x", wires.neighbours("x"), "link set x up"], name)
        with started([*wires.inside(there), sys.executable, "-c", listen], stdout=subprocess.PIPE) as listening:
            assert listening.stdout is not None
            listening.stdout.readline()
            wires.call([*wires.inside(here), sys.executable, "-c", connect])
            wires.ip(["link set x down", "link set x address 02:00:00:00:00:09", "link set x up"], there)
            wires.call([*wires.inside(here), sys.executable, "-c", connect])
    finally:
        for name in (here, there):
            wires.remove_namespace(name)
