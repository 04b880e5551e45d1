"""Runs the steps of a plan over all nodes, and returns one JSON line with rows, ranks, versions and byte counters.

If a step dies or hangs, the line marks the step as failed. If a step hung, the line also names the ranks that had exited, were
stopped or lagged. NCCL's warnings from all nodes are in the line if the deciding step ran.
"""

import contextlib
import fcntl
import json
import math
import os
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from benchmarks.launch import launcher, lines, mpirun
from benchmarks.launch.protocol import Measure, Node, Ranks, Search, Step, data
from benchmarks.runner import (
    checksums,
    evidence,
    fanout,
    jobs,
    kept_looks,
    laggards,
    line_size,
    node_differences,
    node_facts,
    program_run,
    progress,
    rail_proofs,
    reachability,
    slurm_states,
    traffic,
    transcript,
)
from benchmarks.runner.refusal import Refusal

#: A step does not start if less time than this is left (s): it would be stopped, and its ranks would be named as lagging.
_LEAST_S = 1.0
#: NCCL's variable with the interfaces for its sockets; after "=", the names are exact.
SOCKETS = "NCCL_SOCKET_IFNAME"
_INVENTORY_TIMEOUT_S = 90
_REACH_TIMEOUT_S = 60
#: A refusal lists at most this many items: processes that already use GPUs, or nodes with changed programs.
_NAMED = 8
#: The line has at most this many problems of a run, each with at most this many characters; the evidence has the complete
#: output, in which all problems can be found.
_PROBLEMS, _SENTENCE = 20, 300
#: Used in place of the transcript of a deciding step that returned nothing.
_NOTHING = transcript.Transcript(None, (), (), None, None, None, None, None, None, ())


def commands(request: Measure) -> List[str]:
    """Return the commands that a person would type on the head node."""
    hosts = f"cat > {request.launch.hostfile} <<'END'\n{mpirun.hostfile(request.nodes, request.gpus)}END"
    proofs = rail_proofs.commands(request.nodes, request.proofs) if request.proofs else []
    return [hosts, *proofs, *(" ".join(map(shlex.quote, _argv(request, step))) for step in request.steps)]


def work(request: Measure, here: str, say: jobs.Say) -> Dict[str, Any]:
    """Carry out the measurement that was requested, and return its line.

    Raises:
        Refusal: a node cannot be reached, is busy, or differs from its shape or from the first node; or a node does not answer
            after the deciding run.
    """
    with measurement_lock(request, say):
        return _work(request, here, say)


@contextlib.contextmanager
def measurement_lock(request: Union[Measure, Search], say: jobs.Say) -> Iterator[None]:
    """Hold the head node's lock: two simultaneous measurements would share the rails, and both would be too slow."""
    deadline = time.monotonic() + request.timeout_s
    with open(os.path.join(jobs.root(), "measure.lock"), "w") as lock:
        said = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise Refusal(
                        f"timed out after {request.timeout_s} s, waiting for another measurement on this head node to finish"
                    ) from None
            if not said:
                say("waiting for another measurement on this head node to finish")
                said = True
            time.sleep(0.5)
        yield


def _work(request: Measure, here: str, say: jobs.Say) -> Dict[str, Any]:
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    began = time.monotonic()
    nodes = request.nodes
    fanout.keep(nodes)
    if request.launch.queue:
        slurm_states.refuse_unusable(nodes)
    before, asked_at = _first_look(nodes, request, say)
    lay_hostfile(request)
    absent = absent_interfaces(request.fabric, nodes, before)
    if absent:
        request = without_interfaces(request)
    looks = kept_looks.key(request, [its["machine"] for its in before])
    earlier = kept_looks.earlier(looks)
    proofs = None
    if request.proofs:
        proofs = rail_proofs.tried(nodes, request.proofs, say)
        before, asked_at = _counted_again(nodes, request, before)
    ran = carry_out(request, here, say, before, began)
    kept_looks.keep(looks, ran.steps)
    deciding = ran.deciding or _NOTHING
    first = before[0]
    machines = {node.name: its["machine"] for node, its in zip(nodes, before)}
    printed = dict({"proofs": proofs.text} if proofs else {}, **ran.texts)
    line = lines.MeasureLine(
        run_id=request.run_id,
        started=started,
        steps=[lines.StepLine(**step) for step in ran.steps],
        versions=lines.Versions(deciding.nccl, deciding.nccl_tests, first["driver"], first["os"], first["kernel"]),
        inventory=lines.Differences([*absent, *_differences(request, before, asked_at)]),
        transport=traffic.between(nodes, before, ran.after, request.hcas)._replace(network=deciding.network),
        evidence=evidence.keep(here, dict(printed, nodes=line_size.bulk(machines, ran.steps)), ran.failed),
        seconds=round(time.monotonic() - began, 2),
        rehearsal=lines.Rehearsed(ran.scale) if ran.scale else None,
        machines=machines,
        gpu=first["gpus"][0] if first["gpus"] else None,
        warnings=traffic.warnings(nodes, ran.after),
        earlier_looks=earlier,
        proofs=proofs.line if proofs else None,
    )
    return line_size.fitting(data(line, sparse=True), request.hcas)


