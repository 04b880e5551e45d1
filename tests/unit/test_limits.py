"""Each limit is tested from both sides. If a part that is judged is missing, the verdict is unknown or short, never pass."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from measurement_line import ASKED, GPU4, PLAN, a_plan, document, row, with_step

from benchmarks.judge import transport
from benchmarks.judge.transport import inside_bytes
from benchmarks.judge.verdict import judge
from benchmarks.plan.asked import Asked
from benchmarks.plan.gate import gate
from benchmarks.plan.steps import steps
from catalogue import SHAPES
from config.accept import Accept
from config.measure import Collective

H200 = SHAPES["BM.GPU.H200.8"]
MIB = 1024**2
LARGE = a_plan(end_bytes=4096 * MIB)
ONE_SERVER = Asked(LARGE, H200, 1)
MANY = Asked(a_plan(collectives=("all_reduce", "all_gather")), GPU4, 2)


def one_server() -> dict[str, Any]:
    """Return the line of one real server of eight H200s, whose NVLink bytes were counted."""
    found = document(ONE_SERVER, share=0.78, scale=1)
    found["transport"] |= {"nvlink_tx_bytes": {"least": int(ring_bytes())}, "said": {"channels": {"P2P/CUMEM": 16}}}
    return found


def ring_bytes() -> float:
    """Return how many bytes the GPUs of one server send in a deciding run over a ring.

    For each timed or checked operation, n GPUs together send 2 (n - 1) times the message size.
    """
    return sum(size * 2 * (LARGE.iterations * LARGE.cycles + 1) for size in LARGE.sizes_bytes) * 2 * (H200.gpus - 1)


def state(line: dict[str, Any], name: str, asked: Asked = ASKED) -> str:
    (found,) = [one.state for one in judge(json.dumps(line), asked).checks if one.name == name]
    return found


# Limits of the measured numbers


@pytest.mark.parametrize(("size_bytes", "share"), [(8, 0.31), (1 * MIB, 0.6), (64 * MIB, 1.0)])
def test_a_users_limit_is_compared_with_the_busbw_at_the_message_size_of_the_limit(size_bytes, share):
    line = document()
    (step,) = [one for one in line["steps"] if one["name"] == "all_reduce"]
    (reached,) = [packed[1][2] for packed in step["rows"] if packed[0] == size_bytes]
    assert len({packed[1][2] for packed in step["rows"]}) == len(step["rows"])
    for factor, expected in ((0.999, "pass"), (1.001, "short")):
        limited = dataclasses.replace(ASKED, accept=Accept(limits={"all_reduce": {size_bytes: reached * 4000 * factor}}))
        assert state(line, f"limit all_reduce@{size_bytes}", limited) == expected, share


@pytest.mark.parametrize(("share", "verdict"), [(0.851, "pass"), (0.849, "short")])
def test_the_gate_of_large_messages_is_exactly_85_percent_of_the_line_rate(share, verdict):
    assert state(document(share=share), "bandwidth") == verdict


@pytest.mark.parametrize(("mib", "share"), [(4096, 0.85), (4095, 0.80), (1024, 0.80), (1023, 0.70), (512, 0.70), (511, None)])
def test_the_message_size_decides_which_fraction_of_the_rails_rate_the_gate_requires(mib, share):
    found = gate(a_plan(end_bytes=mib * MIB, begin_bytes=mib * MIB), GPU4, 4).limit_gb_s
    assert found == (share and pytest.approx(share * 200))


@pytest.mark.parametrize(("mib", "share"), [(4096, 0.72), (4095, 0.68), (1024, 0.68), (1023, 0.61), (256, 0.61), (255, None)])
def test_the_fraction_of_nvlinks_rate_that_the_gate_requires_follows_the_message_size(mib, share):
    found = gate(a_plan(end_bytes=mib * MIB, begin_bytes=mib * MIB), H200, 1).limit_gb_s
    assert found == (share and pytest.approx(share * 450))


@pytest.mark.parametrize(
    ("cv_pct", "p99_us", "expected"),
    [(5.0, 1500.0, "pass"), (5.1, 1000.0, "short"), (1.0, 1501.0, "short"), (7.9, 1010.0, "short")],
)
def test_operations_are_steady_up_to_a_deviation_of_5_percent_and_a_p99_of_one_and_a_half_medians(cv_pct, p99_us, expected):
    spread = {"iterations": 20, "p50_us": 1000.0, "p99_us": p99_us, "cv_pct": cv_pct}
    assert state(json.loads(with_step("spread", spread=spread)), "spread") == expected


@pytest.mark.parametrize(("off", "expected"), [(0.009, "pass"), (-0.009, "pass"), (0.011, "unknown"), (-0.011, "unknown")])
def test_busbw_divided_by_algbw_must_fit_the_number_of_ranks_within_one_percent(off, expected):
    rows = [row(size, 0.049) for size in PLAN.sizes_bytes]
    rows[-1][1][1] /= 1 + off
    assert state(json.loads(with_step("all_reduce", rows=rows)), "measurement") == expected


@pytest.mark.parametrize(
    ("scale", "factor", "expected"),
    [(1, 1.04, "pass"), (1, 1.06, "unknown"), (4000, 1.29, "pass"), (4000, 1.31, "unknown")],
)
def test_a_busbw_may_exceed_the_line_rate_by_5_percent_and_in_a_rehearsal_by_30_percent(scale, factor, expected):
    asked = dataclasses.replace(ASKED, plan=a_plan(end_bytes=4 * MIB if scale != 1 else 16 * 1024 * MIB))
    assert state(document(asked, factor, scale), "ceiling", asked) == expected


@pytest.mark.parametrize(("stage", "wire"), [("node", 300 / 4000), ("rails", 0.05 / 8)])
def test_every_group_of_a_stage_must_reach_the_stages_limit(stage, wire):
    (asked,) = [step for step in steps(PLAN, GPU4, 2) if step.stage == stage]
    share = 0.72 if stage == "node" else 0.85
    for factor, expected in ((1.002, "pass"), (0.998, "short")):
        groups = [wire * 1.05 * share] * asked.groups
        groups[1] = wire * share * factor
        assert state(json.loads(with_step(stage, groups_gb_s=groups)), stage) == expected


# Which path the bytes took


@pytest.mark.parametrize(("share", "expected"), [(0.81, "pass"), (0.79, "short"), (0.02, "short")])
def test_counters_must_show_four_fifths_of_the_bytes_that_a_ring_moves(share, expected):
    line, least = document(), transport.least_bytes(PLAN, GPU4, 2)
    for sent in line["transport"]["tx_bytes"].values():
        sent |= {name: int(share * least / 16) + 1 for name in sent if name.startswith("mlx5")}
    assert state(line, "transport") == expected


@pytest.mark.parametrize(("share", "expected"), [(0.51, "pass"), (0.49, "short")])
def test_a_rail_that_sent_less_than_half_as_much_as_the_busiest_rail_is_short(share, expected):
    line = document()
    for sent in line["transport"]["tx_bytes"].values():
        sent["mlx5_3"] = int(share * max(sent.values()))
    assert state(line, "transport") == expected


def test_one_server_that_used_nvlink_passes():
    judged = judge(json.dumps(one_server()), ONE_SERVER)
    assert (judged.verdict, judged.reasons) == ("pass", ())


@pytest.mark.parametrize("way", ["SHM/direct", "NET/Socket/0", "SHM"])
def test_a_server_with_a_channel_through_memory_or_network_is_short_however_many_bytes_nvlink_sent(way):
    line = one_server()
    line["transport"]["said"]["channels"][way] = 2
    assert state(line, "transport", ONE_SERVER) == "short"


@pytest.mark.parametrize(("share", "expected"), [(1.0, "pass"), (0.41, "pass"), (0.39, "short"), (0.0, "short")])
def test_nvlink_must_have_sent_at_least_four_tenths_of_the_bytes_of_a_ring(share, expected):
    line = one_server()
    line["transport"]["nvlink_tx_bytes"]["least"] = int(share * ring_bytes())
    assert state(line, "transport", ONE_SERVER) == expected


#: Bytes that all eight GPUs together send in one operation of S bytes, in units of S.
_MOVED = {
    "all_reduce": 14,
    **dict.fromkeys(("all_gather", "reduce_scatter", "alltoall", "hypercube", "broadcast", "reduce"), 7),
    **dict.fromkeys(("gather", "scatter"), 7 / 8),
    "sendrecv": 8,
}


@pytest.mark.parametrize("name", get_args(Collective))
@pytest.mark.parametrize(("share", "expected"), [(1.0, "pass"), (0.41, "pass"), (0.39, "short"), (0.0, "short")])
def test_nvlink_must_have_sent_four_tenths_of_the_bytes_that_a_collective_moves(name, share, expected):
    plan = a_plan(end_bytes=4096 * MIB, collectives=(name,))
    asked = Asked(plan, H200, 1, accept=Accept(gate_gb_s=100))
    line = document(asked, share=0.78, scale=1)
    size = sum(one * 2 * (plan.iterations * plan.cycles + 1) for one in plan.sizes_bytes)
    line["transport"] |= {
        "nvlink_tx_bytes": {"least": int(share * _MOVED[name] * size)},
        "said": {"channels": {"P2P/CUMEM": 16}},
    }
    assert state(line, "transport", asked) == expected


@pytest.mark.parametrize("name", ["all_gather", "broadcast"])
def test_fewer_bytes_are_enough_if_nvlinks_switch_may_copy_data_than_if_a_ring_is_forced(name):
    plan = a_plan(end_bytes=4096 * MIB, collectives=(name,))
    free = a_plan(end_bytes=4096 * MIB, collectives=(name,), exports={"NCCL_ALGO": "NVLS"})
    assert inside_bytes(plan, H200) == 7 * inside_bytes(free, H200)


def test_pairs_of_gpus_without_a_direct_nvlink_are_not_expected_to_use_nvlink():
    """A V100's six links do not reach all seven other GPUs, so an all-to-all also uses PCIe."""
    v100 = dataclasses.replace(H200, gpu="Tesla V100-SXM2-32GB")
    assert inside_bytes(a_plan(collectives=("alltoall",)), v100) == 0
    assert inside_bytes(a_plan(), v100) > 0


