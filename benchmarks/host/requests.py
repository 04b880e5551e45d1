"""Creates requests to the runner; a request's run id is a hash of everything that could change the answer.

`components.acceptance` sends a request to the head node; a person can do the same by hand.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.judge import retest
from benchmarks.judge.verdict import SHORT, Judgement
from benchmarks.launch import placeholders, protocol
from benchmarks.launch.protocol import (
    Build,
    BuildLine,
    EntryTest,
    Evidence,
    Image,
    ImageLine,
    Job,
    Measure,
    Node,
    PairLimit,
    Ranks,
    Refused,
    Schedule,
    Search,
    Source,
    Trials,
    data,
    load,
)
from benchmarks.plan import fractions, silence_limit
from benchmarks.plan.asked import Asked
from benchmarks.plan.collectives import collective
from benchmarks.plan.expected_pace import pace
from benchmarks.plan.gate import limit_gb_s
from benchmarks.plan.proofs import proofs
from benchmarks.plan.ranks import Place, exports, ranks, result
from benchmarks.plan.ranks import launch as launch_of
from benchmarks.plan.steps import MEDIAN_ITERATIONS, Step, repeated, steps
from catalogue import ENVIRONMENTS, GENERIC, gpus
from catalogue.containers import HOMES_INSIDE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalogue import Homes, Shape
    from catalogue.containers import Container

_BUILD_TIMEOUT_S = 1800
#: This timeout allows for an image of 10 GB or more, which is fetched, packed, copied to every node and unpacked there.
_CONTAINER_TIMEOUT_S = 5400
#: Daemons start in seconds; a node that cannot join the cluster reports the reason long before this timeout.
_SCHEDULE_TIMEOUT_S = 180
#: The strictest gate applies from a certain message size upwards. A search's trial uses the plan's smallest size that is at
#: least this many times that message size. If the plan has no such size, the trial uses the plan's largest size.
_SEARCH_SIZES = 2
#: Time that the search Command may need beyond its budget: the last round, and waiting for another measurement to finish.
_SEARCH_GRACE_S = 900

#: In a Slurm job mpirun's daemons must stay children of the srun that started them, because Slurm kills what a job step
#: leaves behind. The first name is Open MPI 4's (orterun(1), --leave-session-attached), the second PRRTE's.
_ATTACHED = {"orte_leave_session_attached": "1", "prte_leave_session_attached": "1"}
#: Used in place of the build's line if the build was refused.
_NOTHING_BUILT = BuildLine("", "", "", "", {}, "", "", "", {}, 0.0)
#: Used in place of the build's line while the build's folders are not known yet.
_UNBUILT = BuildLine(
    run_id="",
    home=placeholders.HOME,
    shared="",
    binaries=placeholders.BINARIES,
    hashes={},
    mpi_home=placeholders.MPI,
    cuda_home=placeholders.CUDA,
    nccl_home=placeholders.NCCL,
    versions={},
    seconds=0.0,
)
#: Checks whose failure may be explained by a slow node, rail or link.
_SLOW_CHECKS = frozenset({"bandwidth", "limit", "rails", "spread", "history", "floor", "curve", "looks", "in-network"})


def build(  # noqa: PLR0913, PLR0917 - everything that a build depends on
    nodes: Sequence[Node],
    asked: Asked,
    source: Source,
    homes: Homes,
    reasons: Sequence[str],
    container: Container | None = None,
) -> str:
    """Return the request that builds all programs of the plan from `source`.

    With `container`, the programs are built in that image, against the image's libraries, because many images contain no
    nccl-tests, or a version of nccl-tests that is too old for the plan's options.
    """
    programs = sorted({collective(step.collective).program for step in steps(asked.plan, asked.shape, asked.nodes)})
    image = None
    if container is not None:
        image = Image(
            uri=container.image.plain if container.runtime == "containerd" else container.image.uri,
            path=container.image.path,
            sha256=container.sha256,
            shared=container.shared,
            homes=_homes(HOMES_INSIDE),
            runtime=container.runtime,
        )
    limit_s = _BUILD_TIMEOUT_S if image is None else _CONTAINER_TIMEOUT_S
    return _named(Build("", limit_s, list(nodes), programs, source, _homes(homes), image), *reasons)


def _homes(homes: Homes) -> dict[str, list[str]]:
    return {"MPI_HOME": list(homes.mpi), "CUDA_HOME": list(homes.cuda), "NCCL_HOME": list(homes.nccl)}


def built(stdout: str) -> BuildLine:
    """Return the line of a finished build.

    Raises:
        UnfitError: the JSON in the last line of `stdout` is not a build's line.
    """
    return load(BuildLine, json.loads(stdout.splitlines()[-1]))


def refused(stdout: str) -> str:
    """Return why the runner refused, according to its line; empty if it did not refuse."""
    found = json.loads(stdout.splitlines()[-1]) if stdout else {}
    return str(found["failed"]) if set(found) == set(Refused._fields) else ""


def schedule(nodes: Sequence[Node], asked: Asked, queue: str, reasons: Sequence[str]) -> str:
    """Return the request that makes a Slurm cluster of `nodes`, with the first node as the controller."""
    return _named(Schedule("", _SCHEDULE_TIMEOUT_S, list(nodes), queue, asked.shape.gpu, asked.shape.gpus), *reasons)


def place(  # noqa: PLR0913, PLR0917 - everything that decides where a plan runs
    nodes: Sequence[Node], network: str, stdout: str, asked: Asked, queue: str = "", remote_shell: str = ""
) -> Place:
    """Return where the plan runs after the build that printed `stdout`.

    `queue` is the Slurm partition that ranks run in, or empty; `remote_shell` is the program that replaces ssh, or empty.
    """
    why = refused(stdout)
    programs = _NOTHING_BUILT if why else built(stdout)
    return Place(tuple(nodes), network, programs, asked.interfaces, asked.plan.digest()[:16], queue, remote_shell, why)


def measure(where: Place, asked: Asked, reasons: Sequence[str], before: Sequence[str] = ()) -> str:
    """Return the request that runs every step of the plan.

    If the build or an earlier stage was refused, return that refusal in place of a request, so that nothing runs. `before` has
    the outputs of the earlier stages.
    """
    whys = [why for why in (where.refused, *map(refused, before)) if why]
    if whys:
        return json.dumps(data(Refused("", whys[0], "measure")), sort_keys=True)
    body = _measurement(where, asked, steps(asked.plan, asked.shape, asked.nodes))._replace(proofs=proofs(asked))
    # `measure.run` is part of the plan's digest, so raising it starts a new measurement.
    return _named(body, asked.plan.digest(), json.dumps(where.built.hashes, sort_keys=True), *reasons)


def job(  # noqa: PLR0913 - everything that a test job depends on
    asked: Asked,
    source: Source,
    homes: Homes,
    *,
    network: str,
    keep: str,
    reasons: Sequence[str],
    container: Container | None = None,
) -> str:
    """Return the document of a test job on `asked.nodes` nodes that do not exist yet.

    `keep` is the folder for the job's result. With `container` the job builds and runs in that image.

    The run id does not depend on `measure.run`: the job runs when somebody submits it, and a new `measure.run` only makes the
    next update read the job's newest result.
    """
    nodes = [Node(placeholders.name(number), placeholders.address(number)) for number in range(asked.nodes)]
    # The command that starts the container depends on the job's nodes. Until they are known, a placeholder replaces it.
    unbuilt = _UNBUILT._replace(container=ImageLine("", "", "", 0, ["srun"], container.runtime)) if container else _UNBUILT
    where = Place(tuple(nodes), network, unbuilt, asked.interfaces, "job", remote_shell=placeholders.SHELL)
    measured = _measurement(where, asked, steps(asked.plan, asked.shape, asked.nodes))
    launch = measured.launch._replace(mca=measured.launch.mca | _ATTACHED)
    body = Job(
        run_id="",
        nodes=asked.nodes,
        keep=keep,
        build=load(Build, json.loads(build(nodes, asked, source, homes, [], container))),
        measure=measured._replace(launch=launch, proofs=proofs(asked)),
    )
    return _named(body, *reasons)


def entry_test(  # noqa: PLR0913 - everything that a test of new machines depends on
    asked: Asked, source: Source, homes: Homes, *, network: str, timeout_s: float, reasons: Sequence[str]
) -> str:
    """Return the document of the test that machines of the plan's shape must pass in pairs before they become nodes."""
    pair = replace(asked, nodes=2)
    nodes = [Node(placeholders.name(number), placeholders.address(number)) for number in range(pair.nodes)]
    where = Place(tuple(nodes), network, _UNBUILT, asked.interfaces, "entry", remote_shell=placeholders.SHELL)
    known = {size: limit_gb_s("all_reduce", size, asked.shape, pair.nodes) for size, _ in fractions.ALL_REDUCE}
    limits = [PairLimit(size, least) for size, least in known.items() if least is not None]
    body = EntryTest(
        run_id="",
        timeout_s=timeout_s,
        build=load(Build, json.loads(build(nodes, pair, source, homes, [])))._replace(nodes=[]),
        trials=_pairs(where, pair, 1),
        limits=limits,
    )
    return _named(body, *reasons)


