"""A rehearsed world for one test: state, network namespaces and stack file, all removed afterwards."""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from rehearsal.entry.existing_hosts import Site
from rehearsal.host import cables, spec
from rehearsal.plugin.store import Store
from rehearsal.world.world import DEFAULT_SCALE, World
from tools.plain_environment import plain
from tools.stack_changes import DEFAULT, merged, settled

ROOT = Path(__file__).parent.parent
#: A plan that takes seconds: 4 MiB at 1/4000 counts as 16 GiB, so the strictest gate applies.
SHORT_PLAN: dict[str, Any] = {
    "measure": {
        "sizes": {"from": "1M", "to": "4M"},
        "iterations": 2,
        "warmup": 1,
        "collectives": ["all_reduce"],
        # While another test's ranks run, the times of individual operations vary more than on a healthy fabric.
        "spreadIterations": 0,
        "looks": 0,
    },
    "accept": {"allowSkipped": ["spread", "looks"]},
}
#: Changes to `SHORT_PLAN` if the measurement does not matter: one size, and a gate of 1 GB/s.
ONE_SIZE: dict[str, Any] = {"measure": {"sizes": {"to": "1M"}}, "accept": {"gate": "1 GB/s"}}
_PATIENCE_S = 300
#: Arguments of an update that stops before the measurement.
_UNMEASURED = ("--yes", "--skip-preview", "--exclude", "**::acceptance-measure", "--exclude-dependents")
#: The program that enters a world, run without site packages: it needs none, and starts twice as fast without them.
_DOOR = (sys.executable, "-IS", "rehearsal/enter")
#: Values of `measure.run` for the repeats: this machine may have been busy, so a measurement is repeated up to three times.
AGAIN = (101, 102, 103)
#: How long a repeat waits for other processes if the ranks of the last measurement waited for a processor.
_CALM_WITHIN_S = 60
_PASSPHRASE = "a test's own"  # noqa: S105 - it protects nothing
#: By name of a stack: the files of a backend in which that stack was just created, and the salt line for its stack file.
_NEW: dict[str, tuple[dict[str, bytes], str]] = {}
#: Variables for the engines of all stages of this process.
SHARED: dict[str, str] = {}
#: Output of commands; pytest shows all of it if a test fails.
_LOG = logging.getLogger(__name__)
_LOG.setLevel(logging.INFO)