@pytest.mark.parametrize("counted", [None, {}, {"least": None}])
def test_without_nvlink_counters_a_run_passes_only_if_nccls_log_lists_the_channels(counted):
    line = one_server()
    line["transport"]["nvlink_tx_bytes"] = counted
    assert state(line, "transport", ONE_SERVER) == "pass"
    for said in (None, {}, {"channels": {}}):
        line["transport"]["said"] = said
        assert state(line, "transport", ONE_SERVER) == "skipped"
        assert judge(json.dumps(line), ONE_SERVER).verdict == "unknown"


@pytest.mark.parametrize("sent", [{}, {"a": {}}, {"a": {"eth0": 0}}, {"a": {"eth0": None}}, {"a": {"eth0": 1000}}])
def test_machines_without_rails_pass_only_if_an_interface_counted_enough_bytes(sent):
    bare = dataclasses.replace(GPU4, rdma=None)
    asked = Asked(PLAN, bare, 2)
    least = transport.least_bytes(PLAN, bare, 2)
    assert transport.judge({"transport": {"tx_bytes": sent}}, asked, rehearsed=False).state == "skipped"
    enough = {"transport": {"tx_bytes": sent | {"b": {"eth1": int(least)}}}}
    found = transport.judge(enough, asked, rehearsed=False)
    assert found.state == "pass"
    assert "eth1 carried" in found.why[0]
    too_few = {"transport": {"tx_bytes": sent | {"b": {"eth1": int(0.79 * least)}}}}
    assert transport.judge(too_few, asked, rehearsed=False).state == "skipped"


