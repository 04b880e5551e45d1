"""The bundle of logs contains what explains a run, and no secret."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLANTED = "planted-token-must-never-leave"


def test_the_bundle_has_no_key_and_no_environment_but_has_outputs_and_runs_and_first_boot_logs(tmp_path):
    home, fakes = tmp_path / "home", tmp_path / "bin"
    run = home / ".busbar" / "runs" / "abc"
    for folder in (run, home / ".ssh", fakes):
        folder.mkdir(parents=True)
    (run / "progress.log").write_text("1/1 measuring\n")
    (home / ".ssh" / "id_ed25519").write_text(PLANTED)
    (fakes / "ssh").write_text('#!/bin/sh\necho "first boot of $6"\n[ "$6" != 10.0.1.4 ] || exit 255\n')
    (fakes / "ssh").chmod(0o755)
    nodes = [{"address": "10.0.1.2"}, {"address": "10.0.1.3"}, {"address": "10.0.1.4"}]
    (tmp_path / "outputs.json").write_text(json.dumps({"nodes": nodes}))
    environment = os.environ | {"HOME": str(home), "PATH": f"{fakes}:{os.environ['PATH']}", "PLANTED_TOKEN": PLANTED}
    words = [str(ROOT / "tools" / "bundle"), str(tmp_path / "made" / "x.tar.gz"), str(tmp_path / "outputs.json"), "sh", "-c"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / "made" / "x.tar.gz") as made:
        held = {one.name: made.extractfile(one).read().decode() for one in made if one.isfile()}
    assert held == {
        "logs/outputs.json": json.dumps({"nodes": nodes}),
        "logs/runs/abc/progress.log": "1/1 measuring\n",
        "logs/first-boot/10.0.1.2.log": "first boot of 10.0.1.2\n",
        "logs/first-boot/10.0.1.3.log": "first boot of 10.0.1.3\n",
        "logs/first-boot/10.0.1.4.log": "first boot of 10.0.1.4\nexit status 255\n",
    }


def test_the_runs_of_a_pod_are_packed_without_a_terminal_and_without_first_boot_logs(tmp_path):
    home, fakes = tmp_path / "home", tmp_path / "bin"
    for folder in (home / ".busbar" / "runs" / "abc", fakes):
        folder.mkdir(parents=True)
    (home / ".busbar" / "runs" / "abc" / "line.json").write_text("{}")
    # ssh gets one command line, which the remote shell parses; kubectl runs what comes after `--`.
    (fakes / "ssh").write_text('#!/bin/sh\necho "$@" >"$SAID"\nshift\nexec sh -c "$*"\n')
    (fakes / "kubectl").write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    for program in fakes.iterdir():
        program.chmod(0o755)
    (tmp_path / "outputs.json").write_text(json.dumps({"nodes": [{"address": "10.244.0.7"}]}))
    environment = os.environ | {"HOME": str(home), "PATH": f"{fakes}:{os.environ['PATH']}", "SAID": str(tmp_path / "said")}
    words = [str(ROOT / "tools" / "bundle"), str(tmp_path / "x.tar.gz"), str(tmp_path / "outputs.json")]
    shell = ["ssh", "-t", "root@10.0.0.9", "kubectl --namespace busbar exec --stdin --tty $(echo pod) -- bash"]
    done = subprocess.run([*words, *shell], env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "said").read_text() == "root@10.0.0.9 kubectl --namespace busbar exec --stdin $(echo pod) -- sh -s --\n"
    with tarfile.open(tmp_path / "x.tar.gz") as made:
        assert {one.name for one in made if one.isfile()} == {"logs/outputs.json", "logs/runs/abc/line.json"}