def _measurement(where: Place, asked: Asked, chosen: Sequence[Step]) -> Measure:
    plan, shape = asked.plan, asked.shape
    runs = [
        protocol.Step(
            name=step.name,
            stage=step.stage,
            collective=step.collective,
            ranks=ranks(step, plan, where, shape),
            result=result(step, where),
            groups=step.groups,
            cycles=step.cycles,
            decides=step.name == plan.collective,
            silence_s=round(silence_limit.silence_s(step, shape, asked.nodes), 1),
            pace=pace(step, plan.sizes.factor, shape, asked.nodes),
        )
        for step in chosen
    ]
    return Measure(
        run_id="",
        timeout_s=plan.timeout_s,
        nodes=list(where.nodes),
        gpus=shape.gpus,
        hcas=list(shape.rdma.hca) if shape.rdma and asked.nodes > 1 else [],
        fabric=list(asked.plan.fabric) if asked.nodes > 1 else [],
        deciding=plan.collective,
        launch=launch_of(where, shape, plan.exports),
        steps=runs,
        results=where.results,
        logs=where.logs,
        gpu=shape.gpu,
        gpu_pcie=list(gpus.pcie_link(shape.gpu) or ()),
        # 0 means that the rails' rates are not checked. The devices of a network plugin may report a rate other than the
        # shape's: older EFA drivers report 100 Gb/s for every device.
        port_gbit_s=shape.rdma.port_gbit_s if shape.rdma and asked.nodes > 1 and not _by_gpu(shape) else 0,
        # The image's sha256 is left out, because the image is not a file in `binaries`.
        programs={name: hashed for name, hashed in where.built.hashes.items() if name != "image"},
        binaries=where.built.binaries,
        nccl_home="" if where.start else where.built.nccl_home,
    )


