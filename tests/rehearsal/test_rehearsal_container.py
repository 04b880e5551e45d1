"""The rehearsed enroot: first boot installs it, a registry serves images, and commands run in an image's root file system."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from shlex import quote

import pytest
from aws_hosts import spec
from rehearsed_hosts import CONTAINED, Stage, end_world, vcn

from catalogue.aws import MACHINE_IMAGES, STACK
from catalogue.containers import ENROOT, TOOLKIT, TOOLKIT_KEY
from cloudinit import enroot, mounts
from cloudinit.aws import ComputeBoot, Mounts, render
from cloudinit.downloads import FUNCTIONS
from config.custom_actions import Action, CustomActions
from rehearsal.host import hosts
from rehearsal.image import internet, signing_keys
from rehearsal.net import network

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("enroot"), CONTAINED]
FRAMEWORK = "docker://nvcr.io#nvidia/pytorch:25.06-py3"
#: A user's own script, which the rehearsed Internet serves.
NOTES = Action(
    script="https://scripts.example.com/note.sh", sha256=hashlib.sha256(internet.NOTE.encode()).hexdigest(), args=("a b", "$c")
)
NODES = {"node0": ("ubuntu2204", "ubuntu"), "linux": ("al2023", "ec2-user")}


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    stage = Stage(tmp_path_factory.mktemp("w"))
    try:
        network.apply_vcn(stage.world, vcn())
        network.apply_fabric(stage.world, "fab0", 32)
        for number, (name, (family, _)) in enumerate(NODES.items(), start=21):
            image = MACHINE_IMAGES[family]
            boot = ComputeBoot(
                image=image,
                timezone="UTC",
                keys=(stage.public_key,),
                mounts=Mounts(),
                efa=32,
                stack=STACK,
                enroot=ENROOT,
                actions=CustomActions(on_node_start=(NOTES,), on_node_configured=(NOTES,)),
            )
            hosts.boot(stage.world, replace(spec(stage, name, number, family), user_data=render(boot).encode()))
        assert set(stage.ready(*NODES).values()) == {"status: done"}
        yield stage
    finally:
        end_world(stage.world)


def on(stage, name, command):
    """Run a command as the machine's login user, who is not root."""
    return stage.inside(name, f"su - {NODES[name][1]} -c {quote(command)}")


@pytest.fixture(scope="module")
def unpacked(stage):
    """The stage after the first machine unpacked two images as containers: nccl-tests as `tests`, PyTorch as `framework`."""
    for name, uri in (("tests", STACK.container), ("framework", FRAMEWORK)):
        done = on(stage, "node0", f"enroot import -o {name}.sqsh {quote(uri)} && enroot create -n {name} {name}.sqsh")
        assert done.returncode == 0, done.stderr
        assert "[INFO] Creating squashfs filesystem..." in done.stderr
    return stage


@pytest.mark.parametrize("name", NODES)
def test_first_boot_installs_enroot_once_and_keeps_enroots_data_on_the_machines_own_disks(stage, name):
    assert on(stage, name, "enroot version").stdout == f"{ENROOT}\n"
    assert on(stage, name, "enroot list && ls -d /scratch/enroot/data/user-* /run/enroot/user-*").returncode == 0
    again = stage.inside(
        name, "sed -n '/^step=tools/,/^step=shared/p; /^step=enroot/,/^fi/p' /var/lib/busbar/first-boot | sh -eu"
    )
    assert again.returncode == 0, again.stderr
    assert "enroot" not in again.stdout, "where enroot is present, the step installs nothing"


