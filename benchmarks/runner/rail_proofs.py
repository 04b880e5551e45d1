"""Tries every rail by itself between neighbours in the ring: tests whether the rail connects them, and runs ib_write_bw.

All nodes try the same rail at once, each with the next node, so this rail sends and receives on every node. If something cannot
be tried, the result gives the reason and no number.
"""

import json
import shlex
import subprocess
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from benchmarks.launch.lines import NOT_MEASURED, ProofsLine, RailLine
from benchmarks.launch.protocol import Node, Proofs
from benchmarks.runner import fanout, jobs, perftest, rail_try, reachability

#: Time limits that are added to the seconds for which ib_write_bw sends: one for each rail (start, rping, time-outs), and one
#: for the whole test.
_EACH_S, _FIRST_S = 60, 30
_WORST = 16
_SENTENCE = 300


class Tried(NamedTuple):
    """Results of all rails, for the line of the measurement, and the output of the test programs, for the evidence."""

    line: ProofsLine
    text: str


def commands(nodes: Sequence[Node], asked: Proofs) -> List[str]:
    """Return what a person would type to try the first rail between two nodes: the server's command, then the client's."""
    if not asked.rdma or not asked.rails:
        return []
    words = ["ib_write_bw", "-d", asked.rails[0], "--report_gbits", "-F", "-D", str(asked.seconds)]
    line = " ".join(map(shlex.quote, words))
    return [f"# on {nodes[1].name}: {line}", f"# on {nodes[0].name}: {line} {nodes[1].address}"]


def tried(nodes: Sequence[Node], asked: Proofs, say: jobs.Say) -> Tried:
    """Try every rail; the rails of a node that does not answer count as not reached."""
    began = time.monotonic()
    say(f"trying {len(asked.rails)} rails by themselves between {len(nodes)} nodes")
    children = [_Child(argv) for argv in fanout.beginnings(nodes, reachability.BOOT)]
    limit_s = _FIRST_S + len(asked.rails) * (asked.seconds + _EACH_S)
    reaper = threading.Timer(limit_s, _kill, [children])
    reaper.start()
    try:
        source = fanout.source_of(rail_try).decode()
        for child in children:
            child.send(f"{len(source)}\n{source}")
        known = _all(children, [{"do": "about", "rails": asked.rails, "rdma": asked.rdma}] * len(nodes))
        found = [one for rail in asked.rails for one in _rail(nodes, children, known, rail, asked)]
    finally:
        reaper.cancel()
        for child in children:
            child.end()
    found_lines = [line for line, _ in found]
    return Tried(_line(found_lines, time.monotonic() - began), "".join(text for _, text in found))


class _Child:
    """The program `rail_try` on one node; it reads questions and prints answers, one per line."""

    def __init__(self, argv: List[str]) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(argv, encoding="utf-8", errors="replace", **pipes)  # type: ignore[call-overload]

    def send(self, text: str) -> None:
        """Write a question; errors are ignored here, because a lost node is noticed when it gives no answer."""
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass

    def answer(self) -> Any:
        """Return the next answer; None if the program gives no answer."""
        line = self._process.stdout.readline()
        try:
            return json.loads(line)
        except ValueError:
            return None

    def kill(self) -> None:
        """Kill the program at once."""
        self._process.kill()

    def end(self) -> None:
        """Close the program's input, so that the program exits, and wait for the exit."""
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        except (BrokenPipeError, ValueError):
            self._process.wait()


def _kill(children: Sequence[_Child]) -> None:
    for child in children:
        child.kill()


def _all(children: Sequence[_Child], questions: Sequence[Dict[str, Any]]) -> List[Any]:
    for child, question in zip(children, questions):
        child.send(json.dumps(question) + "\n")
    return [child.answer() for child in children]


def _rail(
    nodes: Sequence[Node], children: Sequence[_Child], known: Sequence[Any], rail: str, proofs: Proofs
) -> List[Tuple[RailLine, str]]:
    """Try one rail from every node to the next node; return each node's entry in the line, and what the programs printed."""
    count = len(nodes)
    ends = [(known[at] or {}).get(rail) for at in range(count)]
    plans = [_plan(ends[at], ends[(at + 1) % count], proofs) for at in range(count)]
    # Each node runs the servers for the previous node, so it gets the plan of the rail from the previous node to this node.
    served = [plans[at - 1] for at in range(count)]
    ports = _all(children, [dict(served[at], do="listen", rail=rail) for at in range(count)])
    asked = [
        dict(plans[at], do="try", rail=rail, port=ports[(at + 1) % count] or 0, front=nodes[(at + 1) % count].address)
        for at in range(count)
    ]
    answers = _all(children, asked)
    found = []
    for at in range(count):
        peer = nodes[(at + 1) % count]
        line = RailLine(nodes[at].name, peer.name, rail, line_gbit_s=(ends[at] or {}).get("rate_gbit_s"))
        silent = [node.name for node, end in ((nodes[at], ends[at]), (peer, ends[(at + 1) % count])) if end is None]
        if silent or answers[at] is None:
            why = "{} did not answer".format(" and ".join(silent or [nodes[at].name]))
            found.append((line._replace(why=why), ""))
            continue
        found.append((_judged(line, plans[at], answers[at]), _printed(line, answers[at])))
    return found


