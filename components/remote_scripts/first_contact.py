"""Makes first contact with the nodes from the operator's machine: waits for them, learns or checks host keys, asks for facts.

It makes a key pair on the head node and authorises its public half on every node; no private key leaves a machine. It prints
one JSON line below 64 KiB, or exits with a sentence that names every missing node and what it last said.
"""

import contextlib
import json
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

Node = Dict[str, Any]
Note = Callable[[str], None]

_WINDOW = 32
#: Through a jump host with sshd's defaults, which drop connections at random from the tenth on.
_JUMP_WINDOW = 8
_PAUSE_S = 0.5
_POLL_S = 0.02
_JUMP_S = 15
_CALL_S = 60
#: At most this many kinds of machine are in the line, so that it stays short at any number of nodes.
_GROUPS = 16
#: A configuration file, because command-line options do not reach the jump host's connection. Only the agent may offer keys,
#: because the Commands that follow use only the agent.
_CONFIG = """Host *
  BatchMode yes
  StrictHostKeyChecking yes
  UserKnownHostsFile {known}
  GlobalKnownHostsFile /dev/null
  UpdateHostKeys no
  IdentityFile none
  ConnectTimeout 10
  ServerAliveInterval 15
  ControlPath {folder}/%C
"""
#: Prints three lines: cloud-init's status, the boot mark (written before cloud-init ends), and the rails that are up, with a
#: `!` after those that are not authenticated.
STATE = """
# Without its result it still runs; asking it takes half a second of the node's time, again and again.
[ -e /run/cloud-init/result.json ] && cloud-init status --long 2>/dev/null | tr '\\n' ' '; echo
cat /var/lib/busbar/boot.json 2>/dev/null || echo '{}'
for hca in HCAS; do
  dir=/sys/class/infiniband/$hca
  if grep -q ACTIVE $dir/ports/1/state 2>/dev/null; then
    # An EFA device has no interface, and so no address.
    case $(readlink $dir/device/driver) in */efa) echo "$hca"; continue ;; esac
    for net in $dir/device/net/*; do
      ip -4 -o address show dev "${net##*/}" 2>/dev/null | grep -q inet || continue
      # A switch with 802.1X drops what comes from a port that it does not know, although link and address are there.
      # oci-hpc: roles/healthchecks, check_gpu_setup.py, check_wpa_auth.
      if [ -z "SUPPLICANT" ] || sudo -n wpa_cli status -i "${net##*/}" 2>/dev/null | grep -q 'PAE state=AUTHENTICATED'; then
        echo "$hca"
      else
        echo "$hca!"
      fi
    done
  fi
done | tr '\\n' ' '; echo
"""
#: Adds lines that are missing and changes no other: users may have their own in these files.
JOIN = """
umask 077; mkdir -p ~/.ssh; touch ~/.ssh/authorized_keys ~/.ssh/known_hosts
add() { grep -qxF -- "$2" "$1" || { [ -z "$(tail -c 1 "$1")" ] || echo >> "$1"; printf '%s\\n' "$2" >> "$1"; }; }
for key in KEYS; do add ~/.ssh/authorized_keys "$key"; done
while read -r line; do add ~/.ssh/known_hosts "$line"; done
"""
_HEAD_KEY = """
umask 077; mkdir -p ~/.ssh
[ -f ~/.ssh/id_ed25519 ] || ssh-keygen -q -t ed25519 -N '' -C busbar-head -f ~/.ssh/id_ed25519
cat ~/.ssh/id_ed25519.pub
"""


class Failed(Exception):  # noqa: N818 - not a defect
    """A node that will not become ready by waiting."""


class Way(NamedTuple):
    """How nodes are reached, what is asked of them, and until when (monotonic seconds)."""

    ssh: List[str]
    near: List[str]  # the start of a command that runs on the jump host, or here if there is none
    known: str  # file of the host keys that are known
    user: str
    hcas: List[str]
    first_boot: bool
    facts: str
    mpi: List[str]
    row: List[Any]
    accept: str
    authenticated: bool
    deadline: float


class Seen(NamedTuple):
    """What a ready node reported: its public host key and its facts, {} if none were asked for."""

    host_key: str
    facts: Dict[str, Any]


