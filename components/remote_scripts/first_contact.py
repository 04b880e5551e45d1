"""Makes first contact with the nodes from the operator's machine: waits for them, learns or checks host keys, asks for facts.

If there are several nodes, the program authorizes the head node's public key on every node. If the head node has no key pair,
the program first creates a key pair there. No private key leaves a machine. The program prints one JSON line below 64 KiB, or
exits with a message that names every missing node and that node's last answer.
"""

import os
import queue
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Tuple

from components.remote_scripts.node_join import join
from components.remote_scripts.node_look import Failed, Seen, look
from components.remote_scripts.ready_line import ready_line
from components.remote_scripts.ssh_way import Node, Way, passing, pinned_ssh

_PAUSE_S = 0.5
#: How long to wait for the other nodes once a node has failed, so that the message can report the other nodes' state, too.
_GRACE_S = 20


def main(nodes: List[Node], ask: Dict[str, Any]) -> None:
    """Wait for `nodes` ({name, address}, host_key if pinned), authorize keys, and print the JSON line; or exit and say why.

    A host key that is not pinned is learned on the jump host, over the cloud's private network.

    `ask` has these keys:
    - `user`: the login user of the nodes; `timeout_s`: how long to wait for all nodes together
    - `accept`: the operator's public key, which every node must accept
    - `hcas`: the rails that must be up; `authenticated`: whether 802.1X must also have authenticated these rails
    - `first_boot`: whether cloud-init must have finished
    - `jump`: the jump host ({user, address, host_key})
    - `facts`: the program that each node runs to report its facts; `mpi`: globs of the folders where it looks for Open MPI
    - `row`: the name of the shape, then the number and the model of the GPUs that each node must have
    """
    jump = ask.get("jump")
    folder = tempfile.mkdtemp(prefix="busbar-")
    try:
        known = os.path.join(folder, "known_hosts")
        with passing(pinned_ssh(folder, known, nodes, jump), jump) as (near, ssh, at_once):
            way = Way(
                ssh=ssh,
                near=near,
                known=known,
                user=ask["user"],
                hcas=ask["hcas"],
                first_boot=ask["first_boot"],
                facts=ask.get("facts", ""),
                mpi=ask.get("mpi", []),
                row=ask.get("row", []),
                accept=ask.get("accept", ""),
                authenticated=ask.get("authenticated", False),
                shares=len(nodes) <= at_once,
                deadline=time.monotonic() + ask["timeout_s"],
            )
            window = min(len(nodes), at_once)
            seen = Waiting(nodes, way).end(window)
            if way.facts:
                _refuse_unlike(nodes, seen)
            join(nodes, way, [one.host_key for one in seen], window)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(ready_line(seen[0].host_key, [node["name"] for node in nodes], [one.facts for one in seen]))


class Waiting:
    """Asks all nodes in turn, so that silent nodes do not delay other nodes; one failed node soon ends the wait for all."""

    def __init__(self, nodes: List[Node], way: Way) -> None:
        self._nodes, self._way, self._deadline = nodes, way, way.deadline
        self._last = {}  # type: Dict[str, str]
        # ^ a node's name -> its last answer
        self._found = {}  # type: Dict[str, Seen]
        self._lock = threading.Lock()
        self._turns = queue.Queue()  # type: queue.Queue[Node]

    def end(self, window: int) -> List[Seen]:
        """Return the report of every node, in order, or exit with the names of the missing nodes."""
        for node in self._nodes:
            self._note(node, "no contact yet")
            self._turns.put(node)
        with ThreadPoolExecutor(window) as pool:
            for worker in [pool.submit(self._work) for _ in range(window)]:
                worker.result()
        missing = [node for node in self._nodes if node["name"] not in self._found]
        if missing:
            said = ["{} ({}): {}".format(node["name"], node["address"], self._last[node["name"]]) for node in missing]
            sys.exit("{} of {} nodes are not ready: {}".format(len(missing), len(self._nodes), "; ".join(said)))
        return [self._found[node["name"]] for node in self._nodes]

    def _work(self) -> None:
        while True:
            try:
                node = self._turns.get_nowait()
            except queue.Empty:
                return
            if self._has_ended(node):
                continue
            time.sleep(_PAUSE_S)
            if time.monotonic() < self._deadline:
                self._turns.put(node)

    def _has_ended(self, node: Node) -> bool:
        try:
            seen = look(node, self._way, lambda text: self._note(node, text))
        except Failed as failed:
            self._note(node, str(failed))
            self._deadline = min(self._deadline, time.monotonic() + _GRACE_S)
            return True
        if seen:
            self._note(node, "ready")
            self._found[node["name"]] = seen
        return bool(seen)

    def _note(self, node: Node, text: str) -> None:
        with self._lock:
            if self._last.get(node["name"]) != text:
                self._last[node["name"]] = text
                print("{} ({}): {}".format(node["name"], node["address"], text), file=sys.stderr, flush=True)


def _refuse_unlike(nodes: List[Node], seen: List[Seen]) -> None:
    """Exit with a message if machines differ in GPUs or rails, because different machines cannot form one ring."""

    def kind(facts: Dict[str, Any]) -> Tuple[str, str]:
        rails = [f"{hca[0]} at {hca[1]} Gbit/s" for hca in facts["hca"] if hca[3] and hca[2] != facts["front"]]

        return "{} x {}".format(facts["gpus"], facts["gpu"] or "no GPU"), ", ".join(rails) or "no active RDMA device"

    first = kind(seen[0].facts)
    for node, one in zip(nodes, seen):
        for its, heads in zip(kind(one.facts), first):
            if its != heads:
                sys.exit("the hosts are not alike: {} has {}, and {} has {}".format(node["name"], its, nodes[0]["name"], heads))
