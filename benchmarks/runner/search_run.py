"""Measure once more what is short, then search for the cause: carry out the trials that `search` asks for, many at once.

One mpirun carries a whole round: its ranks are split into the trials' groups, and every rank's own times tell them apart. It
deliberately fails never: a search that cannot go on says so in its line, for what was measured before must not be lost.
"""

import json
import os
import shlex
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import fanout
import jobs
import measure
import mpirun
import retest_run
import search
from refusal import Refusal

_NAMES_TIMEOUT_S = 60
_TRIAL_TIMEOUT_S = 300
#: Trials that run by themselves at once, where a round as a whole could not.
_WINDOW = 8
_PAIR = 2
_PAIRS_KEPT = 1500
_CULPRITS_KEPT = 16
_EVIDENCE_KEPT = 4


def commands(request: Dict[str, Any]) -> List[str]:
    """Return the commands of the second look, and that of the first trial: all others differ in hosts and rails alone."""
    argvs = [step["argv"] for step in request.get("again", {}).get("steps", [])]
    if request["needed"]:
        argvs.append(_Launch(request, "").groups([search.Trial((0, 1), ())], "first")["argv"])
    return [" ".join(shlex.quote(word) for word in argv) for argv in argvs]


def work(request: Dict[str, Any], here: str, say: jobs.Say) -> Dict[str, Any]:
    """Take the second look, then search within the budget; return the line."""
    line = {"schema": 1, "kind": "search", "run_id": request["run_id"], "needed": request["needed"]}  # type: Dict[str, Any]
    try:
        with measure.alone(request, say):
            fanout.keep(request["nodes"])
            if "again" in request:
                line["again"] = retest_run.look(request["again"], say)
            if request["needed"]:
                line.update(_search(request, _whole_gb_s(request["whole_gb_s"], line.get("again")), here, say))
    except (Refusal, OSError) as error:
        line.update(failed=str(error), complete=False)
    return _fitting(line)


def _search(request: Dict[str, Any], whole_gb_s: Optional[float], here: str, say: jobs.Say) -> Dict[str, Any]:
    """Go from round to round within the budget; return what was found."""
    began = time.monotonic()
    asking = search.Search(len(request["nodes"]), len(request["rails"]) or 1, request["pair_limit_gb_s"], whole_gb_s)
    samples = []  # type: List[search.Sample]
    try:
        failed = _ask(asking, samples, request, here, say, began)
    except (Refusal, OSError, _NoTimes) as error:
        failed = str(error)
    found = asking.finding()
    say(found.summary)
    pairs = [[*one.trial.nodes, one.busbw_gb_s] for one in samples if not one.trial.rails and len(one.trial.nodes) == _PAIR]
    return {
        "culprits": [_culprit(one, request) for one in found.culprits[:_CULPRITS_KEPT]],
        "healthy_gb_s": found.healthy_gb_s,
        "rounds": found.rounds,
        "trials": found.trials,
        "complete": found.exhausted and failed is None,
        "failed": failed,
        "summary": found.summary,
        "pairs": pairs[:_PAIRS_KEPT],
        "seconds": round(time.monotonic() - began, 2),
    }


