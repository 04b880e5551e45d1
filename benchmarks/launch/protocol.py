"""Types of the requests to the runner, and of two answers: to a build, and to a request that the runner refuses.

Requests and answers are JSON documents. This module needs only Python 3.6, because the runner imports it on a node. `load`
refuses a document that does not fit its type; `docs/runner.schema.json` is made from these types.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Type, TypeVar, Union, cast, get_type_hints

#: Version of the JSON document that is a request.
SCHEMA = 2
#: Version of the JSON line that reports a measurement, or why there is none.
LINE_SCHEMA = 2

T = TypeVar("T")


class UnfitError(ValueError):
    """A document that does not fit its type; the message begins with the path in the document."""


class Node(NamedTuple):
    """One node: its host name and the address at which other nodes reach it."""

    name: str
    address: str


class Source(NamedTuple):
    """The nccl-tests archive: version, sha256, and a URL or the path of a file in the head node's home folder."""

    version: str
    sha256: str
    url: str = ""
    path: str = ""


class Image(NamedTuple):
    """The image that ranks run in.

    Attributes:
        uri: the image's reference, for containerd in the form without a scheme, for the other runtimes in enroot's form. Empty
            if `path` names a file.
        path: the image's file on the nodes; empty if `uri` is set.
        sha256: sha256 that the file must have; empty if it is not pinned.
        shared: folder that all nodes share, for the imported image's file; without it, the file is copied to every node.
        homes: globs for the folders of MPI, CUDA and NCCL in the image, by variable, such as MPI_HOME.
        runtime: the program that runs the image: enroot, containerd or pyxis.
    """

    uri: str
    path: str
    sha256: str
    shared: str
    homes: Dict[str, List[str]]
    runtime: str = "enroot"


class Build(NamedTuple):
    """Build `programs` from `source` against the folders that match the globs in `homes`; copy the programs to every node."""

    run_id: str
    timeout_s: float
    nodes: List[Node]
    programs: List[str]
    source: Source
    homes: Dict[str, List[str]]
    container: Optional[Image] = None
    schema: int = SCHEMA
    kind: str = "build"


class Schedule(NamedTuple):
    """Set up a Slurm cluster: the first node becomes its controller, and all nodes run its jobs.

    Attributes:
        queue: the partition, which contains all nodes.
        gpu: the GPU model of the shape.
        gpus: number of GPUs in each node.
    """

    run_id: str
    timeout_s: float
    nodes: List[Node]
    queue: str
    gpu: str
    gpus: int
    schema: int = SCHEMA
    kind: str = "schedule"


class Launch(NamedTuple):
    """How ranks start.

    Attributes:
        kind: the launcher, a module of `benchmarks.launch`: mpirun, enroot, containerd, slurm, remote_shell or pyxis.
        mpi_home: Open MPI's folder on every node; with containerd and Pyxis, in the image.
        bind_to: the unit that mpirun binds each rank to.
        mca: Open MPI's parameters by name.
        prefix: whether mpirun gets the option --prefix with `mpi_home`, because Open MPI was moved after it was built.
        hostfile: path of the hostfile on the head node.
        start: words that start a command inside the container; empty if ranks run on the nodes themselves.
        queue: the Slurm partition; empty without Slurm.
    """

    kind: str
    mpi_home: str
    bind_to: str
    mca: Dict[str, str]
    hostfile: str
    start: List[str]
    prefix: bool = False
    queue: str = ""


class Ranks(NamedTuple):
    """Ranks of one program.

    Attributes:
        program: path of the program on every node.
        arguments: the program's arguments.
        environment: environment variables of every rank.
        per_node: number of ranks on each node.
        nodes: indices of the nodes, in rank order; None for all.
    """

    program: str
    arguments: List[str]
    environment: Dict[str, str]
    per_node: int
    nodes: Optional[List[int]] = None

    @property
    def size(self) -> str:
        """The largest message size, as the arguments give it after `-e`; empty if the arguments have no `-e`."""
        return self.arguments[self.arguments.index("-e") + 1] if "-e" in self.arguments[:-1] else ""


