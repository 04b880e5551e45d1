"""Installs the exporter of RDMA counters on this machine as a systemd unit, or removes it; runs as root.

The program's arguments are this machine's $SSH_CONNECTION and the address of the head node's SSH client. The exporter listens
on the third field of $SSH_CONNECTION, the address by which SSH reaches this machine. The head node's SSH client, which is the
jump host or the operator's machine, may read the counters.
"""

import contextlib
import ipaddress
import json
import os
import re
import subprocess
import sys
from typing import Any, Dict, List

from components.remote_scripts.wait_for_answer import wait_for_answer

UNIT = "busbar-rdma-exporter"
PROGRAM = "/usr/local/lib/busbar/rdma_exporter.py"
UNIT_FILE = "/etc/systemd/system/" + UNIT + ".service"
_USER = "busbar-rdma"
#: The firewall rules that OCI's Ubuntu images restore at boot (cloudinit.steps.trust).
_RULES = "/etc/iptables/rules.v4"
_TIMEOUT_S = 60
#: The first systemd release with DynamicUser= in the form used here (NEWS, 235); for older releases, `_user` creates the user.
_DYNAMIC = 235
#: The unit file, as a template of `str.format`.
TEXT = """[Unit]
Description=Counters of RDMA devices for Prometheus (busbar)
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart={python} -IS {program} --listen {listen} --port {port} {allow}
DynamicUser=yes
User={user}
Restart=always
RestartSec=5
Nice=10
CPUQuota=20%
MemoryMax=128M
TasksMax=32
CapabilityBoundingSet=
NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectControlGroups=yes
ProtectHome=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectSystem=strict
RestrictAddressFamilies=AF_INET
RestrictNamespaces=yes

[Install]
WantedBy=multi-user.target
"""


def main(program: str, ask: Dict[str, Any]) -> None:
    """Install `program`, which is the exporter, or remove it; print whether the exporter is installed, or exit with a message.

    `ask` has `exporter` (whether the exporter is to be installed), `port`, and `readers` (networks that may read the
    counters, besides the head node's SSH client).
    """
    if not ask["exporter"]:
        _remove(ask["port"])
        print(json.dumps({"there": False}))
        return
    connection, reader = sys.argv[1].split(), sys.argv[2]
    listen = connection[2] if len(connection) > 2 else "no address"  # noqa: PLR2004 - client, its port, server, its port
    if ":" in listen or ":" in reader or listen == "no address":
        sys.exit(f"SSH reaches this machine at {listen} from {reader}, but the exporter supports only IPv4 addresses")
    if ipaddress.ip_address(listen).is_global:
        sys.exit(f"SSH reaches this machine at {listen}, which is not a private address; the exporter is never public")
    readers = [reader, *ask["readers"]]
    old_port, old_readers = _port_of_unit(), _readers_of_unit()
    if old_port and (old_port, old_readers) != (ask["port"], readers):
        _firewall(old_port, old_readers, opened=False)
    text = TEXT.format(
        python=sys.executable,
        program=PROGRAM,
        listen=listen,
        port=ask["port"],
        allow=" ".join(f"--allow {one}" for one in readers),
        user=_USER,
    )
    _user()
    _write(PROGRAM, program)
    _write(UNIT_FILE, text)
    _do("systemctl", "daemon-reload")
    _do("systemctl", "enable", UNIT)
    _do("systemctl", "restart", UNIT)
    _firewall(ask["port"], readers, opened=True)
    wait_for_answer("http://{}:{}/metrics".format(listen, ask["port"]), f"see journalctl -u {UNIT}")
    print(json.dumps({"there": True}))


def _remove(port: int) -> None:
    if not os.path.exists(UNIT_FILE):
        return
    _firewall(_port_of_unit() or port, _readers_of_unit(), opened=False)
    _do("systemctl", "disable", "--now", UNIT)
    os.unlink(UNIT_FILE)
    with contextlib.suppress(OSError):  # the folder stays if other programs are in it
        os.unlink(PROGRAM)
        os.rmdir(os.path.dirname(PROGRAM))
    _do("systemctl", "daemon-reload")


def _unit() -> str:
    try:
        with open(UNIT_FILE) as source:
            return source.read()
    except OSError:
        return ""


def _port_of_unit() -> int:
    found = re.search(r"--port (\d+)", _unit())
    return int(found.group(1)) if found else 0


def _readers_of_unit() -> List[str]:
    return re.findall(r"--allow (\S+)", _unit())


def _user() -> None:
    """Create the exporter's user if systemd is too old for a dynamic user."""
    found = re.search(r"systemd (\d+)", _run("systemctl", "--version")[1])
    if found and int(found.group(1)) < _DYNAMIC and _run("id", _USER)[0] != 0:
        _do("useradd", "--system", "--no-create-home", "--shell", "/sbin/nologin", _USER)


def _firewall(port: int, readers: List[str], *, opened: bool) -> None:
    """Open or close the port in the machine's own firewall, if that is firewalld or the rules of OCI's Ubuntu images.

    firewalld opens the port to every address that the cloud's rules admit, but the exporter answers only its readers.
    """
    if _run("firewall-cmd", "--state")[0] == 0:
        verb = "add" if opened else "remove"
        for kept in ([], ["--permanent"]):
            _do("firewall-cmd", *kept, f"--{verb}-port={port}/tcp")
    if os.path.exists(_RULES):
        for reader in readers:
            rule = ["INPUT", "-s", reader, "-p", "tcp", "--dport", str(port), "-j", "ACCEPT"]
            there = _run("iptables", "-C", *rule)[0] == 0
            if opened and not there:
                _do("iptables", "-I", *rule)
            elif there and not opened:
                _do("iptables", "-D", *rule)
        status, saved, _ = _run("iptables-save")
        if status == 0:
            _write(_RULES, saved)


def _write(path: str, text: str) -> None:
    """Write a file atomically, readable by all."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(path + ".new", "w") as target:
        os.fchmod(target.fileno(), 0o644)
        target.write(text)
    os.rename(path + ".new", path)


def _do(*argv: str) -> None:
    status, out, err = _run(*argv)
    if status != 0:
        sys.exit("{}: {}".format(" ".join(argv), ((err or out).strip().splitlines() or [f"exit status {status}"])[-1]))


def _run(*argv: str) -> Any:
    try:
        found = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return 127, "", str(error)
    return found.returncode, found.stdout.decode("utf-8", "replace"), found.stderr.decode("utf-8", "replace")
