"""Faults planted on rails change rates, individual links, ports and the bytes that arrive; counters show the real traffic."""

from __future__ import annotations

import fcntl
import json
import time

import pytest
from rail_streams import FIRST_BOOT, RECEIVE, SEND, megabits
from rehearsed_hosts import RAILS, Stage, end_world, vcn

from rehearsal.entry import clear, command
from rehearsal.host import cables, spec
from rehearsal.net import network, wires
from rehearsal.world.faults import HostFaults
from rehearsal.world.world import World

pytestmark = pytest.mark.xdist_group("broken")
FAULTS = (
    {"kind": "slow_link", "hosts": [0, 1], "factor": 0.3},
    {"kind": "port_degraded", "host": 1, "rail": 4, "gbit_s": 50},
    {"kind": "wrong_values", "host": 2},
    {"kind": "tcp_fallback", "host": 2},
)
LINE_MBITS = 25  # 100 Gb/s at 1/4000
#: HEARD waits until the receiver listens on port 5001. WRITTEN waits for the result of the receiver, and prints the result.
HEARD = "timeout 10 sh -c \"until grep -q ':1389 .* 0A ' /proc/net/tcp; do sleep 0.05; done\""
WRITTEN = "timeout 10 sh -c 'until [ -s /tmp/counted ]; do sleep 0.1; done'; cat /tmp/counted"


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    stage = Stage(tmp_path_factory.mktemp("w"))
    try:
        network.apply_vcn(stage.world, vcn())
        network.apply_fabric(stage.world, "fab0", 16)
        stage.faults(*FAULTS)
        names = [f"gpu{number}" for number in range(3)]
        for number, name in enumerate(names):
            stage.boot(name, 61 + number, "ol7-gpu", FIRST_BOOT, index=number)
        assert stage.ready(*names) == dict.fromkeys(names, "status: done")
        yield stage
    finally:
        end_world(stage.world)


def speed(stage, sender: int, receiver: int, rail: int) -> float:
    """Return the rate of one stream over a rail, in Mbit/s."""
    ends = (f"192.168.{rail}.{61 + number}" for number in (sender, receiver))
    return megabits(stage, f"gpu{sender}", f"gpu{receiver}", *ends)


def counter(stage, number: int, name: str, hca: str = "mlx5_0") -> int:
    return int(stage.inside(f"gpu{number}", f"cat /sys/class/infiniband/{hca}/ports/1/counters/{name}").stdout)


@pytest.mark.rehearsal
def test_a_ports_counters_count_words_of_four_bytes_and_follow_the_traffic(stage):
    sent, received = counter(stage, 0, "port_xmit_data"), counter(stage, 2, "port_rcv_data")
    other = counter(stage, 0, "port_xmit_data", "mlx5_6")
    speed(stage, 0, 2, 0)
    time.sleep(0.2)
    interface = int(stage.inside("gpu0", f"cat /sys/class/net/{RAILS[0]}/statistics/tx_bytes").stdout)
    assert counter(stage, 0, "port_xmit_data") == interface // 4
    assert 4 * (counter(stage, 0, "port_xmit_data") - sent) > 4_000_000
    assert 4 * (counter(stage, 2, "port_rcv_data") - received) > 4_000_000
    assert 4 * (counter(stage, 0, "port_xmit_data", "mlx5_6") - other) < 100_000
    assert counter(stage, 0, "symbol_error") == 0


@pytest.mark.rehearsal
@pytest.mark.parametrize(("sender", "receiver", "share"), [(0, 1, 0.3), (1, 0, 0.3), (0, 2, 1), (2, 1, 1)])
def test_a_slow_link_slows_only_the_traffic_between_its_ends_in_both_directions(stage, sender, receiver, share):
    assert speed(stage, sender, receiver, 1) == pytest.approx(share * LINE_MBITS, rel=0.12)


@pytest.mark.rehearsal
def test_a_degraded_port_shows_its_reduced_rate_and_carries_no_more_than_that_rate(stage):
    shown = stage.inside(
        "gpu1", "cat /sys/class/infiniband/mlx5_{6,7}/ports/1/{rate,state}; cat /sys/class/net/enp7*/mtu"
    ).stdout
    assert shown.splitlines() == ["50 Gb/sec (1X HDR)", "4: ACTIVE", "100 Gb/sec (4X EDR)", "4: ACTIVE", *["9000"] * 4]
    assert speed(stage, 1, 2, 4) == pytest.approx(LINE_MBITS / 2, rel=0.1)
    assert speed(stage, 2, 1, 4) == pytest.approx(LINE_MBITS / 2, rel=0.1)


@pytest.mark.rehearsal
@pytest.mark.parametrize(("receiver", "altered"), [(2, True), (0, False)])
def test_wrong_values_arrive_only_at_the_faulty_host_although_checksums_match(stage, receiver, altered):
    sender, address = 1, f"192.168.2.{61 + receiver}"
    counting = RECEIVE.format(address).replace("n=len(c.recv(1));", "n=0;").replace("n+=len(b)", "n+=len(b)-b.count(b'x')")
    counting = counting.replace("print(n*8/(time.time()-t)/1e6)", "print(n)")
    stage.inside(f"gpu{receiver}", f"{counting} > /tmp/counted 2>&1 & {HEARD}")
    stage.inside(f"gpu{sender}", SEND.format(address, 1, f"192.168.2.{61 + sender}"))
    wrong = int(stage.inside(f"gpu{receiver}", WRITTEN).stdout)
    assert (wrong > 0) == altered


