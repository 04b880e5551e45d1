"""Each stand-in's plugin as a process that the engine starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.stage import ROOT


@pytest.mark.parametrize("name", ["aws", "oci"])
def test_a_plugin_prints_its_port_and_stops_without_further_output_when_it_is_interrupted(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "BUSBAR_WORLD": str(tmp_path / "world"), "BUSBAR_PYTHON": sys.executable}
    plugin = subprocess.Popen(
        [ROOT / f"rehearsal/entry/bin/pulumi-resource-{name}", "127.0.0.1:1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert plugin.stdout is not None
    assert plugin.stdout.readline().strip().isdecimal()
    for _ in range(200):  # somebody presses Ctrl-C many times, so later signals interrupt the handler of the first
        plugin.send_signal(signal.SIGINT)
    rest, said = plugin.communicate(timeout=60)
    assert (plugin.returncode, rest, said) == (0, "", "")
    assert not (tmp_path / "world").exists(), "a plugin that gets no request creates nothing"


@pytest.mark.parametrize(
    ("cloud", "token", "resource"),
    [
        ("aws", "aws:ec2/routeTable:RouteTable", "pulumi_aws.ec2.RouteTable"),
        ("oci", "oci:FileStorage/fileSystem:FileSystem", "pulumi_oci.filestorage.FileSystem"),
    ],
)
def test_an_sdk_can_still_be_used_after_the_stand_in_has_read_its_types(cloud: str, token: str, resource: str) -> None:
    read = f"from rehearsal.{cloud}.sdk import SDK; SDK.inputs({token!r}); import pulumi_{cloud}; print({resource})"
    found = subprocess.run([sys.executable, "-c", read], cwd=ROOT, text=True, capture_output=True, check=False)
    assert found.returncode == 0, found.stderr