def _counted_again(
    nodes: List[Node], request: Measure, first: List[Dict[str, Any]]
) -> Tuple[List[Dict[str, Any]], List[Tuple[float, float]]]:
    """Take inventory again after the rails were tried: bytes of ib_write_bw must not count as bytes of the collectives.

    The error counters of the ports are kept from the first inventory, so errors during the trial of the rails count, too.
    """
    again, asked_at = inventories(nodes, shlex.quote(request.logs))
    for old, new in zip(first, again):
        for name, device in new["hca"].items():
            if name in old["hca"]:
                device["events"] = old["hca"][name]["events"]
    return again, asked_at


def _differences(request: Measure, before: List[Dict[str, Any]], asked_at: List[Tuple[float, float]]) -> List[str]:
    shape = (request.hcas, request.gpu, request.port_gbit_s, request.gpu_pcie)
    return node_differences.differences(request.nodes, before, asked_at, *shape)


class Ran(NamedTuple):
    """The results of a request's steps.

    Attributes:
        steps: the steps, as the line lists them.
        texts: the texts for the evidence, by the name of the step.
        deciding: the transcript of the deciding step; None if that step returned nothing.
        after: the inventories after the deciding step.
        counted: names of all steps up to and including the deciding step.
        scale: the scale that a step states, in a rehearsal; None if no step states a scale.
    """

    steps: List[Dict[str, Any]]
    texts: Dict[str, str]
    deciding: Optional[transcript.Transcript]
    after: List[Dict[str, Any]]
    counted: List[str]
    scale: Optional[int] = None

    @property
    def failed(self) -> List[str]:
        """Return the names of the steps that returned nothing."""
        return [str(step["name"]) for step in self.steps if step.get("failed")]


def carry_out(request: Measure, here: str, say: jobs.Say, before: List[Dict[str, Any]], began: float) -> Ran:
    """Run the request's steps, and take inventory again after the deciding step; the time limit counts from `began`.

    Raises:
        Refusal: a node does not answer after a deciding step that returned a result.
    """
    ran, dead, shown = Ran([], {}, None, before, []), False, progress.Progress(request.steps, len(request.nodes), say)
    for number, step in enumerate(request.steps):
        left_s = request.timeout_s - (time.monotonic() - began)
        if dead:
            ran.steps.append(dict(_about(step), failed=f"did not run, because the step {request.deciding} returned nothing"))
            continue
        shown.begin(number)
        if left_s < _LEAST_S:
            why = f"did not run, because the time limit of {request.timeout_s} s was used up"
            found, run = dict(_about(step), failed=why), None  # type: Dict[str, Any], Optional[program_run.Run]
        else:
            found, run = _step(request, step, left_s, here, shown.see)
        if run is None:
            say(str(found["failed"]))
        ran.steps.append(found)
        ran.texts[step.name] = run.text if run else evidence.printed_by(here, step.name)
        if run and run.exact:
            ran.texts[step.name + evidence.EXACT] = run.exact
        if run and run.transcript.scale:
            ran = ran._replace(scale=run.transcript.scale)
        if step.name == request.deciding:
            dead = run is None and step.decides
            after, lost = _after(request, run is None, before, say)
            if lost:
                found["failed"] = "; ".join([found["failed"], *lost])
            ran = ran._replace(
                deciding=run.transcript if run else None,
                after=after,
                counted=[one["name"] for one in ran.steps],
            )
    return ran


def _after(
    request: Measure, failed: bool, before: List[Dict[str, Any]], say: jobs.Say
) -> Tuple[List[Dict[str, Any]], List[str]]:
    """Return the inventories after the deciding step; if that step failed, also sentences about lost nodes or rails.

    If the step failed and a node does not answer, the inventories are those from before the step.
    """
    try:
        after = inventories(request.nodes, "--harvest " + shlex.quote(request.logs))[0]
    except Refusal as refusal:
        if not failed:
            raise
        say(str(refusal))
        return before, [str(refusal)]
    return after, node_differences.lost(request.nodes, before, after, request.hcas) if failed else []


