"""Tests machines in pairs before they become nodes of a Slurm cluster, in the same way as the search that names culprits.

The controller starts this program over SSH on the first of the machines that were launched together. The program reaches the
other machines over SSH with the controller's forwarded agent, so no key to another machine stays on the first machine.
"""

import json
import os
import shlex
import shutil
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

from benchmarks.launch import placeholders
from benchmarks.launch.lines import EntryLine
from benchmarks.launch.protocol import EntryTest, Node, PairLimit, Search, Trials, data, load
from benchmarks.runner import build, jobs, search_run
from benchmarks.runner.refusal import Refusal

#: Environment variable that passes the token and the machines to this program when the program restarts itself.
_GIVEN = "BUSBAR_ENTRY_TEST"
#: The first trial shows the scale of a rehearsal. This trial may take a third of the time that is left after the build.
_SCALE_SHARE = 3
#: Smallest number of partners that each machine must be tested with, if there are enough machines.
_PARTNERS = 2
#: Factor for message sizes in a rehearsal. A rehearsal's scale is not a power of two: at scale 4000, a message of 1 MiB
#: represents 4000 MiB, which are 2 % less than 4 GiB, but must count as 4 GiB. `benchmarks.plan.fractions` has the same factor.
_ROUNDING = 1.03


def main(path: str) -> int:
    """Run the test that the document at `path` describes, and print the result as a line; standard input lists the machines.

    Raises:
        Refusal: the machines cannot reach each other, or nccl-tests cannot be built.
    """
    with jobs.text(path) as source:
        test = load(EntryTest, json.load(source))
    if placeholders.REMOTE_SHELL not in os.environ:
        _again(json.loads(sys.stdin.read()), os.path.dirname(os.path.abspath(path)))  # does not return
    given = json.loads(os.environ[_GIVEN])
    here = os.path.dirname(os.environ[placeholders.REMOTE_SHELL])
    line = work(test, str(given["token"]), [Node(*each) for each in given["nodes"]], here)
    print(json.dumps(data(line), sort_keys=True), flush=True)
    if not line.failed and not line.bad:
        shutil.rmtree(here, ignore_errors=True)  # otherwise the files are kept as evidence
    return 0


def _again(given: Dict[str, Any], shared: str) -> None:
    """Write a program that replaces ssh, and restart this program so that it uses the replacement.

    The replacement is in `shared`, a folder that all machines mount, because Open MPI's daemons look for the replacement on
    every machine. Files in `shared` outlive the machines.
    """
    if not str(given["token"]).isalnum():
        raise Refusal("the token is invalid: only letters and digits are allowed")
    here = jobs.fresh(os.path.join(shared, "entry", given["token"]))
    os.chmod(here, 0o700)
    shell, known = os.path.join(here, "shell"), os.path.join(here, "known_hosts")
    jobs.write(known, given["known_hosts"])
    jobs.write(shell, remote_shell(known, os.environ.get("SSH_AUTH_SOCK", "")))
    os.chmod(shell, 0o700)
    kept = {
        **os.environ,
        placeholders.REMOTE_SHELL: shell,
        _GIVEN: json.dumps({name: given[name] for name in ("token", "nodes")}),
    }
    os.execve(sys.executable, [sys.executable, "-IS", *sys.argv], kept)  # noqa: S606 - this program itself


def remote_shell(known: str, agent: str) -> str:
    """Return the program that runs a command on another machine, whose host key is in the file `known`.

    The program sets the path of the forwarded agent's socket, because mpirun starts without the SSH connection's variables.
    """
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": known,
        "GlobalKnownHostsFile": "/dev/null",
        "ConnectTimeout": "15",
        "ServerAliveInterval": "15",
    }
    own = f"export SSH_AUTH_SOCK={shlex.quote(agent)}\n"
    words = " ".join(f"-o {shlex.quote(f'{name}={value}')}" for name, value in options.items())
    return f'#!/bin/sh\n# Runs a command on another machine of this test: ADDRESS COMMAND...\n{own}exec ssh {words} "$@"\n'


