"""Namespaces, cables and their speed, by iproute2."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from fcntl import LOCK_EX, flock
from pathlib import Path

from rehearsal.world.world import World

#: Jumbo frames, front end and rails: 1500 costs 4 % of a shaped rail.
MTU = 9000

#: The interface group of every cable's near end, so that a namespace's cables go at once and before it does.
CABLES = 7

#: What a class may send in its turn: one packet of the largest kind.
QUANTUM_BYTES = 65536

NAMESPACE_SYSCTLS = {
    "net/ipv4/ip_forward": "0",
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    # BBR may be the inherited default and is slow on shaped rails; reno is always there.
    "net/ipv4/tcp_congestion_control": "reno",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_slow_start_after_idle": "0",
    # The collective asks for 512 KiB socket buffers.
    "net/ipv4/tcp_rmem": "4096 524288 4194304",
    "net/ipv4/tcp_wmem": "4096 524288 4194304",
    # A broken path must show within a test's time limit.
    "net/ipv4/tcp_syn_retries": "4",
}


def call(argv: Sequence[str], given: str | None = None, seconds: float = 60) -> str:
    """Run one command to its end and return its standard output.

    Raises:
        RuntimeError: it failed or did not end in time; the sentence has its last words.
    """
    try:
        done = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"{' '.join(argv)} did not end within {seconds} s.") from late
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def ip(lines: Iterable[str], namespace: str | None = None) -> None:
    """Run lines of iproute2 in one process, in a namespace if one is named; the first failure raises."""
    text = "".join(f"{line}\n" for line in lines)
    if text:
        call(["ip", *(["-n", namespace] if namespace else []), "-batch", "-"], text)


def neighbours(device: str) -> str:
    """Return the line of iproute2 by which a device soon forgets who has an address, and answers for others at once.

    A machine is made anew in seconds here, where a vendor takes minutes. The kernel keeps these settings only by device; it
    answers for others after up to 0.8 s by itself.
    """
    return f"ntable change name arp_cache dev {device} base_reachable 1000 delay_probe 1000 retrans 200 proxy_delay 0"


def tc(lines: Iterable[str], namespace: str) -> None:
    """Run lines of tc in one process in a namespace; the first failure raises."""
    call(["tc", "-n", namespace, "-batch", "-"], "\n".join(lines) + "\n")


def inside(namespace: str) -> list[str]:
    """Return the start of a command that runs in a network namespace and keeps its other namespaces.

    `ip netns exec` would make a mount namespace too, whose mounts no other process sees.
    """
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def namespaces(world: World) -> list[str]:
    """Return the names of this world's network namespaces, without the world's prefix."""
    prefix = world.netns("")
    folder = Path("/run/netns")
    return sorted(one.name.removeprefix(prefix) for one in folder.glob(f"{prefix}*")) if folder.is_dir() else []


def make_namespace(name: str, sysctls: dict[str, str] | None = None) -> None:
    """Make a network namespace with loopback up and the rehearsal's settings; an existing one is kept."""
    if Path("/run/netns", name).exists():
        if _alive(name):
            return
        # A crash between making the name and mounting on it leaves a plain file.
        Path("/run/netns", name).unlink()
    call(["ip", "netns", "add", name])
    settings = NAMESPACE_SYSCTLS | (sysctls or {})
    script = "".join(f"echo '{value}' > /proc/sys/{key}\n" for key, value in settings.items())
    call([*inside(name), "sh", "-ec", f"{script}ip link set lo up"])


def _alive(name: str) -> bool:
    """Return whether a namespace is mounted on its name, and not a plain file."""
    return Path("/run/netns", name).stat().st_dev == Path("/proc/self/ns/net").stat().st_dev


def pids(name: str) -> list[int]:
    """Return the pids in a network namespace."""
    try:
        wanted = Path("/run/netns", name).stat().st_ino
    except FileNotFoundError:
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if (entry / "ns/net").stat().st_ino == wanted:
                    found.append(int(entry.name))
    return found