def lay_hostfile(request: Measure) -> None:
    """Write this request's host file, because another cluster's measurement on this head node may have replaced the file."""
    for folder in (os.path.dirname(request.launch.hostfile), request.results):
        os.makedirs(folder, exist_ok=True)
    with jobs.text(request.launch.hostfile, "w") as target:
        target.write(mpirun.hostfile(request.nodes, request.gpus))


def _first_look(nodes: List[Node], request: Measure, say: jobs.Say) -> Tuple[List[Dict[str, Any]], List[Tuple[float, float]]]:
    """Take every node's inventory; check meanwhile that each node has the programs as built and reaches two other nodes.

    Each node must reach the first node and the next node in the list; after the last node comes the first.

    Whatever would make MPI fail is refused, and so are GPUs in use and programs that differ from the build.
    """
    with ThreadPoolExecutor(3) as pool:
        reached = pool.submit(_refuse_unreachable, nodes, say)
        changed = pool.submit(refuse_changed, request)
        before, asked_at = inventories(nodes, shlex.quote(request.logs))
        refuse_busy(nodes, before)
        _refuse_unequal(nodes, before, request)
        reached.result()
        changed.result()
    return before, asked_at


def inventories(nodes: List[Node], arguments: str) -> Tuple[List[Dict[str, Any]], List[Tuple[float, float]]]:
    """Return every node's inventory, and a pair of times on this machine's clock for each node.

    All pairs are equal: when this machine began to ask the nodes, and when all nodes had answered.
    """
    asked = time.time()
    answers = fanout.each(nodes, fanout.PYTHON + " - " + arguments, fanout.source_of(node_facts), _INVENTORY_TIMEOUT_S)
    silent = [f"{node.name} ({answer.why})" for node, answer in zip(nodes, answers) if answer.status != 0]
    if silent:
        raise Refusal("no inventory from {}".format("; ".join(silent)))
    return [json.loads(answer.out.splitlines()[-1]) for answer in answers], [(asked, time.time())] * len(nodes)


def _refuse_unequal(nodes: List[Node], found: List[Dict[str, Any]], request: Measure) -> None:
    """Refuse a node with more or fewer GPUs than its shape, or with another driver than the first node.

    Otherwise mpirun would fail with an error that mentions neither GPUs nor driver.
    """
    for node, its in zip(nodes, found):
        if len(its["gpus"]) != request.gpus:
            raise Refusal("{} shows {} GPUs, but its shape has {}".format(node.name, len(its["gpus"]), request.gpus))
        if its["driver"] != found[0]["driver"]:
            raise Refusal(
                "{} runs driver {}, but {} runs {}".format(node.name, its["driver"], nodes[0].name, found[0]["driver"])
            )


def refuse_busy(nodes: List[Node], found: List[Dict[str, Any]]) -> None:
    """Refuse to measure while another job uses the GPUs: the job would be disturbed, and its load would look like a fault."""
    busy = [f"{node.name}: {sentence}" for node, its in zip(nodes, found) for sentence in its.get("busy", [])]
    if busy:
        raise Refusal(f"the GPUs are in use, so nothing was started: {_named(busy)}")


def refuse_changed(request: Measure) -> None:
    """Refuse to measure if the programs on a node differ from the built programs, which the certificate lists."""
    changed = checksums.changed(request.nodes, request.binaries, request.programs or {})
    if changed:
        raise Refusal(f"on {_named(changed)}, the programs are not those of the build; nothing was started")


