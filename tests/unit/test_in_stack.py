"""`make` works only on stacks that it created: in a team's backend, another stack's machines may be real."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.plain_environment import plain

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("in-stack")]
ROOT = Path(__file__).parents[2]


class Checkout:
    """A copy of the files that tools/in-stack reads. The copy's rehearsal/enter only prints the command that it should run."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "checkout"
        for part in ("tools", "catalogue", "rehearsal/nccl-tests"):
            shutil.copytree(ROOT / part, self.path / part, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("Pulumi.yaml", "Pulumi.dev.yaml"):
            shutil.copy(ROOT / name, self.path / name)
        door = self.path / "rehearsal" / "enter"
        door.write_text('#!/bin/sh\necho "entered: $*"\n')
        door.chmod(0o755)
        (self.path / ".busbar").mkdir()
        (self.path / ".busbar" / "venv").symlink_to(ROOT / ".busbar" / "venv")

    def run(self, command: str, backend: Path | None) -> subprocess.CompletedProcess[str]:
        """Run a shell command in the checkout with tools/env; without `backend`, state is in the checkout."""
        given = plain(os.environ)
        if backend is not None:
            given |= {"PULUMI_BACKEND_URL": backend.as_uri(), "PULUMI_CONFIG_PASSPHRASE": "x"}
        words = ["bash", "-c", f". tools/env && {command}"]
        return subprocess.run(words, cwd=self.path, env=given, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("in-stack"))


@pytest.fixture(scope="module")
def team(tmp_path_factory, checkout) -> Path:
    """A team's backend with a stack dev that was created by a pulumi command."""
    backend = tmp_path_factory.mktemp("team")
    made = checkout.run("cp Pulumi.dev.yaml kept && pulumi stack init dev && mv kept Pulumi.dev.yaml", backend)
    assert made.returncode == 0, made.stderr
    return backend


@pytest.mark.parametrize("command", ["up --yes", "destroy --yes", "preview", "release", "replace node", "exclude node"])
def test_make_refuses_a_stack_of_another_backend_that_it_did_not_create_and_enters_no_rehearsal(checkout, team, command):
    for _ in range(2):
        done = checkout.run(f"tools/in-stack dev {command}", team)
        assert done.returncode == 2
        assert done.stdout == ""
        assert f"stack dev in {team.as_uri()} was not created by make" in done.stderr


def test_a_password_in_the_address_of_the_backend_is_neither_printed_nor_written(checkout, team, tmp_path):
    # The engine opens only addresses of real databases, so a program answers in its place that the stack exists.
    engine = tmp_path / "pulumi"
    engine.write_text('#!/bin/sh\n[ "$1" != version ] || echo v3.999.0\n')
    engine.chmod(0o755)
    address = "PULUMI_BACKEND_URL='postgres://team:pass-9f3a@db.example:5432/busbar?sslmode=require'"
    asked = f"PATH={tmp_path}:$PATH {address} tools/in-stack dev preview"
    done = checkout.run(asked, team)
    assert "stack dev in postgres://db.example:5432/busbar was not created by make" in done.stderr
    engine.write_text("#!/bin/sh\n[ \"$3 $4\" != 'stack select' ]\n")
    done = checkout.run(asked, team)
    assert "entered: " in done.stdout, done.stderr
    assert not [path for path in (checkout.path / ".busbar").rglob("*") if path.is_file() and b"pass-9f3a" in path.read_bytes()]
    assert "pass-9f3a" not in done.stdout + done.stderr


def test_make_reads_the_outputs_of_a_stack_that_it_did_not_create(checkout, team):
    done = checkout.run("tools/in-stack dev stack output --json", team)
    assert (done.returncode, done.stdout.strip()) == (0, "{}"), done.stderr


def test_make_creates_a_stack_in_another_backend_and_then_works_on_it(checkout, tmp_path):
    for _ in range(2):
        done = checkout.run("tools/in-stack dev preview", tmp_path)
        assert done.returncode == 0, done.stderr
        assert "entered: pulumi preview --stack dev" in done.stdout


def test_make_works_on_a_stack_in_the_checkouts_own_state_even_if_makes_copy_of_the_stack_file_is_lost(checkout):
    for _ in range(2):
        done = checkout.run("tools/in-stack dev preview", None)
        assert done.returncode == 0, done.stderr
        assert "entered: pulumi preview --stack dev" in done.stdout
        shutil.rmtree(checkout.path / ".busbar" / "config")
