"""Types of the runner's answers: one JSON line for each request.

This module needs only Python 3.6, because the runner imports it on a node. A field that is None and whose default is None is
left out of the line. The judge treats a measurement's line as untrusted input (`benchmarks.judge.measurement`).
"""

from typing import Any, Dict, List, NamedTuple, Optional

from benchmarks.launch.protocol import LINE_SCHEMA, BuildLine, Evidence


class ScheduleLine(NamedTuple):
    """The Slurm cluster that was set up.

    Attributes:
        version: Slurm's version.
        controller: name of the node that runs slurmctld.
        nodes: how many nodes take jobs.
        cgroups: whether control groups restrict jobs to their processors and GPUs.
    """

    run_id: str
    version: str
    controller: str
    queue: str
    nodes: int
    cgroups: bool
    seconds: float
    schema: int = 1
    kind: str = "schedule"


class SpreadLine(NamedTuple):
    """The spread of the times of operations that were timed one by one; an operation takes as long as its slowest rank."""

    iterations: int
    p50_us: float
    p99_us: float
    cv_pct: float


class StepLine(NamedTuple):
    """One run of one test program: its numbers, or why it has none.

    Attributes:
        name, stage, collective: as in the request.
        failed: why there are no numbers; if this field is set, all later fields are absent.
        rows: for each size [size_bytes, out of place, in place]; each placement is [time_us, algbw_gb_s, busbw_gb_s, wrong] or
            null.
        program: the collective that the program reports.
        ranks, hosts: number of ranks and of hosts that the program lists.
        problems: inconsistencies in the program's output and in its JSON file.
        waited: in a rehearsal, the share of a rank's time in which the rank waited for a processor; the maximum over all ranks.
        groups_gb_s: busbw of each group, by group number; for many groups {count, slowest, most, middle, mad}.
        looks_gb_s: busbw of each look.
    """

    name: str
    stage: str
    collective: str
    failed: Optional[str] = None
    rows: Optional[List[Any]] = None
    program: Optional[str] = None
    ranks: Optional[int] = None
    hosts: Optional[int] = None
    problems: Optional[List[str]] = None
    seconds: Optional[float] = None
    waited: Optional[float] = None
    groups_gb_s: Any = None
    looks_gb_s: Optional[List[float]] = None
    spread: Optional[SpreadLine] = None


class Rehearsed(NamedTuple):
    """The run was rehearsed: line rates were divided by `scale`."""

    scale: int


class Versions(NamedTuple):
    """Versions on the head node; None if unknown."""

    nccl: Optional[str]
    nccl_tests: Optional[str]
    driver: Optional[str]
    os: str
    kernel: str


class Differences(NamedTuple):
    """Sentences about nodes that differ from each other or from their shape."""

    differences: List[str]


class NvlinkBytes(NamedTuple):
    """The smallest number of bytes that any node sent over NVLink, and the number of nodes that count bytes over NVLink."""

    least: int
    nodes: int


class PortEvents(NamedTuple):
    """By how much (`count`) an error counter of a port grew."""

    node: str
    hca: str
    counter: str
    count: int  # type: ignore[assignment]  # a tuple has a method of that name, which nobody calls


class Warned(NamedTuple):
    """A warning that NCCL logged `count` times on a node."""

    node: str
    said: str
    count: int  # type: ignore[assignment]  # a tuple has a method of that name, which nobody calls


class Transport(NamedTuple):
    """What carried the bytes, up to and including the deciding step.

    Attributes:
        tx_bytes: bytes sent, by node and device. With many nodes, only some are listed: the nodes that sent the fewest bytes,
            and the nodes with the most uneven traffic across their rails.
        hcas: names of all RDMA devices that any node has.
        netdevs: on the head node, the network interface of each device.
        said: sentences of NCCL's log with their counts, by subject.
        network: the network that NCCL reports.
        counted_nodes: number of nodes of which at least one rail was counted.
        through_host_memory: nodes where at least one of NCCL's channels used no GPUDirect RDMA. After 8 nodes, the last entry
            is "and N more".
        steps: in a retest, names of the steps between the two readings of the counters.
        uncounted_ports: RDMA devices whose error counters could not be read both before and after the run, as "DEVICE of NODE".
            These are rails if the rails are known. After 8 devices, the last entry is "and N more".
    """

    tx_bytes: Dict[str, Dict[str, int]]
    hcas: List[str]
    netdevs: Dict[str, Optional[str]]
    events: List[PortEvents]
    said: Dict[str, Dict[str, int]]
    network: Optional[str] = None
    nvlink_tx_bytes: Optional[NvlinkBytes] = None
    counted_nodes: Optional[int] = None
    through_host_memory: Optional[List[str]] = None
    steps: Optional[List[str]] = None
    uncounted_ports: Optional[List[str]] = None


#: This text precedes the reason why ib_write_bw was not run on a rail. If ib_write_bw ran and failed, the text is absent.
NOT_MEASURED = "not measured: "


