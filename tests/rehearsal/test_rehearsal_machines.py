"""Rehearsed AWS machines: first boot on AWS's images, EFA devices with live counters, NCCL with and without its EFA plugin."""

from __future__ import annotations

import io
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from shlex import quote

import pytest
from aws_hosts import DOMAIN, HOME, LUSTRE, P5, PARAMETER, spec
from rehearsed_hosts import Stage, end_world, vcn

from catalogue.aws import STACK
from rehearsal.aws import efa_software, host_images, parameters
from rehearsal.aws.fsx import PORTS as FSX_PORTS
from rehearsal.host import cables, hosts, images, storage
from rehearsal.host.spec import load
from rehearsal.image import signing_keys
from rehearsal.net import network, wires
from rehearsal.oci import host_images as oci_images

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("machines")]
ROOT = Path(__file__).parents[2]
FIRST_CONTACT = "cat /var/lib/busbar/boot.json; mountpoint /fsx /home /home/*; readlink /scratch; nvidia-smi -L | wc -l"
COUNTERS = "cd /sys/class/infiniband; for d in $(ls -v); do cat $d/ports/1/hw_counters/{}; done"
RUN = """cd /tmp; rm -f nccl.*; printf '10.0.1.21 slots=8\\n10.0.1.22 slots=8\\n' > hosts
timeout 100 /opt/amazon/openmpi/bin/mpirun -n 16 -N 8 --hostfile hosts --bind-to none --mca pml ob1 --mca btl tcp,self \
 --mca btl_tcp_if_include 10.0.1.0/24 -x NCCL_SOCKET_IFNAME=^docker,lo,veth -x NCCL_DEBUG=INFO -x NCCL_DEBUG_SUBSYS=INIT,NET \
 -x LD_LIBRARY_PATH=/opt/amazon/openmpi/lib:/usr/local/cuda/lib -x NCCL_DEBUG_FILE=/tmp/nccl.%h.%p {more} \
 /fsx/nccl-tests/build/all_reduce_perf -n 2 -w 1 {sizes}; cat $(ls nccl.* | head -1)"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    stage = Stage(tmp_path_factory.mktemp("w"))
    try:
        network.apply_vcn(stage.world, vcn())
        network.apply_fabric(stage.world, "fab0", 32)
        for system, kind, address, export in ((LUSTRE, "lustre", "200", "/abcdefgh"), (HOME, "nfs", "201", "/fsx/")):
            where = {"vcn_id": "vcn0", "subnet_cidr": "10.0.1.0/24", "address": f"10.0.1.{address}"}
            storage.start(
                stage.world, id=system, kind=kind, names=(f"{system}.{DOMAIN}",), export=export, ports=FSX_PORTS[kind], **where
            )
        hosts.boot(stage.world, spec(stage, "head", 11, "al2023", rails=0, may_put=(PARAMETER,)))
        hosts.boot(stage.world, spec(stage, "linux", 12, "al2023"))
        for number, (name, family) in enumerate((("node0", "ubuntu2204"), ("node1", "ubuntu2404")), start=21):
            hosts.boot(stage.world, spec(stage, name, number, family))
        assert set(stage.ready("head", "linux", "node0", "node1").values()) == {"status: done"}
        yield stage
    finally:
        end_world(stage.world)


@pytest.fixture(scope="module")
def built(stage):
    """The stage with nccl-tests built on the shared file system, and an SSH key by which mpirun starts ranks on both nodes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(ROOT / "rehearsal/nccl-tests", "nccl-tests", filter=lambda one: one if "build" not in one.name else None)
    (storage.folder(stage.world, LUSTRE) / "data/nccl-tests.tar").write_bytes(packed.getvalue())
    home = "MPI=1 MPI_HOME=/opt/amazon/openmpi CUDA_HOME=/usr/local/cuda NCCL_HOME=/usr/local/cuda"
    made = as_ubuntu(stage, "node0", f"cd /fsx && tar xf nccl-tests.tar && make -C nccl-tests -j 2 {home}")
    assert made.returncode == 0, made.stderr
    key = as_ubuntu(stage, "node0", "ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519; cat ~/.ssh/id_ed25519.pub").stdout
    trust = f"echo {quote(key.strip())} >> ~/.ssh/authorized_keys; echo 'StrictHostKeyChecking no' > ~/.ssh/config"
    for name in ("node0", "node1"):
        assert as_ubuntu(stage, name, trust).returncode == 0
    return stage


