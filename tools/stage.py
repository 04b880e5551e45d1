"""A rehearsed world of its own for one test: own state, own network namespaces, own stack file; gone afterwards."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
#: A plan that takes seconds: 4 MiB at 1/4000 stands for 16 GiB, so the strictest gate applies.
SHORT_PLAN = {
    "sizesFrom": "1M",
    "sizesTo": "4M",
    "iterations": 2,
    "warmup": 1,
    "collectives": ["all_reduce"],
    # Beside another test's ranks, single operations vary by more than a healthy fabric's.
    "spreadIterations": 0,
    "allowSkipped": ["spread"],
}
_PATIENCE_S = 300
#: What commands print; pytest shows it, whole, where a test fails.
_LOG = logging.getLogger(__name__)
_LOG.setLevel(logging.INFO)


class Finished:
    """One finished command: exit `status` and all that it printed."""

    def __init__(self, status: int, text: str, seconds: float) -> None:
        self.status, self.text, self.seconds = status, text, seconds

    def __repr__(self) -> str:
        return f"exit {self.status} after {self.seconds:.1f} s\n{self.text}"


class Stage:
    """One stack, `dev` or another, in a world below `folder`; `site` names hosts that stand in it beforehand."""

    def __init__(self, folder: Path, stack: str = "dev", site: Path | None = None) -> None:
        self.folder, self.stack = folder, stack
        self.door = ["rehearsal/enter", *(["--hosts", str(site)] if site else [])]
        self.world = folder / "world"
        self.world.mkdir()
        (folder / "state").mkdir()
        (folder / "config").mkdir()
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PULUMI_", "BUSBAR_"))
        } | {
            "BUSBAR_WORLD": str(self.world),
            "PULUMI_BACKEND_URL": f"file://{folder}/state",
            "PULUMI_CONFIG_PASSPHRASE": "a test's own",
            "NO_COLOR": "1",
        }
        self.salt = ""
        self.command("python3", "tools/nccl_tests_archive.py", ".busbar/build/nccl-tests.tar")

    def faults(self, *faults: dict[str, Any]) -> None:
        """Plant faults for what is created from now on."""
        self.world.mkdir(parents=True, exist_ok=True)  # an empty world is cleared away at the end of a command
        (self.world / "faults.json").write_text(json.dumps(faults))

    def command(self, *words: str, timeout_s: float = _PATIENCE_S) -> Finished:
        """Run one command in the checkout's environment, outside the world."""
        child = self.begin(*words)
        return self.end(child, timeout_s)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start a command without waiting for it."""
        return subprocess.Popen(
            ["bash", "-c", '. tools/env && exec "$@"', "bash", *words],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def end(self, child: subprocess.Popen[str], timeout_s: float = _PATIENCE_S) -> Finished:
        """Wait for a command that was begun; one that is late is killed and fails its test."""
        began = time.monotonic()
        try:
            text, _ = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            text, _ = child.communicate()
            return Finished(-9, f"{text}\nkilled after {timeout_s} s", timeout_s)
        _LOG.info("%s", text)
        return Finished(child.returncode, text, time.monotonic() - began)

    def configure(self, **changes: Any) -> Path:
        """Write the stack file: the stack's own with a short plan and `changes`."""
        stack = yaml.safe_load((ROOT / f"Pulumi.{self.stack}.yaml").read_text())
        own = {
            "sshPublicKey": str(self.world / "operator" / "id_ed25519.pub"),
            "knownHosts": str(self.world / "operator" / "known_hosts"),
            "history": str(self.folder / "history"),
            "report": str(self.folder / "report"),
        }
        values = own | SHORT_PLAN | changes
        stack["config"] |= {f"busbar:{key}": value for key, value in values.items() if value is not None}
        stack["config"] = {key: value for key, value in stack["config"].items() if changes.get(key[7:], "") is not None}
        path = self.folder / "config" / f"Pulumi.{self.stack}.yaml"
        path.write_text(yaml.safe_dump(stack) + self.salt)
        (self.folder / "config" / "Pulumi.yaml").write_text((ROOT / "Pulumi.yaml").read_text())
        if not self.salt:
            made = self.command("pulumi", "-C", str(self.folder / "config"), "stack", "init", self.stack)
            assert made.status == 0, made
            (line,) = [line for line in path.read_text().splitlines() if line.startswith("encryptionsalt")]
            self.salt = f"{line}\n"
            path.write_text(yaml.safe_dump(stack) + self.salt)
        return path

    def engine(self, verb: str, *words: str, **changes: Any) -> list[str]:
        """Return the command of one engine operation in the world."""
        path = self.configure(**changes)
        where = ("--stack", self.stack, "--config-file", str(path), "--non-interactive")
        return [*self.door, "pulumi", verb, *where, *words]

    def preview(self, **changes: Any) -> Finished:
        """Preview the stack with `changes`."""
        return self.command(*self.engine("preview", **changes))

    def up(self, **changes: Any) -> Finished:
        """Update the stack with `changes`."""
        return self.command(*self.up_words(**changes))

    def up_words(self, **changes: Any) -> list[str]:
        """Return the command of an update."""
        return self.engine("up", "--yes", "--skip-preview", **changes)

    def destroy(self) -> Finished:
        """Destroy the stack."""
        return self.command(*self.engine("destroy", "--yes", "--skip-preview"))

    def inside(self, *words: str) -> Finished:
        """Run a command as the operator, in the world."""
        return self.command(*self.door, *words)

    def on_host(self, command: str, *jump: str) -> str:
        """Return what `command` prints on the first node, or with `jump`, words of ssh, on another host."""
        config = self.folder / "ssh_config"
        options = ("StrictHostKeyChecking no", "UserKnownHostsFile /dev/null", "LogLevel ERROR", "BatchMode yes")
        config.write_text("\n  ".join(["Host *", *options]) + "\n")
        found = self.inside("ssh", "-F", str(config), *(jump or self.outputs()["ssh"].split()[1:]), command)
        assert found.status == 0, found
        return found.text

    def resources(self) -> list[dict[str, Any]]:
        """Return the resources that the stack's state holds."""
        found: list[dict[str, Any]] = self.state()["deployment"].get("resources", [])
        return found

    def outputs(self) -> dict[str, Any]:
        """Return the stack's outputs."""
        found = self.command("pulumi", "stack", "output", "--json", "--stack", self.stack)
        assert found.status == 0, found
        outputs: dict[str, Any] = json.loads(found.text)
        return outputs

    def state(self) -> dict[str, Any]:
        """Return the stack's state as it is exported."""
        found = self.command("pulumi", "stack", "export", "--stack", self.stack)
        assert found.status == 0, found
        state: dict[str, Any] = json.loads(found.text)
        return state

    def close(self) -> None:
        """Destroy what a test left, and complain about what outlives that."""
        if self.salt:
            self.faults()
            gone = self.destroy()
            assert gone.status == 0, gone
        self.command("rehearsal/enter", "--clear-hosts", "true")


JUMP = "203.0.113.200"


def standing_hosts(folder: Path, count: int) -> tuple[Stage, dict[str, Any]]:
    """Return a stack of target hosts over `count` 8-GPU servers behind a jump host, and its settings; the first is the head.

    They stand from the first command in that world on, so faults are planted before it.
    """
    addresses = {f"gpu-{number}": f"10.20.1.{10 + number}" for number in range(1, count + 1)}
    site = {"shape": "BM.GPU4.8", "image": "ubuntu2204-gpu", "jump": JUMP, "hosts": addresses}
    (folder / "site.json").write_text(json.dumps(site))
    return Stage(folder, "hosts", folder / "site.json"), {"hosts": [f"{name}={at}" for name, at in addresses.items()]}