def main(nodes: List[Node], ask: Dict[str, Any]) -> None:
    """Wait for `nodes` ({name, address}, host_key if it is pinned), join them and print the line, or exit with a sentence.

    A key that is not pinned is asked for on the jump host, over the cloud's private network.

    `ask` has `user` and `timeout_s`; `accept`, a public key of the operator's that every node is told to accept; `hcas`, the
    rails that must be up; `authenticated`, whether by 802.1X, too; `first_boot`, whether cloud-init must have ended; `jump`,
    the jump host ({user, address, host_key}); `facts`, the program that each node runs; `mpi`, globs for it; `row`, name of
    the shape with number and model of the GPUs that each node must have.
    """
    jump = ask.get("jump")
    folder = tempfile.mkdtemp(prefix="busbar-")
    try:
        known = os.path.join(folder, "known_hosts")
        with _passing(_pinned_ssh(folder, known, nodes, jump), jump) as (near, ssh, at_once):
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
                deadline=time.monotonic() + ask["timeout_s"],
            )
            window = min(len(nodes), at_once)
            seen = Waiting(nodes, way).end(window)
            if way.facts:
                _refuse_unlike(nodes, seen)
            _join(nodes, way, [one.host_key for one in seen], window)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(line(nodes, seen))


def line(nodes: List[Node], seen: List[Seen]) -> str:
    """Return the line: the head node's host key, and nodes grouped by equal facts."""
    groups = []  # type: List[Dict[str, Any]]
    for node, one in zip(nodes, seen):
        same = [group for group in groups if group["facts"] == one.facts]
        if not same and len(groups) < _GROUPS:
            groups.append({"facts": one.facts, "nodes": []})
        if same or groups[-1]["facts"] == one.facts:
            (same or groups[-1:])[0]["nodes"].append(node["name"])
    fronts = sorted({one.facts["front"] for one in seen if one.facts})
    networks = sorted({one.facts["network"] for one in seen if one.facts})
    found = {
        "schema": 2,
        "kind": "ready",
        "host_key": seen[0].host_key,
        "count": len(nodes),
        "groups": groups,
        "fronts": fronts,
        "networks": networks,
    }
    return json.dumps(found, sort_keys=True)


def _pinned_ssh(folder: str, known: str, nodes: List[Node], jump: Optional[Dict[str, str]]) -> List[str]:
    """Return the start of an ssh command that knows these machines' keys and no others."""
    config = os.path.join(folder, "config")
    machines = [*(node for node in nodes if "host_key" in node), *([jump] if jump else [])]
    with open(known, "w") as target:
        target.writelines("{} {}\n".format(one["address"], one["host_key"]) for one in machines)
    with open(config, "w") as target:
        target.write(_CONFIG.format(known=known, folder=folder))
    return ["ssh", "-F", config]


@contextlib.contextmanager
def _passing(ssh: List[str], jump: Optional[Dict[str, str]]) -> Iterator[Tuple[List[str], List[str], int]]:
    """Hold one connection to the jump host that all others pass through.

    Yield the start of a command there, ssh's start, and how many may be open at once. Where it cannot be had, each opens its
    own: they say why better, and fewer at once are not dropped.
    """
    if jump is None:
        yield [], ssh, _WINDOW
        return
    there = "{}@{}".format(jump["user"], jump["address"])
    # Its background half holds standard error open as long as it lives, so nothing is read of it.
    silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    held = subprocess.Popen([*ssh, "-M", "-N", there], **silent)  # type: ignore[call-overload]
    try:
        at_once = _WINDOW if _is_held(ssh, there, held) else _JUMP_WINDOW
        yield [*ssh, there], [*ssh, "-J", there], at_once
    finally:
        held.terminate()
        held.wait()


def _is_held(ssh: List[str], there: str, held: "subprocess.Popen[bytes]") -> bool:
    """Wait until the connection can be shared, or until it has failed."""
    deadline = time.monotonic() + _JUMP_S
    while held.poll() is None and time.monotonic() < deadline:
        if _run([*ssh, "-O", "check", there], "", _JUMP_S)[0] == 0:
            return True
        time.sleep(_POLL_S)
    return False


