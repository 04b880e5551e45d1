"""Sets up a new machine over SSH as a node (name, munge's key, slurmd's unit) or as a login node (munge's key, slurm.conf).

If the controller has a directory of users, the machine also becomes a client of that directory.
"""

import base64
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Sequence

from scheduler import node_setup, slurm_conf
from scheduler.elastic import metadata_guard
from scheduler.elastic.cloud import Ask, Machine
from scheduler.files import scripts
from scheduler.units import units
from scheduler.users import member

_TIMEOUT_S = 45
_KEY = "/etc/munge/munge.key"
#: Isolated mode, independent of the user's environment.
_PYTHON = "python3 -IS -"
#: How many machines are contacted at once, each over its own connection.
_WINDOW = 32


def over_ssh(given: Dict[str, Any]) -> Callable[[str, str, str, Dict[str, str]], str]:
    """Return a function that makes a machine a node, and returns why the machine is not a node yet; empty if it is one.

    The function's arguments are the node, the machine's id, the machine's address, and all addresses.

    Args:
        given: `user`, login user with sudo; `identity`, file of the controller's private key; `known_hosts`, the file of host
            keys; `controller`, the controller's address; `booted`, the file in which a machine's first boot records its result
            (if missing, the result is not checked).
    """

    def join(node: str, machine: str, address: str, others: Dict[str, str]) -> str:
        with open(_KEY, "rb") as source:
            key = source.read()
        its = dict(setup(node, key, given["controller"], others), booted=given.get("booted"))
        return _runs(given, machine, address, text(its, given["controller"]))

    return join


def login_node(given: Dict[str, Any], machine: str, address: str, files: Dict[str, str]) -> str:
    """Set up a login node, which submits jobs and runs none; return why the set-up failed, empty if it succeeded.

    Args:
        given: the same as for `over_ssh`.
        machine: the login node's id.
        address: the login node's address.
        files: the controller's files in /etc/slurm, by name.
    """
    with open(_KEY, "rb") as source:
        key = source.read()
    its: Dict[str, Any] = {
        "key": base64.b64encode(key).decode(),
        "conf": slurm_conf.CONF,
        "mark": slurm_conf.MARK,
        "folders": [],
        # Slurm's commands read only these files, and the machine runs no slurmd that could fetch them.
        "files": {name: files[name] for name in ("slurm.conf", "plugstack.conf") if name in files},
        "units": metadata_guard.units(),
        "booted": given.get("booted"),
    }
    return _runs(given, machine, address, text(its, given["controller"]))


def reaches(given: Dict[str, Any]) -> Callable[[str, str, str, Dict[str, str]], str]:
    """Return a function that tells why a machine has not booted yet; its result is empty if the machine has booted.

    The function takes the same arguments as the function that `over_ssh` returns. It changes nothing on the machine, but pins
    the machine's host key on the controller.
    """

    def reach(_node: str, machine: str, address: str, _others: Dict[str, str]) -> str:
        asks = "\nawait_first_boot({!r})\n".format(given["booted"]).encode() if given.get("booted") else b"\n"
        return _runs(given, machine, address, setup_program() + asks)

    return reach


def asks(given: Dict[str, Any]) -> Ask:
    """Return a function that runs a program on machines as the login user."""

    def ask(program: str, machines: Sequence[Machine]) -> Dict[str, str]:
        with ThreadPoolExecutor(max_workers=_WINDOW) as pool:
            done = list(pool.map(lambda one: _ran(given, one.id, one.address, _PYTHON, program.encode()), machines))
        return {one.id: its.stdout.decode() for one, its in zip(machines, done) if its is not None and not its.returncode}

    return ask


def _runs(given: Dict[str, Any], machine: str, address: str, program: bytes) -> str:
    """Run a Python program as root on a machine; return why it failed (its last line on stderr), empty if it succeeded."""
    done = _ran(given, machine, address, f"sudo -n {_PYTHON}", program)
    if done is None:
        return f"no answer within {_TIMEOUT_S} s"
    said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no output"])[-1]
    return said if done.returncode else ""


def _ran(
    given: Dict[str, Any], machine: str, address: str, command: str, program: bytes
) -> "Optional[subprocess.CompletedProcess[bytes]]":
    """Run a command on a machine with a program as its input; return None after a timeout."""
    ssh = [*words_of_ssh(given, machine), f"{given['user']}@{address}", command]
    try:
        return subprocess.run(
            ssh, input=program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None


def setup(node: str, key: bytes, controller: str, others: Dict[str, str]) -> Dict[str, Any]:
    """Return the input of `scheduler.node_setup` on a node."""
    unit = units(controller)["slurmd.service"]
    return {
        "key": base64.b64encode(key).decode(),
        "conf": slurm_conf.CONF,
        "mark": slurm_conf.MARK,
        "folders": [slurm_conf.SPOOL, slurm_conf.LOGS],
        "files": scripts(),
        "units": {"slurmd.service": unit},
        "hostname": node,
        "others": others,
    }


def words_of_ssh(given: Dict[str, Any], machine: str) -> List[str]:
    """Return the ssh command's words. A host key is pinned to the machine's id, because another machine may get the address."""
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "accept-new",
        "HostKeyAlias": machine,
        "HashKnownHosts": "no",
        "UserKnownHostsFile": given["known_hosts"],
        "IdentityFile": given["identity"],
        "IdentitiesOnly": "yes",
        "ConnectTimeout": "5",
        "ServerAliveInterval": "10",
    }
    return ["ssh", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]


def text(its: Dict[str, Any], controller: str) -> bytes:
    """Return the program that sets up a machine as `its` describes (for a node, the result of `setup`).

    The program sets up the users first, so that they exist before jobs can start.
    """
    users = member.program(controller)
    # The set-up of users needs packages that first boot installs, so the program first waits for first boot.
    begin = "\nawait_first_boot({!r})\n".format(its["booted"]).encode() if users and its.get("booted") else b"\n"
    return setup_program() + begin + users + f"\nmain({json.dumps(its)!r})\n".encode()


def setup_program() -> bytes:
    """Return the program that a node runs to set itself up."""
    loader = node_setup.__loader__
    return str(loader.get_source(node_setup.__name__)).encode()  # type: ignore[union-attr]
