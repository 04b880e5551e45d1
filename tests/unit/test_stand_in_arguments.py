"""A stand-in command refuses what it does not know, by its name, before it does anything; it never says yes to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "rehearsal" / "image"
#: The first words of a call where an unknown option comes after them, for each of the commands in rehearsal/image/README.md.
CALLS: dict[str, list[tuple[str, ...]]] = {
    "bin/aws": [(), ("ssm", "put-parameter")],
    "bin/firewall-cmd": [(), ("--state",), ("--reload",), ("--permanent", "--zone=trusted")],
    "bin/ifup": [(), ("rdma0",)],
    "bin/nvidia-smi": [(), ("-L",)],
    "bin/storage": [("vgcreate",), ("lvcreate", "nvme"), ("mkfs.xfs",)],
    "bin/systemctl": [(), ("start", "sshd")],
    "bin/yum": [(), ("install", "jq"), ("makecache",)],
    "system/containerd": [()],
    "system/enroot": [(), ("list",), ("create",)],
    "system/lnetctl": [(), ("net", "show", "--net", "efa")],
    "system/mount.shared": [("10.0.1.9:/files", "/mnt")],
    "system/nerdctl": [(), ("pull",), ("image", "inspect")],
    "system/nvidia-ctk": [(), ("cdi", "list")],
}
#: Verbs that the real one has or has not, and the stand-in does not play.
VERBS = {
    "bin/systemctl": ("edit", "frobnicate"),
    "bin/yum": ("upgrade",),
    "system/enroot": ("bundle",),
}


def run(folder: Path, program: str, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run a stand-in as a host has it, but for the folder of its library and its log of calls."""
    text = (
        (IMAGE / program).read_text().replace("/usr/lib/rehearsal/python", str(ROOT)).replace(". /usr/lib/rehearsal/record", "")
    )
    name = words[0] if program == "bin/storage" else Path(program).name.replace("shared", "nfs")
    copy = folder / name
    copy.write_text(text)
    start = [sys.executable, "-IS"] if "python" in text.partition("\n")[0] else ["bash"]
    words = words[1:] if program == "bin/storage" else words
    return subprocess.run([*start, copy, *words], capture_output=True, text=True, check=False, timeout=20, cwd=folder)


@pytest.mark.parametrize(("program", "words"), [(program, words) for program, calls in CALLS.items() for words in calls])
def test_an_unknown_option_is_refused_by_its_name(tmp_path, program, words):
    done = run(tmp_path, program, (*words, "--frobnicate"))
    assert done.returncode != 0, done
    assert "--frobnicate" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("program", "verb"), [(program, verb) for program, verbs in VERBS.items() for verb in verbs])
def test_an_unknown_verb_is_refused_by_its_name(tmp_path, program, verb):
    done = run(tmp_path, program, (verb,))
    assert done.returncode != 0, done
    assert verb in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_every_stand_in_is_called():
    """An unknown option goes on to the real mpirun and mount, which refuse it."""
    played = {f"{folder}/{path.name}" for folder in ("bin", "system") for path in (IMAGE / folder).iterdir()}
    parts_of_the_boot = {
        "agent",
        "boot",
        "dlami",
        "record",
        "stages",
        "lustre-rules",
        "shape.c",
        "supplicant.c",
        "nccl.c",
        "nccl.h.in",
        "ofi.c",
        "pyxis.c",
        "slurm-pmi-hook",
        "nvidia-container-cli",  # it knows no command
    }
    parts_of_the_boot.add("timer")  # the process of a unit that systemctl starts
    assert played - set(CALLS) == {"bin/mpirun", *(f"system/{one}" for one in parts_of_the_boot)}