@functools.cache
def _of_the_checkout(environment: frozenset[tuple[str, str]]) -> dict[str, str]:
    """Return the variables of `environment` after tools/env changed them; cached, because tools/env starts ten processes."""
    words = ["bash", "-c", ". tools/env && exec env -0"]
    found = subprocess.run(words, cwd=ROOT, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return dict(line.split("=", 1) for line in os.fsdecode(found.stdout).split("\0")[:-1])


class Finished:
    """One finished command: exit `status` and all that it printed."""

    def __init__(self, status: int, text: str, seconds: float) -> None:
        self.status, self.text, self.seconds = status, text, seconds

    def changes(self) -> list[str]:
        """Return the lines in which the engine reports a change to a resource or an output.

        Lines of our own tables may begin with a dash, too; they are not included.
        """
        outputs = self.text.partition("\nOutputs:\n")[2].partition("\nResources:\n")[0]
        resources = [line for line in self.text.splitlines() if re.match(r"\s*(~ |[+-]{1,2} +\w+:[\w/]+:\w+ )", line)]
        return [*resources, *(line for line in outputs.splitlines() if re.match(r"\s*[+-] ", line))]

    def __repr__(self) -> str:
        return f"exit {self.status} after {self.seconds:.1f} s\n{self.text}"


class Stage:
    """One stack, `dev` or another, in a world below `folder`; the first command starts the hosts that `site` lists."""

    def __init__(self, folder: Path, stack: str = "dev", site: Path | None = None) -> None:
        self.folder, self.stack = folder, stack
        self.scale = Site.read(site).scale if site else DEFAULT_SCALE
        self.door = [*_DOOR, *(["--hosts", str(site)] if site else [])]
        self.world = folder / "world"
        for made in (self.world, folder / "state", folder / "config", folder / "home"):
            made.mkdir()
        # The engine writes logs and workspaces into its home, and finds installed plugins there.
        plugins = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi") / "plugins"
        if plugins.is_dir():
            (folder / "home" / "plugins").symlink_to(plugins)
        self.passed: dict[str, Any] = {}
        self.environment = plain(os.environ) | {
            "GOGC": "400",  # an engine that runs for seconds need not collect garbage often
            "BUSBAR_WORLD": str(self.world),
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_BACKEND_URL": f"file://{folder}/state",
            "PULUMI_CONFIG_PASSPHRASE": _PASSPHRASE,
            "NO_COLOR": "1",
            **SHARED,
        }
        self.salt = ""
        self.report = ""
        self.command(sys.executable, "tools/nccl_tests_archive.py", ".busbar/build/nccl-tests.tar")

    def faults(self, *faults: dict[str, Any]) -> None:
        """Plant faults for machines created from now on; the faults replace all faults planted before."""
        if faults:
            self.world.mkdir(parents=True, exist_ok=True)  # an empty world is removed when a command finishes
            (self.world / "faults.json").write_text(json.dumps(faults))
        else:
            (self.world / "faults.json").unlink(missing_ok=True)

    def refault(self, *faults: dict[str, Any]) -> None:
        """Plant faults on running hosts; the faults replace all faults planted before."""
        self.faults(*faults)
        for host in self._hosts():
            cables.refault(World.at(self.world, self.scale), host)

    def _hosts(self) -> list[spec.HostSpec]:
        world = World.at(self.world, self.scale)
        return [spec.load(world, record.parent.name) for record in sorted(self.world.glob("hosts/*/spec.json"))]

    def launch_index(self, node: str) -> int:
        """Return a node's index in its pool, in the order of launches from 0; planted faults use this index."""
        (index,) = (host.index for host in self._hosts() if host.hostname == node)
        return index

    def command(self, *words: str, timeout_s: float = _PATIENCE_S) -> Finished:
        """Run one command in the checkout's environment, outside the world."""
        child = self.begin(*words)
        return self.end(child, timeout_s)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start a command without waiting for it."""
        return subprocess.Popen(
            words,
            cwd=ROOT,
            env=_of_the_checkout(frozenset(self.environment.items())),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def end(self, child: subprocess.Popen[str], timeout_s: float = _PATIENCE_S) -> Finished:
        """Wait for a started command; on a timeout, kill it and return status -9."""
        began = time.monotonic()
        try:
            text, _ = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            text, _ = child.communicate()
            _LOG.info("%s", text)
            return Finished(-9, f"{text}\nkilled after {timeout_s} s", timeout_s)
        _LOG.info("%s", text)
        return Finished(child.returncode, text, time.monotonic() - began)

    def configure(self, **changes: Any) -> Path:
        """Write the stack file: the committed file with a quick plan, and with `changes` merged into its groups."""
        stack = yaml.safe_load((ROOT / f"Pulumi.{self.stack}.yaml").read_text())["config"]
        groups = {key.partition(":")[2]: value for key, value in stack.items() if key.startswith("busbar:")}
        operator = self.world / "operator"
        records = {"history": str(self.folder / "history"), "report": self.report or None}
        target = groups["target"]
        own: dict[str, Any] = {"knownHosts": str(operator / "known_hosts")}
        if target not in {"hosts", "kubernetes"}:
            own = {"access": {"publicKey": str(operator / "id_ed25519.pub")}}
        for more in ({"records": records, target: own}, SHORT_PLAN, changes):
            groups = merged(groups, more)
        others = {key: value for key, value in stack.items() if not key.startswith("busbar:")}
        stack = {"config": others | {f"busbar:{key}": value for key, value in settled(groups).items()}}
        path = self.folder / "config" / f"Pulumi.{self.stack}.yaml"
        (self.folder / "config" / "Pulumi.yaml").write_text((ROOT / "Pulumi.yaml").read_text())
        if not self.salt:
            self._begin()
        path.write_text(yaml.safe_dump(stack) + self.salt)
        return path

    def _begin(self) -> None:
        """Create the stack in the backend: with the engine the first time in this process, later as a copy of that stack."""
        place = self.folder / "state"
        if self.stack not in _NEW:
            path = self.folder / "config" / f"Pulumi.{self.stack}.yaml"
            path.write_text("")
            made = self.command("pulumi", "-C", str(self.folder / "config"), "stack", "init", self.stack)
            assert made.status == 0, made
            (line,) = [line for line in path.read_text().splitlines() if line.startswith("encryptionsalt")]
            files = {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}
            _NEW[self.stack] = files, f"{line}\n"
        files, self.salt = _NEW[self.stack]
        for name, data in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)

    def engine(self, verb: str, *words: str, **changes: Any) -> list[str]:
        """Return the command of one engine operation in the world."""
        self.configure(**changes)
        return [*self.door, "pulumi", verb, *self._where(), "--non-interactive", *words]

    def _where(self) -> tuple[str, ...]:
        return ("--stack", self.stack, "--config-file", str(self.folder / "config" / f"Pulumi.{self.stack}.yaml"))

    def again(self) -> Finished:
        """Update the stack with its current stack file, which a tool may have changed."""
        return self.command(*self.door, "pulumi", "up", *self._where(), "--non-interactive", "--yes", "--skip-preview")

    def replace(self, node: str) -> Finished:
        """Do what `make replace` does: one command that ends with an update."""
        return self._with_state("replace", node, *self._where())

    def exclude(self, node: str) -> Finished:
        """Change the stack file, as `make exclude` does before its update."""
        _, stack, _, file = self._where()
        return self._with_state("exclude", node, stack, file)

    def _with_state(self, tool: str, *words: str) -> Finished:
        typed = shlex.join([sys.executable, "-m", f"tools.{tool}", *words])
        exported = f"pulumi stack export --stack {self.stack}"
        return self.inside("bash", "-o", "pipefail", "-c", f"{exported} | {typed}")

    def preview(self, **changes: Any) -> Finished:
        """Preview the stack with `changes`."""
        return self.command(*self.engine("preview", **changes))

    def up(self, *words: str, **changes: Any) -> Finished:
        """Update the stack with `changes`; `words` are added to the engine's command."""
        return self.command(*self.up_words(**changes), *words)

    def measure(self, **changes: Any) -> Finished:
        """Update the stack with `changes` and accept any measured number.

        The update uses --exclude, with which the engine deletes nothing.
        """
        return self.up("--exclude", "**::acceptance-accept-verdict", **changes)

    def pass_by(self, *words: str, near: float = 0, **changes: Any) -> Finished:
        """Update the stack with `changes`; without a pass, measure up to three times more, because this machine may be busy.

        A pass does not count if its busbw is below the share `near` of the ceiling. `words` belong to the first update only.
        `self.passed` are the changes of the last update.
        """
        self.passed = changes
        found = self.up(*words, **changes)
        for again in AGAIN:
            slow = found.status == 0 and near > 0 and self.outputs()["measured"]["wire_efficiency"] < near
            if slow or (found.status != 0 and "verdict" in found.text):
                self._wait_if_busy()
                self.passed = merged(changes, {"measure": {"run": again}})
                last = self.up(**self.passed)
                found = Finished(last.status, found.text + last.text, found.seconds + last.seconds)
        return found

    def short_by(self, kind: str, **changes: Any) -> Finished:
        """Update with `changes`; if the search finds no culprit `kind`, update up to thrice more: this machine may be busy."""
        found = self.up(**changes)
        for again in AGAIN:
            searched = self.outputs()["measured"]["search"] or {"culprits": []}
            if found.status != 0 and kind not in {one["kind"] for one in searched["culprits"]}:
                self._wait_if_busy()
                found = self.up(**merged(changes, {"measure": {"run": again}}))
        return found

    def ran(self) -> bool:
        """Tell whether the measurement has a busbw and, unless this machine was busy, a verdict other than `unknown`."""
        measured = self.outputs()["measured"]
        _LOG.info("%s", "\n".join(measured["reasons"]))
        return (measured["verdict"] != "unknown" or self.busy()) and measured["busbw_gb_s"] > 0

    def busy(self) -> bool:
        """Tell whether ranks of the last measurement, or of its retest, waited for a processor of this machine."""
        return any("this machine: " in reason for reason in self.outputs()["measured"]["reasons"])

    def _wait_if_busy(self) -> None:
        """If ranks of the last measurement waited for a processor, wait until few processes want one, for at most a minute."""
        end = time.monotonic() + _CALM_WITHIN_S
        if self.busy():
            while time.monotonic() < end and _runnable() > 2 * (os.cpu_count() or 1):
                time.sleep(2)

    def build(self, **changes: Any) -> Finished:
        """Update the stack with `changes`, but do not measure; an old measurement stays until the next `up` measures."""
        return self.command(*self.build_words(**changes))

    def build_words(self, **changes: Any) -> list[str]:
        """Return the command of an update that stops before the measurement."""
        return self.engine("up", *_UNMEASURED, **changes)

    def up_words(self, **changes: Any) -> list[str]:
        """Return the command of an update."""
        return self.engine("up", "--yes", "--skip-preview", **changes)

    def beside(self, verb: str, *words: str) -> Finished:
        """Run the engine on a second stack of this account, with the stack file that was written last."""
        folder = self.folder / "config"
        if not self._state("second").exists():
            made = self.command("pulumi", "-C", str(folder), "stack", "init", "second")
            assert made.status == 0, made
        where = ("--stack", "second", "--non-interactive", "--config-file", str(folder / f"Pulumi.{self.stack}.yaml"))
        return self.command(*self.door, "pulumi", verb, *where, *words)

    def login_replaced_beside(self) -> None:
        """Build the second stack up to its measurement, after a failed first boot of its login node.

        The error names the failed step, and the command that replaces only this machine. The next update checks the same
        machine again, but does not wait, because the machine's first boot does not run again. Then the named command is typed.
        """
        self.faults({"kind": "command_fails", "host": -1, "command": "rm"})
        failed = self.beside("up", *_UNMEASURED)
        self.faults()
        assert failed.status != 0
        named = "the first boot of this machine failed in step sshd"
        assert named in failed.text, failed
        again = self.beside("up", *_UNMEASURED)
        assert again.status != 0
        assert named in again.text, again
        waits = [[line for line in found.changes() if "-announced" in line] for found in (failed, again)]
        assert waits[0], "it waited once"
        assert waits[1] == []
        (urn,) = set(re.findall(r"replace this machine: pulumi up --replace '(urn:[^'\s]+)'", failed.text))
        assert urn in {one["urn"] for one in self.resources("second")}
        found = self.beside("up", *_UNMEASURED, "--replace", urn)
        assert found.status == 0, found

    def destroy(self) -> Finished:
        """Destroy the stack."""
        return self.command(*self.engine("destroy", "--yes", "--skip-preview"))

    def mend(self) -> Finished:
        """Do what `make up` and `make down` do first: after a killed update, repair the state and import what was created."""
        mended = self.command("python3", "-m", "tools.repair_state", self.stack)
        file = str(self.folder / "config" / f"Pulumi.{self.stack}.yaml")
        taken = self.command("python3", "-m", "tools.take_in", self.stack, file, *self.door)
        return Finished(mended.status or taken.status, mended.text + taken.text, mended.seconds + taken.seconds)

    def inside(self, *words: str) -> Finished:
        """Run a command as the operator, in the world."""
        return self.command(*self.door, *words)

    def on_host(self, command: str, *jump: str) -> str:
        """Return the output of `command` on the first node, or on another host with `jump` (arguments of ssh)."""
        config = self.folder / "ssh_config"
        options = ("StrictHostKeyChecking no", "UserKnownHostsFile /dev/null", "LogLevel ERROR", "BatchMode yes")
        config.write_text("\n  ".join(["Host *", *options]) + "\n")
        found = self.inside("ssh", "-F", str(config), *(jump or self.outputs()["ssh"].split()[1:]), command)
        assert found.status == 0, found
        return found.text

    def _state(self, stack: str) -> Path:
        return self.folder / "state" / ".pulumi" / "stacks" / "busbar" / f"{stack}.json"

    def resources(self, stack: str = "") -> list[dict[str, Any]]:
        """Return the resources in the state of this stack or of another one."""
        text = self._state(stack or self.stack).read_text()
        found: list[dict[str, Any]] = json.loads(text)["checkpoint"]["latest"].get("resources", [])
        return found

    def outputs(self, stack: str = "") -> dict[str, Any]:
        """Return the stack's outputs, or another stack's."""
        roots = [one for one in self.resources(stack) if one["type"] == "pulumi:pulumi:Stack"]
        outputs: dict[str, Any] = roots[0].get("outputs", {}) if roots else {}
        return outputs

    def sold(self, cloud: str) -> list[str]:
        """Return the kind of each resource that the engine created and that the stand-in cloud still has."""
        records = Store(World.at(self.world), cloud).read().records.values()
        return [record.token.rpartition(":")[2] for record in records if record.urn]

    def machines(self, cloud: str) -> int:
        """Return how many machines the stand-in cloud has, whoever asked for them."""
        records = Store(World.at(self.world), cloud).read().records.values()
        gone = {"TERMINATING", "TERMINATED", "shutting-down", "terminated"}
        return len([one for one in records if one.token.endswith("/instance:Instance") and one.state not in gone])

    def ever_booted(self) -> int:
        """Return how many machines were ever rented in this world; the log of a machine's console outlives the machine."""
        return len(list(self.world.glob("console/*.log")))

    def close(self, *, retained: bool = False) -> None:
        """Destroy everything that a test left; if `retained`, the test keeps resources on purpose, and these may remain.

        If the destroy fails, as on a locked stack, the hosts are stopped anyway before the failure is reported.
        """
        self.faults()
        gone = self.destroy() if self.salt and self.resources() else None
        if gone and gone.status != 0:
            self.mend()
            gone = self.destroy()
        cleared = self.command(*_DOOR, "--clear-hosts", "true") if self.world.exists() else None
        assert gone is None or gone.status == 0, gone
        assert cleared is None or cleared.status == 0, cleared
        left = left_of(self.world)
        assert retained or not left, left


def left_of(world: Path) -> list[str]:
    """Return what is left of the world: namespaces, mounts, processes and files."""
    spaces = [str(one) for one in Path("/run/netns").glob(f"bb{World.at(world).tag}-*")]
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(world) in line]
    running = [one.parent.name for one in Path("/proc").glob("[0-9]*/environ") if _mentions(one, str(world))]
    files = [str(one) for one in world.rglob("*") if one.is_file()]
    return [*spaces, *mounts, *(f"process {number}" for number in running), *files]