def _fitting(line: Dict[str, Any]) -> Dict[str, Any]:
    """Keep as many pairs as a line may hold: a finding must not be lost for its picture."""
    while line.get("pairs") and len(json.dumps(line)) > jobs.LINE_LIMIT_BYTES:
        line["pairs"] = line["pairs"][: len(line["pairs"]) // 2]
    return line


def _whole_gb_s(first: Optional[float], second: Optional[Dict[str, Any]]) -> Optional[float]:
    """Return what all nodes together reach, at best: where that was chance, no group of them need be suspected."""
    measured = [step for step in (second or {"steps": []})["steps"] if step["stage"] == "all" and step.get("rows")]
    found = [step["rows"][-1][1] for step in measured if step["collective"] == "all_reduce"]
    return first if first is None else max([first, *(placement[2] for placement in found if placement)])


def _ask(  # noqa: PLR0913, PLR0917 - one loop that its caller would bury
    asking: search.Search, samples: List[search.Sample], request: Dict[str, Any], here: str, say: jobs.Say, began: float
) -> Optional[str]:
    """Go from round to round; return why it ended before its end, None when it did not."""
    launch = _Launch(request, here)
    deadline = began + request["budget_s"]
    while True:
        trials = asking.next_round()
        if not trials:
            return None
        if time.monotonic() > deadline:
            return "the budget of {:.0f} s was used up after {} rounds".format(request["budget_s"], len(launch.rounds))
        got = launch.round(trials, deadline + _TRIAL_TIMEOUT_S)
        asking.record(got)
        samples.extend(got)
        numbers = [sample.busbw_gb_s for sample in got if sample.busbw_gb_s is not None]
        say(
            "search round {}: {} trials at once, {} GB/s".format(
                len(launch.rounds), len(trials), f"{min(numbers):.4g} to {max(numbers):.4g}" if numbers else "no"
            )
        )


class _NoTimes(Exception):  # noqa: N818 - no error of a node
    """A run that went well and cannot be read: that says nothing of the nodes, so no trial of it may count as failed."""


class _Group(NamedTuple):
    """The ranks of one trial in a run of many: its node indices, the first rank and how many there are."""

    trial: search.Trial
    first: int
    ranks: int


class _Launch:
    """How trials become runs."""

    def __init__(self, request: Dict[str, Any], here: str) -> None:
        self._request = request
        self._here = here
        self._hosts = {}  # type: Dict[str, int]
        self._lock = threading.Lock()
        self.rounds = []  # type: List[int]

    def round(self, trials: Sequence[search.Trial], deadline: float) -> List[search.Sample]:
        """Run all trials at once; where a run fails as a whole, run its trials one by one to see which of them did."""
        if not self._hosts:
            self._hosts = self._host_names()
        number = len(self.rounds) + 1
        self.rounds.append(len(trials))
        batches = self._batches(trials)
        with ThreadPoolExecutor(len(batches)) as pool:
            results = list(pool.map(lambda item: self._run(item[1], f"round{number}_{item[0]}", deadline), enumerate(batches)))
        samples = []  # type: List[search.Sample]
        for batch, got in zip(batches, results):
            samples.extend(got if got is not None else self._one_by_one(batch, number, deadline))
        return samples

    def _one_by_one(self, batch: List[search.Trial], number: int, deadline: float) -> List[search.Sample]:
        def alone(item: Tuple[int, search.Trial]) -> search.Sample:
            index, trial = item
            try:
                return self._measured([trial], f"round{number}_alone{index}", deadline)[0]
            except Refusal as refusal:
                return search.Sample(trial, None, str(refusal))

        with ThreadPoolExecutor(_WINDOW) as pool:
            return list(pool.map(alone, enumerate(batch)))

    def _batches(self, trials: Sequence[search.Trial]) -> List[List[search.Trial]]:
        """Put together what one run can carry: trials of one size over all rails; all trials of single rails."""
        batches = {}  # type: Dict[Any, List[search.Trial]]
        for trial in sorted(trials):
            key = ("rails", len(trial.nodes)) if len(trial.rails) == 1 else (trial.rails, len(trial.nodes))
            batches.setdefault(key, []).append(trial)
        return list(batches.values())

    def _run(self, batch: List[search.Trial], name: str, deadline: float) -> Optional[List[search.Sample]]:
        try:
            return self._measured(batch, name, deadline)
        except Refusal as refusal:
            if len(batch) == 1:
                return [search.Sample(batch[0], None, str(refusal))]
            return None

    def _measured(self, batch: List[search.Trial], name: str, deadline: float) -> List[search.Sample]:
        step = self.groups(batch, name)
        step["timeout_s"] = max(min(_TRIAL_TIMEOUT_S, deadline - time.monotonic()), 1)
        run = mpirun.run(step, self._here, lambda _line: None)
        row = run.transcript.rows[-1] if run.transcript.rows else None
        times = row.out_of_place_spread.rank_us if row and row.out_of_place_spread else ()
        last = step["members"][-1]
        if row is None or len(times) < last.first + last.ranks:
            why = run.problems[0] if run.problems else "nccl-tests gave no time of every rank (2.19 or later does)"
            raise _NoTimes(f"the run {name} ended well and tells nothing of its trials: {why}")
        hosts = {device.rank: self._hosts.get(device.host.split(".")[0]) for device in run.transcript.devices}
        return [self._sample(group, row.size_bytes, times, hosts) for group in step["members"]]

    def _sample(self, group: _Group, size_bytes: int, times: Sequence[float], hosts: Dict[int, Optional[int]]) -> search.Sample:
        ranks = range(group.first, group.first + group.ranks)
        if {hosts.get(rank) for rank in ranks} != set(group.trial.nodes):
            raise _NoTimes(f"MPI placed the ranks of {group.trial} on other nodes")
        slowest_us = max(times[rank] for rank in ranks)
        return search.Sample(group.trial, size_bytes * 2.0 * (group.ranks - 1) / group.ranks / (slowest_us * 1e3), "")

    def groups(self, batch: List[search.Trial], name: str) -> Dict[str, Any]:
        """Return the step that runs `batch` at once, one group for each trial, `members` in rank order."""
        request = self._request
        single = len(batch[0].rails) == 1
        size = request["size_bytes"]
        contexts = []  # type: List[List[str]]
        members = []  # type: List[_Group]
        first = 0
        if single:
            for rail in sorted({trial.rails[0] for trial in batch}):
                mine = [trial for trial in batch if trial.rails[0] == rail]
                contexts.append(self._context(mine, (rail,), 1, size // max(len(request["rails"]), 1)))
                for trial in mine:
                    members.append(_Group(trial, first, len(trial.nodes)))
                    first += len(trial.nodes)
        else:
            contexts.append(self._context(batch, batch[0].rails, request["gpus"], size))
            for trial in batch:
                members.append(_Group(trial, first, len(trial.nodes) * request["gpus"]))
                first += len(trial.nodes) * request["gpus"]
        result = os.path.join(self._here, name + ".json")
        split = members[0].ranks
        words = list(request["mpirun"])
        for index, context in enumerate(contexts):
            words += [":"] if index else []
            words += [word.replace("@SPLIT@", str(split)).replace("@RESULT@", result) for word in context]
        writer = request["nodes"][members[0].trial.nodes[0]]["address"]
        at = None if writer == request["nodes"][0]["address"] else writer
        return {"name": name, "argv": words, "result": result, "result_at": at, "members": members, "cycles": 1}

    def _context(self, trials: List[search.Trial], rails: Tuple[int, ...], per_node: int, size_bytes: int) -> List[str]:
        """Return the words for the ranks of `trials`, node by node in their order, on `rails` (none: all)."""
        request = self._request
        nodes = [request["nodes"][index] for trial in trials for index in trial.nodes]
        variables = dict(request["exports"], NCCL_TESTS_SPLIT="DIV @SPLIT@")
        # Through a network plugin a GPU has the rails near it, so its number alone says which are meant.
        if rails and not request["by_gpu"]:
            variables["NCCL_IB_HCA"] = "=" + ",".join(device for rail in rails for device in request["rails"][rail])
        if per_node == 1 and request["gpus"] > 1:
            variables["NCCL_TESTS_DEVICE"] = str(rails[0] * request["gpus"] // len(request["rails"]) if rails else 0)
        return [
            *("-np", str(len(nodes) * per_node), "--map-by", f"ppr:{per_node}:node"),
            *("--host", ",".join("{}:{}".format(node["address"], per_node) for node in nodes)),
            *(word for key, value in sorted(variables.items()) for word in ("-x", f"{key}={value}")),
            *(*request["program"], "-b", str(_floats(size_bytes)), "-e", str(_floats(size_bytes)), "-f", "2", "-g", "1"),
            *("-n", str(request["iterations"]), "-w", "2", "-c", "0", "-I", "1", "-J", "@RESULT@"),
        ]

    def _host_names(self) -> Dict[str, int]:
        """Return each node's index by the host name that it prints."""
        answers = fanout.each(self._request["nodes"], "hostname", b"", _NAMES_TIMEOUT_S)
        silent = [
            "{} ({})".format(node["name"], answer.why)
            for node, answer in zip(self._request["nodes"], answers)
            if answer.status != 0
        ]
        if silent:
            raise Refusal("no answer from {}".format("; ".join(silent)))
        return {answer.out.strip().split(".")[0]: index for index, answer in enumerate(answers)}


def _floats(size_bytes: int) -> int:
    return max(size_bytes // 4, 1) * 4


def _culprit(one: search.Culprit, request: Dict[str, Any]) -> Dict[str, Any]:
    """Name nodes and rails, keep the evidence that says most, and say what to type next."""
    names = [request["nodes"][index]["name"] for index in one.nodes]
    rails = _devices(one.rails, request)
    evidence = [
        {
            "nodes": [request["nodes"][index]["name"] for index in sample.trial.nodes],
            "rails": _devices(sample.trial.rails, request),
            "busbw_gb_s": sample.busbw_gb_s,
            "why": sample.why,
        }
        for sample in one.evidence[:_EVIDENCE_KEPT]
    ]
    return {
        "kind": one.kind,
        "nodes": names if len(names) <= _EVIDENCE_KEPT * 4 else [*names[:3], f"... {len(names)} nodes"],
        "rails": rails,
        "ratio": round(one.ratio, 3),
        "flapping": one.flapping,
        "confidence": round(one.confidence, 3),
        "evidence": evidence,
        "next": _next(one, request, rails),
    }


def _devices(rails: Sequence[int], request: Dict[str, Any]) -> List[str]:
    return [device for index in rails if index < len(request["rails"]) for device in request["rails"][index]]


def _next(one: search.Culprit, request: Dict[str, Any], rails: List[str]) -> str:
    """Return the command that a person types on the head to look at it."""
    node = request["nodes"][one.nodes[0]]
    devices = rails or _devices(range(len(request["rails"])), request)
    if one.kind in ("rail", "link", "rail_plane") and devices:
        ports = " ".join(f"/sys/class/infiniband/{device}/ports/1" for device in devices[:4])
        look = f"for p in {ports}; do echo $p; cat $p/state $p/rate; grep -s . $p/hw_counters/*; done"
    else:
        look = "nvidia-smi topo -m; nvidia-smi -q -d PERFORMANCE; dmesg | tail -50"
    return "ssh {} {}".format(node["address"], shlex.quote(look))