def as_ubuntu(stage, name, command):
    return stage.inside(name, f"su ubuntu -c {quote(command)}")


def counted(stage, name, counter):
    return [int(one) for one in stage.inside(name, COUNTERS.format(counter)).stdout.split()]


def wires_at(stage, scale):
    """Shape the rails of both nodes to their line rate divided by `scale`."""
    slower = replace(stage.world, scale=scale)
    for name in ("node0", "node1"):
        cables.refault(slower, load(slower, name))


def busbw(text, size):
    row = next(line.split() for line in text.splitlines() if line.split()[:1] == [str(size)])
    assert row[8] == row[12] == "0"
    return 2 * 15 / 16 * size / float(row[5]) / 1000


@pytest.mark.parametrize(
    ("name", "user", "gpus"),
    [("head", "ec2-user", 0), ("linux", "ec2-user", 8), ("node0", "ubuntu", 8), ("node1", "ubuntu", 8)],
)
def test_the_first_boot_on_aws_completes_all_its_steps_on_the_vendors_images(stage, name, user, gpus):
    shown = stage.inside(name, FIRST_CONTACT).stdout
    assert '{"status": "done", "warned": ""}' in shown
    for place in ("/fsx", "/home", f"/home/{user}"):
        assert f"{place} is a mountpoint" in stage.inside(name, f"mountpoint {place}").stdout
    assert ("/opt/dlami/nvme" in shown) == (user == "ubuntu"), "AL2023's images do not mount the local disks themselves"
    assert (stage.inside(name, "mountpoint /scratch/").returncode == 0) == bool(gpus)
    assert shown.splitlines()[-1] == str(gpus)
    assert stage.inside(name, "cat /var/lib/cloud/data/instance-id").stdout == f"i-0{name}\n"
    own = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-i", str(stage.key), "-l", user]
    login = [*wires.inside(hosts.namespace(stage.world, name)), "ssh", *own, "127.0.0.1", "id -un; date +%Z; sudo -n id -u"]
    assert wires.call(login) == f"{user}\nJST\n0\n"


def test_the_login_node_publishes_its_host_key_and_may_write_no_other_parameter(stage):
    made = parameters.get(stage.world, PARAMETER)
    instance, *key = made.value.split()
    assert instance == "i-0head"
    assert stage.inside("head", "cat /etc/ssh/ssh_host_ed25519_key.pub").stdout.split()[:2] == key
    put = "aws ssm put-parameter --region ap-northeast-1 --value x --name "
    for host, name, why in (
        ("head", PARAMETER, "ParameterAlreadyExists"),
        ("head", "/busbar/other", "AccessDeniedException"),
        ("node0", PARAMETER, "Unable to locate credentials"),
    ):
        done = stage.inside(host, put + name)
        assert done.returncode != 0
        assert why in done.stderr
    assert "knows `ssm put-parameter` only" in stage.inside("head", "aws s3 ls").stderr
    assert parameters.get(stage.world, PARAMETER) == made


def test_first_boot_builds_a_lustre_client_that_dpkg_lists_if_none_is_packaged_for_the_kernel(stage):
    said = stage.inside(
        "node0", "cat /var/log/cloud-init-output.log; dpkg-query -W -f '${Package} ${db:Status-Abbrev}\\n' 'lustre*'"
    ).stdout
    assert "E: Unable to locate package lustre-client-modules-" in said
    assert re.search(r"^lustre-client-modules-\S+ ii", said, re.MULTILINE)
    for name, kernel in (("node0", "6.8.0-1066"), ("node1", "7.0.0-1014")):
        assert f"linux-headers-{kernel}-aws" in stage.inside(name, "apt-mark showhold").stdout


