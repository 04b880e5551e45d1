"""The step of a first boot that builds Pyxis. The step's script runs with real make and gcc; srun and curl are stand-ins."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from cloudinit.downloads import FUNCTIONS
from cloudinit.pyxis import Pyxis, build

pytestmark = pytest.mark.programs

#: Stand-in for srun: prints the option of the plugin that srun's configuration names, or why srun does not load that plugin.
SRUN = """#!/bin/sh
[ -e "$SLURM_CONF" ] || { echo "srun: fatal: Could not establish a configuration source" >&2; exit 1; }
[ "$1" != --version ] || { echo "slurm-wlm 22.05.8"; exit; }
file=$(sed -n 's/^required \\([^ ]*\\).*/\\1/p' "$(sed -n 's/^PlugStackConfig=//p' "$SLURM_CONF")")
[ -s "$file" ] && [ ! -e REFUSES ] || { echo "srun: error: spank: $file: Incompatible plugin version" >&2; exit 1; }
echo "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH"
"""
MAKEFILE = "spank_pyxis.so: pyxis.c\n\tcc -shared -fPIC -o $@ $<\n"


def archive(source: str = "int plugin;\n") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in {"Makefile": MAKEFILE, "pyxis.c": source}.items():
            member = tarfile.TarInfo(f"pyxis-0.24.0/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


class Machine:
    """A machine whose folders are below the test's own folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.served = root, archive()
        self.file("usr/share/enroot/hooks.d/50-slurm-pmi.sh", "#!/bin/sh\n")
        self.file("usr/include/slurm/slurm_version.h", "#define SLURM_VERSION_NUMBER 0x160508\n")
        self.program("srun", SRUN.replace("REFUSES", str(root / "refuses")))
        self.program("curl", f'while [ "$1" != -o ]; do shift; done\ncp {root}/served "$2"\n')

    def file(self, path: str, text: str) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def program(self, name: str, text: str) -> None:
        self.file(f"bin/{name}", text if text.startswith("#!") else f"#!/bin/sh\n{text}").chmod(0o755)

    def boot(self, sha256: str = "") -> subprocess.CompletedProcess[str]:
        (self.root / "served").write_bytes(self.served)
        plugin = f"{self.root}/usr/local/lib/slurm/spank_pyxis.so"
        wanted = Pyxis(
            "0.24.0", sha256 or hashlib.sha256(self.served).hexdigest(), plugin, f"required {plugin} container_scope=job"
        )
        text = build(wanted).text
        for folder in ("/usr/share/", "/usr/include/", "/etc/", "/var/tmp/"):  # noqa: S108 - where root builds
            text = text.replace(f" {folder}", f" {self.root}{folder}")
        text = f"{FUNCTIONS}sleep() {{ :; }}\nset -eu\n{text}"
        path = f"{self.root}/bin:{os.environ['PATH']}"
        return subprocess.run(["sh", "-c", text], env={"PATH": path}, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


def test_pyxis_is_built_and_enroots_hook_and_options_are_in_place_also_after_a_second_boot(machine):
    for _ in range(2):
        done = machine.boot()
        assert done.returncode == 0, done.stdout + done.stderr
    assert (machine.root / "usr/local/lib/slurm/spank_pyxis.so").read_bytes().startswith(b"\x7fELF")
    assert os.access(machine.root / "etc/enroot/hooks.d/50-slurm-pmi.sh", os.X_OK)
    squash = (machine.root / "etc/enroot/enroot.conf.d/busbar-slurm.conf").read_text()
    assert squash == "ENROOT_SQUASH_OPTIONS -comp lzo -noD -exit-on-error -b 262144\n"
    assert not (machine.root / "var/tmp/busbar-pyxis").exists()


def test_a_boot_fails_before_any_download_if_the_slurm_headers_have_another_version_than_the_machines_slurm(machine):
    machine.file("usr/include/slurm/slurm_version.h", "#define SLURM_VERSION_NUMBER 0x170b04\n")
    (machine.root / "bin/curl").unlink()
    done = machine.boot()
    assert done.returncode == 1
    assert "the headers are of Slurm 23.11.4, but the machine has slurm-wlm 22.05.8: Pyxis would break" in done.stdout


def test_a_plugin_that_srun_does_not_load_fails_the_boot_with_sruns_message(machine):
    machine.file("refuses", "")
    done = machine.boot()
    assert done.returncode == 1
    assert "Incompatible plugin version" in done.stdout
    assert "srun does not load Pyxis 0.24.0, which was built for Slurm 22.05.8" in done.stdout


def test_an_archive_with_an_unexpected_checksum_is_not_built(machine):
    done = machine.boot("0" * 64)
    assert done.returncode != 0
    assert f"is not {'0' * 64} (from https://github.com/NVIDIA/pyxis/" in done.stdout
    assert not (machine.root / "usr/local").exists()


def test_a_failed_build_shows_the_compilers_message(machine):
    machine.served = archive("int plugin\n")
    done = machine.boot()
    assert done.returncode == 1
    assert "error: expected" in done.stdout