def remove_namespace(name: str, seconds: float = 20) -> None:
    """End every process of a namespace, then the namespace with its cables; an absent one is fine.

    Processes are found by the namespace they are in, so nothing that is not ours can be hit, and a record that a
    crash left behind or never wrote does no harm.

    Raises:
        RuntimeError: a process is still there after the bound.
    """
    end = time.monotonic() + seconds
    while left := pids(name):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > end:
            raise RuntimeError(f"processes {left} in namespace {name} survived SIGKILL for {seconds} s.")
        time.sleep(0.02)
    held = Path("/run/netns", name)
    if held.exists():
        # The kernel removes a namespace later, and the far ends of its cables would keep their names until then.
        subprocess.run(["ip", "-n", name, "link", "del", "group", str(CABLES)], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        held.unlink(missing_ok=True)


def burst_bytes(rate_bits_per_s: int) -> int:
    """Return a token bucket's depth in bytes for a rate: about 10 ms of it, at least an MTU and its header.

    Below MTU + 14 nothing ever passes and TCP hangs without a word.
    """
    ten_ms = rate_bits_per_s // 800
    floor = 65_536 if rate_bits_per_s >= 20_000_000 else 16_384  # noqa: PLR2004 - tried: rehearsal trials, section 9
    return max(floor, min(262_144, ten_ms))


def tbf(rate_bits_per_s: int) -> str:
    """Return tc's words for a token bucket of a rate."""
    return f"tbf rate {rate_bits_per_s}bit burst {burst_bytes(rate_bits_per_s)} limit 1mb"


def shaper(device: str, rate_bits_per_s: int) -> str:
    """Return the line of tc that shapes a device to a rate."""
    return f"qdisc replace dev {device} root {tbf(rate_bits_per_s)}"


def shaper_by_peer(device: str, rate_bits_per_s: int, slow: dict[str, int]) -> list[str]:
    """Return the lines of tc that shape a device to a rate, and what it sends to some MAC addresses to lower ones (bits/s)."""
    whole = f"rate {rate_bits_per_s}bit burst {burst_bytes(rate_bits_per_s)} quantum {QUANTUM_BYTES}"
    lines = [
        # The old shaper goes first: a class cannot be added to another discipline.
        f"qdisc replace dev {device} root {tbf(rate_bits_per_s)}",
        f"qdisc replace dev {device} root handle 1: htb default 2",
        f"class replace dev {device} parent 1: classid 1:1 htb {whole}",
        f"class replace dev {device} parent 1:1 classid 1:2 htb {whole}",
    ]
    for number, (address, rate) in enumerate(sorted(slow.items()), start=3):
        part = f"rate {rate}bit burst {burst_bytes(rate)} quantum {QUANTUM_BYTES}"
        lines += [
            f"class replace dev {device} parent 1:1 classid 1:{number:x} htb {part}",
            f"filter add dev {device} parent 1: protocol ip prio 1 u32 match ether dst {address} flowid 1:{number:x}",
        ]
    return lines


def shaper_of_marked(device: str, rate_bits_per_s: int, service: int) -> list[str]:
    """Return the lines of tc that shape only packets with a type of service to a rate."""
    part = f"rate {rate_bits_per_s}bit burst {burst_bytes(rate_bits_per_s)} quantum {QUANTUM_BYTES}"
    return [
        f"qdisc replace dev {device} root handle 1: htb",
        f"class replace dev {device} parent 1: classid 1:1 htb {part}",
        f"filter add dev {device} parent 1: protocol ip prio 1 u32 match ip tos {service:#x} 0xff flowid 1:1",
    ]


@contextlib.contextmanager
def locked(world: World, what: str) -> Iterator[None]:
    """Hold one of the world's locks."""
    path = world.folder("locks") / what
    while True:
        with path.open("w") as file:
            flock(file, LOCK_EX)
            # Its last holder may have removed the whole world: then the lock is another file by now.
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                yield
                return
        path.parent.mkdir(parents=True, exist_ok=True)