def _named(found: List[str]) -> str:
    """Return the first items of `found`, and how many more there are."""
    more = len(found) - _NAMED
    return "; ".join([*found[:_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _refuse_unreachable(nodes: List[Node], say: jobs.Say) -> None:
    if len(nodes) == 1:
        return
    sentences = reachability.unreachable(nodes, fanout.beginnings(nodes, reachability.BOOT), _REACH_TIMEOUT_S)
    if sentences:
        for sentence in sentences:
            say(sentence)
        if "cannot reach" not in sentences[0]:
            raise Refusal(sentences[0])
        raise Refusal(
            "{}{}; SSH works, so a firewall rule is the likely cause: the nodes' subnet must allow all protocols from the "
            "nodes' network (with a security list or group that allows only SSH, MPI hangs)".format(
                sentences[0], f" and {len(sentences) - 1} more" if len(sentences) > 1 else ""
            )
        )


def _argv(request: Measure, step: Step) -> List[str]:
    return launcher.command(request.launch, request.nodes, [step.ranks])


def absent_interfaces(names: Sequence[str], nodes: Sequence[Node], before: Sequence[Dict[str, Any]]) -> List[str]:
    """Return a sentence for each interface that is not up on a node; `before` has the inventory of each node."""
    return [
        f"{node.name} has no interface {name} that is up, so NCCL chose an interface itself"
        for node, its in zip(nodes, before)
        for name in names
        if not its["interfaces"].get(name, {}).get("up")
    ]


def without_interfaces(request: Measure) -> Measure:
    """Return the request with ranks that are not told which interfaces to use."""
    return request._replace(steps=[step._replace(ranks=unpinned(step.ranks)) for step in request.steps])


def unpinned(ranks: Ranks) -> Ranks:
    """Return the ranks without NCCL_SOCKET_IFNAME: NCCL fails where an interface that this variable names is absent.

    Without the variable, NCCL chooses an interface.
    """
    return ranks._replace(environment={name: value for name, value in ranks.environment.items() if name != SOCKETS})


def _step(
    request: Measure, step: Step, timeout_s: float, here: str, see: Callable[[str], None]
) -> Tuple[Dict[str, Any], Optional[program_run.Run]]:
    """Run one step; a failure is returned as data. Before a step is stopped at a time limit, its ranks are examined."""
    found, lagging = _about(step), []  # type: Dict[str, Any], List[str]

    def look() -> None:
        lagging.extend(laggards.named(request.nodes, step.ranks.program, step.ranks.per_node, request.nccl_home))

    job = program_run.Job(
        step.name,
        _argv(request, step),
        step.result,
        timeout_s,
        step.cycles,
        silence_s=step.silence_s or math.inf,
        before_end=look,
    )
    try:
        run = program_run.run(job, here, see)
    except Refusal as refusal:
        return dict(found, failed="; ".join([str(refusal), *lagging])), None
    return dict(found, **numbers(run, step.stage, step.groups, len(request.nodes) * step.ranks.per_node)), run


def numbers(run: program_run.Run, stage: str, groups: int, ranks: int) -> Dict[str, Any]:
    """Return the line's fields for a finished run of `ranks` ranks in `groups` groups; `stage` is the run's stage."""
    its = run.transcript
    found = {
        "rows": [_row(row) for row in its.rows],
        "program": its.collective,
        "ranks": len({device.rank for device in its.devices}),
        "hosts": len({device.host for device in its.devices}),
        "problems": _few(run.problems),
        "seconds": round(run.seconds, 2),
    }  # type: Dict[str, Any]
    if its.waited is not None and its.scale is not None:  # waiting excuses a slow run only in a rehearsal
        found["waited"] = its.waited
    if groups > 1 and its.rows:
        found["groups_gb_s"] = _groups(its.rows[-1], stage, groups, ranks)
    if stage == "looks":
        found["looks_gb_s"] = [row.out_of_place.busbw_gb_s for row in its.every if row.out_of_place]
    spread = its.rows[-1].out_of_place_spread if its.rows else None
    if spread is not None:
        found["spread"] = {name: value for name, value in spread._asdict().items() if name != "rank_us"}
    return found


def _few(problems: List[str]) -> List[str]:
    """Return the first problems, shortened, and how many more there are: a program may print any number of bad rows."""
    kept = [one if len(one) <= _SENTENCE else one[:_SENTENCE] + "..." for one in problems[:_PROBLEMS]]
    return kept + [f"and {len(problems) - _PROBLEMS} more problems"] * (len(problems) > _PROBLEMS)


def _about(step: Step) -> Dict[str, Any]:
    return {"name": step.name, "stage": step.stage, "collective": step.collective}


def _row(row: transcript.Row) -> List[Any]:
    return [row.size_bytes, _placement(row.out_of_place), _placement(row.in_place)]


def _placement(placement: Optional[transcript.Placement]) -> Optional[List[Any]]:
    return None if placement is None else list(placement)


def _groups(row: transcript.Row, stage: str, count: int, ranks: int) -> Optional[List[float]]:
    """Return the all-reduce busbw (GB/s) of each of `count` groups, computed from its slowest rank's median time."""
    times = row.out_of_place_spread.rank_us if row.out_of_place_spread else ()
    if len(times) != ranks:
        return None
    members = ranks // count
    groups = [[] for _ in range(count)]  # type: List[List[float]]
    for rank, time_us in enumerate(times):
        groups[rank // members if stage == "node" else rank % count].append(time_us)
    if not all(map(max, groups)):
        return None  # a group whose slowest time is 0 was not timed
    factor = 2.0 * (members - 1) / members
    return [float(f"{row.size_bytes * factor / (max(group) * 1e3):.5g}") for group in groups]
