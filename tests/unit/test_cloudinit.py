"""First boots on OCI: equal to their golden files, valid by cloud-init's own schema, and with scripts that a shell can run."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from first_boot_texts import Texts

from catalogue import IMAGES, SHAPES
from catalogue.containers import NERDCTL, NERDCTL_SUMS, TOOLKIT, TOOLKIT_KEY
from catalogue.slurm_packages import EL9, NOBLE
from cloudinit import Containerd, LoginBoot, Mount, NodeBoot, render
from cloudinit.homes import shared_folder
from cloudinit.oci_steps import LUSTRE_OPTIONS, NFS_OPTIONS
from cloudinit.slurm_steps import Slurm
from cloudinit.steps import LOCAL_DISKS
from components.slurm.first_boot import software
from config.slurm import Containers, Scheduler

GOLDEN = Path(__file__).parents[1] / "golden" / "cloudinit"
DOMAIN = "private.busbar.oraclevcn.com"
#: The vendor's limit on all metadata of an instance is 32,000 bytes, base64 included.
METADATA_BYTES = 32_000


FSS = Mount("nfs", "10.0.1.9:/files", "/fss", NFS_OPTIONS)
HOMES = Mount("nfs", "10.0.1.9:/files", "/home", NFS_OPTIONS)
LUSTRE = Mount("lustre", "10.0.1.10@tcp:/lustre", "/lustre", LUSTRE_OPTIONS)


def node(family: str, shape: str = "BM.GPU4.8", *mounts: Mount) -> str:
    image = IMAGES[family]
    rails = "192.168.0.0/16" if image.rdma == "ifcfg" else "10.224.0.0/12"
    return render(NodeBoot(image, SHAPES[shape], "Asia/Tokyo", DOMAIN, ("10.0.1.0/24", rails), mounts))


TEXTS = {f"node-{family}": node(family) for family in IMAGES} | {
    f"login-{family}": render(LoginBoot(IMAGES[family], "UTC", DOMAIN)) for family in IMAGES
}
TEXTS |= {
    "node-ol7-files": node("ol7", "BM.GPU4.8", FSS),
    "node-ol8-files-lustre": node("ol8", "BM.GPU4.8", FSS, LUSTRE),
    "node-ubuntu2204-homes-lustre": node("ubuntu2204", "BM.GPU.H100.8", HOMES, LUSTRE),
}
TEXTS["node-ol9-container"] = render(
    NodeBoot(
        IMAGES["ol9"],
        replace(SHAPES["BM.GPU4.8"], rdma=None),
        "Asia/Tokyo",
        DOMAIN,
        ("10.0.2.0/24",),
        containerd=Containerd(NERDCTL, NERDCTL_SUMS, TOOLKIT, TOOLKIT_KEY),
    )
)


def slurm_node(family: str, homes: Mount, slurm: Slurm) -> str:
    networks = ("10.0.1.0/24", "10.224.0.0/12")
    return render(NodeBoot(IMAGES[family], SHAPES["BM.GPU4.8"], "Asia/Tokyo", DOMAIN, networks, (homes,), slurm=slurm))


TEXTS |= {
    f"node-{family}-slurm-containers": slurm_node(
        family, HOMES, software(packages, Scheduler(containers=Containers()), scratch=LOCAL_DISKS, toolkit=TOOLKIT)
    )
    for family, packages in (("ol9", EL9), ("ubuntu2404", NOBLE))
}
TEXTS["node-ol9-slurm-shared-home"] = slurm_node(
    "ol9", replace(HOMES, login_home=True), software(EL9, Scheduler(), scratch=LOCAL_DISKS)
)
CHECKED = Texts(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_every_first_boot_is_the_one_that_was_reviewed(name, reviewed):
    reviewed(GOLDEN / f"{name}.yaml", TEXTS[name])


def test_every_reviewed_first_boot_is_compared_and_no_reviewed_file_is_left_over():
    assert {path.stem for path in GOLDEN.iterdir() if not path.name.startswith("aws-")} == set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_every_first_boot_is_valid_by_cloud_inits_own_schema(name):
    code, said = CHECKED.judged_by_cloud_init(name)
    assert code == 0, said
    # cloud-init prints "Valid cloud-config" until 23.3, "Valid schema FILE" from 23.4 on.
    assert re.search(r"^\s*Valid (cloud-config|schema)", said, re.MULTILINE), said


def script(name: str) -> str:
    return CHECKED.script(name)


@pytest.mark.programs
@pytest.mark.xdist_group("shellcheck")  # one worker checks all texts, with one call of shellcheck
@pytest.mark.parametrize("name", TEXTS)
def test_the_script_of_every_first_boot_is_clean_shell(name):
    subprocess.run(["sh", "-n"], input=script(name), text=True, check=True)
    assert CHECKED.judged_by_shellcheck(name) == []


@pytest.mark.parametrize("name", TEXTS)
def test_every_first_boot_fits_into_half_of_the_metadata_limit_and_has_no_private_key(name):
    assert len(TEXTS[name].encode()) * 4 / 3 < METADATA_BYTES / 2
    assert "PRIVATE KEY" not in TEXTS[name]


def test_nerdctl_is_unpacked_after_its_checksum_is_compared_but_the_toolkit_comes_from_a_signed_repository():
    boot = script("node-ol9-container")
    order = [
        f"/containerd/nerdctl/releases/download/v{NERDCTL}/SHA256SUMS SHA256SUMS {NERDCTL_SUMS}\n",
        "grep ' nerdctl-full-2.2.0-linux-amd64.tar.gz$' SHA256SUMS | sha256sum --check",
        "tar -C",
    ]
    places = [boot.index(words) for words in order]
    assert places == sorted(places)
    ring = "/etc/pki/rpm-gpg/RPM-GPG-KEY-nvidia-container-toolkit"
    assert f"signing_key https://nvidia.github.io/libnvidia-container/gpgkey {ring} {TOOLKIT_KEY}\n" in boot
    assert "repo_gpgcheck=1" in boot
    assert "gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-nvidia-container-toolkit\n" in boot
    assert "dnf install -y nvidia-container-toolkit-base-1.18.0-1" in boot


def test_only_images_without_oracles_agent_get_interface_files():
    assert "ifcfg-" in TEXTS["node-ol7"]
    for family in ("ol8", "ol9", "ubuntu2204"):
        assert "ifcfg-" not in TEXTS[f"node-{family}"]


def test_all_sixteen_rails_of_bm_gpu4_8_are_named_in_a_first_boot_of_oracle_linux_7():
    script = TEXTS["node-ol7"]
    for bus in (12, 22, 72, 76, 138, 148, 195, 209):
        assert f"enp{bus}s0f0" in script
        assert f"enp{bus}s0f1" in script


def test_no_first_boot_stops_the_firewall_and_no_login_node_trusts_a_network():
    for name, text in TEXTS.items():
        assert "stop firewalld" not in text
        assert "disable firewalld" not in text
        if name.startswith("login"):
            assert "--zone=trusted" not in text


def test_a_first_boot_names_no_disk_and_is_the_same_for_h100_and_h200():
    assert "/dev/nvme0n1" not in TEXTS["node-ol8"]
    assert node("ol8", "BM.GPU.H100.8") == node("ol8", "BM.GPU.H200.8")


def test_file_systems_are_mounted_by_named_steps_after_the_machine_trusts_its_network():
    steps = [line.removeprefix("step=") for line in script("node-ol8-files-lustre").splitlines() if line.startswith("step=")]
    assert steps[-5:] == ["tools", "nfs-client", "home", "lustre-client", "lustre"]
    assert steps.index("trust-nodes") < steps.index("tools")


def test_fstab_lines_wait_for_the_network_at_every_later_boot():
    lines = [line for name in TEXTS for line in script(name).splitlines() if " nfs " in line and "echo" in line]
    assert lines
    for line in lines:
        assert "nconnect=16,_netdev" in line
    assert "10.0.1.10@tcp:/lustre /lustre lustre defaults,_netdev 0 0" in script("node-ol8-files-lustre")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("node-ol7-files", "{ yum install -y nfs-utils; }"),
        ("node-ol8-files-lustre", "{ dnf install -y nfs-utils; }"),
        ("node-ubuntu2204-homes-lustre", "install -y nfs-common; }"),
    ],
)
def test_the_nfs_client_is_installed_with_the_images_own_package_manager_if_the_image_lacks_the_client(name, command):
    (line,) = [line for line in script(name).splitlines() if "mount.nfs" in line]
    assert line.startswith("command -v mount.nfs > /dev/null || ")
    assert line.endswith(command)
    assert ("{ lists && " in line) == ("ubuntu" in name), "cloud images of Ubuntu come without apt's package lists"


def run(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-eu"], input=body, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60)


def booted(tmp_path: Path, name: str, mount: str) -> str:
    """Return the script from step `tools` on. Its folders are in `tmp_path`; `mount` is the body of a stand-in for mount."""
    programs = tmp_path / "bin"
    programs.mkdir()
    others = dict.fromkeys(("systemctl", "mount.nfs", "mount.lustre", "sleep"), "exit 0")
    for command, body in (others | {"mount": mount, "mountpoint": "exit 1"}).items():
        (programs / command).write_text(f"#!/bin/sh\n{body}\n")
        (programs / command).chmod(0o755)
    whole = script(name)
    body = whole[: whole.index("\n", whole.index("trap mark")) + 1] + whole[whole.index("step=tools") :]
    (tmp_path / "fstab").write_text("/dev/sda1 / xfs defaults 0 0\n")
    mark = "/var/lib/busbar/boot.json"
    for path in ("/fss", "/lustre"):
        body = body.replace(f"mkdir -p {path}", f"mkdir -p {tmp_path}{path}").replace(f"1777 {path}", f"1777 {tmp_path}{path}")
    body = body.replace(mark, f"{tmp_path}/boot.json").replace("/etc/fstab", f"{tmp_path}/fstab")
    body = body.replace("/etc/modprobe.d", f"{tmp_path}/modprobe.d")
    return f"PATH={programs}:$PATH\n{body}"


def test_after_ten_failed_tries_of_a_mount_the_boot_fails_in_the_step_of_that_mount(tmp_path):
    count = f'echo "$1" >> {tmp_path}/tries; [ "$1" = /fss ]'
    done = run(tmp_path, booted(tmp_path, "node-ol8-files-lustre", count))
    assert done.returncode != 0
    assert json.loads((tmp_path / "boot.json").read_text()) == {"status": "failed", "step": "lustre"}
    assert (tmp_path / "tries").read_text().split() == ["/fss", *["/lustre"] * 10]


def test_a_boot_that_runs_twice_writes_each_line_of_fstab_and_of_lnets_options_once(tmp_path):
    body = booted(tmp_path, "node-ol8-files-lustre", "exit 0")
    for _ in range(2):
        assert run(tmp_path, body).returncode == 0
    assert json.loads((tmp_path / "boot.json").read_text()) == {"status": "done"}
    assert (tmp_path / "fstab").read_text().splitlines()[1:] == [FSS.line, LUSTRE.line]
    front = subprocess.run(["ip", "-4", "-j", "route", "show", "default"], capture_output=True, text=True, check=False).stdout
    named = next(iter(json.loads(front or "[]")), {"dev": ""})["dev"]
    assert (tmp_path / "modprobe.d/busbar-lnet.conf").read_text().splitlines() == [
        f"options lnet networks=tcp({named})",
        "options lnet lnet_peer_discovery_disabled=1",
        "options ksocklnd skip_mr_route_setup=1",
    ]


def test_a_boot_of_an_image_without_a_lustre_client_fails_in_the_step_lustre_client(tmp_path):
    body = booted(tmp_path, "node-ol8-files-lustre", "exit 0")
    (tmp_path / "bin" / "mount.lustre").unlink()
    done = run(tmp_path, body.replace("command -v mount.lustre", f"test -x {tmp_path}/bin/mount.lustre"))
    assert json.loads((tmp_path / "boot.json").read_text()) == {"status": "failed", "step": "lustre-client"}
    assert "the image has no Lustre client" in done.stdout


def test_with_shared_homes_the_login_users_home_stays_on_the_machine():
    body = script("node-ubuntu2204-homes-lustre")
    assert body.index("cp -a /home/ubuntu") < body.index("again mount /home")
    assert "/var/lib/busbar/home/ubuntu /home/ubuntu none bind" in body


def test_first_boot_gives_the_login_user_a_folder_on_the_shared_homes_only_on_a_slurm_cluster():
    for name, login in (("node-ol9-slurm-containers", "opc"), ("node-ubuntu2404-slurm-containers", "ubuntu")):
        body = script(name)
        assert body.index(f"mount /home/{login}\n") < body.index("step=shared-folder") < body.index("step=slurm-user")
        assert f"ln -s /home/.shared/{login} /home/{login}/shared" in body
    assert "shared" not in script("node-ubuntu2204-homes-lustre").replace("# shared", "")


def test_shared_file_systems_are_mounted_nosuid_and_nodev_only_on_slurm_clusters():
    """Without these options, a user who is root on one machine could become root on all machines."""
    for name in TEXTS:
        for line in re.findall(r"^.* (?:nfs|lustre) .* 0 0'.*$", script(name), re.MULTILINE):
            assert (",nosuid,nodev 0 0'" in line) is ("slurm" in name), line
    assert "/home nfs " in script("node-ol9-slurm-containers")


def test_a_shared_home_of_the_login_user_is_on_the_homes_file_system_but_the_keys_stay_on_the_machine():
    body = script("node-ol9-slurm-shared-home")
    added = re.findall(r"'(\S+) (/home\S*) (?:nfs|none) \S+ 0 0'", body)
    kept = "/var/lib/busbar/home/opc"
    assert added == [
        ("10.0.1.9:/files", "/home"),
        ("/home/.shared/opc", "/home/opc"),
        (f"{kept}/.ssh", "/home/opc/.ssh"),
        (f"{kept}/.busbar", "/home/opc/.busbar"),
    ]
    assert body.index("cp -a /home/opc") < body.index("again mount /home"), "the keys are copied before the mount covers them"
    assert "step=shared-folder" not in body


def test_a_login_users_home_can_be_shared_from_a_file_system_that_is_not_mounted_at_slash_home():
    fss = replace(FSS, login_home=True)
    body = Texts({"": node("ol9", "BM.GPU4.8", fss)}).script("")
    assert "/fss/.shared/opc /home/opc none bind" in body
    assert body.index("chmod 1777 /fss") < body.index("step=shared-home")


# Tests with this fixture are marked `rehearsal`, because the step changes a folder's owner and therefore needs root.
@pytest.fixture
def folders(tmp_path) -> tuple[Path, Path, str]:
    """The mount point of the homes, the login user's own home, and the script that makes the shared folder."""
    homes, own = tmp_path / "homes", tmp_path / "own"
    homes.mkdir()
    own.mkdir()
    body = shared_folder("nobody", str(homes)).shell.replace("/home/nobody/shared", str(own / "shared"))
    return homes, own, body