class Pace(NamedTuple):
    """What a step reaches on a healthy fabric, for the progress display.

    Attributes:
        busbw_factor: busbw divided by (size / time); in most tests, (size / time) is algbw.
        wire_gb_s: busbw that the rails, or NVLink inside a node, allow outside a rehearsal; 0 if unknown.
        seconds: time that the step's operations take at that busbw; 0 if unknown.
    """

    busbw_factor: float
    wire_gb_s: float
    seconds: float


class Step(NamedTuple):
    """One run of one test program.

    Attributes:
        name: unique within its request.
        stage: node, rails, all, spread, free, looks or nvl (see `benchmarks.plan.steps.Step`).
        collective: the collective that runs.
        ranks: the ranks that run it.
        result: path of the JSON file that the first rank writes.
        groups: how many groups of ranks run at the same time.
        cycles: how often each size is measured.
        decides: whether the later steps are skipped if this step returns no result.
        silence_s: how long the step may print nothing, outside a rehearsal, before it counts as hung; 0 if only the
            measurement's own time limit counts.
        pace: what the step reaches on a healthy fabric; None if there is no such estimate for the progress display.
    """

    name: str
    stage: str
    collective: str
    ranks: Ranks
    result: str
    groups: int = 1
    cycles: int = 1
    decides: bool = False
    silence_s: float = 0
    pace: Optional[Pace] = None


class Evidence(NamedTuple):
    """A transcript kept on the head node: its path, and the sha256 of its text."""

    path: str
    sha256: str


class Proofs(NamedTuple):
    """Try every rail by itself between neighbours in the ring, before the first step.

    Attributes:
        rails: names of the RDMA devices, or of the network interfaces if the rails have no RDMA devices.
        rdma: whether `rails` are RDMA devices.
        seconds: how long ib_write_bw sends over each rail.
    """

    rails: List[str]
    rdma: bool
    seconds: int


class Measure(NamedTuple):
    """Run `steps` in their order.

    Attributes:
        gpus: number of GPUs that each node must have.
        hcas: RDMA devices whose bytes are counted.
        fabric: interfaces that NCCL's sockets must use; if one is down or absent on any node, NCCL chooses the interfaces.
        deciding: name of the deciding step; counters are read before the first step and after the deciding step.
        results: folder on the head node for the JSON files that the steps write.
        logs: folder on every node for NCCL's logs.
        evidence: the first measurement's evidence, if this is a retest.
        gpu: the GPU model of the shape; empty if unknown.
        gpu_pcie: PCIe generation and number of lanes in the GPU's data sheet; empty if unknown.
        port_gbit_s: line rate of each rail of the shape; 0 if the rate that drivers report cannot be compared with it.
        binaries: folder of the programs on every node.
        programs: sha256 of each file that the build put into `binaries`, by file name; checked before the first step.
        proofs: how each rail is tried by itself before the first step; None if no rail is tried.
        nccl_home: NCCL's folder on every node; the program ncclras in this folder reports which ranks lag. Empty if NCCL is in
            an image.
    """

    run_id: str
    timeout_s: float
    nodes: List[Node]
    gpus: int
    hcas: List[str]
    fabric: List[str]
    deciding: str
    launch: Launch
    steps: List[Step]
    results: str
    logs: str
    evidence: Optional[Evidence] = None
    gpu: str = ""
    gpu_pcie: List[int] = []  # noqa: RUF012 - never changed
    port_gbit_s: int = 0
    binaries: str = "."
    programs: Optional[Dict[str, str]] = None
    proofs: Optional[Proofs] = None
    nccl_home: str = ""
    schema: int = SCHEMA
    kind: str = "measure"


