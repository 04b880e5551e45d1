"""Carries out the retest of what was too slow, then runs the trials that `benchmarks.search` requests, many at the same time.

A trial is a short measurement on some of the nodes. One mpirun runs many trials: its ranks are split into one group for each
trial, and the times of a group's ranks give the group's busbw. If a search cannot continue, no exception is raised, because
earlier measurements must not be lost. The search's line has the reason.
"""

import json
import os
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from benchmarks.launch import launcher
from benchmarks.launch.lines import CulpritLine, SearchLine, TrialLine
from benchmarks.launch.protocol import Ranks, Search, Trials, data
from benchmarks.runner import fanout, jobs, measure, measure_again, program_run, retest_run
from benchmarks.runner.refusal import Refusal
from benchmarks.search import plan
from benchmarks.search.trials import Culprit, Sample, Trial, is_beside

_NAMES_TIMEOUT_S = 60
TRIAL_TIMEOUT_S = 300
#: If the common run of many trials fails, each of these trials runs by itself; at most this many run at the same time.
_WINDOW = 8
_PAIR = 2
_PAIRS_KEPT = 1500
_CULPRITS_KEPT = 16
_EVIDENCE_KEPT = 4


def commands(request: Search) -> List[str]:
    """Return the commands of the retest and of the first trial; later trials have other hosts, rails and message sizes."""
    found = measure.commands(request.again)[1:] if request.again else []
    if request.trials:
        first = _Launch(request, request.trials, "").groups([Trial((0, 1), ())], "first").job
        found.append(" ".join(shlex.quote(word) for word in first.argv))
    return found


def work(request: Search, here: str, say: jobs.Say) -> Dict[str, Any]:
    """Carry out the retest, then search for the cause within the budget; return the line."""
    line = data(SearchLine(request.run_id, request.trials is not None), sparse=True)  # type: Dict[str, Any]
    try:
        with measure.measurement_lock(request, say):
            fanout.keep(request.nodes)
            if request.again:
                line["again"] = retest_run.retest(request.again, say)
            if request.trials:
                trials = _on_idle_nodes(request, request.trials)
                whole = _whole_gb_s(trials.whole_gb_s, line.get("again"))
                line.update(_search(request, trials, whole, here, say))
    except (Refusal, OSError) as error:
        line.update(failed=str(error), complete=False)
    return _fitting(line)


def on_free_nodes(request: Search, trials: Trials, here: str, say: jobs.Say) -> Dict[str, Any]:
    """Search without taking the measurement lock, on nodes that nothing else can use.

    If all nodes share a file system, the lock is a file there, and taking the lock would make runs on other nodes wait.
    """
    try:
        return _fitting(_search(request, trials, None, here, say))
    except (Refusal, OSError) as error:
        return {"failed": str(error)}


def scale(request: Search, trials: Trials, here: str, limit_s: float) -> int:
    """Run one trial on a pair of nodes, and return the divisor of line rates that the run prints.

    The divisor is 1 on real hardware, or if no pair can run within `limit_s`.
    """
    launch, end = _Launch(request, trials, here), time.monotonic() + limit_s
    for first in range(len(request.nodes) - 1):
        left_s = min(TRIAL_TIMEOUT_S, end - time.monotonic())
        if left_s <= 0:
            break
        job = launch.groups([Trial((first, first + 1), ())], f"first{first}").job._replace(timeout_s=left_s)
        try:
            found = program_run.run(job, here, lambda _line: None).transcript.scale
        except Refusal:
            continue
        return found or 1
    return 1


def _on_idle_nodes(request: Search, trials: Trials) -> Trials:
    """Refuse to search while another job uses the GPUs; otherwise return the trials.

    If a node lacks an interface that NCCL_SOCKET_IFNAME names, the returned trials do not set this variable.
    If a node does not answer, nothing is refused here: the search's first round asks all nodes for their host names, fails, and
    names that node.
    """
    try:
        before, _ = measure.inventories(request.nodes, "")
    except Refusal:
        return trials
    measure.refuse_busy(request.nodes, before)
    names = trials.ranks.environment.get(measure.SOCKETS, "")
    exact = names[1:].split(",") if names.startswith("=") else []
    absent = measure.absent_interfaces(exact, request.nodes, before)
    return trials._replace(ranks=measure.unpinned(trials.ranks)) if absent else trials