def _runnable() -> int:
    """Return how many processes of this machine run or wait for a processor (proc(5), /proc/loadavg)."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])


def _mentions(environ: Path, text: str) -> bool:
    try:
        return text.encode() in environ.read_bytes() or text.encode() in environ.with_name("cmdline").read_bytes()
    except OSError:
        return False  # a process that has exited meanwhile


JUMP = "203.0.113.200"


def standing_hosts(folder: Path, count: int, shape: str = "BM.GPU4.8") -> tuple[Stage, dict[str, Any]]:
    """Return a stack of target `hosts` with `count` servers behind a jump host, and its settings; gpu-1 is the head node.

    The servers start with the first command in that world, so plant faults before the first command.
    """
    addresses = {f"gpu-{number}": f"10.20.1.{10 + number}" for number in range(1, count + 1)}
    site = {"shape": shape, "image": "ubuntu2204-gpu", "jump": JUMP, "hosts": addresses}
    (folder / "site.json").write_text(json.dumps(site))
    named = yaml.safe_load((ROOT / "Pulumi.hosts.yaml").read_text())["config"]["busbar:hosts"]["nodes"]
    return Stage(folder, "hosts", folder / "site.json"), {"hosts": {"nodes": dict.fromkeys(named, DEFAULT) | addresses}}
