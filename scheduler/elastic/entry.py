"""The entry test, which new machines must pass to become nodes: it measures a launch's machines in pairs, over their rails.

During the test, slurmd does not run on the new machines, so no job can start there; a job that waits for them stays in the
state CONFIGURING. A test takes minutes, so `reconcile` only asks for the test and reads the outcome. A separate timer starts
`all_due`, which runs the tests, and repeats a test that a reboot interrupted.
"""

import contextlib
import json
import os
import subprocess
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from scheduler import durable
from scheduler.elastic.join import words_of_ssh
from scheduler.elastic.settings import LaunchSet, Settings
from scheduler.elastic.state import Batch
from scheduler.elastic.work import LOST_S, PAUSE_S, Work

#: `reconcile` waits for an outcome this much longer than the test's own time limit, because before the test starts, its timer
#: must fire and SSH must connect.
GRACE_S = 60
_POLL_S = 0.5
#: Name of the folder with the tests, beside the spool folder.
FOLDER = "entry"
_ALONE = "entry test: not run, because its launch has no other machine"


class Outcome(NamedTuple):
    """The outcome of a test.

    Attributes:
        failed: why the test could not be run, so that no machine has passed; empty if it was run.
        bad: node that has not passed -> the reason.
        told: node -> what was measured with it.
    """

    failed: str
    bad: Dict[str, str]
    told: Dict[str, str]