def _plan(own: Optional[Dict[str, Any]], far: Optional[Dict[str, Any]], proofs: Proofs) -> Dict[str, Any]:
    """Return what is tried between the two ends of a rail, and the reason if ib_write_bw is not run."""
    ends = [end for end in (own, far) if end is not None]
    unusable = next((end["unusable"] for end in ends if end["unusable"]), "" if len(ends) == 2 else "a node is silent")  # noqa: PLR2004
    addressed = len(ends) == 2 and all(end["address"] for end in ends)  # noqa: PLR2004
    lacking = {name: not all(end[name] for end in ends) for name in ("rping", "ib_write_bw")}
    why = unusable or ("ib_write_bw is not installed (package perftest)" if lacking["ib_write_bw"] else "")
    return {
        "address": far["address"] if addressed and far else "",
        "by_address": addressed and (len(proofs.rails) == 1 or any(end["iwarp"] for end in ends)),
        "several": len(proofs.rails) > 1,
        "ping": addressed and not unusable and not lacking["rping"],
        "write": not why,
        "seconds": proofs.seconds,
        "unmeasured": why,
        # If an end of the rail has no address, only ib_write_bw can try the rail. Then the rail is untried if a node lacks
        # ib_write_bw, or if both ends are EFA devices, which ib_write_bw cannot use. If a device is missing, or is unusable for
        # another reason, the rail counts as tried.
        "untried": bool(why) and not addressed and len(ends) == 2 and (not unusable or all(end["efa"] for end in ends)),  # noqa: PLR2004
    }


def _judged(line: RailLine, plan: Dict[str, Any], answer: Dict[str, str]) -> RailLine:
    reached, whys = None, []  # type: Optional[str], List[str]
    if plan["ping"]:
        came = len(perftest.pings(answer["ping"]))
        reached = "rdma" if came else None
        whys += [] if came else [f"rping: {_end(answer['ping'])}"]
    elif answer["connect"] == "":
        reached = "address"
    elif answer["connect"] != "not tried":
        whys.append(f"no TCP connection over the rail: {answer['connect']}")
    gbit_s = None
    if plan["write"]:
        try:
            ran = perftest.bandwidth(answer["write"])
            if ran.device == line.rail:
                gbit_s, reached = ran.average_gbit_s, reached or (None if plan["ping"] else "link")
            else:
                whys.append(f"ib_write_bw ran over {ran.device}")
        except ValueError as error:
            whys.append(f"ib_write_bw: {error}")
    else:
        whys.append(f"{NOT_MEASURED}{plan['unmeasured']}")
    why = "; ".join(whys)[:_SENTENCE] or None
    return line._replace(reached=reached, gbit_s=gbit_s, why=why, untried=plan["untried"] or None)


def _end(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def _printed(line: RailLine, answer: Dict[str, str]) -> str:
    kept = [answer[name] for name in ("ping", "write") if answer[name]]
    return "".join(f"# {line.node} to {line.peer} over {line.rail}\n{text}\n" for text in kept)


def _line(found: List[RailLine], seconds: float) -> ProofsLine:
    """Return the line about all rails.

    The line first names the rails with faults, then the slowest rails and some rails for which ib_write_bw was not run.
    """
    lost: List[RailLine] = []
    failed: List[RailLine] = []
    measured: List[RailLine] = []
    without: List[RailLine] = []
    for one in found:
        if one.reached is None and not one.untried:
            lost.append(one)
        elif one.gbit_s is not None:
            measured.append(one)
        elif one.untried or NOT_MEASURED in (one.why or ""):
            without.append(one)
        else:
            failed.append(one)
    measured.sort(key=lambda one: (one.gbit_s or 0) / (one.line_gbit_s or 1))
    half = _WORST // 2
    return ProofsLine(
        rails=len(found),
        reached=sum(one.reached is not None for one in found),
        measured=sum(one.gbit_s is not None for one in found),
        worst=[*lost, *failed, *measured[:half], *without[:half], *measured[half:], *without[half:]][:_WORST],
        seconds=round(seconds, 2),
        untried=sum(bool(one.untried) for one in found) or None,
    )
