"""Rails are tested individually: the worst are named, and between nodes the check does not pass without all measurements."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from measurement_line import ASKED, GPU4, a_plan, document, place

from benchmarks.host import requests
from benchmarks.judge import proofs as proof_check
from benchmarks.judge.checks import Check
from benchmarks.judge.measurement import of
from benchmarks.judge.verdict import judge, judged
from benchmarks.plan.asked import Asked
from config.accept import Accept

PROVEN = dataclasses.replace(ASKED, plan=a_plan(prove_rails=True))
RATE = 100.0
WAY = {"node": "inst-0", "peer": "inst-1"}


def rail(**changes: Any) -> dict[str, Any]:
    return WAY | {"rail": "mlx5_0", "reached": "rdma", "gbit_s": 97.0, "line_gbit_s": RATE, "why": None} | changes


def proofs(*worst: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"rails": 32, "reached": 32, "measured": 32, "worst": list(worst or [rail()]), "seconds": 1.0} | changes


def found(said: Any, asked: Asked = PROVEN) -> Check:
    line = document(asked, scale=1) | {"proofs": said}
    (check,) = [one for one in judged(of(line), asked).checks if one.name == "proofs"]
    return check


def test_the_check_of_fast_enough_rails_passes_and_names_the_slowest_rail():
    check = found(proofs())
    assert check.state == "pass"
    assert check.why == (
        "32 rails were reached and measured; the slowest, mlx5_0 from inst-0 to inst-1, reached 97 Gbit/s of 100",
    )


@pytest.mark.parametrize(("gbit_s", "state"), [(90.0, "pass"), (89.9, "short"), (0.0, "short")])
def test_a_rail_below_nine_tenths_of_its_rate_is_short_and_named(gbit_s, state):
    check = found(proofs(rail(gbit_s=gbit_s, rail="mlx5_7")))
    assert check.state == state
    assert ("mlx5_7 from inst-0 to inst-1: ib_write_bw reached" in check.why[0]) == (state == "short")


def test_a_25_gbit_rail_with_the_published_throughput_passes():
    shape = dataclasses.replace(
        GPU4, rdma=dataclasses.replace(GPU4.rdma, ports=1, hca=("irdma0",), port_gbit_s=25, el7_netdevs=())
    )
    asked = dataclasses.replace(PROVEN, shape=shape)
    check = found(proofs(rail(rail="irdma0", gbit_s=23.14), rails=2, reached=2, measured=2), asked)
    assert check.state == "pass"
    assert "reached 23.14 Gbit/s of 25" in check.why[0]


def test_a_rail_that_is_not_reached_is_short_with_the_reason():
    check = found(proofs(rail(reached=None, gbit_s=None, why="rping: no route"), reached=31, measured=31))
    assert (check.state, check.why) == ("short", ("mlx5_0 from inst-0 to inst-1 is not reached: rping: no route",))


def test_rails_that_cannot_be_measured_are_skipped_and_the_verdict_is_pass_only_if_the_stack_allows_skipped_proofs():
    why = "not measured: ib_write_bw is not installed (package perftest)"
    said = proofs(rail(reached="address", gbit_s=None, why=why), measured=0)
    check = found(said)
    assert check.state == "skipped"
    assert check.why[0] == "32 rails were reached by address, and 0 were measured"
    assert why in check.why[1]
    text = json.dumps(document(PROVEN) | {"proofs": said})
    assert judge(text, PROVEN).verdict == "unknown"
    assert judge(text, dataclasses.replace(PROVEN, accept=Accept(allow_skipped=("proofs",)))).verdict == "pass"


def test_on_efa_the_check_is_skipped_with_the_reason():
    why = "not measured: rdmap0 is an EFA device, which lacks the reliable connections that ib_write_bw uses"
    check = found(proofs(rail(reached=None, gbit_s=None, untried=True, why=why), reached=0, measured=0, untried=32))
    assert (check.state, check.why[0]) == ("skipped", "32 of 32 rails could not be tried")
    assert check.why[1:] == (f"mlx5_0 from inst-0 to inst-1: {why}",)


def test_a_rail_that_is_not_reached_is_short_even_if_other_rails_cannot_be_tried():
    untried, lost = rail(reached=None, gbit_s=None, untried=True), rail(reached=None, gbit_s=None, why="rping: no route")
    assert found(proofs(lost, untried, reached=0, measured=0, untried=31)).state == "short"
    assert found(proofs(untried, reached=0, measured=0, untried=31)).state == "short"
    assert found(proofs(rail(reached=None, untried="yes"), reached=31, measured=31)).state == "short"


def test_a_rail_whose_test_failed_is_unknown_and_not_skipped():
    check = found(proofs(rail(gbit_s=None, why="ib_write_bw: it printed no table: Failed to modify QP"), measured=31))
    assert check.state == "unknown"
    assert "Failed to modify QP" in check.why[0]


def test_a_rail_whose_test_failed_is_unknown_even_if_another_rail_cannot_be_tried():
    failed = rail(gbit_s=None, why="ib_write_bw: it printed no table: Failed to modify QP")
    untried = rail(reached=None, gbit_s=None, untried=True, why="not measured: rdmap0 is an EFA device")
    check = found(proofs(untried, failed, reached=31, measured=30, untried=1))
    assert check.state == "unknown"
    assert check.why == ("mlx5_0 from inst-0 to inst-1: ib_write_bw: it printed no table: Failed to modify QP",)


@pytest.mark.parametrize(
    "said",
    [
        *(None, {}, [], "x", proofs(rails=30), proofs(worst=[]), proofs(worst=[7]), proofs(worst="x"), proofs(rails=None)),
        *(proofs(rail(gbit_s="97")), proofs(rail(gbit_s=float(10**300) * 10**10)), proofs(measured="32")),
    ],
)
def test_proofs_that_are_incomplete_or_malformed_are_never_a_pass(said):
    assert found(said).state in {"unknown", "skipped"}


def test_the_check_says_how_many_rails_have_proofs_or_that_the_list_of_the_slowest_rails_is_missing():
    assert found(proofs(worst=[])).why == ("the line does not say which rails were slowest",)
    assert found(proofs(rails=30)).why == ("the line has proofs of 30 of 32 rails",)
    assert found(None).why == ("the line has proofs of 0 of 32 rails",)


@pytest.mark.parametrize("why", ["not measured: an EFA device", "no program can try this device", None])
def test_a_rail_that_no_program_can_try_is_skipped_and_is_no_failure_whatever_the_reason(why):
    untried = rail(reached=None, gbit_s=None, untried=True, why=why)
    assert found(proofs(untried, reached=0, measured=0, untried=32)).state == "skipped"


def test_a_rail_that_carries_nothing_is_short_in_a_rehearsal_too():
    line = document(PROVEN) | {"proofs": proofs(rail(gbit_s=0.0))}
    (check,) = [one for one in judged(of(line), PROVEN).checks if one.name == "proofs"]
    assert check.state == "short"


@pytest.mark.parametrize(
    ("line_gbit_s", "gbit_s", "scale", "state"),
    [
        (200.0, 181.0, 1, "pass"),
        (200.0, 179.0, 1, "short"),
        (200.0, 0.046, 4000, "pass"),
        (200.0, 0.044, 4000, "short"),
        (None, 181.0, 1, "unknown"),
        (0, 181.0, 1, "unknown"),
    ],
)
def test_a_rail_of_a_shape_without_rdma_is_compared_with_the_line_rate_that_its_port_reports(line_gbit_s, gbit_s, scale, state):
    bare = dataclasses.replace(PROVEN, shape=dataclasses.replace(GPU4, rdma=None, front="net1,net2"))
    said = proofs(rail(rail="net1", gbit_s=gbit_s, line_gbit_s=line_gbit_s), rails=4, reached=4, measured=4)
    check = proof_check.judge({"proofs": said}, bare, scale)
    assert check.state == state
    assert (check.why == ("no port reports its line rate",)) == (state == "unknown")


def test_sixteen_slow_rails_are_named_and_one_rail_that_cannot_be_tried_is_an_example_for_all():
    slow = found(proofs(*(rail(rail=f"mlx5_{number}", gbit_s=10.0) for number in range(17))))
    assert len(slow.why) == 16
    untried = [rail(rail=name, reached=None, gbit_s=None, untried=True, why="not measured: EFA") for name in ("a", "b")]
    assert found(proofs(*untried, reached=0, measured=0, untried=32)).why[1:] == ("a from inst-0 to inst-1: not measured: EFA",)


def test_proofs_are_requested_only_if_the_stack_sets_prove_rails():
    assert "proofs" not in {one.name for one in judged(of(document()), ASKED).checks}
    asked = json.loads(requests.measure(place(), ASKED, []))
    assert asked["proofs"] is None
    wanted = json.loads(requests.measure(place(PROVEN), PROVEN, []))
    assert wanted["proofs"] == {"rails": list(GPU4.rdma.hca), "rdma": True, "seconds": 6}
    assert wanted["run_id"] != asked["run_id"]


def test_without_rdma_the_fabrics_interfaces_are_tried_and_one_node_needs_no_proofs():
    bare = dataclasses.replace(PROVEN, shape=dataclasses.replace(GPU4, rdma=None, front="net1,net2"))
    wanted = json.loads(requests.measure(place(bare), bare, []))
    assert wanted["proofs"] == {"rails": ["net1", "net2"], "rdma": False, "seconds": 6}
    one = dataclasses.replace(PROVEN, nodes=1)
    assert json.loads(requests.measure(place(one), one, []))["proofs"] is None
    assert found(None, one).state == "pass"