def work(test: EntryTest, token: str, nodes: List[Node], here: str) -> EntryLine:
    """Build nccl-tests on all machines, test the machines in pairs, and return which machines have not passed."""
    began = time.monotonic()
    built = build.work(test.build._replace(run_id=token, nodes=nodes), here, _say)
    trials = load(Trials, placeholders.filled(data(test.trials), placeholders.built(built)))
    request = Search(token, test.timeout_s, nodes, 0, None, trials)
    try:
        spent_s = time.monotonic() - began
        divisor = search_run.scale(request, trials, here, (test.timeout_s - spent_s) / _SCALE_SHARE)
        limit_gb_s = limit(test.limits, trials.size_bytes, divisor)
        # A round that has begun may end this much later than the budget, and the controller must still get the result.
        left_s = max(test.timeout_s - (time.monotonic() - began) - search_run.TRIAL_TIMEOUT_S, 1)
        trials = trials._replace(pair_limit_gb_s=limit_gb_s)
        line = search_run.on_free_nodes(request._replace(budget_s=left_s), trials, here, _say)
        return verdict(token, [node.name for node in nodes], line, limit_gb_s)
    finally:
        shutil.rmtree(built.binaries, ignore_errors=True)


def limit(limits: Sequence[PairLimit], size_bytes: int, scale: int) -> Optional[float]:
    """Return the GB/s that a healthy pair reaches at `size_bytes` on rails that are `scale` times slower than real rails.

    On such rails, a message counts as `scale` times larger than it is. The result is None if every limit is for messages that
    are larger than the scaled message.
    """
    stands_for = size_bytes * scale * (_ROUNDING if scale != 1 else 1)
    found = [one.busbw_gb_s / scale for one in limits if stands_for >= one.size_bytes]
    return max(found, default=None)


def verdict(token: str, names: List[str], line: Dict[str, Any], limit_gb_s: Optional[float]) -> EntryLine:
    """Return which nodes have not passed, according to the search's `line`.

    A node passes if it was tried with two other nodes (or with the only other node), its best pair reached the limit (if
    there is one), and the search does not blame the node.
    """
    best = {}  # type: Dict[str, Dict[str, float]]
    for first, second, busbw_gb_s in line.get("pairs") or []:
        for one, other in ((names[first], names[second]), (names[second], names[first])):
            if busbw_gb_s is not None:
                its = best.setdefault(one, {})
                its[other] = max(its.get(other, 0.0), busbw_gb_s)
    if not best:
        whys = [trial["why"] for culprit in line.get("culprits") or [] for trial in culprit["evidence"] if trial["why"]]
        why = [*whys, line.get("failed") or line.get("summary") or "no pair was tried"][0]
        return EntryLine(token, str(why), {}, {})
    wanted = f", {limit_gb_s:.3g} wanted" if limit_gb_s else ", no limit is known for this size"
    told = {
        name: ", ".join(f"{busbw:.3g} GB/s with {other}" for other, busbw in sorted(its.items())[: _PARTNERS + 1]) + wanted
        for name, its in best.items()
    }
    bad = {name: "no pair with this node was measured" for name in names if name not in best}
    needed = min(_PARTNERS, len(names) - 1)
    for name, its in best.items():
        if len(its) < needed:
            bad[name] = f"{told[name]}; this node was tried with only {len(its)} of {needed} partners"
        elif limit_gb_s and max(its.values()) < limit_gb_s:
            bad[name] = told[name]
    # Pairs of the kind `between` are slow only while many pairs run, and no machine is to blame.
    for culprit in [one for one in line.get("culprits") or [] if one["kind"] != "between"]:
        listed = [name for name in culprit["nodes"] if name in names]
        for name in names if len(listed) < len(culprit["nodes"]) else listed:
            rails = " {}".format(", ".join(culprit["rails"][:_PARTNERS])) if culprit["rails"] else ""
            bad[name] = "{}; slow {}{}".format(told.get(name, "no pair"), culprit["kind"].replace("_", " "), rails)
    return EntryLine(token, "", bad, told)


def _say(text: str) -> None:
    print(text.rstrip("\n"), file=sys.stderr, flush=True)
