"""In the calls below, a program of the stand-ins refuses an unknown option with an error that names the option."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.programs

ROOT = Path(__file__).parents[2]
IMAGE = ROOT / "rehearsal" / "image"
#: For each program of the stand-ins: the words of its calls. The tests insert an unknown option into each call.
CALLS: dict[str, list[tuple[str, ...]]] = {
    "bin/aws": [(), ("ssm", "put-parameter")],
    "bin/firewall-cmd": [(), ("--state",), ("--reload",), ("--permanent", "--zone=trusted")],
    "bin/ifup": [(), ("rdma0",)],
    "bin/mpirun": [(), ("-np", "1", "--mca", "pml", "ucx"), ("--bind-to", "core")],
    "bin/nvidia-smi": [(), ("-L",)],
    "bin/storage": [("vgcreate",), ("lvcreate", "nvme"), ("mkfs.xfs",), ("mount",), ("mount", "/dev/md/none", "/mnt")],
    "bin/systemctl": [(), ("start", "sshd")],
    "bin/yum": [(), ("install", "jq"), ("makecache",)],
    "system/containerd": [()],
    "system/enroot": [(), ("list",), ("create",)],
    "system/lnetctl": [(), ("net", "show", "--net", "efa")],
    "system/mount.shared": [("10.0.1.9:/files", "/mnt")],
    "system/nerdctl": [(), ("pull",), ("image", "inspect")],
    "system/nvidia-container-cli": [()],
    "system/nvidia-ctk": [(), ("cdi", "list")],
}
#: Verbs that the real command may have and the stand-in does not implement.
VERBS = {
    "bin/systemctl": ("edit", "frobnicate"),
    "bin/yum": ("upgrade",),
    "system/enroot": ("bundle",),
}
#: Each key is a text in the stand-ins that works only on a host; the value replaces that text here. The stand-ins for
#: mpirun and mount pass an unknown option on to the real program, which refuses the option.
PLACES = {
    "/usr/lib/rehearsal/python": str(ROOT),
    ". /usr/lib/rehearsal/record": "",
    "/usr/lib/rehearsal/real/mount": "/usr/bin/mount",
    'facts("front")[0]': '"lo"',
}
OPTIONS = st.builds(
    lambda dashes, name, value: f"{dashes}Q{name}{value}",
    st.sampled_from(("-", "--")),
    st.text("abcdefghijklmnopqrstuvwxyz-", max_size=9),
    st.sampled_from(("", "=1", "=frobnicate")),
)


def run(folder: Path, program: str, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run a copy of a stand-in; `PLACES` has what is replaced in its text, such as the folder of its library."""
    text = (IMAGE / program).read_text()
    for there, here in PLACES.items():
        text = text.replace(there, here)
    name = words[0] if program == "bin/storage" else Path(program).name.replace("shared", "nfs")
    copy = folder / name
    copy.write_text(text)
    start = [sys.executable, "-IS"] if "python" in text.partition("\n")[0] else ["bash"]
    words = words[1:] if program == "bin/storage" else words
    return subprocess.run([*start, copy, *words], capture_output=True, text=True, check=False, timeout=20, cwd=folder)


@pytest.mark.parametrize(("program", "words"), [(program, words) for program, calls in CALLS.items() for words in calls])
def test_the_refusal_of_an_unknown_option_names_the_option(tmp_path, program, words):
    done = run(tmp_path, program, (*words, "--frobnicate"))
    assert done.returncode != 0, done
    assert "--frobnicate" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("program", "words"), [(program, words) for program, calls in CALLS.items() for words in calls])
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(option=OPTIONS, data=st.data())
def test_every_call_with_an_option_that_the_stand_in_does_not_know_fails(tmp_path, program, words, option, data):
    """Each example inserts the option at one place, drawn at random: before, between or after the known words."""
    assume(option.partition("=")[0].lstrip("-") not in (IMAGE / program).read_text())
    first = program == "bin/storage"
    place = data.draw(st.integers(first, len(words)))
    done = run(tmp_path, program, (*words[:place], option, *words[place:]))
    assert done.returncode != 0, done
    assert done.stderr + done.stdout, "the stand-in says why it failed"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("program", "verb"), [(program, verb) for program, verbs in VERBS.items() for verb in verbs])
def test_the_refusal_of_an_unknown_verb_names_the_verb(tmp_path, program, verb):
    done = run(tmp_path, program, (verb,))
    assert done.returncode != 0, done
    assert verb in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_every_program_of_the_stand_ins_is_called_in_these_tests():
    played = {f"{folder}/{path.name}" for folder in ("bin", "system") for path in (IMAGE / folder).iterdir()}
    not_called = {
        "topology.xml",
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
    }
    not_called.add("timer")  # systemctl starts it as the process of an active timer
    assert played - set(CALLS) == {f"system/{one}" for one in not_called}
