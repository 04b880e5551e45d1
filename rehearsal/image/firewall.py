"""firewalld's zones as one nftables table of the host, for the stand-ins of systemctl and firewall-cmd."""

from __future__ import annotations

import subprocess
from typing import Any

from rehearsal.image.standin import load, save

DEFAULT = {
    "default": "public",
    "zones": {
        "public": {"services": ["ssh"], "ports": [], "sources": [], "interfaces": []},
        "trusted": {"services": [], "ports": [], "sources": [], "interfaces": []},
    },
}
SERVICES = {"ssh": "tcp dport 22", "nfs": "tcp dport 2049", "http": "tcp dport 80", "https": "tcp dport 443"}


def running() -> bool:
    """Return whether firewalld runs, which means that its nftables table exists."""
    listed = subprocess.run(["nft", "list", "table", "inet", "firewalld"], capture_output=True, check=False)
    return listed.returncode == 0


def settings(*, permanent: bool) -> dict[str, Any]:
    """Return the permanent or the runtime zones."""
    found: dict[str, Any] = load("firewall" if permanent else "firewall-now", DEFAULT)
    return found


def keep(value: dict[str, Any], *, permanent: bool) -> None:
    """Save the zones; runtime zones take effect at once."""
    save("firewall" if permanent else "firewall-now", value)
    if not permanent:
        apply(value)


def apply(value: dict[str, Any]) -> None:
    """Load the table in one step; traffic that neither the default zone nor the trusted zone allows is refused."""
    trusted, default = value["zones"]["trusted"], value["zones"][value["default"]]
    lines = ["ct state established,related accept", 'iifname "lo" accept', "ip protocol icmp accept"]
    lines += [f"ip saddr {one} accept" for one in trusted["sources"]]
    lines += [f'iifname "{one}" accept' for one in trusted["interfaces"]]
    lines += ["accept"] if value["default"] == "trusted" else []
    lines += [f"{SERVICES[one]} accept" for one in default["services"]]
    for one in default["ports"]:
        ports, protocol = one.split("/")
        lines.append(f"{protocol} dport {ports} accept")
    chain = ["type filter hook input priority 10; policy accept;", *lines, "reject with icmpx type admin-prohibited"]
    table = ["table inet firewalld", "delete table inet firewalld", "table inet firewalld {", "chain input {", *chain, "}", "}"]
    subprocess.run(["nft", "-f", "-"], input="\n".join([*table, ""]).encode(), check=True)


def start() -> None:
    """Start or reload firewalld with the permanent zones."""
    keep(settings(permanent=True), permanent=False)


def stop() -> None:
    """Stop firewalld: delete the table, so that all traffic is allowed."""
    if running():
        subprocess.run(["nft", "delete", "table", "inet", "firewalld"], check=True)