class Waiting:
    """Waits for all nodes in turns, so that silent ones do not delay the others."""

    def __init__(self, nodes: List[Node], way: Way) -> None:
        self._nodes, self._way = nodes, way
        self._last = {}  # type: Dict[str, str]
        # ^ what each node last said, by name
        self._found = {}  # type: Dict[str, Seen]
        self._lock = threading.Lock()
        self._turns = queue.Queue()  # type: queue.Queue[Node]

    def end(self, window: int) -> List[Seen]:
        """Return what every node reported, in order, or exit naming the missing ones."""
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
            if time.monotonic() < self._way.deadline:
                self._turns.put(node)

    def _has_ended(self, node: Node) -> bool:
        try:
            seen = _look(node, self._way, lambda text: self._note(node, text))
        except Failed as failed:
            self._note(node, str(failed))
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


def _look(node: Node, way: Way, note: Note) -> Optional[Seen]:
    """Return what the node reports; None while it is not ready."""
    key = node.get("host_key") or _host_key(node, way, note)
    if not key or (way.first_boot and not _is_booted(node, way, note)):
        return None
    facts = {}  # type: Dict[str, Any]
    if way.facts:
        call = "\n\nmain(**json.loads({!r}))\n".format(json.dumps({"address": node["address"], "mpi": way.mpi}))
        out = _answer(node, way, "python3 -IS -", way.facts + call, note)
        if out is None:
            return None
        facts = dict(json.loads(out.splitlines()[-1]))
        _refuse_other(facts, way)
        silent = sorted(set(way.hcas) - {name for name, _, _, active in facts["hca"] if active})
        if silent:
            note("{} of {} rails are not active: {}".format(len(silent), len(way.hcas), ", ".join(silent)))
            return None
    return Seen(key, facts)


def _refuse_other(facts: Dict[str, Any], way: Way) -> None:
    """Refuse a machine that is not the one that is asked for."""
    if way.row:
        name, number, model = way.row
        # Newer drivers add the board to the model's name.
        if facts["gpus"] != number or not (facts["gpu"] == model or facts["gpu"].startswith(model + " SXM")):
            raise Failed(
                "it has {} x {}, and shape {} has {} x {}; correct it, or set shape: detect".format(
                    facts["gpus"], facts["gpu"] or "no GPU", name, number, model
                )
            )
    if way.mpi and not facts["mpi"]:
        raise Failed(
            "it has no Open MPI: no folder like {} has bin/mpirun; set hosts.software.mpi".format(" or ".join(way.mpi))
        )


def _host_key(node: Node, way: Way, note: Note) -> str:
    """Learn the host key over the cloud's private network, where no machine can take another's address.

    It is asked for each time, because first boot may replace a key of the image.

    Raises:
        Failed: the jump host does not let the operator in, although its own first boot is over.
    """
    status, out, err = _run([*way.near, "ssh-keyscan", "-T", "5", "-t", "ed25519", node["address"]], "", 15)
    lines = [line for line in out.splitlines() if line and not line.startswith("#")]
    if "Permission denied" in err:
        raise Failed(f"{_words(err)} Does your SSH agent have a key that it accepts (ssh-add -l)?")
    if status != 0 or not lines:
        note(f"the jump host does not answer ({_words(err)})" if status == 255 else "no answer on TCP port 22")  # noqa: PLR2004 - ssh's own
        return ""
    key = " ".join(lines[0].split()[1:3])
    _remember(way.known, node, key)
    return key


_KNOWN_LOCK = threading.Lock()


def _remember(known: str, node: Node, key: str) -> None:
    """Write the key of one node in place of an earlier one; ssh may read the file at any moment."""
    line = "{} {}\n".format(node["address"], key)
    with _KNOWN_LOCK:
        with open(known) as source:
            lines = source.readlines()
        if line in lines:
            return
        with open(known + ".new", "w") as target:
            target.writelines([*(one for one in lines if one.split()[:1] != [node["address"]]), line])
        os.replace(known + ".new", known)


