"""A user's own scripts at first boot. The shell text of their boot steps really runs here; only the download is a stand-in."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from cloudinit.custom_steps import around
from cloudinit.steps import Step, script
from config.custom_actions import Action, CustomActions

pytestmark = pytest.mark.programs

WORDS = '#!/bin/sh\nprintf \'<%s>\' "$0" "$@" >> LOG\necho >> LOG\n'
FAILS = "#!/bin/sh\necho 'it cannot work here' >&2\nexit 3\n"


class Machine:
    """A machine whose folders are below the test's own folder; its curl copies from the folder `served`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.served: dict[str, str] = {}
        (root / "bin").mkdir()
        (root / "served").mkdir()
        self.program(
            "curl",
            f'for word; do last=$word; done\nwhile [ "$1" != -o ]; do shift; done\ncp {root}/served/"${{last##*/}}" "$2"\n',
        )

    def program(self, name: str, text: str) -> None:
        (self.root / "bin" / name).write_text(f"#!/bin/sh\n{text}")
        (self.root / "bin" / name).chmod(0o755)

    def action(self, name: str, text: str, *args: str, sha256: str = "") -> Action:
        body = text.replace("LOG", f"{self.root}/log")
        (self.root / "served" / name).write_text(body)
        return Action(
            script=f"https://example.com/{name}", sha256=sha256 or hashlib.sha256(body.encode()).hexdigest(), args=args
        )

    def boot(self, actions: CustomActions) -> tuple[str, str]:
        """Boot with these scripts around one step; return the log of scripts and step, and the text of boot.json."""
        work = around([Step("own", f"echo own >> {self.root}/log")], actions)
        text = script(work).replace("/var/lib/busbar", str(self.root))
        path = f"{self.root}/bin:{os.environ['PATH']}"
        done = subprocess.run(["sh", "-c", text], env={"PATH": path}, capture_output=True, text=True, check=False, timeout=60)
        self.said = done.stdout + done.stderr
        log = self.root / "log"
        return log.read_text() if log.exists() else "", (self.root / "boot.json").read_text().strip()


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


def test_custom_scripts_run_with_their_arguments_in_order_before_and_after_all_other_steps(machine):
    actions = CustomActions(
        on_node_start=(machine.action("a", WORDS, "x y", "$HOME", "'"),),
        on_node_configured=(machine.action("b", WORDS), machine.action("c", WORDS, "1")),
    )
    noted, ended = machine.boot(actions)
    folder = machine.root / "actions"
    assert noted.splitlines() == [
        f"<{folder}/on-node-start><x y><$HOME><'>",
        "own",
        f"<{folder}/on-node-configured-1>",
        f"<{folder}/on-node-configured-2><1>",
    ]
    assert ended == '{"status": "done"}'


def test_a_script_that_fails_ends_the_boot_and_is_named_by_its_step_in_boot_json(machine):
    actions = CustomActions(on_node_configured=(machine.action("a", WORDS), machine.action("b", FAILS)))
    noted, ended = machine.boot(actions)
    assert noted.splitlines()[0] == "own"
    assert ended == '{"status": "failed", "step": "on-node-configured-2"}'
    assert "it cannot work here" in machine.said


def test_a_script_with_a_wrong_checksum_is_not_run_and_its_step_fails(machine):
    noted, ended = machine.boot(CustomActions(on_node_start=(machine.action("a", WORDS, sha256="0" * 64),)))
    assert noted == ""
    assert ended == '{"status": "failed", "step": "on-node-start"}'


def test_a_boot_without_scripts_runs_only_its_own_steps():
    work = [Step("own", "true")]
    assert around(work, CustomActions()) == around(work, None) == work