@pytest.mark.parametrize(("name", "why"), [
    ("sendrecv", "inst-0: its rails (mlx5_0) sent 0 GB of the"),
    ("broadcast", "no node sent a byte over its rails"),
])  # fmt: skip
def test_rails_that_sent_nothing_are_short_even_if_broadcast_or_sendrecv_is_the_only_collective(name, why):
    one_rail = dataclasses.replace(GPU4.rdma, hca=("mlx5_0",), el7_netdevs=(), ports=1)
    alone = dataclasses.replace(GPU4, gpus=1, rdma=one_rail)
    asked = Asked(a_plan(collectives=(name,)), alone, 2)
    sent = {f"inst-{at}": {"mlx5_0": 0, "eth0": 10**12} for at in range(2)}
    found = transport.judge({"transport": {"tx_bytes": sent}}, asked, rehearsed=False)
    assert found.state == "short"
    assert found.why[0].startswith(why)
    sent["inst-0"]["mlx5_0"] = sent["inst-1"]["mlx5_0"] = 10**12
    used = transport.judge({"transport": {"tx_bytes": sent}}, asked, rehearsed=False)
    assert used.why[0] == "NCCL did not log whether it used GPUDirect RDMA", "the bytes are enough"
    anywhere = Asked(asked.plan, dataclasses.replace(alone, rdma=None), 2)
    nothing = {name: {"eth0": 0} for name in sent}
    assert transport.judge({"transport": {"tx_bytes": nothing}}, anywhere, rehearsed=False).state == "skipped"


