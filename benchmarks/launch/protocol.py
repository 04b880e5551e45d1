"""What is asked of the runner, and how a build or a refusal answers: one JSON document each way, typed on both sides.

Python 3.6 upward, because the runner imports it on a node. `load` refuses what does not fit; `docs/runner.schema.json` is made
from these types.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Type, TypeVar, Union, cast, get_type_hints

#: Version of requests.
SCHEMA = 2
#: Version of the measurement's line.
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
        uri: reference in enroot's form; empty if `path` names a file on the nodes.
        path: the image's file on the nodes; empty if `uri` is set.
        sha256: sha256 of the file, if it is pinned.
        shared: folder that all nodes share, for the imported image's file; empty copies the file to every node.
        homes: globs for MPI, CUDA and NCCL inside, by variable.
        runtime: what runs it: enroot or containerd, for which `uri` is without a scheme.
    """

    uri: str
    path: str
    sha256: str
    shared: str
    homes: Dict[str, List[str]]
    runtime: str = "enroot"


class Build(NamedTuple):
    """Build `programs` from `source` against the folders that `homes` finds, and copy them to every node."""

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
    """Make the first node Slurm's controller, and all nodes its machines.

    Attributes:
        queue: the partition, which contains all nodes.
        gpu: the GPU model of the shape.
        gpus: GPUs of each node.
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
        kind: the launcher, a module of `benchmarks.launch`: mpirun, enroot, containerd, slurm,
            remote_shell or pyxis.
        mpi_home: Open MPI's folder on every node.
        bind_to: the unit to which mpirun binds ranks.
        mca: Open MPI's parameters by name.
        prefix: whether to tell mpirun where it was moved to.
        hostfile: path of the hostfile on the head node.
        start: words that start a command inside the container; empty on the nodes themselves.
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
        program: its path on every node.
        arguments: its arguments.
        environment: variables of every rank.
        per_node: ranks on each node.
        nodes: indices of the nodes, in rank order; None for all.
    """

    program: str
    arguments: List[str]
    environment: Dict[str, str]
    per_node: int
    nodes: Optional[List[int]] = None

    @property
    def size(self) -> str:
        """The largest message in the arguments; empty if they contain none."""
        return self.arguments[self.arguments.index("-e") + 1] if "-e" in self.arguments[:-1] else ""


class Pace(NamedTuple):
    """What a step reaches on healthy wires, for the progress display.

    Attributes:
        busbw_factor: busbw over size / time.
        wire_gb_s: busbw that the wire allows, on real wires; 0 if unknown.
        seconds: time that its operations take there.
    """

    busbw_factor: float
    wire_gb_s: float
    seconds: float


class Step(NamedTuple):
    """One run of one test program.

    Attributes:
        name: unique within its request.
        stage: node, rails, all, spread, free, looks or nvl.
        collective: the collective that runs.
        ranks: the ranks that run it.
        result: path of the JSON file that the first rank writes.
        groups: how many groups run at once.
        cycles: how often each size is measured.
        decides: whether no further step runs if this one returns nothing.
        silence_s: how long it may print nothing before it counts as hung, on real wires; 0 for the measurement's own limit.
        pace: what it reaches on healthy wires; None if that is not shown.
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
        rails: RDMA devices; interfaces if the rails have none.
        rdma: whether `rails` are RDMA devices.
        seconds: how long ib_write_bw sends over each.
    """

    rails: List[str]
    rdma: bool
    seconds: int


class Measure(NamedTuple):
    """Run `steps` in their order.

    Attributes:
        gpus: GPUs that each node must show.
        hcas: RDMA devices whose bytes are counted.
        fabric: interfaces that must carry NCCL's sockets; if one is absent, ranks leave the choice to NCCL.
        deciding: name of the step before and after which counters are read.
        results: folder for the JSON files.
        logs: folder on every node for NCCL's logs.
        evidence: the first measurement's evidence, if this is a retest.
        gpu: the GPU model of the shape; empty if unknown.
        gpu_pcie: generation and lanes of its PCIe link by its data sheet; empty if unknown.
        port_gbit_s: line rate of each rail of the shape; 0 if the rate that drivers report cannot be compared with it.
        binaries: folder of the programs on every node.
        programs: sha256 of each file that the build put there, by name; checked before the first step.
        proofs: what is tried of each rail before the first step; None for nothing.
        nccl_home: folder of the NCCL on every node, whose client says which ranks lag; empty if NCCL is in an image.
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
        gpus: ranks on each node.
        rails: what can be tried separately, each as a list of RDMA devices.
        by_gpu: whether a GPU's number selects its rails, because NCCL's plugin does not accept a list of devices.
        launch: how ranks start.
        ranks: program and environment of every trial.
        size_bytes: message size of a trial over all rails.
        iterations: timed operations of a trial.
        pair_limit_gb_s: what a healthy pair must reach; None if unknown.
        whole_gb_s: what the full ring reached; None if another collective was measured.
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
        budget_s: time limit of the trials.
        again: what is measured again; None for nothing.
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
    """Build and measure in a job of Slurm, on nodes that nobody knows before the job runs.

    Attributes:
        nodes: how many nodes the job must have.
        keep: folder on all nodes that outlives them; the result is kept there, in RUN_ID.json.
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
    """What a healthy pair reaches with messages of `size_bytes` and more, on real wires."""

    size_bytes: int
    busbw_gb_s: float


class EntryTest(NamedTuple):
    """Test machines that nobody knows yet in pairs, before they become nodes.

    Attributes:
        timeout_s: limit of the whole test.
        build, trials: how nccl-tests is built and how trials run, with placeholders for folders and without nodes.
        limits: what each pair must reach, by message size.
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
        shared: path (in ssh's notation) of the socket of a connection that the runner keeps open; empty for none.
        binaries: folder of the programs on every node.
        hashes: sha256 of each file in that folder.
        mpi_home, cuda_home, nccl_home: folders that were found; CUDA's and NCCL's are inside the image if there is one.
        versions: by name.
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
    """The engine's answer when the runner refused, or its work ended without a result: the reason, in one sentence."""

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
        UnfitError: it is not a request, or its version is unknown.
    """
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in REQUESTS:
        raise UnfitError("kind is {!r}; it must be one of {}".format(kind, ", ".join(REQUESTS)))
    if value.get("schema") != SCHEMA:
        raise UnfitError("schema is {!r}; it must be {}".format(value.get("schema"), SCHEMA))
    return cast(Request, load(REQUESTS[kind], value))


def data(value: Any, *, sparse: bool = False) -> Any:
    """Return a NamedTuple and all inside it as plain data; if `sparse`, without the optional fields that are None."""
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
    for name in ("kind", "schema"):  # a document inside another also has its own kind and version
        if name in optional and value.get(name, optional[name]) != optional[name]:
            raise UnfitError(f"{within}{name} is {value[name]!r}; it must be {optional[name]!r}")
    lacking = [name for name in hint._fields if name not in value and name not in optional]
    if lacking:
        raise UnfitError(f"{within}{lacking[0]} is missing")
    return hint(**{name: _load(hints[name], value[name], within + name) for name in hint._fields if name in value})