def test_lustre_uses_eight_efa_devices_or_only_the_front_end(stage):
    assert stage.inside("node0", "lnetctl net show --net efa").stdout.count("@efa") == 8
    assert stage.inside("head", "cat /etc/modprobe.d/busbar-lnet.conf").stdout == 'options lnet networks="tcp(ens32)"\n'


def test_without_a_route_to_aws_no_parameter_is_written(stage):
    put = f"aws ssm put-parameter --region ap-northeast-1 --overwrite --value x --name {PARAMETER}"
    try:
        network.apply_vcn(stage.world, vcn(routes=()))
        assert "Connect timeout on endpoint URL" in stage.inside("head", put).stderr
    finally:
        network.apply_vcn(stage.world, vcn())
    assert parameters.get(stage.world, PARAMETER).version == 1


def test_a_hosts_metadata_service_requires_a_token_and_its_name_service_resolves_host_names(stage):
    call, url = "curl -s -m 5 -w ' %{http_code}'", "http://169.254.169.254/latest"
    assert stage.inside("node0", f"{call} {url}/meta-data/instance-id").stdout == " 401"
    token = f"t=$(curl -s -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' {url}/api/token); "
    got = stage.inside("node0", f'{token}{call} -H "X-aws-ec2-metadata-token: $t" {url}/meta-data/instance-id')
    assert got.stdout == "i-0node0 200"
    assert stage.inside("node0", "getent hosts ip-10-0-1-22").stdout.startswith("10.0.1.22")


def test_efa_devices_look_as_with_the_real_driver_and_have_no_network_interface(stage):
    shown = stage.inside("node0", "cd /sys/class/infiniband; ls -v; cat rdmap79s0/ports/1/{state,rate,link_layer}").stdout
    assert shown.split("\n")[:32] == list(P5.hca)
    assert shown.endswith("4: ACTIVE\n100 Gb/sec (4X EDR)\nUnknown\n")
    assert stage.inside("node0", "ls /sys/class/net").stdout == "ens32\nlo\n"
    assert stage.inside("node0", "ls -d /sys/class/infiniband/*/device/net").returncode != 0
    assert stage.inside("node0", "cat /sys/class/dmi/id/product_name").stdout == "p5.48xlarge\n"
    drivers = stage.inside("node0", "basename -a $(readlink -f /sys/class/infiniband/*/device/driver)").stdout.split()
    assert drivers.count("efa") == 32


def test_the_counters_of_all_32_rails_show_the_bytes_of_a_collective_that_reaches_the_ceiling(built):
    size = 32 << 20
    # Other tests use the processors, too. If the processors cannot fill the rails, the run is repeated on slower rails.
    for scale in (4000, 4000, 8000, 16000):
        wires_at(built, scale)
        ceiling = 32 * 100 / 8 / scale
        before = {name: counted(built, name, "rdma_write_bytes") for name in ("node0", "node1")}
        done = as_ubuntu(built, "node0", RUN.format(more="", sizes="-b 32M -e 32M"))
        assert "NET/Libfabric rails=32" in done.stdout, done.stdout + done.stderr
        if busbw(done.stdout, size) > 0.95 * ceiling:
            break
    assert busbw(done.stdout, size) > 0.95 * ceiling
    wires_at(built, built.world.scale)
    for name, then in before.items():
        moved = [after - one for after, one in zip(counted(built, name, "rdma_write_bytes"), then, strict=True)]
        # The run has two timed operations and one warm-up, each out of place and in place. No operation checks values.
        least = 2 * (2 + 1) * 2 * 15 / 16 * size / 32
        assert all(least < one < 2 * least for one in moved), (name, least, moved)
        assert all(total > one for total, one in zip(counted(built, name, "tx_bytes"), moved, strict=True))
        assert set(counted(built, name, "rdma_read_resp_bytes")) == {0}
    for line in (
        "NET/OFI Initializing aws-ofi-nccl 1.16.3",
        "NET/OFI Using transport protocol RDMA (platform set)",
        "NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)",
        "Using network Libfabric",
    ):
        assert f"NCCL INFO {line}\n" in done.stdout
    assert set(re.findall(r"\[send\] via (NET/\S+)", done.stdout)) == {"NET/Libfabric/0/GDRDMA"}, (
        "four rails make one device for a GPU"
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("-x NCCL_NET_PLUGIN=none", "NET/IB : No device found."),
        ("-x FI_PROVIDER=tcp", "NET/OFI No eligible providers were found"),
        ("-x NCCL_NET=Socket", "NET/Plugin: Loaded net plugin Libfabric (v10)"),
    ],
)
def test_nccl_uses_sockets_without_the_plugin_or_without_the_efa_provider_or_if_sockets_are_selected(built, more, why):
    done = as_ubuntu(built, "node0", RUN.format(more=more, sizes="-b 64K -e 64K"))
    assert "# busbar rehearsal: NET/Socket\n" in done.stdout, done.stdout + done.stderr
    assert "NCCL INFO Using network Socket\n" in done.stdout
    assert why in done.stdout


