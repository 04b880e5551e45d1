"""Set up the operator's namespace on the rehearsed Internet, and run a command (CMD) in the namespace.

`--hosts FILE` starts existing hosts (`rehearsal.entry.existing_hosts`). FILE or BUSBAR_SCALE may set the scale.
Otherwise, the scale depends on the number of ranks for each core of this machine: the more ranks, the slower the rails.
`--clear-hosts` removes the hosts and the planted faults after CMD if CMD succeeds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rehearsal.entry import cleanup, engine_home, existing_hosts
from rehearsal.net import network, wires
from rehearsal.world.world import World

CHECKOUT = Path(__file__).resolve().parents[2]
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy")

#: Programs that the rehearsal needs on the machine, and the Debian package of each.
PACKAGES = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "gcc": "gcc",
    "ssh": "openssh-client",
    "ssh-agent": "openssh-client",
    "sshd": "openssh-server",
    "sudo": "sudo",
    "cloud-init": "cloud-init",
    "ifconfig": "net-tools",
    "mpirun.openmpi": "openmpi-bin",
    "mpicc.openmpi": "libopenmpi-dev",
}


def lacks(command: list[str]) -> str:
    """Return why the command cannot be rehearsed on this machine, or "" if it can."""
    if not command:
        return "say what to run: rehearsal/enter CMD..., for example rehearsal/enter ssh ADDRESS."
    if sys.platform != "linux":
        return f"the rehearsal needs Linux, because its hosts are Linux namespaces, but this is {sys.platform}."
    if os.geteuid() != 0:
        return "the rehearsal needs root, because it makes network namespaces and mounts, but this user is not root."
    return _machine_lacks()


def _machine_lacks() -> str:
    missing = [name for name in PACKAGES if not shutil.which(name)]
    if missing:
        packages = " ".join(sorted({PACKAGES[name] for name in missing}))
        return f"the rehearsal lacks {', '.join(missing)}; on Debian, run apt-get install {packages}."
    tried = subprocess.run(["unshare", "-m", "-n", "-p", "-f", "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return f"the rehearsal needs to make namespaces, but the machine refuses: {tried.stderr.strip()}."
    return ""


@contextmanager
def _locks(world: World) -> Iterator[int]:
    """Hold the world's entry lock: shared while CMD runs, exclusive during the cleanup before and after CMD.

    Yields:
        The descriptor that CMD inherits, so that the lock stays held if this process is killed while CMD runs.
    """
    with wires.locked(world, "setup"):
        door = os.open(world.folder("locks") / "door", os.O_RDWR | os.O_CREAT, 0o600)
        if _alone(door):
            cleanup.sweep(world)
        fcntl.flock(door, fcntl.LOCK_SH)
        _operator(world)
    try:
        yield door
    finally:
        with wires.locked(world, "setup"):
            if _alone(door):
                cleanup.sweep(world)
                cleanup.stop_agent(world)
                if cleanup.empty(world):
                    cleanup.clear(world)
            os.close(door)


def _alone(door: int) -> bool:
    try:
        fcntl.flock(door, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _operator(world: World) -> None:
    """Create the operator's namespace, key pair and SSH agent, unless they exist."""
    network.ensure_operator(world)
    folder = world.folder("operator")
    key, socket = folder / "id_ed25519", world.agent_socket
    if not key.exists():
        wires.call(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "operator", "-f", str(key)])
    if cleanup.agent_answers(world):
        return
    cleanup.stop_agent(world)
    started = wires.call(["ssh-agent", "-s", "-a", str(socket)])
    pid = started.partition("SSH_AGENT_PID=")[2].partition(";")[0]
    (folder / "agent.pid").write_text(pid)
    wires.call(["env", f"SSH_AUTH_SOCK={socket}", "ssh-add", "-q", str(key)])


def _environment(world: World) -> dict[str, str]:
    """Return CMD's environment: this process's environment, with the stand-in programs first on PATH and without proxies."""
    kept = {key: value for key, value in os.environ.items() if key.lower() not in PROXIES}
    path = f"{CHECKOUT / 'rehearsal/entry/bin'}:{os.environ.get('PATH', '')}"
    with wires.locked(world, "setup"):
        home = engine_home.environment(world, path)
    return (
        kept
        | home
        | {
            "PATH": path,
            "SSH_AUTH_SOCK": str(world.agent_socket),
            "BUSBAR_WORLD": str(world.path),
            "BUSBAR_SCALE": str(world.scale),
        }
    )


def _run(world: World, command: list[str], door: int) -> int:
    """Run CMD in the operator's namespace; return its exit status, or 128 plus the signal's number."""
    argv = [*wires.inside(world.netns(network.OPERATOR)), *command]
    child = subprocess.Popen(argv, env=_environment(world), pass_fds=(door,))

    def pass_on(number: int, _: FrameType | None) -> None:
        child.send_signal(number)

    # Ctrl-C also reaches CMD, and CMD decides what to do; this process waits. SIGINT gets a handler that does nothing. SIG_IGN
    # would have the same effect here, but CMD would inherit SIG_IGN; CMD does not inherit a handler.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGHUP, pass_on)
    status = child.wait()
    return status if status >= 0 else 128 - status


def options(words: list[str]) -> tuple[Path | None, bool, list[str]]:
    """Return the file that describes existing hosts, whether to remove the hosts after CMD, and CMD itself."""
    if words[:1] == ["--hosts"] and words[1:]:
        _, ends, command = options(words[2:])
        return Path(words[1]), ends, command
    if words[:1] == ["--clear-hosts"]:
        file, _, command = options(words[1:])
        return file, True, command
    return None, False, words


def main(words: list[str]) -> int:
    """Run CMD in the world; return 2 if the machine lacks something or the arguments are wrong, else CMD's exit status."""
    file, ends, command = options(words)
    os.environ["PATH"] = f"{os.environ.get('PATH', '/usr/bin:/bin')}:{SBIN}"
    os.environ.setdefault("BUSBAR_WORLD", str(CHECKOUT / ".busbar/world"))
    try:
        if file is not None:
            os.environ.setdefault("BUSBAR_SCALE", str(existing_hosts.Site.read(file).scale))
        world = World.current()
        if why := lacks(command):
            return _refuse(why)
        with _locks(world) as door:
            if faults := os.environ.get("BUSBAR_FAULTS"):
                shutil.copyfile(faults, world.path / "faults.json")
            # The faults are announced only for the engine, because programs often read the output of other commands.
            if command[:1] == ["pulumi"] and (planted := world.faults()):
                sys.stderr.write(announced(planted))
            if file is not None:
                with wires.locked(world, "setup"):
                    existing_hosts.start(world, file)
            status = _run(world, command, door)
            if ends and status == 0:
                with wires.locked(world, "setup"):
                    existing_hosts.stop(world)
                    (world.path / "faults.json").unlink(missing_ok=True)  # the faults must not affect the next stack
            return status
    except (RuntimeError, ValueError, OSError) as problem:
        return _refuse(str(problem))


def announced(planted: list[dict[str, object]]) -> str:
    """Return the line that lists the planted faults, so that nobody mistakes planted faults for real faults."""
    kinds = ", ".join(f"{one['kind']} on host {one['host']}" if "host" in one else str(one["kind"]) for one in planted)
    return f"rehearsal/enter: {len(planted)} planted faults: {kinds}; `make down` ends them\n"


def _refuse(why: str) -> int:
    sys.stderr.write(f"rehearsal/enter: {why}\n")
    return 2