class Trials(NamedTuple):
    """What a search tries.

    Attributes:
        gpus: number of ranks on each node.
        rails: the rails, or groups of rails, that can be tried separately, each as a list of RDMA devices.
        by_gpu: whether a GPU's number selects its rails, because NCCL's plugin does not accept a list of devices.
        launch: how ranks start.
        ranks: program and environment of every trial.
        size_bytes: message size of a trial over all rails.
        iterations: number of timed operations in a trial.
        pair_limit_gb_s: busbw that a healthy pair must reach; None if unknown.
        whole_gb_s: busbw that the full ring reached; None if another collective than all-reduce was measured, or if nothing was
            measured.
        off_ring: whether an all-to-all is slow, so that pairs outside the ring are tried too.
    """

    gpus: int
    rails: List[List[str]]
    by_gpu: bool
    launch: Launch
    ranks: Ranks
    size_bytes: int
    iterations: int
    pair_limit_gb_s: Optional[float] = None
    whole_gb_s: Optional[float] = None
    off_ring: bool = False


class Search(NamedTuple):
    """Measure again what was short, then search for the cause within the budget.

    Attributes:
        budget_s: after this time no round of trials begins; the last round is stopped 300 s later.
        again: the request of the retest; None if nothing is measured again.
        trials: how trials run; None if no cause needs to be found.
    """

    run_id: str
    timeout_s: float
    nodes: List[Node]
    budget_s: float
    again: Optional[Measure] = None
    trials: Optional[Trials] = None
    schema: int = SCHEMA
    kind: str = "search"


class Job(NamedTuple):
    """Build and measure in a Slurm job, whose nodes are known only when the job runs.

    Attributes:
        nodes: how many nodes the job must have.
        keep: folder that all nodes share and that outlives them; the result is kept in it as RUN_ID.json.
        build, measure: requests with placeholders for nodes and folders, see `benchmarks.launch.placeholders`.
    """

    run_id: str
    nodes: int
    keep: str
    build: Build
    measure: Measure
    schema: int = SCHEMA
    kind: str = "job"


class PairLimit(NamedTuple):
    """The busbw that a healthy pair reaches outside a rehearsal, with messages of `size_bytes` or more."""

    size_bytes: int
    busbw_gb_s: float


class EntryTest(NamedTuple):
    """Test new machines in pairs before they become nodes; the machines are known only when the test runs.

    Attributes:
        timeout_s: after this time no round of trials begins.
        build, trials: how nccl-tests is built and how trials run, with placeholders for folders and without nodes.
        limits: busbw that each machine must reach in its best pair, by message size.
    """

    run_id: str
    timeout_s: float
    build: Build
    trials: Trials
    limits: List[PairLimit]
    schema: int = SCHEMA
    kind: str = "entry"


Request = Union[Build, Schedule, Measure, Search]
REQUESTS: Dict[str, Any] = {"build": Build, "schedule": Schedule, "measure": Measure, "search": Search}


class ImageLine(NamedTuple):
    """The image that is ready on every node, its runtime, and the words that start a command in it."""

    reference: str
    file: str
    sha256: str
    bytes: int
    start: List[str]
    runtime: str = "enroot"


class BuildLine(NamedTuple):
    """The result of a build.

    Attributes:
        home: home folder on every node.
        shared: path, in ssh's notation, of the sockets of SSH connections that the runner keeps open; empty if it keeps none.
        binaries: folder of the programs on every node.
        hashes: sha256 of each file in that folder, and of the image if there is one, by name.
        mpi_home, cuda_home, nccl_home: folders that were found. If there is an image, these folders are inside the image.
            There is one exception: with enroot, MPI's folder is on the nodes.
        versions: versions of nccl-tests, MPI, CUDA and other components, by the component's name.
    """

    run_id: str
    home: str
    shared: str
    binaries: str
    hashes: Dict[str, str]
    mpi_home: str
    cuda_home: str
    nccl_home: str
    versions: Dict[str, str]
    seconds: float
    container: Optional[ImageLine] = None
    schema: int = SCHEMA
    kind: str = "build"


