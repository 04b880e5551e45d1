"""Starts the instance metadata service of a host, and defines the service's address; each cloud has its own service program."""

from __future__ import annotations

from rehearsal.net import wires
from rehearsal.world.world import World

#: A host calls the service at `ADDRESS`, port 80, and `REDIRECT` sends these calls to `PORT` of the host's loopback interface.
#: The service does not listen on port 80 there, because a host may use port 80 itself.
ADDRESS, PORT = "169.254.169.254", 8169

#: Rules in a host's namespace. The rules redirect only port 80 of `ADDRESS`, because port 53 of `ADDRESS` belongs to DNS.
REDIRECT = f"""table ip metadata {{
  chain output {{
    type nat hook output priority -100;
    ip daddr {ADDRESS} tcp dport 80 redirect to :{PORT}
  }}
}}
"""


def start(world: World, host_id: str, namespace: str, program: str) -> None:
    """Start a host's metadata service; the service ends when the host's namespace is removed."""
    wires.call([*wires.inside(namespace), "nft", "-f", "-"], REDIRECT)
    argv = ["/usr/bin/python3", "-IS", program, str(world.path), host_id, str(PORT)]
    quiet = ["env", "-i", "sh", "-c", 'exec "$@" </dev/null >/dev/null 2>&1', "sh", *argv]
    wires.call(["setsid", "--fork", *wires.inside(namespace), *quiet])