def _again(where: Place, asked: Asked, judged: Judgement, reasons: Sequence[str]) -> Measure | None:
    """Return the request of the retest, with the steps to measure again; None if there are no such steps.

    The retest's run id does not depend on the search's budget or trials, so a change of budget or trials does not repeat the
    retest.
    """
    names = retest.steps_of(judged, asked)
    chosen = [repeated(step) for step in steps(asked.plan, asked.shape, asked.nodes) if step.name in names]
    if not chosen:
        return None
    body = _measurement(where, asked, chosen)
    first = judged.line.get("evidence")
    known = isinstance(first, dict) and {"path", "sha256"} <= set(first)
    body = body._replace(
        steps=[step._replace(decides=False) for step in body.steps],
        evidence=Evidence(str(first["path"]), str(first["sha256"])) if known and first else None,
    )
    return body._replace(run_id=_id(["second", data(body), judged.line.get("run_id", ""), *reasons]))


def search(where: Place, asked: Asked, judged: Judgement, budget_s: int, reasons: Sequence[str]) -> str:
    """Return the request for the retest of slow steps, and for the search for the cause of slowness or of a dead run.

    If nothing is slow or dead, the request has no nodes, no retest and no trials. On one node, or with a budget of 0 s, the
    request has no trials.
    """
    slow = any(one.state == SHORT and one.name.split(" ")[0] in _SLOW_CHECKS for one in judged.checks)
    needed = (slow or judged.died) and asked.nodes > 1 and budget_s > 0
    again = _again(where, asked, judged, reasons)
    bound_s = budget_s + _SEARCH_GRACE_S + (asked.plan.timeout_s if again else 0)
    nodes = list(where.nodes) if needed or again else []
    trials = _trials(where, asked, judged) if needed else None
    return _named(Search("", bound_s, nodes, budget_s, again, trials), judged.line.get("run_id", ""), *reasons)


