"""Sets up a Slurm cluster on the request's nodes: this node becomes its controller, and all nodes run its jobs.

Nothing is installed. A machine that already belongs to another Slurm cluster is not changed. Munge's key is created on this
node and sent to the other nodes over SSH; no other machine has the key.
"""

import json
import time
from typing import Any, Dict, List

from benchmarks.launch.lines import ScheduleLine
from benchmarks.launch.protocol import Node, Schedule, data
from benchmarks.runner import fanout, jobs, slurm_states
from benchmarks.runner.refusal import Refusal
from scheduler import node_setup, slurm_conf, slurm_facts
from scheduler.cluster import Cluster, Cores, Hardware, NodeSet, Queue, nvidia_gpus
from scheduler.cluster import Node as Member
from scheduler.files import digest, files
from scheduler.units import units

_ASK_TIMEOUT_S = 60
_SETUP_TIMEOUT_S = 120
_POLL_S = 0.2
_CLUSTER = "busbar"
_ROOT = f'if [ "$(id -u)" = 0 ]; then exec {fanout.PYTHON} -; else exec sudo -n {fanout.PYTHON} -; fi'
Facts = Dict[str, Any]


def commands(request: Schedule) -> List[str]:
    """Return commands that show a person the queue with its nodes, and Slurm's configuration files."""
    return [f"sinfo --partition {request.queue} --Node --long", f"ls {slurm_conf.CONF}"]


def work(request: Schedule, _here: str, say: jobs.Say) -> Dict[str, Any]:
    """Set the cluster up and wait until every node takes jobs; return the line.

    Raises:
        Refusal: a node lacks something that Slurm needs, already belongs to another Slurm cluster, or takes no jobs.
    """
    began = time.monotonic()
    fanout.keep(request.nodes)
    known = _facts(request)
    cluster = cluster_of(request, known)
    said = (known[0]["version"], cluster.controller, len(known), request.queue)
    say("Slurm {}: controller {}, {} nodes, queue {}".format(*said))
    key = _set_up(request.nodes[:1], _controller(cluster))[0]["key"]
    _set_up(request.nodes, dict(_member(cluster), key=key))
    wait(request, began, say)
    line = ScheduleLine(
        run_id=request.run_id,
        version=known[0]["version"],
        controller=request.nodes[0].name,
        queue=request.queue,
        nodes=len(request.nodes),
        cgroups=cluster.cgroups,
        seconds=round(time.monotonic() - began, 1),
    )
    return dict(data(line, sparse=True))


def _facts(request: Schedule) -> List[Facts]:
    answers = fanout.each(request.nodes, fanout.PYTHON + " -", fanout.source_of(slurm_facts), _ASK_TIMEOUT_S)
    silent = [f"{node.name} ({answer.why})" for node, answer in zip(request.nodes, answers) if answer.status != 0]
    if silent:
        raise Refusal("no answer from {}".format("; ".join(silent)))
    found = [json.loads(answer.out.splitlines()[-1]) for answer in answers]
    problems = [sentence for node, its in zip(request.nodes, found) for sentence in problems_of(node, its, request)]
    problems = problems or together(request.nodes, found)
    if problems:
        raise Refusal("no Slurm cluster was created: {}".format("; ".join(problems)))
    return found


def problems_of(node: Node, its: Facts, request: Schedule) -> List[str]:
    """Return why one node cannot be in the cluster."""
    if its["lacks"]:
        return [
            "{} has no {}; install Slurm and munge on every node (on Ubuntu: apt-get install slurmctld slurmd slurm-client "
            "munge)".format(node.name, ", ".join(its["lacks"]))
        ]
    found = []
    if its["first_line"] not in (None, slurm_conf.MARK):
        found.append(f"{node.name} already has its own Slurm cluster ({slurm_conf.CONF}/slurm.conf), which is left as it is")
    found += [
        f"{node.name} runs {daemon} of another Slurm cluster, which is left as it is"
        for daemon, unit in its["running"].items()
        if unit != slurm_conf.MARK
    ]
    if its["slurm_uid"] is None:
        found.append(f"{node.name} has no user slurm, which Slurm's packages create")
    if not its["root"]:
        found.append(f"{node.name}: sudo asks the login user for a password, but Slurm must be set up as root")
    if node == request.nodes[0] and not its["controls"]:
        found.append(f"{node.name} has no slurmctld, but the head node must be the controller")
    if not all(its["cores"]) or not its["memory_mib"]:
        found.append(f"{node.name}: slurmd -C does not report both processors and memory")
    if its["devices"] != list(range(request.gpus)):
        shown = ", ".join(f"nvidia{number}" for number in its["devices"]) or "none"
        found.append(f"{node.name} must have {request.gpus} GPUs in /dev, from nvidia0 on, but has {shown}")
    return found