# Missing data is never a pass

#: Parts of a line that a pass does not need: they are only shown, or their step's check reads other numbers.
SHOWN = (
    r"(run_id|started|seconds|versions|gpu|evidence)\b.*",
    r"steps\.\w+\.(stage|seconds|collective)",
    r"steps\.\w+\.rows\.\d+\.2\b.*",  # in-place numbers can only make a run short or unknown
    r"steps\.spread\.(rows|ranks|hosts|problems|program)\b.*",
    r"transport\.(hcas|netdevs|events|network)\b.*",
)
#: Parts that a pass can do without, because something else proves the same. For two nodes, the rails' byte counters prove the
#: transport without NCCL's log, and an interface that is not a rail proves nothing. For one server, NVLink's counters and the
#: log each prove the transport without the other. A line without a scale counts as a line of real machines.
ELSE_PROVEN = {
    "two nodes": (r"transport\.(said|nvlink_tx_bytes)\b.*", r"transport\.tx_bytes\.inst-\d\.eth0"),
    "one server": (r"rehearsal", r"transport\.(tx_bytes|said|nvlink_tx_bytes)\b.*"),
}


def parts(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every part of a document; of a list of numbers or texts, only the first, middle and last item."""
    if isinstance(value, dict):
        keys: list[Any] = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
        if value and not isinstance(value[0], dict):
            keys = sorted({0, len(value) // 2, len(value) - 1})
    else:
        return
    for key in keys:
        yield (*at, key)
        yield from parts(value[key], (*at, key))


def without(line: dict[str, Any], place: tuple[Any, ...]) -> dict[str, Any]:
    """Return the line without the part at `place`."""
    damaged = copy.deepcopy(line)
    here: Any = damaged
    for key in place[:-1]:
        here = here[key]
    del here[place[-1]]
    return damaged


def named(line: dict[str, Any], place: tuple[Any, ...]) -> str:
    """Return the path `place` in the form of the patterns above, in which a step has its name instead of its number."""
    words = [str(key) for key in place]
    if words[0] == "steps" and len(words) > 1:
        words[1] = line["steps"][place[1]]["name"]
    return ".".join(words)


@pytest.mark.parametrize(
    ("what", "line", "asked"),
    [("two nodes", document(MANY), MANY), ("one server", one_server(), ONE_SERVER)],
    ids=["two-nodes", "one-server"],
)
def test_a_measurement_that_lacks_any_judged_part_is_not_a_pass(what, line, asked):
    assert judge(json.dumps(line), asked).verdict == "pass"
    free = re.compile("|".join((*SHOWN, *ELSE_PROVEN[what])))
    judged = [place for place in parts(line) if not free.fullmatch(named(line, place))]
    assert len(judged) > 30
    passed = [named(line, place) for place in judged if judge(json.dumps(without(line, place)), asked).verdict == "pass"]
    assert passed == []
