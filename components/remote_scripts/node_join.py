"""Authorizes the public keys of the head node and of the operator on every node; no private key leaves a machine."""

import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import List

from components.remote_scripts.ssh_way import Node, Way, call

#: Shell script that adds missing lines to authorized_keys and known_hosts. The script changes no other line, because users may
#: have lines of their own in these two files.
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


def join(nodes: List[Node], way: Way, keys: List[str], window: int) -> None:
    """Authorize the operator's public key, `way.accept`, on every node (if it is not empty), or exit with a message.

    If there are several nodes, every node also authorizes the head node's public key and gets the nodes' host keys (`keys`).
    The head node's key pair is created if it does not exist. At most `window` nodes are contacted at once.
    """
    accepted, known = [way.accept] if way.accept else [], ""
    if len(nodes) > 1:  # a node never logs in to itself
        lines = ["{} {}\n".format(",".join(sorted({node["address"], node["name"]})), key) for node, key in zip(nodes, keys)]
        known = "".join(lines)
        status, out, err = call(nodes[0], way, "sh -s", _HEAD_KEY)
        if status != 0:
            sys.exit("no key could be made on the head node {}: {}".format(nodes[0]["name"], err.strip()))
        accepted.append(out.strip())
    if not accepted:
        return
    script = "sh -c " + shlex.quote(JOIN.replace("KEYS", " ".join(shlex.quote(key) for key in accepted)))

    def join(node: Node) -> str:
        status, _, err = call(node, way, script, known)
        return "" if status == 0 else "{}: {}".format(node["name"], err.strip())

    with ThreadPoolExecutor(window) as pool:
        failures = [failure for failure in pool.map(join, nodes) if failure]
    if failures:
        sys.exit("public keys could not be installed on {}".format("; ".join(failures)))
