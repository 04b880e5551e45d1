"""Network namespaces, and cables with their rates, made with iproute2."""

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

#: Jumbo frames, for front end and rails: an MTU of 1500 costs 4 % of a shaped rail's rate.
MTU = 9000

#: The interface group of each cable's end in the namespace of a host, router or file server. With this group, all cables of
#: such a namespace can be deleted at once, before the namespace is deleted.
CABLES = 7

#: Bytes that a class of a traffic shaper may send in one turn: the size of the largest packet that reaches the shaper. The
#: kernel splits large packets only later (GSO).
QUANTUM_BYTES = 65536

NAMESPACE_SYSCTLS = {
    "net/ipv4/ip_forward": "0",
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    # Otherwise hosts could inherit BBR, which is slow on shaped rails. Every kernel has reno.
    "net/ipv4/tcp_congestion_control": "reno",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_slow_start_after_idle": "0",
    # The default size of a socket's buffers is the size that the rehearsed NCCL requests: 512 KiB.
    "net/ipv4/tcp_rmem": "4096 524288 4194304",
    "net/ipv4/tcp_wmem": "4096 524288 4194304",
    # So few retries that a connection over a broken path fails within a test's time limit.
    "net/ipv4/tcp_syn_retries": "4",
}


def call(argv: Sequence[str], given: str | None = None, seconds: float = 60) -> str:
    """Run one command to its end and return its standard output.

    Raises:
        RuntimeError: the command failed (the message has its output) or did not finish in time.
    """
    try:
        done = subprocess.run(argv, input=given, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as late:
        raise RuntimeError(f"{' '.join(argv)} did not end within {seconds} s.") from late
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def ip(lines: Iterable[str], namespace: str | None = None) -> None:
    """Run lines of iproute2 in one process, in a namespace if `namespace` is set; the first failure raises an error."""
    text = "".join(f"{line}\n" for line in lines)
    if text:
        call(["ip", *(["-n", namespace] if namespace else []), "-batch", "-"], text)


def neighbours(device: str) -> str:
    """Return the line of iproute2 that makes a device forget neighbours soon, and answer for proxied addresses at once.

    In the rehearsal, a new machine may get the address of a deleted machine within seconds; in a vendor's cloud, this takes
    minutes. The kernel has these settings only per device; by default, proxy ARP answers after up to 0.8 s.
    """
    return f"ntable change name arp_cache dev {device} base_reachable 1000 delay_probe 1000 retrans 200 proxy_delay 0"


def tc(lines: Iterable[str], namespace: str) -> None:
    """Run lines of tc in one process in a namespace; the first failure raises an error."""
    call(["tc", "-n", namespace, "-batch", "-"], "\n".join(lines) + "\n")


def inside(namespace: str) -> list[str]:
    """Return the start of a command that runs in a network namespace but keeps the caller's other namespaces.

    `ip netns exec` would also create a mount namespace, whose mounts no other process sees.
    """
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def namespaces(world: World) -> list[str]:
    """Return the names of this world's network namespaces, without the world's prefix."""
    prefix = world.netns("")
    folder = Path("/run/netns")
    return sorted(one.name.removeprefix(prefix) for one in folder.glob(f"{prefix}*")) if folder.is_dir() else []


def make_namespace(name: str, sysctls: dict[str, str] | None = None) -> None:
    """Create a network namespace with loopback up and the rehearsal's settings; an existing namespace stays as it is."""
    if Path("/run/netns", name).exists():
        if _alive(name):
            return
        # A crash between the creation of the name and the mount of the namespace leaves a plain file.
        Path("/run/netns", name).unlink()
    call(["ip", "netns", "add", name])
    settings = NAMESPACE_SYSCTLS | (sysctls or {})
    script = "".join(f"echo '{value}' > /proc/sys/{key}\n" for key, value in settings.items())
    call([*inside(name), "sh", "-ec", f"{script}ip link set lo up"])


def _alive(name: str) -> bool:
    """Return whether a namespace is mounted on this name; if not, the name is a plain file."""
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
    """Kill every process in a namespace, then delete the namespace with its cables; idempotent.

    Processes are found by their namespace, so no process outside can be killed. The world's records are not used,
    so records that are stale or missing after a crash do no harm.

    Raises:
        RuntimeError: a process still exists after the time limit.
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
        # After `ip netns del`, the kernel deletes a namespace with a delay. Until then, the far ends of its cables would keep
        # their names, so the cables are deleted first.
        subprocess.run(["ip", "-n", name, "link", "del", "group", str(CABLES)], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        held.unlink(missing_ok=True)


def burst_bytes(rate_bits_per_s: int) -> int:
    """Return a token bucket's size for a rate: the number of bytes sent in 10 ms at this rate, but within fixed limits.

    The bucket must hold the largest packet, which has the MTU plus a header of 14 bytes. A larger packet than the bucket
    would never pass, and TCP would hang without an error.
    """
    ten_ms = rate_bits_per_s // 800
    floor = 65_536 if rate_bits_per_s >= 20_000_000 else 16_384  # noqa: PLR2004 - found by trial
    return max(floor, min(262_144, ten_ms))


def tbf(rate_bits_per_s: int) -> str:
    """Return tc's arguments for a token bucket with a rate."""
    return f"tbf rate {rate_bits_per_s}bit burst {burst_bytes(rate_bits_per_s)} limit 1mb"


def shaper(device: str, rate_bits_per_s: int) -> str:
    """Return the line of tc that shapes a device to a rate."""
    return f"qdisc replace dev {device} root {tbf(rate_bits_per_s)}"


def shaper_by_peer(device: str, rate_bits_per_s: int, slow: dict[str, int]) -> list[str]:
    """Return the lines of tc that limit a device to a rate.

    Packets for a MAC address in `slow` are limited to the rate of that address.
    """
    whole = f"rate {rate_bits_per_s}bit burst {burst_bytes(rate_bits_per_s)} quantum {QUANTUM_BYTES}"
    lines = [
        # First the old shaper is replaced, because a class cannot be added to a queueing discipline of another kind.
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
    """Return the lines of tc that shape packets with one type of service to a rate, and no other packets."""
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
            # The previous holder may have removed the whole world. Then the path no longer refers to the locked file.
            if path.exists() and path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                yield
                return
        path.parent.mkdir(parents=True, exist_ok=True)