class Desk:
    """The tests that were asked for and their outcomes: files, named after launches, in a folder that survives a reboot."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder, mode=0o700, exist_ok=True)

    def ask(self, token: str, node_set: str, machines: List[Tuple[str, str, str]]) -> None:
        """Ask for a test of `machines`, a list of (node, machine id, address)."""
        self._write(token + ".asked", {"set": node_set, "machines": machines})

    def due(self) -> List[Tuple[str, str, List[Tuple[str, str, str]]]]:
        """Return a list of (token, set, machines), with one entry for each test that has no outcome yet."""
        names = os.listdir(self._folder)
        found = []
        for name in sorted(names):
            token, _, kind = name.partition(".")
            if kind == "asked" and token + ".outcome" not in names:
                asked = self._read(name)
                if asked is not None:
                    found.append((token, str(asked["set"]), [(str(a), str(b), str(c)) for a, b, c in asked["machines"]]))
        return found

    def answer(self, token: str, outcome: Outcome) -> None:
        """Save the outcome of a test."""
        self._write(token + ".outcome", outcome._asdict())

    def outcome(self, token: str) -> Optional[Outcome]:
        """Return the outcome of a test; None while there is none."""
        saved = self._read(token + ".outcome")
        return None if saved is None else Outcome(**saved)

    def keep_only(self, tokens: List[str]) -> None:
        """Delete the files of all launches except those in `tokens`."""
        for name in os.listdir(self._folder):
            # While `all_due` writes a file, the file's name begins with a dot.
            if name.lstrip(".").partition(".")[0] not in tokens:
                with contextlib.suppress(FileNotFoundError):  # `all_due` has just renamed the file; the next call deletes it
                    os.unlink(os.path.join(self._folder, name))

    def _write(self, name: str, value: Any) -> None:
        with contextlib.suppress(FileNotFoundError):  # `keep_only` deleted the new file: nobody waits for this launch any more
            durable.replace(os.path.join(self._folder, name), json.dumps(value).encode())

    def _read(self, name: str) -> Optional[Dict[str, Any]]:
        try:
            with open(os.path.join(self._folder, name), encoding="utf-8") as source:
                return dict(json.load(source))
        except FileNotFoundError:
            return None


def let_in(work: Work, desk: Desk) -> None:
    """Advance each launch that needs a test: check which machines have booted, ask for the test, or read its outcome."""
    desk.keep_only(list(work.state.batches))
    launches = [one for one in work.state.batches.values() if _set(work, one).entry_script and one.entered_at is None]
    waiting = [(one, node) for one in launches for node in one.nodes if node in one.addresses and node not in one.reached]
    for batch, node in work.each(work.reach, waiting):
        batch.reached.append(node)
    for batch in launches:
        if batch.token not in work.state.batches:
            continue
        if batch.asked_entry_at is None:
            _ask(work, desk, batch)
        else:
            _conclude(work, desk.outcome(batch.token), batch)
    work.save()


def _set(work: Work, batch: Batch) -> LaunchSet:
    return work.settings.sets[batch.node_set]


def _ask(work: Work, desk: Desk, batch: Batch) -> None:
    """Ask for the test of a launch once all its machines have booted; a single machine joins without a test.

    If a machine of a job has failed, all machines of the job are terminated, so that Slurm starts all of them again.
    """
    if batch.launched_at is None or not batch.nodes:
        return
    if batch.group and len(batch.nodes) < batch.count:
        # If only the missing machine were started again, it would join untested, and on OCI in another cluster network.
        work.fail_group(batch, "entry test: terminated, because another machine of its job did not start", LOST_S)
        return
    if set(batch.nodes) - set(batch.reached):
        return
    if len(batch.nodes) == 1:
        work.say(f"{batch.nodes[0]}: {_ALONE}")
        work.state.comments[batch.nodes[0]] = _ALONE
        batch.entered_at = work.clock()
        return
    desk.ask(batch.token, batch.node_set, [(node, batch.machines[node], batch.addresses[node]) for node in batch.nodes])
    batch.asked_entry_at = work.clock()
    work.say(f"{batch.node_set}: {len(batch.nodes)} machines are being tested in pairs before they become nodes")


def _conclude(work: Work, found: Optional[Outcome], batch: Batch) -> None:
    """Let the machines that passed join, and terminate the others; `sinfo -R` shows why.

    If one machine of a job has not passed, all machines of that job are terminated. If the test could not be run, or did not
    end in time, no machine has passed: all machines of the launch are terminated, and all other machines of its job, too.
    """
    limit_s = _set(work, batch).entry_timeout_s
    if found is None:
        if work.clock() > (batch.asked_entry_at or 0) + limit_s + GRACE_S:
            work.fail_group(batch, f"entry test: it did not end within {limit_s:.0f} s", PAUSE_S)
        return
    if found.failed:
        work.fail_group(batch, f"entry test: {found.failed}", PAUSE_S)
        return
    batch.entered_at = work.clock()
    for node in batch.nodes:
        text = "entry test: {}".format(found.bad.get(node) or found.told.get(node, "no pair with this node was measured"))
        work.say(f"{node}: {text}")
        work.state.comments[node] = text
    # A node that is not in the outcome has not passed.
    bad = [node for node in batch.nodes if node in found.bad or node not in found.told]
    for node in bad:
        work.fail([node], work.state.comments[node], PAUSE_S)
    if bad and batch.group:
        # Terminate all machines of the job, so that Slurm starts all of them again. If only one machine were started again, it
        # would join untested, and on OCI in another cluster network.
        for one in [one for one in work.state.batches.values() if one is batch or one.group == batch.group]:
            work.fail(list(one.nodes), "entry test: terminated with {}, which did not pass".format(", ".join(bad)), LOST_S)


def all_due(desk: Desk, run: Callable[[str, str, List[Tuple[str, str, str]]], Outcome]) -> None:
    """Run every test that is due, all at once, because each test has its own machines; return when no test is left."""
    running: Dict[str, threading.Thread] = {}

    def test(token: str, node_set: str, machines: List[Tuple[str, str, str]]) -> None:
        try:
            outcome = run(token, node_set, machines)
        except OSError as error:
            outcome = Outcome(str(error), {}, {})
        if any(token == one for one, _, _ in desk.due()):  # if the launch no longer exists, nobody reads the outcome
            desk.answer(token, outcome)

    while True:
        due = desk.due()
        for token, node_set, machines in due:
            if token not in running:
                running[token] = threading.Thread(target=test, args=(token, node_set, machines))
                running[token].start()
        if not any(one.is_alive() for one in running.values()):
            return
        time.sleep(_POLL_S)


def over_ssh(load: Callable[[], Settings]) -> Callable[[str, str, List[Tuple[str, str, str]]], Outcome]:
    """Return a function (token, set, machines) that runs a test from the first machine, as the login user.

    Each test asks `load` for the settings, because an update may change them while other tests run.

    The machines log in to each other with the controller's key. The key stays on the controller, in an SSH agent that
    is forwarded while the test runs.
    """

    def run(token: str, node_set: str, machines: List[Tuple[str, str, str]]) -> Outcome:
        known = load()
        launch_set = known.sets.get(node_set)
        if launch_set is None:
            return Outcome("the set of these machines is no longer in the cluster", {}, {})
        nodes = [[node, address] for node, _, address in machines]
        request = {"token": token, "nodes": nodes, "known_hosts": host_keys(known.join["known_hosts"], machines)}
        _, machine, address = machines[0]
        ssh = [
            *words_of_ssh(known.join, machine),
            "-o",
            "ForwardAgent=yes",
            f"{known.join['user']}@{address}",
            launch_set.entry_script,
        ]
        argv = ["ssh-agent", "sh", "-c", 'ssh-add -q "$0" && exec "$@"', known.join["identity"], *ssh]
        try:
            done = subprocess.run(
                argv,
                input=json.dumps(request).encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                timeout=launch_set.entry_timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(f"it did not end within {launch_set.entry_timeout_s:.0f} s", {}, {})
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
        if done.returncode or not lines:
            last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no output"])[-1]
            return Outcome(last, {}, {})
        try:
            answer = json.loads(lines[-1])
            return Outcome(str(answer["failed"]), dict(answer["bad"]), dict(answer["told"]))
        except (KeyError, TypeError, ValueError):
            return Outcome(f"its answer cannot be read: {lines[-1][:80]}", {}, {})

    return run


def host_keys(path: str, machines: List[Tuple[str, str, str]]) -> str:
    """Return lines of known_hosts by address; the file `path` has the same keys by machine id."""
    with open(path, encoding="utf-8") as source:
        lines = [line.split(None, 1) for line in source.read().splitlines() if " " in line]
    found = [f"{address} {key}" for _, machine, address in machines for name, key in lines if name == machine]
    return "".join(line + "\n" for line in found)