@pytest.mark.rehearsal
def test_after_each_boot_the_shared_folder_belongs_to_the_login_user_and_is_closed_to_others(tmp_path, folders):
    homes, own, body = folders
    for _ in range(2):
        assert run(tmp_path, body).returncode == 0
        there = homes / ".shared" / "nobody"
        assert (own / "shared").resolve() == there
        assert (there.owner(), stat.S_IMODE(there.stat().st_mode)) in {("nobody", 0o700), ("nobody", 0o750)}
        assert (homes / ".shared").owner() == "root"
        (there / "job.sh").touch()
        there.chmod(0o750)  # the login user is free to change the folder's mode


@pytest.mark.rehearsal
@pytest.mark.parametrize("planted", ["link", "folder of a user"])
def test_first_boot_does_not_follow_a_link_that_a_user_put_in_place_of_the_shared_folder(tmp_path, folders, planted):
    homes, own, body = folders
    (tmp_path / "victim" / "nobody").mkdir(parents=True)
    if planted == "link":
        (homes / ".shared").symlink_to(tmp_path / "victim")
    else:
        (homes / ".shared").mkdir()
        shutil.chown(homes / ".shared", "nobody")
        (homes / ".shared" / "nobody").symlink_to(tmp_path / "victim" / "nobody")
    done = run(tmp_path, body)
    assert done.returncode == 1
    assert f"{homes}/.shared is not a folder that root owns" in done.stdout
    assert (tmp_path / "victim" / "nobody").owner() == "root"
    assert not (own / "shared").exists()


def test_a_first_boot_of_a_stack_without_file_systems_mounts_no_file_system():
    for name in ("node-ol7", "node-ol8", "login-ol8"):
        assert "again" not in TEXTS[name]
        assert "mount.nfs" not in TEXTS[name]


def test_only_oracle_linux_nodes_grow_the_root_file_system_which_may_fail_without_failing_the_boot():
    for name, text in TEXTS.items():
        assert ("oci-growfs -y || echo" in text) is (name.startswith("node-ol")), name
        assert "oci-growfs -y\n" not in text
