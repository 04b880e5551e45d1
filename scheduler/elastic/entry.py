"""The test that new machines pass before they become nodes: pairs of one launch, over their rails.

slurmd has not started on them yet, so no job can run there meanwhile; Slurm keeps the job that wants them in CONFIGURING. A
test takes minutes, so `reconcile` only asks for it and reads what it came to; `all_due`, run by a timer of its own, makes the
tests, and makes one again that a reboot has stopped.
"""

import json
import os
import subprocess
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from scheduler.elastic.join import words_of_ssh
from scheduler.elastic.settings import LaunchSet, Settings
from scheduler.elastic.state import Batch
from scheduler.elastic.work import LOST_S, PAUSE_S, Work

#: How much longer than the test itself its answer may take: it waits for the timer, and for SSH.
GRACE_S = 60
_POLL_S = 0.5
#: Beside the spool.
FOLDER = "entry"
_ALONE = "entry test: not made, because no other machine was started with this one"


class Outcome(NamedTuple):
    """What a test came to.

    Attributes:
        failed: why it could not be made, so that no machine has passed; empty if it was made.
        bad: why a node has not passed, by node.
        told: what was measured, by node.
    """

    failed: str
    bad: Dict[str, str]
    told: Dict[str, str]


class Desk:
    """Tests that are asked for and their outcomes: files in a folder that outlives a reboot, named by launch."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder, mode=0o700, exist_ok=True)

    def ask(self, token: str, node_set: str, machines: List[Tuple[str, str, str]]) -> None:
        """Ask for a test of `machines`: (node, machine's id, address)."""
        self._write(token + ".asked", {"set": node_set, "machines": machines})

    def due(self) -> List[Tuple[str, str, List[Tuple[str, str, str]]]]:
        """Return the tests without an outcome: (token, set, machines)."""
        names = os.listdir(self._folder)
        found = []
        for name in sorted(names):
            token, _, kind = name.partition(".")
            if kind == "asked" and token + ".outcome" not in names:
                its = self._read(name)
                if its is not None:
                    found.append((token, str(its["set"]), [(str(a), str(b), str(c)) for a, b, c in its["machines"]]))
        return found

    def answer(self, token: str, outcome: Outcome) -> None:
        """Keep an outcome."""
        self._write(token + ".outcome", outcome._asdict())

    def outcome(self, token: str) -> Optional[Outcome]:
        """Return an outcome; None while there is none."""
        its = self._read(token + ".outcome")
        return None if its is None else Outcome(**its)

    def keep_only(self, tokens: List[str]) -> None:
        """Forget what belongs to no launch of these."""
        for name in os.listdir(self._folder):
            # The other program may be writing one, whose name begins with a dot until it is complete.
            if name.lstrip(".").partition(".")[0] not in tokens:
                os.unlink(os.path.join(self._folder, name))

    def _write(self, name: str, value: Any) -> None:
        part = os.path.join(self._folder, "." + name)
        with open(part, "w", encoding="utf-8") as target:
            json.dump(value, target)
            target.flush()
            os.fsync(target.fileno())
        os.rename(part, os.path.join(self._folder, name))

    def _read(self, name: str) -> Optional[Dict[str, Any]]:
        try:
            with open(os.path.join(self._folder, name), encoding="utf-8") as source:
                return dict(json.load(source))
        except FileNotFoundError:
            return None


def let_in(work: Work, desk: Desk) -> None:
    """Advance every launch whose machines must pass a test before they join."""
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
    work.state.save()


def _set(work: Work, batch: Batch) -> LaunchSet:
    return work.settings.sets[batch.node_set]


def _ask(work: Work, desk: Desk, batch: Batch) -> None:
    """Ask for a launch's test once all of its machines have booted; a machine that came alone has no partner."""
    if batch.launched_at is None or not batch.nodes or set(batch.nodes) - set(batch.reached):
        return
    if len(batch.nodes) == 1:
        work.say(f"{batch.nodes[0]}: {_ALONE}")
        work.state.comments[batch.nodes[0]] = _ALONE
        batch.entered_at = work.clock()
        return
    desk.ask(batch.token, batch.node_set, [(node, batch.machines[node], batch.addresses[node]) for node in batch.nodes])
    batch.asked_entry_at = work.clock()
    work.say(f"{batch.node_set}: {len(batch.nodes)} machines are tested in pairs before they become nodes")


def _conclude(work: Work, found: Optional[Outcome], batch: Batch) -> None:
    """Let machines join that passed; the others end, and `sinfo -R` shows why."""
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
    # A node that the test says nothing of has not passed.
    bad = [node for node in batch.nodes if node in found.bad or node not in found.told]
    for node in bad:
        work.fail([node], work.state.comments[node], PAUSE_S)
    if bad and batch.group:
        # Its replacement would come alone and untested, on OCI in another cluster network: the job starts anew as a whole.
        for one in [one for one in work.state.batches.values() if one is batch or one.group == batch.group]:
            work.fail(list(one.nodes), "entry test: ended with {}, which did not pass".format(", ".join(bad)), LOST_S)


def all_due(desk: Desk, made: Callable[[str, str, List[Tuple[str, str, str]]], Outcome]) -> None:
    """Make every test that is due, each on its own machines and so at once; return when none is left."""
    running: Dict[str, threading.Thread] = {}

    def test(token: str, node_set: str, machines: List[Tuple[str, str, str]]) -> None:
        outcome = made(token, node_set, machines)
        if any(token == one for one, _, _ in desk.due()):  # otherwise its launch is gone
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


def over_ssh(known: Settings) -> Callable[[str, str, List[Tuple[str, str, str]]], Outcome]:
    """Return a function (token, set, machines) that makes a test on the first machine, as the login user.

    The machines reach each other with the controller's key, which stays in an agent here and is forwarded while the test runs.
    """

    def made(token: str, node_set: str, machines: List[Tuple[str, str, str]]) -> Outcome:
        its = known.sets.get(node_set)
        if its is None:
            return Outcome("its set is not in the cluster any more", {}, {})
        nodes = [[node, address] for node, _, address in machines]
        given = {"token": token, "nodes": nodes, "known_hosts": host_keys(known.join["known_hosts"], machines)}
        _, machine, address = machines[0]
        ssh = [
            *words_of_ssh(known.join, machine),
            "-o",
            "ForwardAgent=yes",
            f"{known.join['user']}@{address}",
            its.entry_script,
        ]
        words = ["ssh-agent", "sh", "-c", 'ssh-add -q "$0" && exec "$@"', known.join["identity"], *ssh]
        try:
            done = subprocess.run(
                words,
                input=json.dumps(given).encode(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                timeout=its.entry_timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(f"it did not end within {its.entry_timeout_s:.0f} s", {}, {})
        except OSError as error:
            return Outcome(str(error), {}, {})
        said = done.stdout.decode("utf-8", "replace").strip().splitlines()
        if done.returncode or not said:
            last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no output"])[-1]
            return Outcome(last, {}, {})
        try:
            line = json.loads(said[-1])
            return Outcome(str(line["failed"]), dict(line["bad"]), dict(line["told"]))
        except (KeyError, TypeError, ValueError):
            return Outcome(f"its answer cannot be read: {said[-1][:80]}", {}, {})

    return made


def host_keys(path: str, machines: List[Tuple[str, str, str]]) -> str:
    """Return lines of a known_hosts file by the machines' addresses; those in the file `path` are by their ids."""
    with open(path, encoding="utf-8") as source:
        lines = [line.split(None, 1) for line in source.read().splitlines() if " " in line]
    found = [f"{address} {key}" for _, its, address in machines for name, key in lines if name == its]
    return "".join(line + "\n" for line in found)