def test_nccl_does_not_use_efa_until_the_boot_step_adds_the_plugin_to_the_loaders_path(built):
    hide = "rm -f /etc/ld.so.conf.d/*efa* /etc/ld.so.conf.d/*ofinccl*; ldconfig"
    step = "sed -n '/^step=tools/,/^step=shared/p; /^step=efa-devices/,/^step=scratch/p' /var/lib/busbar/first-boot | sh -eu"
    for name in ("node0", "node1"):
        built.inside(name, hide)
    lost = as_ubuntu(built, "node0", RUN.format(more="", sizes="-b 64K -e 64K"))
    assert "NET/Plugin: Could not find: libnccl-net.so" in lost.stdout
    assert "NET/Socket" in lost.stdout
    for name in ("node0", "node1"):
        assert built.inside(name, step).returncode == 0
    found = as_ubuntu(built, "node0", RUN.format(more="", sizes="-b 64K -e 64K"))
    assert "NET/Libfabric rails=32" in found.stdout


def test_the_first_boot_installs_missing_efa_software_only_with_internet_access_and_a_matching_checksum(stage):
    parts = "/^download() {/,/^mark() {/{/^mark/d;p}; /^step=efa-software/,/^step=efa-devices/p"
    step = f"sed -n '{parts}' /var/lib/busbar/first-boot | sed 's/for pause in [0-9 ]*;/for pause in 0;/'"
    gone = "rm -rf /opt/amazon/efa_installed_packages /opt/amazon/ofi-nccl; ldconfig"
    plugin = "ldconfig -p | grep -c libnccl-net.so"
    assert stage.inside("linux", f"{gone}; {plugin}").stdout == "0\n"
    try:
        network.apply_vcn(stage.world, vcn(routes=()))
        assert "curl: (28)" in stage.inside("linux", f"{step} | sh -eu").stderr
    finally:
        network.apply_vcn(stage.world, vcn())
    # The rehearsed archive is not the vendor's archive, whose checksum the program pins.
    refused = stage.inside("linux", f"{step} | sh -eu").stdout
    found = re.search(f"sha256 ([0-9a-f]{{64}}) is not {STACK.efa_sha256} .from https://efa-installer", refused)
    assert found is not None, refused
    assert stage.inside("linux", plugin).stdout == "0\n"
    done = stage.inside("linux", f"{step} | sed s/{STACK.efa_sha256}/{found[1]}/ | sh -eu; {plugin}")
    assert done.stdout.endswith("1\n"), done
    other = "curl -fsSL -o /tmp/x https://efa-installer.amazonaws.com/aws-efa-installer-0.1.tar.gz"
    assert stage.inside("linux", other).returncode == 22