class Refused(NamedTuple):
    """The answer if the runner refused or ended without a result: the reason, in one sentence."""

    run_id: str
    failed: str
    kind: str
    schema: int = LINE_SCHEMA


def load(kind: Type[T], value: Any, path: str = "") -> T:
    """Return `value`, plain data, as an instance of the NamedTuple `kind`.

    Raises:
        UnfitError: a field is missing, unknown or of another type; the message begins with its path.
    """
    return cast(T, _load(kind, value, path))


def request(value: Any) -> Request:
    """Return the request that plain data describes.

    Raises:
        UnfitError: `value` is not a request, or its version is unknown.
    """
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in REQUESTS:
        raise UnfitError("kind is {!r}; it must be one of {}".format(kind, ", ".join(REQUESTS)))
    if value.get("schema") != SCHEMA:
        raise UnfitError("schema is {!r}; it must be {}".format(value.get("schema"), SCHEMA))
    return cast(Request, load(REQUESTS[kind], value))


def data(value: Any, *, sparse: bool = False) -> Any:
    """Return a NamedTuple and all inside it as plain data; if `sparse`, leave out fields that have a default and are None."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        absent = getattr(value, "_field_defaults", {}) if sparse else {}
        fields = [name for name in value._fields if name not in absent or getattr(value, name) is not None]
        return {name: data(getattr(value, name), sparse=sparse) for name in fields}
    if isinstance(value, (list, tuple)):
        return [data(one, sparse=sparse) for one in value]
    if isinstance(value, dict):
        return {key: data(one, sparse=sparse) for key, one in value.items()}
    return value


def _load(hint: Any, value: Any, path: str) -> Any:  # noqa: PLR0911 - one arm for each kind of type
    if hint is Any:
        return value
    origin: Any = getattr(hint, "__origin__", None)
    inner: Any = getattr(hint, "__args__", ())
    if origin is Union:
        if value is None and type(None) in inner:
            return None
        return _load([one for one in inner if one is not type(None)][0], value, path)  # noqa: RUF015 - an index reads better
    if origin in (list, List):
        if not isinstance(value, list):
            raise UnfitError(f"{path} is {value!r}; it must be a list")
        return [_load(inner[0], one, f"{path}[{index}]") for index, one in enumerate(value)]
    if origin in (dict, Dict):
        if not isinstance(value, dict):
            raise UnfitError(f"{path} is {value!r}; it must be an object")
        return {key: _load(inner[1], one, f"{path}.{key}") for key, one in value.items()}
    if hasattr(hint, "_fields"):
        return _record(hint, value, path)
    number = hint is float and isinstance(value, int) and not isinstance(value, bool)
    if not number and (not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool)):
        raise UnfitError(f"{path} is {value!r}; it must be of type {hint.__name__}")
    return value


def _record(hint: Any, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise UnfitError("{} is {!r}; it must be an object".format(path or "the document", value))
    hints = get_type_hints(hint)
    within = path + "." if path else ""
    for key in value:
        if key not in hint._fields:
            raise UnfitError("{}{} is unknown; {} has {}".format(within, key, hint.__name__, ", ".join(hint._fields)))
    optional = getattr(hint, "_field_defaults", {})
    for name in ("kind", "schema"):  # a document inside another document also has its own kind and version
        if name in optional and value.get(name, optional[name]) != optional[name]:
            raise UnfitError(f"{within}{name} is {value[name]!r}; it must be {optional[name]!r}")
    lacking = [name for name in hint._fields if name not in value and name not in optional]
    if lacking:
        raise UnfitError(f"{within}{lacking[0]} is missing")
    return hint(**{name: _load(hints[name], value[name], within + name) for name in hint._fields if name in value})