def together(nodes: List[Node], found: List[Facts]) -> List[str]:
    """Return how the nodes are inconsistent with each other."""
    first = found[0]
    problems: List[str] = []
    seen: Dict[str, str] = {}
    for node, its in zip(nodes, found):
        if its["version"] != first["version"]:
            problems.append("{} has Slurm {}, and {} has {}".format(node.name, its["version"], nodes[0].name, first["version"]))
        for user, key in (("the login user", "uid"), ("slurm", "slurm_uid")):
            if its[key] != first[key]:
                problems.append(
                    f"{user} has user id {its[key]} on {node.name} and {first[key]} on {nodes[0].name}; they must be equal"
                )
        if its["hostname"] in seen:
            problems.append("{} and {} both call themselves {}".format(seen[its["hostname"]], node.name, its["hostname"]))
        seen[its["hostname"]] = node.name
    return problems


def cluster_of(request: Schedule, found: List[Facts]) -> Cluster:
    """Return the cluster that consists of the nodes; nodes with different hardware are in different sets of one queue."""
    gpus = nvidia_gpus(request.gpu, request.gpus)
    alike = {}  # type: Dict[Hardware, List[Member]]
    for node, its in zip(request.nodes, found):
        hardware = Hardware(Cores(*its["cores"]), its["memory_mib"], gpus)
        alike.setdefault(hardware, []).append(Member(node.name, its["hostname"], node.address))
    sets = [NodeSet(f"set{number}", hardware, members) for number, (hardware, members) in enumerate(alike.items(), 1)]
    held = slurm_facts.uses_cgroups(found)
    head = request.nodes[0]
    return Cluster(_CLUSTER, found[0]["hostname"], head.address, [Queue(request.queue, sets, default=True)], held)


def _controller(cluster: Cluster) -> Dict[str, Any]:
    unit = units(cluster.controller_address)["slurmctld.service"]
    given = {"key": "", "files": files(cluster), "units": {"slurmctld.service": unit}}
    return dict(_places(), **given)


def _member(cluster: Cluster) -> Dict[str, Any]:
    unit = units(cluster.controller_address)["slurmd.service"]
    # slurmd fetches Slurm's files only when slurmd starts. Only a changed unit is restarted, so the unit has a digest of the
    # files.
    unit += f"# files: {digest(cluster)}\n"
    return dict(_places(), files={}, units={"slurmd.service": unit})


def _places() -> Dict[str, Any]:
    return {"conf": slurm_conf.CONF, "mark": slurm_conf.MARK, "folders": [slurm_conf.STATE, slurm_conf.SPOOL, slurm_conf.LOGS]}


def _set_up(nodes: List[Node], given: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Run the set-up on `nodes` as root; return what each node printed."""
    call = f"\nmain({json.dumps(given)!r})\n".encode()
    answers = fanout.each(nodes, _ROOT, fanout.source_of(node_setup) + call, _SETUP_TIMEOUT_S)
    failed = [f"{node.name} ({answer.why})" for node, answer in zip(nodes, answers) if answer.status != 0]
    if failed:
        raise Refusal("Slurm was not set up on {}".format("; ".join(failed)))
    return [json.loads(answer.out.splitlines()[-1]) for answer in answers]


def wait(request: Schedule, began: float, say: jobs.Say) -> None:
    """Wait until every node takes jobs; a node that is drained in Slurm is reported at once."""
    said = ""
    while True:
        late = time.monotonic() - began > request.timeout_s
        try:
            known = slurm_states.states()
        except Refusal:
            if late:
                raise
            known = {}
        missing = slurm_states.unusable(request.nodes, known)
        if not missing:
            return
        if late or any(its.drained for its in known.values()):
            raise Refusal("{} after {:.0f} s".format("; ".join(missing), time.monotonic() - began))
        if known and missing[0] != said:
            said = missing[0]
            say(f"waiting for {len(missing)} of {len(request.nodes)} nodes: {said}")
        time.sleep(_POLL_S)