def _trials(where: Place, asked: Asked, judged: Judgement) -> Trials:
    found = _pairs(where, asked, judged.scale)
    return found._replace(
        pair_limit_gb_s=limit_gb_s("all_reduce", found.size_bytes, asked.shape, 2, judged.scale),
        whole_gb_s=judged.busbw_gb_s if asked.plan.collective == "all_reduce" else None,
        off_ring=any(retest.is_about(one, "alltoall", asked) for one in judged.checks),
    )


def _pairs(where: Place, asked: Asked, scale: int) -> Trials:
    """Return how pairs of machines are tried; the caller adds the busbw that the pairs must reach."""
    program = f"{where.built.binaries}/{collective('all_reduce').program}"
    return Trials(
        gpus=asked.shape.gpus,
        rails=rails(asked.shape),
        by_gpu=_by_gpu(asked.shape),
        launch=launch_of(where, asked.shape, asked.plan.exports),
        ranks=Ranks(program, [], exports(asked.shape, 2, where, asked.plan.exports), asked.shape.gpus),
        size_bytes=_search_bytes(asked, scale),
        iterations=MEDIAN_ITERATIONS,
    )


def rails(shape: Shape) -> list[list[str]]:
    """Return lists of RDMA devices; a search can try each list by itself. A list has one rail, or all rails near one GPU.

    NCCL accepts a list of HCAs. A network plugin does not; it assigns each GPU the devices near that GPU.
    """
    devices = shape.rdma.hca if shape.rdma else ()
    together = max(len(devices) // shape.gpus, 1) if _by_gpu(shape) else 1
    return [list(devices[first : first + together]) for first in range(0, len(devices), together)]


def _by_gpu(shape: Shape) -> bool:
    return bool(ENVIRONMENTS[shape.environment or GENERIC].provider)


def _search_bytes(asked: Asked, scale: int) -> int:
    """Return the message size of a trial: the plan's smallest size that is at least twice the strictest gate's smallest size.

    If the plan has no such size, return its largest one.
    """
    strict = [
        size
        for size in asked.plan.sizes_bytes
        if fractions.fraction(size / _SEARCH_SIZES, fractions.ALL_REDUCE[:1], scale) is not None
    ]
    return strict[0] if strict else asked.plan.end_bytes


def _named(request: Build | Schedule | Measure | Search | Job | EntryTest, *reasons: str) -> str:
    """Return a request as JSON, with a run id that is a hash of everything that could change its answer."""
    return json.dumps(data(request._replace(run_id=_id([data(request), *reasons]))), sort_keys=True)


def _id(known: list[Any]) -> str:
    return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:16]
