"""Every shell command in README is run here in a copy of the checkout, except `make test` and `make figures`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import terminal
import yaml
from readme_commands import typed

from tools.plain_environment import plain
from tools.stage import SHARED

ROOT = Path(__file__).parents[2]
#: Commands that are not run here: `make test` would run this suite again, and `make figures` takes minutes.
ELSEWHERE = {"make test", "make figures"}

#: Commands whose output is watched in a terminal of 80 columns and 24 rows.
WATCHED = ("make up", "make preview")
#: The number that a person looks for on the screen: collective, size, busbw, and the share of the ceiling that busbw reaches.
NUMBER = re.compile(r"\d+/\d+ \w+ \d+ [KMG]?i?B [\d.e-]+ GB/s \(\d+% of the wire\)")


def checkout(copy: Path) -> tuple[Path, dict[str, str]]:
    """Copy the checkout and set up the copy; return the copy's folder and an environment for commands in that folder."""
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in files.stdout.splitlines():
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    (copy / ".busbar").mkdir()
    (copy / ".busbar" / "venv").symlink_to(ROOT / ".busbar" / "venv")
    return copy, plain(os.environ) | SHARED


@pytest.mark.rehearsal
@pytest.mark.xdist_group("readme")
def test_every_command_that_a_newcomer_types_works(tmp_path, request):
    copy, environment = checkout(tmp_path / "busbar")
    # Hosts are removed even if the test fails half way.
    request.addfinalizer(lambda: subprocess.run(["make", "clear"], cwd=copy, env=environment, capture_output=True, check=True))
    commands = [line for line in typed() if line not in ELSEWHERE]
    between = [line for line in commands if line not in {"make preview", "make up", "make down"}]
    # Before the stack exists, a preview shows what would be rented and measured; afterwards, what is rented and was measured.
    ordered = ["make preview", "make up", *between, "make status", "make logs", "make release", "make unlock", "make down"]
    said = {}
    seen_of: dict[str, list[str]] = {command: [] for command in WATCHED}
    for command in ordered:
        verdicts: list[str] = []
        # If this machine was too busy for a valid measurement, the update says how to measure again.
        for words in (command, *(["make measure"] * 2 if command == "make up" else [])):
            if words in WATCHED:
                shell, see = ["bash", "-c", words], seen_of[words].append
                status, text = terminal.watch(shell, see, cwd=copy, environment=environment, timeout_s=300)
                done = subprocess.CompletedProcess(shell, status, text, "")
            else:
                done = subprocess.run(
                    ["bash", "-c", words],
                    cwd=copy,
                    env=environment,
                    input="hostname\n" if command == "make ssh" else "",
                    capture_output=True,
                    text=True,
                    timeout=300,
                    check=False,
                )
            if "verdict" not in done.stdout or done.returncode == 0:
                break
            verdicts.append(done.stdout[done.stdout.rindex("verdict") :][:1000])
        # The verdicts come last: CI shows only the beginning and the end of a long message.
        assert done.returncode == 0, "\n".join([command, done.stdout, done.stderr, *verdicts])
        said[command] = done.stdout
    assert "verdict PASS" in said["make up"]
    assert not [line for text in said.values() for line in text.splitlines() if "from $PATH" in line], "the engine's warnings"
    panes = seen_of["make up"]
    begun = next(number for number, seen in enumerate(panes) if NUMBER.search(seen))
    ended = next(number for number, seen in enumerate(panes) if "acceptance-measure created" in seen)
    measuring = panes[begun:ended]
    assert len({NUMBER.findall(seen)[-1] for seen in measuring if NUMBER.search(seen)}) > 1, "the number on the screen changes"
    assert not [seen for seen in measuring if not NUMBER.search(seen)], "a number is visible during the whole measurement"
    block = seen_of["make preview"][-1]
    assert re.search(r"price: .*wire: .*healthy: .*gate: ", block), "a preview's block is on the screen at its end"
    assert "inst-" in said["make ssh"]
    assert said["make status"].splitlines()[-1].startswith("costs:    nothing (rehearsed)")
    assert "dev is not locked" in said["make unlock"]
    assert list((copy / ".busbar" / "logs").glob("dev-*.tar.gz")), said["make logs"]
    assert json.loads(said["make outputs"])["measured"]["verdict"] == "pass"
    assert not (copy / ".busbar" / "world").exists()


@pytest.mark.rehearsal
@pytest.mark.xdist_group("tenancy")
def test_every_command_for_a_real_tenancy_works_as_written(tmp_path, request):
    """The tenancy is rehearsed, both placeholders are filled in, stack dev's plan is used, and confirmations are skipped."""
    copy, environment = checkout(tmp_path / "busbar")
    request.addfinalizer(lambda: subprocess.run(["make", "clear"], cwd=copy, env=environment, capture_output=True, check=True))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_ed25519.pub").symlink_to(copy / ".busbar" / "world" / "operator" / "id_ed25519.pub")
    file = copy / "Pulumi.oci.yaml"
    text = file.read_text().replace("<ocid1.compartment.oc1..>", "ocid1.compartment.oc1..rehearsed")
    stack = yaml.safe_load(text.replace("<your network in CIDR notation>", "198.51.100.0/24"))
    dev = yaml.safe_load((copy / "Pulumi.dev.yaml").read_text())["config"]
    stack["config"] |= {name: dev[name] for name in ("busbar:accept", "busbar:measure")}
    file.write_text(yaml.safe_dump(stack))
    subprocess.run(["python3", "tools/nccl_tests_archive.py", ".busbar/build/nccl-tests.tar"], cwd=copy, check=True)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")  # where set-up has installed the engine
    own = {"HOME": str(tmp_path), "XDG_CACHE_HOME": cache, "OCI_REGION": "us-rehearsed-1", "PULUMI_SKIP_CONFIRMATIONS": "true"}

    def type_in(command: str) -> subprocess.CompletedProcess[str]:
        words = ["bash", "-c", '. tools/env && exec rehearsal/enter bash -c "$0"', command]
        typed = environment | own
        return subprocess.run(words, cwd=copy, env=typed, capture_output=True, text=True, timeout=300, check=False)

    block = (ROOT / "README.md").read_text().partition("\npulumi install\n")[2].partition("```")[0].split("\n")
    init, preview, up, destroy = filter(None, block)
    assert up == "pulumi up --stack oci --suppress-outputs"
    said: list[str] = []
    for command in (init, preview, up, *[f"pulumi config set --path measure.run N --stack oci && {up}"] * 2):
        found = type_in(command.replace(" N ", f" {len(said)} "))
        if "verdict" not in found.stdout or found.returncode == 0:
            assert found.returncode == 0, f"{command}\n{found.stdout}\n{found.stderr}"
        said.append(found.stdout)
        if "verdict PASS" in found.stdout:
            break
    assert "gate:" in said[1]
    assert "verdict PASS" in said[-1], said[-1]
    gone = type_in(destroy)
    assert gone.returncode == 0, gone
    assert not list((copy / ".busbar" / "world").glob("hosts/*"))
