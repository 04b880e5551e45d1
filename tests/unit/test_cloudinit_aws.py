"""First boots on AWS: equal to their golden files, valid by cloud-init's own schema, with time limits, without secrets."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import KEY
from first_boot_texts import Texts

from benchmarks.runner import build
from catalogue.aws import MACHINE_IMAGES, STACK
from catalogue.containers import ENROOT
from catalogue.slurm_packages import NOBLE
from cloudinit.aws import SCRATCH, USER_DATA_BYTES, ComputeBoot, LoginBoot, Mounts, render, user_data
from cloudinit.aws_steps import efa_software
from components.slurm.first_boot import software
from config.slurm import Containers, Scheduler

GOLDEN = Path(__file__).parents[1] / "golden" / "cloudinit"
MOUNTS = Mounts(
    lustre=("fs-0123456789abcdef0.fsx.ap-northeast-1.amazonaws.com", "abcdefgh"),
    lustre_at="/fsx",
    home="fs-0fedcba9876543210.fsx.ap-northeast-1.amazonaws.com",
    home_at="/home",
)


def login(family: str, mounts: Mounts = MOUNTS) -> LoginBoot:
    return LoginBoot(
        image=MACHINE_IMAGES[family],
        timezone="Asia/Tokyo",
        keys=(KEY,),
        mounts=mounts,
        region="ap-northeast-1",
        parameter="/busbar/training/login-host-key",
    )


def node(family: str, mounts: Mounts = MOUNTS, efa: int = 32) -> ComputeBoot:
    image = MACHINE_IMAGES[family]
    return ComputeBoot(image=image, timezone="Asia/Tokyo", keys=(KEY,), mounts=mounts, efa=efa, stack=STACK)


BOOTS = {f"aws-{noun}-{family}": make(family) for noun, make in (("login", login), ("node", node)) for family in MACHINE_IMAGES}
BOOTS["aws-node-lustre-efa"] = node("ubuntu2204", replace(MOUNTS, lustre_efa="e" * 64))
BOOTS |= {f"aws-node-container-{family}": replace(node(family), enroot=ENROOT) for family in MACHINE_IMAGES}
SLURM = software(NOBLE, Scheduler(users=True, containers=Containers()), scratch=SCRATCH)
BOOTS["aws-node-slurm-containers"] = replace(node("ubuntu2404"), slurm=SLURM)
BOOTS["aws-login-slurm-containers"] = replace(
    login("ubuntu2404"),
    slurm=software(NOBLE, Scheduler(users=True, containers=Containers()), scratch=SCRATCH, controller=True),
)
BOOTS["aws-node-slurm-shared-home"] = replace(
    node("ubuntu2404", replace(MOUNTS, login_home=True)), slurm=software(NOBLE, Scheduler(), scratch=SCRATCH)
)
BOOTS["aws-node-bare"] = node("al2023", Mounts(), 0)
TEXTS = {name: render(boot) for name, boot in BOOTS.items()}
CHECKED = Texts(TEXTS)


def script(name: str) -> str:
    return CHECKED.script(name)


@pytest.mark.parametrize("name", TEXTS)
def test_every_first_boot_is_the_one_that_was_reviewed(name, reviewed):
    reviewed(GOLDEN / f"{name}.yaml", TEXTS[name])


def test_only_machines_with_efa_devices_mount_lustre_over_efa():
    mounts = replace(MOUNTS, lustre_efa="e" * 64)
    over_tcp = [login("ubuntu2204", mounts), node("ubuntu2204", mounts, 0)]
    assert ["lustre-over-efa" in render(boot) for boot in (*over_tcp, node("ubuntu2204", mounts))] == [False, False, True]
    assert all("lustre-network" in render(boot) for boot in over_tcp)


def test_every_reviewed_first_boot_is_compared_and_no_reviewed_file_is_left_over():
    assert {path.stem for path in GOLDEN.glob("aws-*")} == set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_every_first_boot_is_valid_by_cloud_inits_own_schema(name):
    code, said = CHECKED.judged_by_cloud_init(name)
    assert code == 0, said
    # cloud-init prints "Valid cloud-config" until 23.3, "Valid schema FILE" from 23.4 on.
    assert re.search(r"^\s*Valid (cloud-config|schema)", said, re.MULTILINE), said


@pytest.mark.programs
@pytest.mark.xdist_group("shellcheck")  # one worker checks all texts, with one call of shellcheck
@pytest.mark.parametrize("name", TEXTS)
def test_the_script_of_every_first_boot_is_clean_shell(name):
    subprocess.run(["sh", "-n"], input=script(name), text=True, check=True)
    assert CHECKED.judged_by_shellcheck(name) == []


@pytest.mark.parametrize("name", TEXTS)
def test_every_first_boot_fits_into_user_data_and_has_no_private_key(name):
    assert len(TEXTS[name].encode()) < USER_DATA_BYTES
    assert "PRIVATE KEY" not in TEXTS[name]


def keys(count: int) -> tuple[str, ...]:
    """Return made-up public keys that compress as badly as real keys."""
    digests = (hashlib.sha512(str(number).encode()).digest()[:51] for number in range(count))
    return tuple(f"ssh-ed25519 {base64.b64encode(one).decode()} user-{number}" for number, one in enumerate(digests))


def test_a_first_boot_is_compressed_only_if_it_is_too_long_for_ec2():
    plain, boot = node("al2023"), replace(node("al2023"), keys=keys(200))
    assert user_data(plain) == (render(plain), base64.b64encode(render(plain).encode()).decode())
    assert len(render(boot)) > USER_DATA_BYTES
    found = user_data(boot)
    assert found.text is None
    data = base64.b64decode(found.packed)
    assert data.startswith(b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"), "if this header varied, an update would replace the login node"
    assert len(data) <= USER_DATA_BYTES
    assert gzip.decompress(data).decode() == render(boot)


def test_a_first_boot_that_is_too_long_for_ec2_even_compressed_is_refused():
    with pytest.raises(ValueError, match="bytes long, even compressed; EC2 accepts at most 16384"):
        user_data(replace(node("al2023"), keys=keys(400)))


@pytest.mark.parametrize("name", TEXTS)
def test_every_wait_has_a_time_limit(name):
    """Mounts of file systems, curl and cloud calls go through `again`, which limits tries and time, or have `--max-time`."""
    for line in script(name).splitlines():
        if re.search(r"(?<!\w)(curl|aws|mount) ", line) and "mountpoint" not in line.split("||")[-1]:
            assert "again" in line or "--max-time" in line or "none bind" in line or "mount /home/" in line, line


def run(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-eu"], input=body, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60)


def tools_of(name: str) -> str:
    body = script(name)
    return body[body.index("again()") : body.index("\n}\n", body.index("again()")) + 3].replace("sleep 6", "sleep 0")


def test_first_boot_waits_for_a_late_mount_and_gives_up_after_ten_failed_tries(tmp_path):
    late = tools_of("aws-node-al2023").replace('timeout 60 "$@"', '{ echo x >> n; [ "$(wc -l < n)" -ge 4 ]; }')
    assert run(tmp_path, late + "again mount /fsx; wc -l < n").stdout.split() == ["4"]
    never = tools_of("aws-node-al2023").replace('timeout 60 "$@"', "{ echo x >> m; false; }")
    failed = run(tmp_path, never + "again mount /fsx")
    assert failed.returncode == 1
    assert len((tmp_path / "m").read_text().split()) == 10
    assert run(tmp_path, never.replace(">> m", ">> k") + "most=5 again aws ssm put-parameter").returncode == 1
    assert len((tmp_path / "k").read_text().split()) == 5, (
        "an update waits meanwhile, so the login node gives up after five tries"
    )
    assert "\nmost=5 again aws ssm put-parameter" in script("aws-login-ubuntu2204")


def test_a_login_node_publishes_its_host_key_before_it_announces_that_it_is_ready():
    body = script("aws-login-ubuntu2204")
    assert body.index("ssm put-parameter") < body.index("\nannounce busbar-ready")
    assert "/var/lib/cloud/data/instance-id" in body
    assert "ssm" not in script("aws-node-ubuntu2204")


def test_with_shared_homes_on_aws_the_login_users_home_stays_on_the_machine():
    body = script("aws-node-ubuntu2204")
    assert body.index("cp -a /home/ubuntu") < body.index("again mount /home")
    assert "/var/lib/busbar/home/ubuntu /home/ubuntu none bind" in body
    assert "/home/ec2-user none bind" in script("aws-node-al2023")


def test_the_login_users_folder_on_the_shared_homes_is_linked_only_on_machines_of_a_slurm_cluster():
    for name in ("aws-login-slurm-containers", "aws-node-slurm-containers"):
        body = script(name)
        assert body.index("mount /home/ubuntu\n") < body.index("step=shared-folder") < body.index("step=slurm-user")
        assert "ln -s /home/.shared/ubuntu /home/ubuntu/shared" in body
    assert "shared-folder" not in script("aws-node-ubuntu2404")


def test_the_login_users_home_can_be_a_folder_of_the_shared_homes():
    body = script("aws-node-slurm-shared-home")
    assert "/home/.shared/ubuntu /home/ubuntu none bind" in body
    assert "/var/lib/busbar/home/ubuntu/.ssh /home/ubuntu/.ssh none bind" in body
    assert "step=shared-folder" not in body


def test_shared_file_systems_are_mounted_nosuid_and_nodev_only_on_slurm_clusters():
    for name in ("aws-login-slurm-containers", "aws-node-slurm-containers"):
        lines = re.findall(r"^.* (?:nfs|lustre) .* 0 0'.*$", script(name), re.MULTILINE)
        assert len(lines) == 2, lines
        assert all(",nosuid,nodev 0 0'" in line for line in lines), lines
    assert "nosuid" not in script("aws-node-ubuntu2404")


def test_a_failed_or_slow_file_system_does_not_stop_the_first_boot_of_the_login_node_or_delay_the_measurement():
    body = script("aws-login-ubuntu2204")
    announced = body.index("\nannounce busbar-ready")
    for name in ("nfs-client", "home", "keep-kernel", "lustre-client", "lustre-network", "lustre"):
        assert body.index(f"\nstep={name}\n(\n") > announced, name
    assert "step=lustre-client\n(" not in script("aws-node-ubuntu2204"), "a node without its file systems is not ready"


def test_lustre_takes_its_efa_devices_before_the_file_system_is_mounted():
    body = script("aws-node-lustre-efa")
    assert body.index("modprobe -r") < body.index("./setup.sh") < body.index("again mount /fsx")
    assert "setup.sh" not in script("aws-node-ubuntu2204")


def test_a_node_without_file_systems_and_efa_has_no_boot_steps_for_file_systems_or_efa():
    body = script("aws-node-bare")
    assert body.count("fstab") == 1, "only the machine's own disks are in fstab"
    assert "step=efa" not in body


@pytest.mark.parametrize("have", ["", "1.9.3", "1.28.0"])
def test_missing_or_outdated_efa_software_is_installed_and_newer_software_is_kept(tmp_path, have):
    body = script("aws-node-al2023")
    line = next(text for text in body.splitlines() if "sort -V" in text)
    question = line.strip() + " echo install; else echo leave; fi"
    assert run(tmp_path, f"have='{have}'\n{question}").stdout.split() == ["install"]
    for enough in ("1.29.0", "1.43.2", "1.100.0"):
        assert run(tmp_path, f"have='{enough}'\n{question}").stdout.split() == ["leave"]


@pytest.mark.parametrize(("plugin", "status"), [("1.18.0", 1), ("1.20.0", 0), ("1.16.3", 0)])
def test_the_first_boot_fails_with_the_reason_only_if_the_images_plugin_has_a_version_that_hangs(tmp_path, plugin, status):
    packages = tmp_path / "packages"
    packages.write_text(
        f"# EFA installer version: 1.47.0\n# Packages installed:\nefa-config_1.18 libnccl-ofi_{plugin}-1_amd64\n"
    )
    step = efa_software(STACK, in_use=True).shell.replace("/opt/amazon/efa_installed_packages", str(packages))
    done = run(tmp_path, step)
    assert done.returncode == status
    assert ("hangs in broadcasts between nodes; use another version" in done.stdout) == bool(status)
    assert "plugin" not in efa_software(STACK, in_use=False).shell, "ranks in a container use the container's plugin"


def test_the_versions_of_the_installed_efa_software_are_read(tmp_path):
    packages = tmp_path / "packages"
    packages.write_text("# EFA installer version: 1.43.2\n# Packages installed:\nefa-config libnccl-ofi_1.16.3-1_amd64\n")
    assert build.efa_versions(str(packages)) == {"efa": "1.43.2", "plugin": "1.16.3"}
    assert build.efa_versions(str(tmp_path / "none")) == {}
