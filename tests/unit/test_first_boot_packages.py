"""A first boot's steps are run with this machine's dpkg and apt on an image's package state; steps that fail are named."""

from __future__ import annotations

import io
import subprocess
import zipfile
from pathlib import Path

import pytest

from catalogue.aws import MACHINE_IMAGES
from cloudinit import aws_steps, steps
from rehearsal.aws import host_images
from rehearsal.host import package_state
from rehearsal.image import internet, packages

SETUP = "https://docs.aws.amazon.com/fsx/latest/LustreGuide/samples/configure-efa-fsx-lustre-client.zip"
KERNEL = host_images.image("ubuntu2204-aws").kernel
KEY = "A" * 40
CONFIGURATION = """Dir::State::status "{0}/var/lib/dpkg/status"; Dir::State::lists "{0}/var/lib/apt/lists";
Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "/dev/null"; Dir::Etc::parts "/dev/null";
Dir::Cache "{0}/var/cache/apt"; DPkg::Options {{"--admindir={0}/var/lib/dpkg"; "--force-not-root";}};
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """Write files of dpkg and apt like those in AWS's Ubuntu image; return their folder."""
    for path, (text, _) in package_state.texts("22.04", KERNEL).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "apt.conf").write_text(CONFIGURATION.format(tmp_path))
    return tmp_path


def run(image: Path, body: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script with dpkg and apt on the files of `image`."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DPKG_ADMINDIR": f"{image}/var/lib/dpkg"}
    environment["APT_CONFIG"] = f"{image}/apt.conf"
    text = body.replace("/run/busbar", f"{image}/busbar").replace("/var/lib/busbar", str(image))
    return subprocess.run(["sh"], input=text, capture_output=True, text=True, check=False, env=environment, timeout=60)


def boot(image: Path, *work: steps.Step) -> tuple[subprocess.CompletedProcess[str], str]:
    done = run(image, "systemctl() { :; }\n" + steps.script([*work]))
    return done, (image / "boot.json").read_text()


def test_the_rehearsed_package_state_lists_kernel_headers_that_are_not_installed_and_cannot_be_held(image):
    shown = run(image, "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' 'linux-headers-*'").stdout
    assert {"un  linux-headers-3.0", "un  linux-headers-686-pae", f"ii  linux-headers-{KERNEL}"} <= set(shown.splitlines())
    assert run(image, "apt-mark hold linux-headers-3.0").returncode == 100


def test_the_kernel_packages_are_held_and_the_boot_goes_on(image):
    done, mark = boot(image, aws_steps.keep_kernel(MACHINE_IMAGES["ubuntu2204"]), steps.Step("next", "echo reached"))
    assert "reached" in done.stdout, done
    assert mark == '{"status": "done", "warned": ""}\n'
    held = run(image, "apt-mark showhold").stdout.split()
    assert held == ["linux-aws", f"linux-headers-{KERNEL}", f"linux-image-{KERNEL}", "linux-image-aws"]


def test_a_failed_precaution_warns_and_the_boot_continues(image):
    broken = steps.Step("keep-kernel", "false\necho not reached", precaution=True)
    done, mark = boot(image, broken, steps.Step("next", "echo went-on"))
    assert done.returncode == 0
    assert "went-on" in done.stdout
    assert "not reached" not in done.stdout
    assert mark == '{"status": "done", "warned": "keep-kernel "}\n'