class RailLine(NamedTuple):
    """One rail from a node to the next one in the ring, tried by itself.

    Attributes:
        node, peer: the sender and the receiver.
        reached: `rdma` if rping reached the peer. If rping could not be tried: `address` if a TCP connection over the rail's
            interface reached the peer, or else `link` if ib_write_bw did. None if the rail counts as not reached.
        gbit_s: average payload rate that ib_write_bw reached, in Gbit/s.
        line_gbit_s: rate that the port reports.
        why: why the rail was not reached or not measured; None if the rail was reached and measured.
        untried: true if no program can try the rail, such as an EFA device; None otherwise.
    """

    node: str
    peer: str
    rail: str
    reached: Optional[str] = None
    gbit_s: Optional[float] = None
    line_gbit_s: Optional[float] = None
    why: Optional[str] = None
    untried: Optional[bool] = None


class ProofsLine(NamedTuple):
    """The results of trying every rail by itself.

    Attributes:
        rails: how many rails were tried: the number of nodes times the number of rails of a node.
        reached, measured: how many rails were reached, and for how many ib_write_bw gave a number.
        untried: how many rails no program can try; None if there are none.
        worst: at most 16 rails: first the rails that were not reached, then those on which ib_write_bw failed, then the slowest
            rails and some rails on which ib_write_bw was not run.
    """

    rails: int
    reached: int
    measured: int
    worst: List[RailLine]
    seconds: float
    untried: Optional[int] = None


class MeasureLine(NamedTuple):
    """One measurement.

    Attributes:
        started: the start time in RFC 3339, UTC.
        machines: id of each machine by node; for many machines {count, sha256}.
        gpu: the GPU model that the head node reports.
        earlier_looks: looks of the previous measurement on the same machines, in GB/s.
        proofs: the results of trying every rail by itself, if that was requested.
    """

    run_id: str
    started: str
    steps: List[StepLine]
    versions: Versions
    inventory: Differences
    transport: Transport
    evidence: Evidence
    seconds: float
    rehearsal: Optional[Rehearsed]
    gpu: Optional[str]
    machines: Optional[Dict[str, Any]] = None
    warnings: Optional[List[Warned]] = None
    earlier_looks: Optional[List[float]] = None
    proofs: Optional[ProofsLine] = None
    schema: int = LINE_SCHEMA
    kind: str = "measure"


class TrialLine(NamedTuple):
    """One trial: the busbw that the nodes reached over the rails, or why there is none."""

    nodes: List[str]
    rails: List[str]
    busbw_gb_s: Optional[float]
    why: Optional[str]


class CulpritLine(NamedTuple):
    """One cause of slowness that the search found.

    Attributes:
        kind: node, link, rail, rail_plane, group or between (see `benchmarks.search.trials.Culprit`).
        ratio: the culprit's busbw divided by the healthy busbw.
        flapping: whether the culprit is slow only at times.
        confidence: from 0 to 1.
        next: the command to type next on the head node.
    """

    kind: str
    nodes: List[str]
    rails: List[str]
    ratio: float
    evidence: List[TrialLine]
    flapping: bool = False
    confidence: Optional[float] = None
    next: str = ""


class RetestLine(NamedTuple):
    """The second measurement of what was short, or why there is none."""

    steps: List[StepLine]
    transport: Optional[Transport]
    evidence: Optional[Evidence]
    failed: Optional[str]


class SearchLine(NamedTuple):
    """The result of a search.

    Attributes:
        needed: whether a cause was searched for; if not, the fields of the search are absent.
        complete: whether the search tried all that it needed before the budget or the limit of rounds stopped it.
        failed: why the search ended early.
        pairs: [node index, node index, busbw_gb_s] of each trial of a pair over all rails.
    """

    run_id: str
    needed: bool
    again: Optional[RetestLine] = None
    culprits: Optional[List[CulpritLine]] = None
    healthy_gb_s: Optional[float] = None
    rounds: Optional[int] = None
    trials: Optional[int] = None
    complete: Optional[bool] = None
    failed: Optional[str] = None
    summary: Optional[str] = None
    pairs: Optional[List[Any]] = None
    seconds: Optional[float] = None
    schema: int = 1
    kind: str = "search"


class JobLine(NamedTuple):
    """The result of a test job.

    Attributes:
        job: the job's Slurm id.
        nodes: names of the job's nodes in ring order.
        build: the line of the job's build.
        measure: the line of the job's measurement: a MeasureLine from which absent fields are left out.
    """

    run_id: str
    job: str
    nodes: List[str]
    build: BuildLine
    measure: Any
    schema: int = 1
    kind: str = "job"


class EntryLine(NamedTuple):
    """The result of a test of new machines.

    Attributes:
        failed: why the test could not run, so that no machine has passed; empty if the test ran.
        bad: why a node has not passed, by the node's name; nodes that passed are absent.
        told: a node's busbw with each of its partners, as text, by the node's name.
    """

    run_id: str
    failed: str
    bad: Dict[str, str]
    told: Dict[str, str]
    schema: int = 1
    kind: str = "entry"


LINES = (ScheduleLine, MeasureLine, SearchLine, JobLine, EntryLine)  # type: Any
