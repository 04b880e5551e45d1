"""Checks that nodes can open TCP connections to each other; if not, mpirun and NCCL would hang without a message.

Each node listens on one port that the node's kernel chooses. mpirun and NCCL listen on such ports, too.

The head node runs the check, and sends this module to each node over SSH. On a node, the module prints the port that it listens
on, reads the addresses and ports to try from standard input, tries them and prints which attempts failed.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from typing import Any, List, Sequence

#: Time-out of a connection attempt. It is long enough for three SYNs (at 0, 1 and 3 s). If a firewall rule drops packets, the
#: attempt takes exactly this time.
_CONNECT_S = 5.0


def listen_and_try() -> None:
    """Do one node's part of the check: listen on a port, and try to connect to other nodes."""
    server = socket.socket()
    server.bind(("0.0.0.0", 0))  # noqa: S104 - other nodes must reach this port; the program sends nothing and exits soon
    server.listen(64)
    threading.Thread(target=_accept, args=(server,), daemon=True).start()
    print(server.getsockname()[1], flush=True)
    failures = []
    for address, port in json.loads(sys.stdin.readline() or "[]"):
        try:
            socket.create_connection((address, port), timeout=_CONNECT_S).close()
        except OSError as error:
            failures.append([address, port, str(error)])
    print(json.dumps(failures), flush=True)
    sys.stdin.readline()  # wait for the head node, because other nodes may still be trying to connect


def _accept(server: socket.socket) -> None:
    while True:
        server.accept()[0].close()


def unreachable(nodes: Sequence[Any], start: Sequence[List[str]], timeout_s: float) -> List[str]:
    """Return a sentence for each pair of nodes that cannot connect, and for each node that does not answer.

    Every node tries to connect to the head node and to the next node in the ring. `start` has one command for each node, which
    runs this module on that node.
    """
    deadline = time.monotonic() + timeout_s
    source = _sendable(_own_source())
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    children = [subprocess.Popen(argv, encoding="utf-8", errors="replace", **pipes) for argv in start]  # type: ignore[call-overload]
    reaper = threading.Timer(timeout_s, lambda: [child.kill() for child in children])
    reaper.start()
    try:
        for child in children:
            _send(child, source)
        ports = [_line(child) for child in children]
        silent = [f"{node.name} did not answer over SSH" for node, port in zip(nodes, ports) if not port.isdigit()]
        if silent:
            return silent
        for index, child in enumerate(children):
            targets = {0, (index + 1) % len(nodes)} - {index}
            _send(child, json.dumps([[nodes[target].address, int(ports[target])] for target in sorted(targets)]) + "\n")
        answers = [_line(child) for child in children]
        sentences = []
        names = {node.address: node.name for node in nodes}
        for node, answer in zip(nodes, answers):
            if not answer:
                sentences.append(f"{node.name} gave no answer within {timeout_s:.0f} s")
                continue
            for address, port, error in json.loads(answer):
                sentences.append(f"{node.name} cannot reach {names[address]} on TCP port {port} ({error})")
        return sentences
    finally:
        reaper.cancel()
        for child in children:
            child.kill() if time.monotonic() > deadline else _send(child, "\n")
            try:
                child.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.communicate()


def _own_source() -> str:
    return str(__loader__.get_source(__name__))  # type: ignore[name-defined]


def _sendable(source: str) -> str:
    """Return what a node's `python3 -c 'exec(...)'` reads first: the source's length, then the source."""
    return f"{len(source)}\n{source}"


#: Python code that reads standard input: first a program's length, then the program. The code runs the program, which reads the
#: rest of the input.
BOOT = "import sys; exec(compile(sys.stdin.read(int(sys.stdin.readline())), 'reach', 'exec'), {'__name__': '__main__'})"


def _send(child: "subprocess.Popen[str]", text: str) -> None:
    try:
        child.stdin.write(text)  # type: ignore[union-attr]
        child.stdin.flush()  # type: ignore[union-attr]
    except (BrokenPipeError, ValueError):
        pass  # a node that is gone is noticed later, because it gives no answer


def _line(child: "subprocess.Popen[str]") -> str:
    return child.stdout.readline().strip()  # type: ignore[union-attr]


if __name__ == "__main__":
    listen_and_try()