def _search(request: Search, trials: Trials, whole_gb_s: Optional[float], here: str, say: jobs.Say) -> Dict[str, Any]:
    """Run rounds of trials within the budget; return what the search found."""
    began = time.monotonic()
    asking = plan.Search(
        len(request.nodes), len(trials.rails) or 1, trials.pair_limit_gb_s, whole_gb_s, off_ring=trials.off_ring
    )
    samples = []  # type: List[Sample]
    launch = _Launch(request, trials, here)
    try:
        failed = _ask(asking, samples, request, launch, say, began)
    except (Refusal, OSError, _NoTimes) as error:
        failed = str(error)
    found = asking.finding()
    say(found.summary)
    pairs = [[*one.trial.nodes, one.busbw_gb_s] for one in samples if not one.trial.rails and len(one.trial.nodes) == _PAIR]
    return {
        "culprits": [
            data(_culprit(one, request, trials, launch.again(one, samples, f"again{number}.sh")), sparse=True)
            for number, one in enumerate(found.culprits[:_CULPRITS_KEPT], 1)
        ],
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
    """Halve the line's list of pairs until the line fits its limit."""
    while line.get("pairs") and len(json.dumps(line)) > jobs.LINE_LIMIT_BYTES:
        line["pairs"] = line["pairs"][: len(line["pairs"]) // 2]
    return line


def _whole_gb_s(first: Optional[float], second: Optional[Dict[str, Any]]) -> Optional[float]:
    """Return the full ring's busbw in the first run or in the retest, whichever is higher.

    The first run may have been slow by chance. If the first run has no number, return None.
    """
    measured = [step for step in (second or {"steps": []})["steps"] if step["stage"] == "all" and step.get("rows")]
    found = [step["rows"][-1][1] for step in measured if step["collective"] == "all_reduce"]
    return first if first is None else max([first, *(placement[2] for placement in found if placement)])


def _ask(  # noqa: PLR0913, PLR0917 - one loop, clearer on its own
    asking: plan.Search, samples: List[Sample], request: Search, launch: "_Launch", say: jobs.Say, began: float
) -> Optional[str]:
    """Run rounds of trials; return why the search stopped early.

    Return None if nothing was left to try, or if the limit of rounds was reached.
    """
    deadline = began + request.budget_s
    while True:
        trials = asking.next_round()
        if not trials:
            return None
        if time.monotonic() > deadline:
            return f"the budget of {request.budget_s:.0f} s was used up after {len(launch.rounds)} rounds"
        try:
            got = launch.round(trials, deadline + TRIAL_TIMEOUT_S)
        except _Late:
            return (
                f"the budget of {request.budget_s:.0f} s was used up in round {len(launch.rounds)}, whose trials do not count"
            )
        asking.record(got)
        samples.extend(got)
        numbers = [sample.busbw_gb_s for sample in got if sample.busbw_gb_s is not None]
        say(
            "search round {}: {} trials at once, {} GB/s".format(
                len(launch.rounds), len(trials), f"{min(numbers):.4g} to {max(numbers):.4g}" if numbers else "no"
            )
        )


class _NoTimes(Exception):  # noqa: N818 - not an error of a node
    """Raised for a run that succeeded but whose times cannot be used; the run's trials do not count as failed."""


class _Late(Exception):  # noqa: N818 - not an error of a node
    """Raised if there is no time left for a whole trial: a run that was stopped early says nothing about its nodes."""


class _Group(NamedTuple):
    """The ranks of one trial in a run of many trials: the trial, its first rank and the number of ranks."""

    trial: Trial
    first: int
    ranks: int


class _Batch(NamedTuple):
    """One run of many trials, and the groups of these trials in rank order."""

    job: program_run.Job
    members: List[_Group]


class _Launch:
    """Turns trials into runs of mpirun, and the times of these runs into samples, which are the results of trials."""

    def __init__(self, request: Search, trials: Trials, here: str) -> None:
        self._request = request
        self._trials = trials
        self._here = here
        self._hosts = {}  # type: Dict[str, int]
        self.rounds = []  # type: List[int]

    def round(self, trials: Sequence[Trial], deadline: float) -> List[Sample]:
        """Run all trials at once; if a run of several trials fails, run each trial by itself to see which trials fail."""
        if not self._hosts:
            self._hosts = self._host_names()
        number = len(self.rounds) + 1
        self.rounds.append(len(trials))
        batches = self._batches(trials)
        with ThreadPoolExecutor(len(batches)) as pool:
            results = list(pool.map(lambda item: self._run(item[1], f"round{number}_{item[0]}", deadline), enumerate(batches)))
        samples = []  # type: List[Sample]
        for batch, got in zip(batches, results):
            samples.extend(got if got is not None else self._one_by_one(batch, number, deadline))
        return samples

    def _one_by_one(self, batch: List[Trial], number: int, deadline: float) -> List[Sample]:
        def separately(item: Tuple[int, Trial]) -> Sample:
            index, trial = item
            try:
                return self._measured([trial], f"round{number}_trial{index}", deadline)[0]
            except Refusal as refusal:
                return Sample(trial, None, str(refusal))

        with ThreadPoolExecutor(_WINDOW) as pool:
            return list(pool.map(separately, enumerate(batch)))

    def _batches(self, trials: Sequence[Trial]) -> List[List[Trial]]:
        """Group trials that can share a run: they have equally many nodes, and use either the same rails or one rail each."""
        batches = {}  # type: Dict[Any, List[Trial]]
        for trial in sorted(trials):
            key = ("rails", len(trial.nodes)) if len(trial.rails) == 1 else (trial.rails, len(trial.nodes))
            batches.setdefault(key, []).append(trial)
        return list(batches.values())

    def _run(self, batch: List[Trial], name: str, deadline: float) -> Optional[List[Sample]]:
        try:
            return self._measured(batch, name, deadline)
        except Refusal as refusal:
            if len(batch) == 1:
                return [Sample(batch[0], None, str(refusal))]
            return None

    def _measured(self, batch: List[Trial], name: str, deadline: float) -> List[Sample]:
        together = self.groups(batch, name)
        left_s = min(TRIAL_TIMEOUT_S, deadline - time.monotonic())
        if left_s <= 0:
            raise _Late
        try:
            run = program_run.run(together.job._replace(timeout_s=left_s), self._here, lambda _line: None)
        except Refusal:
            if time.monotonic() >= deadline:
                raise _Late from None
            raise
        row = run.transcript.rows[-1] if run.transcript.rows else None
        times = row.out_of_place_spread.rank_us if row and row.out_of_place_spread else ()
        last = together.members[-1]
        if row is None or len(times) < last.first + last.ranks:
            lacks = "nccl-tests did not report a time for every rank; only versions from 2.19 on do so"
            why = run.problems[0] if run.problems else lacks
            raise _NoTimes(f"the run {name} succeeded but returned no numbers for its trials: {why}")
        hosts = {device.rank: self._hosts.get(device.host.split(".")[0]) for device in run.transcript.devices}
        waited = (run.transcript.waited or 0.0) if run.transcript.scale else 0.0
        return [self._sample(group, row.size_bytes, times, hosts, waited) for group in together.members]

    def _sample(
        self, group: _Group, size_bytes: int, times: Sequence[float], hosts: Dict[int, Optional[int]], waited: float
    ) -> Sample:
        """Return a group's busbw; in a rehearsal, take into account that ranks may have waited for processors.

        Suppose that a trial over all rails is below the pair limit, but without the waiting it might have reached the limit.
        Then its sample has the limit as busbw, so the trial does not count as slow. For example, the limit is 0.85 of the line
        rate, and a link runs at half its line rate: the trial counts as slow if its ranks waited for less than 0.41 of the
        time.
        """
        ranks = range(group.first, group.first + group.ranks)
        if {hosts.get(rank) for rank in ranks} != set(group.trial.nodes):
            raise _NoTimes(f"MPI placed the ranks of {group.trial} on other nodes")
        slowest_us = max(times[rank] for rank in ranks)
        busbw_gb_s = size_bytes * 2.0 * (group.ranks - 1) / group.ranks / (slowest_us * 1e3)
        enough_gb_s = self._trials.pair_limit_gb_s
        if not group.trial.rails and enough_gb_s and busbw_gb_s < enough_gb_s <= busbw_gb_s / max(1 - waited, 0.01):
            return Sample(group.trial, enough_gb_s, f"{busbw_gb_s:.4g} GB/s while its ranks waited for processors")
        return Sample(group.trial, busbw_gb_s, "")

    def groups(self, batch: List[Trial], name: str) -> _Batch:
        """Return one run of the trials in `batch`, with a group of ranks for each trial.

        Without `name`, the run writes no file.
        """
        trials = self._trials
        result = os.path.join(self._here, name + ".json") if name else ""
        per_node = 1 if len(batch[0].rails) == 1 else trials.gpus
        members = []  # type: List[_Group]
        contexts = []  # type: List[Ranks]
        # Ranks on different rails need different environment variables, so mpirun gets one app context for each rail.
        for rails in sorted({trial.rails for trial in batch}) if per_node == 1 else [batch[0].rails]:
            mine = [trial for trial in batch if trial.rails == rails]
            split = len(batch[0].nodes) * per_node
            contexts.append(self._context(mine, rails, per_node, split, result))
            for trial in mine:
                first = members[-1].first + members[-1].ranks if members else 0
                members.append(_Group(trial, first, len(trial.nodes) * per_node))
        nodes = self._request.nodes
        argv = launcher.command(trials.launch, nodes, contexts)
        writer = nodes[members[0].trial.nodes[0]].address
        at = None if writer == nodes[0].address else writer
        return _Batch(program_run.Job(name, argv, result, TRIAL_TIMEOUT_S, result_at=at), members)

    def again(self, one: Culprit, samples: List[Sample], name: str) -> str:
        """Write a script that repeats a culprit's worst trial and a healthy trial; return the path of the script.

        Return "" if no trial measured this culprit by itself, or if the script cannot be written.
        """
        tried = [each for each in one.evidence if (_blames(one, each) if one.rails else not each.trial.rails)]
        if one.kind == "between" or not tried:
            return ""  # slowness of the kind `between` shows only while many pairs run at once
        worst = min(tried, key=lambda each: each.busbw_gb_s or 0.0).trial
        fine = [each for each in samples if is_beside(one, each.trial, worst) and each.busbw_gb_s]
        best = sorted(fine, key=lambda each: -(each.busbw_gb_s or 0.0))[:1]
        runs = []
        for trial in (worst, *(each.trial for each in best)):
            together = self.groups([trial], "")
            variables = program_run.added(together.job.argv)
            runs.append(measure_again.Run(self._named(trial), together.members[0].ranks, together.job.argv, variables))
        path = os.path.join(self._here, name)
        try:
            measure_again.write(path, runs)
        except OSError:  # for instance, the disk is full; the culprit is reported even without its script
            return ""
        return path

    def _named(self, trial: Trial) -> str:
        """Return a description of what a trial measures, for the script."""
        nodes, rails = [self._request.nodes[index].name for index in trial.nodes], _devices(trial.rails, self._trials)
        limit_gb_s = self._trials.pair_limit_gb_s
        limit = f" (a healthy pair has {limit_gb_s:.4g} or more)" if limit_gb_s and not rails and len(nodes) == _PAIR else ""
        return " - ".join(nodes) + (", " + ", ".join(rails) if rails else "") + limit

    def _context(self, batch: List[Trial], rails: Tuple[int, ...], per_node: int, split: int, result: str) -> Ranks:
        """Return the ranks of the trials in `batch`, trial by trial and node by node, on `rails` (empty: all rails)."""
        trials = self._trials
        variables = dict(trials.ranks.environment, NCCL_TESTS_SPLIT=f"DIV {split}")
        # With a network plugin, a GPU uses the rails near the GPU, so the GPU's number selects the rails.
        if rails and not trials.by_gpu:
            variables["NCCL_IB_HCA"] = "=" + ",".join(device for rail in rails for device in trials.rails[rail])
        if per_node == 1 and trials.gpus > 1:
            variables["NCCL_TESTS_DEVICE"] = str(rails[0] * trials.gpus // len(trials.rails) if rails else 0)
        size = str(_floats(trials.size_bytes // max(len(trials.rails), 1) if len(rails) == 1 else trials.size_bytes))
        arguments = [
            *("-b", size, "-e", size, "-f", "2", "-g", "1"),
            *("-n", str(trials.iterations), "-w", "2", "-c", "0", "-I", "1"),
            *(("-J", result) if result else ()),
        ]
        nodes = [index for trial in batch for index in trial.nodes]
        return trials.ranks._replace(arguments=arguments, environment=variables, per_node=per_node, nodes=nodes)

    def _host_names(self) -> Dict[str, int]:
        """Return the index of each node, by the host name that the node prints."""
        answers = fanout.each(self._request.nodes, "hostname", b"", _NAMES_TIMEOUT_S)
        silent = [f"{node.name} ({answer.why})" for node, answer in zip(self._request.nodes, answers) if answer.status != 0]
        if silent:
            raise Refusal("no answer from {}".format("; ".join(silent)))
        return {answer.out.strip().split(".")[0]: index for index, answer in enumerate(answers)}


def _floats(size_bytes: int) -> int:
    return max(size_bytes // 4, 1) * 4


def _culprit(one: Culprit, request: Search, trials: Trials, again: str) -> CulpritLine:
    """Return a culprit as the line lists it: nodes and rails by name, the best evidence, and what to type next."""
    names = [request.nodes[index].name for index in one.nodes]
    rails = _devices(one.rails, trials)
    evidence = [
        TrialLine(
            [request.nodes[index].name for index in sample.trial.nodes],
            _devices(sample.trial.rails, trials),
            sample.busbw_gb_s,
            sample.why,
        )
        for sample in sorted(one.evidence, key=lambda sample: not _blames(one, sample))[:_EVIDENCE_KEPT]
    ]
    return CulpritLine(
        kind=one.kind,
        nodes=names if len(names) <= _EVIDENCE_KEPT * 4 else [*names[:3], f"... {len(names)} nodes"],
        rails=rails,
        ratio=round(one.ratio, 3),
        evidence=evidence,
        flapping=one.flapping,
        confidence=round(one.confidence, 3),
        next=_next(one, request, trials, rails) + (f"; {shlex.quote(again)}" if again else ""),
    )


def _blames(one: Culprit, sample: Sample) -> bool:
    """Tell whether a sample was measured over chosen rails, all of which are the culprit's."""
    return bool(sample.trial.rails) and set(sample.trial.rails) <= set(one.rails)


def _devices(rails: Sequence[int], trials: Trials) -> List[str]:
    return [device for index in rails if index < len(trials.rails) for device in trials.rails[index]]


def _next(one: Culprit, request: Search, trials: Trials, rails: List[str]) -> str:
    """Return what to type next on the head node; for a link, both ends are examined, because either end may be at fault."""
    ends = [request.nodes[index].address for index in (one.nodes if one.kind == "link" else one.nodes[:1])]
    devices = rails or _devices(range(len(trials.rails)), trials)
    if one.kind in ("rail", "link", "rail_plane") and devices:
        ports = " ".join(f"/sys/class/infiniband/{device}/ports/1" for device in devices[:4])
        look = f"for p in {ports}; do echo $p; cat $p/state $p/rate; grep -s . $p/hw_counters/*; done"
    elif one.kind == "between":
        counters = "port_xmit_wait|ecn|cnp|pause|out_of_sequence"
        look = f"grep -sE . /sys/class/infiniband/*/ports/1/hw_counters/* | grep -E '{counters}'"
    else:
        look = "nvidia-smi topo -m; nvidia-smi -q -d PERFORMANCE; dmesg | tail -50"
    return "; ".join(f"ssh {address} {shlex.quote(look)}" for address in ends)
