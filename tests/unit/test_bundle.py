"""The bundle of logs has what explains a run, and nothing that is secret."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLANTED = "planted-token-must-never-leave"


def test_the_bundle_has_outputs_runs_and_first_boots_and_no_key_and_no_environment(tmp_path):
    home, fakes = tmp_path / "home", tmp_path / "bin"
    run = home / ".busbar" / "runs" / "abc"
    for folder in (run, home / ".ssh", fakes):
        folder.mkdir(parents=True)
    (run / "progress.log").write_text("1/1 measuring\n")
    (home / ".ssh" / "id_ed25519").write_text(PLANTED)
    (fakes / "ssh").write_text('#!/bin/sh\necho "first boot of $6"\n')
    (fakes / "ssh").chmod(0o755)
    nodes = [{"address": "10.0.1.2"}, {"address": "10.0.1.3"}]
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
    }
