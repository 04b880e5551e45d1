"""The address of a host's instance metadata service, and its start; the vendors' folders have the services."""

from __future__ import annotations

from rehearsal.net import wires
from rehearsal.world.world import World

#: Address of the service for hosts. It listens on their loopback interface on another port, because they may use its port 80.
ADDRESS, PORT = "169.254.169.254", 8169

#: Rules of a host's namespace: only port 80 of that address, because the name service uses its port 53.
REDIRECT = f"""table ip metadata {{
  chain output {{
    type nat hook output priority -100;
    ip daddr {ADDRESS} tcp dport 80 redirect to :{PORT}
  }}
}}
"""


def start(world: World, host_id: str, namespace: str, program: str) -> None:
    """Start a host's metadata service; it exits with the namespace."""
    wires.call([*wires.inside(namespace), "nft", "-f", "-"], REDIRECT)
    argv = ["/usr/bin/python3", "-IS", program, str(world.path), host_id, str(PORT)]
    quiet = ["env", "-i", "sh", "-c", 'exec "$@" </dev/null >/dev/null 2>&1', "sh", *argv]
    wires.call(["setsid", "--fork", *wires.inside(namespace), *quiet])