def _answer(node: Node, way: Way, command: str, stdin: str, note: Note) -> Optional[str]:
    """Return what `command` prints there; None while SSH does not accept logins.

    Raises:
        Failed: the host key is not the pinned one, or the command failed; waiting helps with neither.
    """
    status, out, err = _call(node, way, command, stdin)
    if status == 0:
        return out
    changed = re.search(r"[Hh]ost key for (\S+) has changed", err)
    if changed and "host_key" in node:
        raise Failed(
            f"the host key of {changed.group(1)} is not the one in knownHosts: the machine was rebuilt, or another one answers "
            "in its place; find out which, then correct that file"
        )
    if "host_key" in node and "Permission denied" in err:
        raise Failed(f"{_words(err)} Does your SSH agent have a key that it accepts (ssh-add -l)?")
    if status not in (124, 255):  # timed out, or ssh itself failed
        raise Failed(f"{command!r} failed there: {_words(err)}")
    note(f"SSH does not accept logins yet ({_words(err)})")
    return None


def _is_booted(node: Node, way: Way, note: Note) -> bool:
    asked = STATE.replace("HCAS", " ".join(way.hcas)).replace("SUPPLICANT", "asked" if way.authenticated else "")
    out = _answer(node, way, "sh -s", asked, note)
    if out is None:
        return False
    cloud, mark_text, rails = [*out.splitlines(), "", "", ""][:3]
    try:
        mark = json.loads(mark_text or "{}")
    except ValueError:
        return False  # read while it was written; it is read again soon
    if mark.get("status") == "failed":
        raise Failed("its first boot failed in step {}; see /var/log/cloud-init-output.log there".format(mark.get("step")))
    if "status: error" in cloud:
        raise Failed(f"cloud-init ended in error: {cloud.strip()}")
    if "status: done" not in cloud or mark.get("status") != "done":
        note("first boot is running")
        return False
    up = set(rails.split())
    unknown = [hca for hca in way.hcas if hca + "!" in up]
    silent = sorted(set(way.hcas) - up - set(unknown))
    if silent:
        note("{} of {} rails are not active, or have no address: {}".format(len(silent), len(way.hcas), ", ".join(silent)))
        return False
    if unknown:
        note(
            "{} of {} rails are not authenticated (802.1X; wpa_cli status), so they carry nothing: {}".format(
                len(unknown), len(way.hcas), ", ".join(sorted(unknown))
            )
        )
        return False
    return True


def _refuse_unlike(nodes: List[Node], seen: List[Seen]) -> None:
    """Refuse machines that differ in GPUs or rails, naming the difference: they have no common ring."""

    def kind(facts: Dict[str, Any]) -> Tuple[str, str]:
        rails = [
            f"{name} at {rate} Gbit/s" for name, rate, netdev, active in facts["hca"] if active and netdev != facts["front"]
        ]
        return "{} x {}".format(facts["gpus"], facts["gpu"] or "no GPU"), ", ".join(rails) or "no active RDMA device"

    first = kind(seen[0].facts)
    for node, one in zip(nodes, seen):
        for its, heads in zip(kind(one.facts), first):
            if its != heads:
                sys.exit("the hosts are not alike: {} has {}, and {} has {}".format(node["name"], its, nodes[0]["name"], heads))


def _join(nodes: List[Node], way: Way, keys: List[str], window: int) -> None:
    accepted, known = [way.accept] if way.accept else [], ""
    if len(nodes) > 1:  # one node has no other to reach
        lines = ["{} {}\n".format(",".join(sorted({node["address"], node["name"]})), key) for node, key in zip(nodes, keys)]
        known = "".join(lines)
        status, out, err = _call(nodes[0], way, "sh -s", _HEAD_KEY)
        if status != 0:
            sys.exit("no key could be made on the head node {}: {}".format(nodes[0]["name"], err.strip()))
        accepted.append(out.strip())
    if not accepted:
        return
    script = "sh -c " + shlex.quote(JOIN.replace("KEYS", " ".join(shlex.quote(key) for key in accepted)))

    def join(node: Node) -> str:
        status, _, err = _call(node, way, script, known)
        return "" if status == 0 else "{}: {}".format(node["name"], err.strip())

    with ThreadPoolExecutor(window) as pool:
        failures = [failure for failure in pool.map(join, nodes) if failure]
    if failures:
        sys.exit("public keys could not be installed on {}".format("; ".join(failures)))


def _call(node: Node, way: Way, command: str, stdin: str) -> Tuple[int, str, str]:
    return _run([*way.ssh, "{}@{}".format(way.user, node["address"]), command], stdin, _CALL_S)


def _words(err: str) -> str:
    return (err.strip().splitlines() or ["no output"])[-1]


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