@pytest.mark.rehearsal
def test_with_a_planted_tcp_fallback_a_host_keeps_its_rdma_devices_but_has_no_verbs_devices(stage):
    seen = {name: stage.inside(name, "ls /sys/class/infiniband | wc -l; ls /sys/class/infiniband_verbs | wc -l").stdout.split()
            for name in ("gpu0", "gpu2")}  # fmt: skip
    assert seen == {"gpu0": ["17", "17"], "gpu2": ["17", "0"]}


@pytest.mark.rehearsal
def test_only_sockets_of_benchmarks_are_limited_to_the_front_ends_scaled_rate(stage):
    marked = SEND.replace("e=time.time()", f"c.setsockopt(0,1,{cables.NCCL_SOCKET_SERVICE});e=time.time()")
    rates = []
    for program in (marked, SEND):
        stage.inside("gpu1", f"{RECEIVE.format('10.0.1.62')} > /tmp/counted 2>&1 & {HEARD}")
        stage.inside("gpu0", program.format("10.0.1.62", 2, "10.0.1.61"))
        # After its 2 seconds, the sender still has bytes in its buffer; they are sent at the same rate as the other bytes.
        rates.append(float(stage.inside("gpu1", WRITTEN).stdout))
    assert rates[0] == pytest.approx(LINE_MBITS, rel=0.15)
    assert rates[1] > 20 * LINE_MBITS


@pytest.mark.rehearsal
def test_faults_can_be_planted_and_removed_on_running_hosts(stage):
    """This is the last test that uses the hosts, because it removes their faults."""
    stage.faults({"kind": "rail_dead", "host": 1, "rail": 5})
    for number in range(3):
        cables.refault(stage.world, spec.load(stage.world, f"gpu{number}"))
    shown = stage.inside("gpu1", "cat /sys/class/infiniband/mlx5_{6,7}/ports/1/{rate,state}").stdout
    assert shown.splitlines() == ["100 Gb/sec (4X EDR)", "4: ACTIVE", "100 Gb/sec (4X EDR)", "1: DOWN"]
    assert stage.inside("gpu1", "cat /sys/class/net/enp72s0f1/operstate").stdout == "down\n"
    assert speed(stage, 0, 1, 1) == pytest.approx(LINE_MBITS, rel=0.12)
    assert speed(stage, 1, 2, 4) == pytest.approx(LINE_MBITS, rel=0.12)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ({"kind": "slow_link", "hosts": [1, 1], "factor": 0.5}, "two different launch indices"),
        ({"kind": "slow_link", "host": 1, "factor": 0.5}, "two different launch indices"),
        ({"kind": "slow_link", "hosts": [0, 1], "factor": 2}, "factor above 0 and up to 1"),
        ({"kind": "port_degraded", "host": 1, "rail": 0}, "must have gbit_s, the rate"),
        ({"kind": "port_degraded", "host": 1, "gbit_s": 50}, "must have rail, the index of a rail"),
        ({"kind": "gpu_busy", "host": 1}, "must have pid, a whole number from 1"),
        ({"kind": "command_fails", "host": 1, "command": "/bin/rm"}, "must have command, the bare name of a program"),
    ],
)
def test_an_incomplete_fault_is_refused_in_one_sentence(tmp_path, fault, sentence):
    world = World.at(tmp_path / "w")
    world.folder()
    (world.path / "faults.json").write_text(json.dumps([fault]))
    with pytest.raises(ValueError, match=sentence):
        HostFaults.of(world, 1, 16)


def test_planted_faults_are_announced_with_the_command_that_removes_them():
    planted = [{"kind": "rail_rate", "host": 1, "rail": 3, "factor": 0.5}, {"kind": "capacity", "after": 1}]
    said = command.announced(planted)
    assert said == "rehearsal/enter: 2 planted faults: rail_rate on host 1, capacity; `make down` ends them\n"


def test_a_slow_link_is_configured_only_at_its_two_ends(tmp_path):
    world = World.at(tmp_path / "w")
    (world.folder() / "faults.json").write_text('[{"kind": "slow_link", "hosts": [2, 5], "factor": 0.25}]')
    assert [HostFaults.of(world, index, 16).slow_links for index in (2, 5, 3, -1)] == [{5: 0.25}, {2: 0.25}, {}, {}]


@pytest.mark.rehearsal
def test_clearing_a_world_removes_its_faults_and_the_leftovers_of_a_killed_run_but_changes_no_other_world(tmp_path):
    mine, other = World.at(tmp_path / "mine"), World.at(tmp_path / "other")
    for world in (mine, other):
        world.folder("clouds", "oci")
        (world.path / "faults.json").write_text('[{"kind": "capacity", "after": 1}]')
        network.ensure_operator(world)
    try:
        door = (mine.folder("locks") / "door").open("w")
        fcntl.flock(door, fcntl.LOCK_SH)
        with pytest.raises(RuntimeError, match="a command is running in"):
            clear.clear(mine)
        door.close()
        clear.clear(mine)
        assert not mine.path.exists()
        assert wires.namespaces(mine) == []
        assert clear.others(mine)[other.tag] == 1
        assert (other.path / "faults.json").exists()
    finally:
        clear.clear(other)
        clear.clear(mine)