def test_a_repository_key_that_differs_from_the_pinned_key_fails_the_first_boot_in_step_lustre_client(stage):
    wrong = spec(stage, "otherkey", 34, "ubuntu2204")
    text = wrong.user_data.decode().replace(signing_keys.FSX_FINGERPRINT, "F" * 40)
    hosts.boot(stage.world, replace(wrong, user_data=text.encode()))
    stage.ready("otherkey")
    assert '"step": "lustre-client"' in stage.inside("otherkey", "cat /var/lib/busbar/boot.json").stdout
    said = stage.inside("otherkey", "cat /var/log/cloud-init-output.log; ls /etc/apt/sources.list.d").stdout
    assert f"busbar: fingerprint {signing_keys.FSX_FINGERPRINT} is not {'F' * 40} (from https://fsx-lustre-client-repo-" in said
    assert "fsx-lustre.list" not in said
    hosts.stop(stage.world, "otherkey")


def test_without_the_metadata_service_an_instance_cannot_sign_requests(stage):
    bare = spec(stage, "bare", 32, "al2023", rails=0, metadata={}, may_put=("*",))
    hosts.boot(stage.world, replace(bare, user_data=b""))
    stage.ready("bare")
    assert stage.inside("bare", "curl -s -m 2 http://169.254.169.254/latest/meta-data/").returncode != 0
    done = stage.inside("bare", f"aws ssm put-parameter --region ap-northeast-1 --value x --name {PARAMETER}")
    assert "Unable to locate credentials" in done.stderr
    hosts.stop(stage.world, "bare")


def test_the_first_boot_fails_with_a_remedy_in_its_log_if_no_lustre_client_fits_the_kernel(stage):
    stage.faults({"kind": "lustre_not_for_this_kernel"})
    hosts.boot(stage.world, spec(stage, "nolustre", 33, "ubuntu2204"))
    stage.faults()
    stage.ready("nolustre")
    assert '"failed", "step": "lustre-client"' in stage.inside("nolustre", "cat /var/lib/busbar/boot.json").stdout
    said = stage.inside("nolustre", "tail -n 20 /var/log/cloud-init-output.log").stdout
    assert "is not supported by this release of Lustre" in said
    assert "use an AL2023 image (its kernel has a client) or an image with another kernel, or set storage.lustre: null" in said
    hosts.stop(stage.world, "nolustre")


def test_the_first_boot_of_a_node_that_lacks_an_efa_device_fails_and_says_how_many_devices_exist(stage):
    short = spec(stage, "short", 31, "ubuntu2204")
    hosts.boot(stage.world, replace(short, rails=short.rails[:31]))
    stage.ready("short")
    assert stage.inside("short", "cat /var/lib/busbar/boot.json").stdout == (
        '{"status": "failed", "step": "efa-devices", "warned": ""}\n'
    )
    assert "busbar: only 31 of 32 EFA devices exist" in hosts.console(stage.world, "short")
    hosts.stop(stage.world, "short")


def test_the_protocol_of_the_efa_plugin_depends_on_the_instance_type():
    assert [efa_software.protocol(name) for name in ("p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge", "g5.48xlarge")] == [
        "SENDRECV"
    ] * 4
    assert [efa_software.protocol(name) for name in ("p5.48xlarge", "p5en.48xlarge", "p6-b300.48xlarge", "g7e.48xlarge")] == [
        "RDMA"
    ] * 4


def test_an_unknown_image_is_refused_and_an_image_has_only_the_commands_of_its_vendor():
    with pytest.raises(ValueError, match="ubuntu2204-aws, ubuntu2404-aws, al2023-aws"):
        host_images.image("al2-aws")
    ours, theirs = host_images.image("ubuntu2204-aws"), oci_images.image("ubuntu2204-gpu")
    assert "aws" in ours.commands
    assert "usr/bin/aws" in images.absent(theirs)
    assert "usr/bin/wpa_cli" in images.absent(ours)
