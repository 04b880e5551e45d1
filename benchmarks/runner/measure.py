"""Run one plan over all nodes and bring back one line: rows, ranks, versions, what moved where, and where the logs lie.

It deliberately judges nothing. It fails only where nothing was measured, and then says which node or which missing rule is the
likely cause.
"""

import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

import fanout
import inventory
import jobs
import reach
import transcript
from bounded import bounded
from refusal import Refusal

_INVENTORY_TIMEOUT_S = 90
_REACH_TIMEOUT_S = 60
#: Nodes whose traffic is kept one by one; above it only the extremes are.
_NODES_IN_DETAIL = 16


def commands(request: Dict[str, Any]) -> List[str]:
    """Return the commands that a person would type on the head."""
    return [
        "cat > {} <<'END'\n{}END".format(request["hostfile"]["path"], request["hostfile"]["text"]),
        _quoted(request["argv"]),
    ]


def work(request: Dict[str, Any], here: str, say: jobs.Say) -> Dict[str, Any]:
    """Measure; return the line.

    Raises:
        Refusal: a node cannot be reached or differs, or the run ended without a result.
    """
    with _alone(request, say):
        return _work(request, here, say)


@contextlib.contextmanager
def _alone(request: Dict[str, Any], say: jobs.Say) -> Iterator[None]:
    """Hold the head for one measurement: two at once would share the rails, and both would come out short."""
    deadline = time.monotonic() + request["timeout_s"]
    with open(os.path.join(jobs.root(), "measure.lock"), "w") as lock:
        said = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise Refusal("another measurement held this head for {} s".format(request["timeout_s"])) from None
            if not said:
                say("waiting for another measurement on this head to end")
                said = True
            time.sleep(0.5)
        yield


def _work(request: Dict[str, Any], here: str, say: jobs.Say) -> Dict[str, Any]:
    began = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    nodes = request["nodes"]
    before = _inventories(nodes)
    _refuse_unequal(nodes, before, request)
    if len(nodes) > 1:
        _refuse_unreachable(nodes, say)
    os.makedirs(os.path.dirname(request["hostfile"]["path"]), exist_ok=True)
    with jobs.text(request["hostfile"]["path"], "w") as target:
        target.write(request["hostfile"]["text"])
    if os.path.exists(request["result"]):
        os.unlink(request["result"])  # nccl-tests would write beside it, under another name
    text = _run(request, here, say)
    run, problems = _read(request, text)
    after = _inventories(nodes)
    evidence = _keep(here, text, request)
    first = before[0]
    return {
        "schema": 1,
        "kind": "measure",
        "run_id": request["run_id"],
        "started": began,
        "collective": run.collective or request["collective"],
        "results": [_row(row) for row in run.rows],
        "ranks": len(run.devices),
        "problems": problems,
        "rehearsal": {"scale": run.scale} if run.scale else None,
        "versions": {"nccl": run.nccl, "nccl_tests": run.nccl_tests, "driver": first["driver"], "os": first["os"]},
        "gpu": first["gpus"][0] if first["gpus"] else None,
        "transport": _transport(nodes, before, after, run.network),
        "evidence": evidence,
    }


def _inventories(nodes: List[Dict[str, str]]) -> List[Dict[str, Any]]:
    answers = fanout.each(nodes, "python3 -", fanout.source_of(inventory), _INVENTORY_TIMEOUT_S)
    silent = ["{} ({})".format(node["name"], answer.why) for node, answer in zip(nodes, answers) if answer.status != 0]
    if silent:
        raise Refusal("no inventory from {}".format("; ".join(silent)))
    return [json.loads(answer.out.splitlines()[-1]) for answer in answers]


def _refuse_unequal(nodes: List[Dict[str, str]], found: List[Dict[str, Any]], request: Dict[str, Any]) -> None:
    """A node with fewer GPUs or another driver would stop mpirun with an error that names neither."""
    for node, its in zip(nodes, found):
        if len(its["gpus"]) != request["gpus"]:
            raise Refusal("{} shows {} GPUs, and its shape has {}".format(node["name"], len(its["gpus"]), request["gpus"]))
        if its["driver"] != found[0]["driver"]:
            raise Refusal(
                "{} runs driver {}, {} runs {}".format(node["name"], its["driver"], nodes[0]["name"], found[0]["driver"])
            )


def _refuse_unreachable(nodes: List[Dict[str, str]], say: jobs.Say) -> None:
    local = ["python3", "-u", "-c", reach.BOOT]
    remote = f'python3 -u -c "{reach.BOOT}"'
    start = [local if index == 0 else [*fanout.SSH, node["address"], remote] for index, node in enumerate(nodes)]
    sentences = reach.unreachable(nodes, start, _REACH_TIMEOUT_S)
    if sentences:
        for sentence in sentences:
            say(sentence)
        if "cannot reach" not in sentences[0]:
            raise Refusal(sentences[0])
        raise Refusal(
            "{}{}; SSH works, so a rule is the likely cause: the nodes' subnet must allow all protocols from the nodes' "
            "network (a security list with SSH alone lets MPI hang)".format(
                sentences[0], f" and {len(sentences) - 1} more" if len(sentences) > 1 else ""
            )
        )