@pytest.mark.parametrize("name", NODES)
def test_the_checksums_of_enroots_packages_are_logged_and_other_checksums_are_refused(stage, name):
    log = stage.inside(name, "grep 'sha256 .* is unchecked' /var/log/cloud-init-output.log").stdout
    known = tuple(re.findall("sha256 ([0-9a-f]{64})", log))
    assert len(set(known)) == 2, log
    manager = MACHINE_IMAGES[NODES[name][0]].packages
    for sums, status in ((("0" * 64, known[0]), 1), (known, 0)):
        again = enroot.enroot(manager, ENROOT, "/scratch", sums).shell.replace("! command -v enroot", "true")
        done = stage.inside(name, f"{FUNCTIONS}{mounts.tools().shell}\nset -eu\n{again}")
        assert done.returncode == status, done
        assert (f"sha256 {known[1]} is not {'0' * 64} or {known[0]} (from " in done.stdout) == bool(status)


def test_nvidias_container_toolkit_is_installed_only_if_its_repository_has_the_expected_signing_key(stage):
    lost = "mv /usr/bin/nvidia-container-cli /tmp/lost"
    begin = f"{FUNCTIONS}{mounts.tools().shell}\nset -eu\n"
    other = stage.inside("node0", f"{lost}\n{begin}{enroot.gpus('apt', TOOLKIT, TOOLKIT_KEY).shell}")
    assert other.returncode == 1
    assert f"fingerprint {signing_keys.NVIDIA_FINGERPRINT} is not {TOOLKIT_KEY} (from https://nvidia.github.io/" in other.stdout
    for version, says in (("9.9.9", "Version '9.9.9-1' for 'libnvidia-container-tools' was not found"), (TOOLKIT, "")):
        shell = enroot.gpus("apt", version, signing_keys.NVIDIA_FINGERPRINT).shell
        done = stage.inside("node0", begin + shell)
        assert (done.returncode == 0) == (not says), done
        assert says in done.stderr
    assert stage.inside("node0", "dpkg-query -W -f '${Version}' libnvidia-container-tools").stdout == f"{TOOLKIT}-1"
    assert stage.inside("node0", "command -v nvidia-container-cli").returncode == 0


@pytest.mark.parametrize("name", NODES)
def test_the_users_scripts_in_on_node_start_and_in_on_node_configured_run_as_root_with_their_arguments(stage, name):
    assert stage.inside(name, "cat /var/lib/note").stdout.splitlines() == ["root", "a b", "$c"] * 2


def test_an_enroot_package_of_an_unknown_version_is_not_found(stage):
    place = "https://github.com/NVIDIA/enroot/releases/download/v9.9.9/enroot{}"
    assert "404" in stage.inside("node0", f"curl -fsSL -o /dev/null {place.format('_9.9.9-1_amd64.deb')}").stderr
    assert "404" in stage.inside("linux", f"curl -fsSL -o /dev/null {place.format('-9.9.9-1.el8.x86_64.rpm')}").stderr
    assert "Can not load RPM file: /tmp/none.rpm" in stage.inside("linux", "dnf install -y /tmp/none.rpm").stderr
    assert "Unable to locate package enroot" in stage.inside("node0", "rm -f /tmp/x; apt-get install -y enroot-hardened").stderr


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        (
            "docker://public.ecr.aws#hpc-cloud/nccl-tests:none",
            "[ERROR] URL https://public.ecr.aws/v2/hpc-cloud/nccl-tests/manifests/none returned error code: 404 Not Found",
        ),
        ("docker://registry.invalid#a:1", "Could not resolve host: registry.invalid"),
        ("dockerd://nccl-tests:1", "[ERROR] Command not found: docker"),
        ("docker://A#B@C", "[ERROR] Invalid image reference: docker://A#B@C"),
        ("nccl-tests", "[ERROR] Invalid argument: nccl-tests"),
    ],
)
def test_an_import_of_an_image_that_is_missing_or_wrongly_named_fails_with_enroots_message(stage, uri, why):
    done = on(stage, "node0", f"enroot import -o /tmp/none.sqsh {quote(uri)}")
    assert done.returncode == 1
    assert why in done.stderr