def test_a_failed_step_that_is_not_a_precaution_ends_the_boot_and_is_named(image):
    done, mark = boot(image, steps.Step("mount", "false"), steps.Step("next", "echo went-on"))
    assert done.returncode == 1
    assert "went-on" not in done.stdout
    assert mark == '{"status": "failed", "step": "mount"}\n'


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_a_login_node_announces_the_step_that_failed_and_shows_the_log_on_its_console(image, shell):
    sshd, console = image / "sshd_config", image / "console"
    sshd.write_text("Port 22\n")
    (image / "log").write_text("one\ntwo: no space left on device\n")
    work = [steps.Step("tools", "true"), steps.Step("publish-host-key", "false"), steps.sshd_for_bursts(), steps.announce()]
    text = steps.script(work).replace("/etc/ssh/sshd_config", str(sshd)).replace("/dev/console", str(console))
    text = text.replace("/var/log/cloud-init-output.log", str(image / "log")).replace("/var/lib/busbar", str(image))
    done = subprocess.run([shell, "-c", "systemctl() { :; }\n" + text], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert sshd.read_text() == "VersionAddendum busbar-failed:publish-host-key\nPort 22\n"
    assert console.read_text() == "busbar: first boot failed in step publish-host-key\none\ntwo: no space left on device\n"
    assert (image / "boot.json").read_text() == '{"status": "failed", "step": "publish-host-key"}\n'


@pytest.mark.parametrize(("has", "does"), [("6.8.0-1063-aws", "exact"), ("6.8.0-1066-aws", "built"), ("none", "failed")])
def test_the_lustre_client_is_the_package_for_the_kernel_or_is_built_or_else_the_step_fails(image, has, does):
    kernel = has if has != "none" else "6.8.0-1070-aws"
    fakes = f"""uname() {{ echo {kernel}; }}; lists() {{ :; }}; again() {{ "$@"; }}; signing_key() {{ :; }}; gpg() {{ :; }}
timeout() {{ :; }}
apt_get() {{ echo "apt-get $*"; case $* in *lustre-client-modules-{kernel}*) [ {kernel} = 6.8.0-1063-aws ] ;; esac; }}
tar() {{ mkdir -p {image}/src/modules/lustre; }}; dpkg() {{ echo "dpkg $*"; }}
[ {has} = none ] || : > {image}/lustre-client-modules-{kernel}_2.15.6_amd64.deb
"""
    step = aws_steps.lustre_client(MACHINE_IMAGES["ubuntu2204"], KEY).shell.replace("apt-get", "apt_get")
    step = step.replace("/etc/apt/sources.list.d", str(image)).replace("find /usr/src", f"find {image}")
    step = step.replace("/usr/src", f"{image}/src").replace("/var/log", str(image))
    done = run(image, "set -eu\n" + fakes + step)
    assert (done.returncode == 0) == (does != "failed"), done
    assert ("dpkg --install" in done.stdout) == (does == "built")
    assert (f"no Lustre client for kernel {kernel}" in done.stdout) == (does == "failed")


@pytest.mark.parametrize(
    ("processors", "memory_gib", "settings"),
    [
        (16, 64, ["llite.*.statahead_max=512 llite.*.statahead_agl=1"]),
        (64, 65, ["llite.*.statahead_max=512 llite.*.statahead_agl=1", "ldlm.namespaces.*.lru_max_age=600000 lru_size=6400"]),
        (
            192,
            2048,
            [
                "llite.*.statahead_max=512 llite.*.statahead_agl=1",
                "ldlm.namespaces.*.lru_max_age=600000 lru_size=19200",
                "osc.*OST*.max_rpcs_in_flight=32 mdc.*.max_rpcs_in_flight=64 mdc.*.max_mod_rpcs_in_flight=50",
            ],
        ),
    ],
)
def test_at_every_boot_a_lustre_client_is_tuned_as_aws_advises_for_its_machine(image, processors, memory_gib, settings):
    (image / "bin").mkdir()
    (image / "meminfo").write_text(f"MemTotal: {memory_gib << 20} kB\n")
    fakes = {
        "nproc": f"echo {processors}",
        "lctl": f'shift; echo "$*" | sed "s/ldlm.namespaces.[*].lru_size/lru_size/" >> {image}/set',
        "systemctl": f'case "$1" in enable) {image}/busbar-lustre-tuning ;; esac; echo "systemctl $*"',
    }
    for name, body in fakes.items():
        (image / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (image / "bin" / name).chmod(0o755)
    step = aws_steps.lustre_tuning("/fsx").shell.replace("/usr/local/sbin", str(image))
    step = step.replace("/etc/systemd/system", str(image)).replace("/proc/meminfo", f"{image}/meminfo")
    done = run(image, f"set -eu\nPATH={image}/bin:$PATH\n{step}")
    assert done.returncode == 0, done
    assert (image / "set").read_text().splitlines() == settings
    unit = (image / "busbar-lustre-tuning.service").read_text()
    assert "RequiresMountsFor=/fsx\n" in unit
    assert "systemctl enable --now busbar-lustre-tuning.service" in done.stdout
    network = aws_steps.lustre_over_front_end().shell.replace("/etc/modprobe.d", str(image))
    network = network.replace("ip -4 -o route show default", "echo default via 10.0.0.1 dev ens5 proto dhcp")
    assert run(image, f"set -eu\nPATH={image}/bin:$PATH\n{network}").returncode == 0
    options = (image / "busbar-lnet.conf").read_text().splitlines()
    assert options[0] == 'options lnet networks="tcp(ens5)"'
    many = ["options ptlrpc ptlrpcd_per_cpt_max=32", "options ksocklnd credits=2560"]
    assert options[1:] == (many if processors > 64 else [])


def test_the_boot_goes_on_with_unchanged_settings_if_the_lustre_client_has_no_lctl(image):
    step = aws_steps.lustre_tuning("/fsx").shell.replace("/usr/local/sbin", str(image))
    done = run(image, "set -eu\nsystemctl() { :; }\n" + step.replace("/etc/systemd/system", str(image)))
    assert (done.returncode, done.stdout) == (0, "busbar: this Lustre client has no lctl and keeps its own settings\n")


def test_bash_runs_the_script_of_aws_for_lustre_over_efa_because_dash_cannot_parse_it(image):
    program = image / "setup.sh"
    program.write_bytes(zipfile.ZipFile(io.BytesIO(internet.served(SETUP))).read("configure-efa-fsx-lustre-client/setup.sh"))
    assert subprocess.run(["dash", "-n", program], capture_output=True, check=False).returncode == 2
    assert subprocess.run(["bash", "-n", program], capture_output=True, check=False).returncode == 0
    assert "bash ./setup.sh" in aws_steps.lustre_over_efa("e" * 64).shell


@pytest.mark.parametrize("more", ["", "/", "/x86_64"])
def test_the_packages_of_a_repository_are_at_its_base_url_and_at_addresses_below_it(more):
    assert packages.served_at(f"https://nvidia.github.io/libnvidia-container/stable/rpm{more}", "9") is packages.TOOLKIT


def test_an_address_that_only_begins_with_the_same_letters_as_a_base_url_has_no_packages():
    assert packages.served_at("https://nvidia.github.io/libnvidia-container/stable/rpm-old", "9") is None
    assert packages.served_at("https://dl.fedoraproject.org/pub/epel/90", "9") is None