def _run(request: Dict[str, Any], here: str, say: jobs.Say) -> str:
    """Run the argv under its bound, show its rows as they come, return all that it printed."""
    say("measuring: {} on {} nodes".format(request["collective"], len(request["nodes"])))
    kept = []
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SSH_", "PULUMI_"))}
    with bounded(request["argv"], request["timeout_s"], cwd=os.path.expanduser("~"), env=environment) as run:
        with jobs.text(os.path.join(here, "transcript.txt"), "w") as log:
            for line in run.lines():
                kept.append(line)
                log.write(line + "\n")
                log.flush()
                if line.lstrip()[:1].isdigit() or "busbw" in line or "(GB/s)" in line or "busbar rehearsal" in line:
                    say(line)
        status = run.status()
    if run.late:
        raise Refusal(
            "the run was stopped after {} s with {} rows done; its output is {}/transcript.txt on the head".format(
                request["timeout_s"], sum(line.lstrip()[:1].isdigit() for line in kept), here
            )
        )
    if status != 0:
        raise Refusal(f"the run ended with status {status}: {_cause(kept)} (its output is {here}/transcript.txt on the head)")
    return "\n".join(kept) + "\n"


def _cause(lines: List[str]) -> str:
    """Return the line that most likely says why a run failed."""
    telling = [
        line for line in lines if any(word in line.lower() for word in ("error", "failed", "refused", "unable", "invalid"))
    ]
    words = telling or lines or ["it printed nothing"]
    return words[0].strip()[:500]


def _read(request: Dict[str, Any], text: str) -> Tuple[transcript.Transcript, List[str]]:
    """Return the run as its JSON file has it, checked against the text, which alone tells the network."""
    runs = transcript.parse_text(text)
    if len(runs) != 1:
        raise Refusal(f"the output holds {len(runs)} runs instead of one")
    printed = runs[0]
    try:
        with jobs.text(request["result"]) as source:
            precise = transcript.parse_json(source.read())
    except (OSError, ValueError) as error:
        return printed, [*printed.problems, f"the JSON result could not be used: {error}"]
    problems = [*printed.problems, *precise.problems]
    if [row.size_bytes for row in printed.rows] != [row.size_bytes for row in precise.rows]:
        problems.append("the text and the JSON result hold different sizes")
    if printed.scale != precise.scale:
        problems.append(f"the text states scale {printed.scale} and the JSON result {precise.scale}")
    return precise._replace(network=printed.network, nccl_tests=printed.nccl_tests, nccl=precise.nccl or printed.nccl), problems


def _row(row: transcript.Row) -> Dict[str, Any]:
    return {
        "size_bytes": row.size_bytes,
        "out_of_place": _placement(row.out_of_place),
        "in_place": _placement(row.in_place),
    }


def _placement(placement: Optional[transcript.Placement]) -> Optional[Dict[str, Any]]:
    return None if placement is None else dict(placement._asdict())


def _transport(
    nodes: List[Dict[str, str]], before: List[Dict[str, Any]], after: List[Dict[str, Any]], network: Optional[str]
) -> Dict[str, Any]:
    """Say what the run itself names as its network, and which devices of which node sent how many bytes meanwhile."""
    sent = {}
    for node, old, new in zip(nodes, before, after):
        sent[node["name"]] = {
            name: new[kind][name]["tx_bytes"] - old[kind][name]["tx_bytes"]
            for kind in ("interfaces", "hca")
            for name in sorted(new[kind])
            if name in old[kind] and old[kind][name]["tx_bytes"] is not None and new[kind][name]["tx_bytes"] is not None
        }
    if len(sent) > _NODES_IN_DETAIL:
        devices = sorted({name for counted in sent.values() for name in counted})
        columns = {name: [counted.get(name, 0) for counted in sent.values()] for name in devices}
        detail = {"least": {n: min(v) for n, v in columns.items()}, "most": {n: max(v) for n, v in columns.items()}}
    else:
        detail = sent
    return {"network": network, "tx_bytes": detail}


def _keep(here: str, text: str, request: Dict[str, Any]) -> Dict[str, str]:
    """Compress the transcript under its own hash; the JSON result is dropped, for it holds a rank's whole environment."""
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    path = os.path.join(here, digest + ".txt.gz")
    with open(path, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as target:
        target.write(data)
    os.unlink(os.path.join(here, "transcript.txt"))
    if os.path.exists(request["result"]):
        os.unlink(request["result"])
    return {"path": path, "sha256": digest}


def _quoted(argv: List[str]) -> str:
    return " ".join(f"'{word}'" if any(c in word for c in " ^=*'") else word for word in argv)
