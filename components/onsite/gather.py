"""First contact with the nodes, made on the bastion, the nearest machine: wait, learn host keys, join them up.

Prints one JSON line with every node's host key. Makes a key pair on the head and lets its public half into every node; no
private key travels. It deliberately waits for all: whoever is missing at the deadline is named with what it last said.
"""

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Dict, List, Tuple

Node = Dict[str, str]
Note = Callable[[str], None]

_WINDOW = 32
_PAUSE_S = 0.5
_SSH = ["ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10"]
#: Prints cloud-init's word, then the boot mark (written before cloud-init ends), then the rails that work, a line each.
_STATE = """
cloud-init status --long 2>/dev/null | tr '\\n' ' '; echo
cat /var/lib/busbar/boot.json 2>/dev/null || echo '{}'
for hca in HCAS; do
  dir=/sys/class/infiniband/$hca
  if grep -q ACTIVE $dir/ports/1/state 2>/dev/null; then
    for net in $dir/device/net/*; do
      ip -4 -o address show dev "${net##*/}" 2>/dev/null | grep -q inet && echo "$hca"
    done
  fi
done | tr '\\n' ' '; echo
"""
_JOIN = """
umask 077; mkdir -p ~/.ssh; touch ~/.ssh/authorized_keys ~/.ssh/known_hosts
grep -qxF KEY ~/.ssh/authorized_keys || echo KEY >> ~/.ssh/authorized_keys
cat > ~/.ssh/known_hosts.busbar
{ cat ~/.ssh/known_hosts ~/.ssh/known_hosts.busbar; } | sort -u > ~/.ssh/known_hosts.new
mv ~/.ssh/known_hosts.new ~/.ssh/known_hosts; rm ~/.ssh/known_hosts.busbar
"""
_HEAD_KEY = """
umask 077; mkdir -p ~/.ssh
[ -f ~/.ssh/id_ed25519 ] || ssh-keygen -q -t ed25519 -N '' -C busbar-head -f ~/.ssh/id_ed25519
cat ~/.ssh/id_ed25519.pub
"""


class Failed(Exception):  # noqa: N818 - it is an answer, not a defect
    """A node that will not become ready, however long one waits."""


def main(nodes: List[Node], user: str, hcas: List[str], timeout_s: float) -> None:
    """Wait for `nodes` ({name, address}), join them and print the line, or exit with a sentence."""
    deadline = time.monotonic() + timeout_s
    last = {}  # type: Dict[str, str]
    # ^ what each node last said, by name
    lock = threading.Lock()

    def note(node: Node, text: str) -> None:
        with lock:
            if last.get(node["name"]) != text:
                last[node["name"]] = text
                print("{} ({}): {}".format(node["name"], node["address"], text), file=sys.stderr, flush=True)

    def contact(node: Node) -> str:
        return _contact(node, user, hcas, deadline, lambda text: note(node, text))

    with ThreadPoolExecutor(_WINDOW) as pool:
        keys = list(pool.map(contact, nodes))
    missing = [node for node, key in zip(nodes, keys) if not key]
    if missing:
        sentences = ["{} ({}): {}".format(node["name"], node["address"], last[node["name"]]) for node in missing]
        sys.exit("{} of {} nodes are not ready: {}".format(len(missing), len(nodes), "; ".join(sentences)))
    _join(nodes, user, keys)
    line = {"schema": 1, "kind": "ready", "nodes": [dict(node, host_key=key) for node, key in zip(nodes, keys)]}
    print(json.dumps(line, sort_keys=True))


def _contact(node: Node, user: str, hcas: List[str], deadline: float, note: Note) -> str:
    """Return the node's host key once it is ready, nothing if it will not be in time."""
    key = ""
    note("no contact yet")
    while time.monotonic() < deadline:
        try:
            key = key or _host_key(node, note)
            if key and _is_ready(node, user, hcas, note):
                note("ready")
                return key
        except Failed as failed:
            note(str(failed))
            return ""
        time.sleep(_PAUSE_S)
    return ""


def _host_key(node: Node, note: Note) -> str:
    """Ask for the host key over the cloud's private network, which lets nobody take another's address."""
    status, out, _ = _run(["ssh-keyscan", "-T", "5", "-t", "ed25519", node["address"]], "", 15)
    lines = [line for line in out.splitlines() if line and not line.startswith("#")]
    if status != 0 or not lines:
        note("no answer on TCP port 22")
        return ""
    key = " ".join(lines[0].split()[1:3])
    _remember(node, key)
    return key


_KNOWN_LOCK = threading.Lock()


def _remember(node: Node, key: str) -> None:
    path = os.path.expanduser("~/.ssh/known_hosts")
    with _KNOWN_LOCK:
        kept = []
        if os.path.exists(path):
            with open(path) as source:
                kept = [line for line in source if line.split()[:1] != [node["address"]]]
        with open(path, "w") as target:
            target.writelines([*kept, "{} {}\n".format(node["address"], key)])


def _is_ready(node: Node, user: str, hcas: List[str], note: Note) -> bool:
    script = _STATE.replace("HCAS", " ".join(hcas))
    status, out, err = _run([*_SSH, "{}@{}".format(user, node["address"]), "sh -s"], script, 60)
    if status != 0:
        note("SSH answers but lets nobody in yet ({})".format((err.strip().splitlines() or ["no word"])[-1]))
        return False
    cloud, mark_text, rails = [*out.splitlines(), "", "", ""][:3]
    try:
        mark = json.loads(mark_text or "{}")
    except ValueError:
        return False  # read in the middle of a change; the next look is soon
    if mark.get("status") == "failed":
        raise Failed("its first boot failed in step {}; see /var/log/cloud-init-output.log there".format(mark.get("step")))
    if "status: error" in cloud:
        raise Failed(f"cloud-init ended in error: {cloud.strip()}")
    if "status: done" not in cloud or mark.get("status") != "done":
        note("first boot is running")
        return False
    silent = sorted(set(hcas) - set(rails.split()))
    if silent:
        note("{} of {} rails are not up with an address: {}".format(len(silent), len(hcas), ", ".join(silent)))
        return False
    return True


def _join(nodes: List[Node], user: str, keys: List[str]) -> None:
    known = "".join("{},{} {}\n".format(node["address"], node["name"], key) for node, key in zip(nodes, keys))
    status, out, err = _run([*_SSH, "{}@{}".format(user, nodes[0]["address"]), "sh -s"], _HEAD_KEY, 60)
    if status != 0:
        sys.exit("no key could be made on the head {}: {}".format(nodes[0]["name"], err.strip()))
    script = _JOIN.replace("KEY", shlex.quote(out.strip()))

    def join(node: Node) -> str:
        command = [*_SSH, "{}@{}".format(user, node["address"]), script]
        status, _, err = _run(command, known, 60)
        return "" if status == 0 else "{}: {}".format(node["name"], err.strip())

    with ThreadPoolExecutor(_WINDOW) as pool:
        failures = [failure for failure in pool.map(join, nodes) if failure]
    if failures:
        sys.exit("the head's public key could not be laid on {}".format("; ".join(failures)))


def _run(argv: List[str], stdin: str, timeout_s: float) -> Tuple[int, str, str]:
    process = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
    )
    try:
        out, err = process.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return 124, "", f"no answer within {timeout_s:.0f} s"
    return process.returncode, out, err