def test_an_import_fails_without_a_route_to_the_internet(stage):
    try:
        network.apply_vcn(stage.world, vcn(routes=()))
        done = on(stage, "node0", f"enroot import -o /tmp/none.sqsh {quote(STACK.container)}")
        assert "Failed to connect to public.ecr.aws" in done.stderr
    finally:
        network.apply_vcn(stage.world, vcn())


def test_each_import_writes_a_different_file_even_of_an_image_that_is_given_by_digest(unpacked):
    ask = "import sys; sys.path.insert(0, '/usr/lib/rehearsal/python'); from rehearsal.image import registry; "
    digest = on(unpacked, "node0", f"python3 -c {quote(ask + 'print(registry._tests().digest())')}").stdout.strip()
    uri = f"docker://public.ecr.aws#hpc-cloud/nccl-tests@{digest}"
    done = on(unpacked, "node0", f"enroot import -o again.sqsh {quote(uri)} && cmp again.sqsh tests.sqsh")
    assert done.returncode == 1
    assert "differ" in done.stdout, done.stderr


def test_a_command_in_a_container_sees_only_the_files_of_the_image_and_the_requested_mounts(unpacked):
    look = "ls /opt /usr/local; id -un; hostname; touch /opt/x; [ -d /home/ubuntu ] && echo home; echo $SECRET; "
    look += "wc -l < /etc/rehearsal/gpus"
    done = on(unpacked, "node0", f"SECRET=x enroot start tests sh -c {quote(look)}")
    assert done.stdout.split() == ["/opt:", "amazon", "nccl", "/usr/local:", "cuda", "cuda-12.8", "ubuntu", "ip-10-0-1-21", "0"]
    assert "cannot touch '/opt/x': Read-only file system" in done.stderr
    mounted = (
        "mkdir -p ~/d; echo there > ~/d/f; enroot start --mount $HOME/d:/d --env NVIDIA_VISIBLE_DEVICES=all --env K=v tests "
    )
    done = on(
        unpacked, "node0", mounted + quote("sh") + " -c " + quote("cat /d/f; echo $K; touch /d/g; wc -l < /etc/rehearsal/gpus")
    )
    assert done.stdout.split() == ["there", "v", "8"]
    assert on(unpacked, "node0", "ls ~/d").stdout.split() == ["f", "g"]


def test_the_framework_image_prints_its_banner_and_lacks_the_ofi_plugin(unpacked):
    done = on(unpacked, "node0", "enroot start framework sh -c 'ls -d /opt/amazon/ofi-nccl; echo done'")
    assert done.stdout.startswith("== PyTorch ==")
    assert "cannot access '/opt/amazon/ofi-nccl'" in done.stderr
    assert done.stdout.endswith("done\n")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("start nobody true", "[ERROR] No such file or directory: /opt/dlami/nvme/enroot/data/user-"),
        ("start --mount /nowhere:/x tests true", "enroot-mount: failed to mount: /nowhere at"),
        ("start tests.sqsh true", "[ERROR] Command not found: squashfuse"),
        ("create -n tests tests.sqsh", "[ERROR] File already exists: /opt/dlami/nvme/enroot/data/user-"),
        ("create -n x /etc/hostname", "[ERROR] Invalid image format: /etc/hostname"),
        ("import -o tests.sqsh docker://public.ecr.aws#hpc-cloud/nccl-tests:x", "[ERROR] File already exists: "),
        ("start --pid tests true", "[ERROR] Unknown argument: --pid"),
        ("batch tests", "[ERROR] Invalid command: batch"),
    ],
)
def test_commands_that_enroot_would_refuse_are_refused_with_enroots_message(unpacked, command, why):
    done = on(unpacked, "node0", f"enroot {command}")
    assert done.returncode == 1
    assert why in done.stderr


def test_a_removed_container_is_not_listed_any_more(unpacked):
    done = on(unpacked, "node0", "enroot create -n spare tests.sqsh && enroot remove -f spare && enroot list")
    assert done.stdout.split() == ["framework", "tests"]
