"""The faults of hosts, read from the world's faults.json."""

from __future__ import annotations

from dataclasses import dataclass

from rehearsal.world.world import World

#: Free space that `disk_full` leaves: enough for first boot, too little for a build or a copy.
NEARLY_FULL_BYTES = 8 << 20


@dataclass(frozen=True)
class HostFaults:
    """The faults of one host.

    Attributes:
        factors: by rail index, the factor by which the line rate is multiplied.
        dead: indices of rails without a link.
        unauthenticated: indices of rails that have a link and an address but carry no traffic (802.1X).
        degraded: by rail index, the rate in Gbit/s that the port reports and to which the rail is shaped.
        slow_links: by launch index of another host, the factor by which the rate between the two hosts is multiplied.
        wrong_values: whether some packets to the host's rails are altered without a checksum error.
        tcp_fallback: whether no verbs library finds the host's RDMA devices, although they exist.
        boot_fails: whether cloud-init finishes with the status `error`.
        never_answers: whether no packet reaches the host, although the host runs.
        free_bytes: free space that is left on the host's root disk; None if the disk is not filled.
        failing: commands of the host's image that fail.
        computing: processes that nvidia-smi lists on the host's GPUs, in the format of nvidia-smi: pid, name, MiB.
    """

    factors: dict[int, float]
    dead: frozenset[int]
    degraded: dict[int, int]
    slow_links: dict[int, float]
    unauthenticated: frozenset[int] = frozenset()
    wrong_values: bool = False
    tcp_fallback: bool = False
    boot_fails: bool = False
    never_answers: bool = False
    free_bytes: int | None = None
    failing: tuple[str, ...] = ()
    computing: tuple[str, ...] = ()

    @classmethod
    def of(cls, world: World, index: int, rails: int) -> HostFaults:
        """Return the faults of the host with the launch index `index`; -1 means every host outside the pools.

        Raises:
            ValueError: a fault lacks a valid value that it needs.
        """
        mine = [one for one in world.faults() if one.get("host") == index]
        factors = dict.fromkeys(range(rails), 1.0)
        for one in mine:
            which = range(rails) if one["kind"] == "slow_host" else [_rail(one)] if one["kind"] == "rail_rate" else []
            for rail in which:
                factors[rail] = factors.get(rail, 1.0) * _factor(one)
        kinds = {str(one["kind"]): one for one in mine}
        free = kinds["disk_full"].get("free_bytes", NEARLY_FULL_BYTES) if "disk_full" in kinds else None
        return cls(
            factors,
            frozenset(_rail(one) for one in mine if one["kind"] == "rail_dead"),
            {_rail(one): _gigabits(one) for one in mine if one["kind"] == "port_degraded"},
            _slow_links(world, index),
            frozenset(_rail(one) for one in mine if one["kind"] == "rail_unauthenticated"),
            "wrong_values" in kinds,
            "tcp_fallback" in kinds,
            "boot_fails" in kinds,
            "never_answers" in kinds,
            int(str(free)) if free is not None else None,
            tuple(_command(one) for one in mine if one["kind"] == "command_fails"),
            tuple(_process(one) for one in mine if one["kind"] == "gpu_busy"),
        )


def _rail(fault: dict[str, object]) -> int:
    rail = fault.get("rail")
    if not isinstance(rail, int):
        raise ValueError(f"the fault {fault} must have rail, the index of a rail: a whole number from 0.")
    return rail


def _command(fault: dict[str, object]) -> str:
    command = fault.get("command")
    if not isinstance(command, str) or not command or "/" in command:
        raise ValueError(f"the fault {fault} must have command, the bare name of a program on the host, such as mount.")
    return command


def _process(fault: dict[str, object]) -> str:
    pid = fault.get("pid")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid < 1:
        raise ValueError(f"the fault {fault} must have pid, a whole number from 1: nvidia-smi lists a process with this pid.")
    return f"{pid}, {fault.get('name', 'python3')}, 30000"


def _gigabits(fault: dict[str, object]) -> int:
    rate = fault.get("gbit_s")
    if not isinstance(rate, int) or isinstance(rate, bool) or rate < 1:
        raise ValueError(f"the fault {fault} must have gbit_s, the rate that the port reports: a whole number from 1.")
    return rate


def _slow_links(world: World, index: int) -> dict[int, float]:
    """Return the factor of each slow link of a host, by launch index of the other end."""
    found = {}
    for one in world.faults():
        if one["kind"] != "slow_link":
            continue
        ends = one.get("hosts")
        if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, int) for end in ends) or ends[0] == ends[1]:  # noqa: PLR2004 - a link has two ends
            raise ValueError(f"the fault {one} must have hosts, the two different launch indices of the link's ends.")
        if index in ends:
            found[ends[1] if ends[0] == index else ends[0]] = _factor(one)
    return found


def _factor(fault: dict[str, object]) -> float:
    factor = fault.get("factor")
    if not isinstance(factor, int | float) or not 0 < factor <= 1:
        raise ValueError(f"the fault {fault} must have a factor above 0 and up to 1; for 0, use the kind rail_dead.")
    return float(factor)
