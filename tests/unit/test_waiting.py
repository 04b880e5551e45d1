"""A rehearsal whose ranks waited for processors is unknown if waiting may explain the loss.

On real hardware, waiting excuses nothing.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from conftest import ROOT
from measurement_line import ASKED, GPU4, a_plan, document, place

from benchmarks.host import requests
from benchmarks.judge import waiting
from benchmarks.judge.checks import PASS, SHORT, UNKNOWN, Check
from benchmarks.judge.verdict import judge
from benchmarks.plan.asked import Asked
from benchmarks.runner import transcript


def ran(share: float, waited: float | None, scale: int = 4000) -> dict[str, Any]:
    """Return the line of a run that reached `share` of the ceiling; `waited` is the share of time that its ranks waited."""
    made = document(share=share, scale=scale)
    if waited is not None:
        made["steps"] = [step | {"waited": waited} for step in made["steps"]]
    return made


@pytest.mark.parametrize(
    ("share", "waited", "verdict"),
    [
        (0.98, 0.3, PASS),  # waiting changes nothing about a pass
        (0.79, 0.25, UNKNOWN),  # eight healthy hosts on two processors
        (0.79, 0.02, SHORT),  # the loss is larger than the time that ranks waited
        (0.79, None, SHORT),
        (0.5, 0.25, SHORT),  # a fault that waiting cannot explain
        (0.5, 0.6, UNKNOWN),  # the same fault on a machine that was busy most of the time: unknown, and never a pass
        (0.5, 1.0, UNKNOWN),  # ranks that waited almost all the time
        (0.79, 1.7, SHORT),  # 1.7 is no share
        (0.79, "0.25", SHORT),
    ],
)
def test_a_short_run_is_unknown_if_waiting_may_explain_the_whole_loss(share, waited, verdict):
    judged = judge(json.dumps(ran(share, waited)), ASKED)
    assert judged.verdict == verdict, judged.reasons
    excused = [why for why in judged.reasons if why.startswith("this machine: ranks waited for a processor up to")]
    assert bool(excused) == (verdict == UNKNOWN)


def test_a_run_whose_ranks_waited_is_measured_once_more_without_a_search():
    judged = judge(json.dumps(ran(0.79, 0.25)), ASKED)
    request = requests.search(place(), ASKED, judged, budget_s=60, reasons=["runner"])
    asked = json.loads(request)
    assert asked["again"]["steps"], "the run is measured again before it is judged"
    assert asked["trials"] is None
    slow = requests.search(place(), ASKED, judge(json.dumps(ran(0.79, None)), ASKED), budget_s=60, reasons=["runner"])
    assert json.loads(slow)["trials"] is not None


def test_waiting_never_excuses_real_hardware():
    real = Asked(a_plan(end_bytes=16 << 30), GPU4, 2)
    plain = document(real, share=0.5, scale=1)
    said = plain | {"steps": [step | {"waited": 0.6} for step in plain["steps"]]}
    said, plain = (judge(json.dumps(line), real) for line in (said, plain))
    assert [(one.name, one.state, one.why) for one in said.checks] == [(one.name, one.state, one.why) for one in plain.checks]
    assert SHORT in {one.state for one in said.checks}


def test_wrong_values_stay_short_even_if_waiting_may_explain_the_loss_of_bandwidth():
    made = ran(0.79, 0.25)
    made["steps"][0]["rows"][-1][1][3] = 5
    judged = judge(json.dumps(made), ASKED)
    assert judged.verdict == SHORT
    assert {one.name: one.state for one in judged.checks}["bandwidth"] == UNKNOWN


@pytest.mark.parametrize(("waited", "state"), [(None, SHORT), (0.05, SHORT), (0.1, UNKNOWN), (0.3, UNKNOWN)])
def test_a_wide_spread_is_unknown_if_ranks_waited_for_at_least_a_tenth_of_their_time(waited, state):
    made = ran(0.98, waited)
    (spread,) = [step for step in made["steps"] if step["name"] == "spread"]
    spread["spread"] |= {"p99_us": 3000.0, "cv_pct": 60.0}
    assert {one.name: one.state for one in judge(json.dumps(made), ASKED).checks}["spread"] == state


@pytest.mark.parametrize("scale", [0, -1, True, "4000", None])
def test_a_rehearsal_without_a_valid_scale_is_unknown(scale):
    judged = judge(json.dumps(ran(0.98, None) | {"rehearsal": {"scale": scale}}), ASKED)
    assert judged.verdict == UNKNOWN
    assert "scale" in " ".join(judged.reasons)


def test_judging_does_not_change_the_line():
    made = ran(0.79, 0.25)
    before = copy.deepcopy(made)
    judged = judge(json.dumps(made), ASKED)
    assert judged.line == before
    (deciding,) = [step for step in before["steps"] if step["name"] == ASKED.plan.collective]
    assert judged.busbw_gb_s == pytest.approx(deciding["rows"][-1][1][2])


@pytest.mark.parametrize(("said", "waited"), [("0.2500", 0.25), ("0.0000", 0.0), ("1.0000", 1.0), ("all", None), ("7.5", None)])
def test_the_share_of_time_that_ranks_waited_is_read_from_the_transcript(said, waited):
    text = (ROOT / "tests/golden/transcripts/h200x2.txt").read_text()
    (run,) = transcript.parse_text(f"{text}# busbar rehearsal: waited for processors {said} of the time\n")
    assert run.waited == waited
    assert transcript.parse_text(text)[0].waited is None


@pytest.mark.parametrize(("waited", "state"), [(0.24, UNKNOWN), (0.22, SHORT)])
def test_the_number_of_the_slowest_group_is_corrected_twice(waited, state):
    """Half of the line rate, divided by 0.76 twice, meets the limit of 85 %; divided by 0.78 twice, it does not."""
    made = ran(1.0, None)
    (rails,) = [step for step in made["steps"] if step["name"] == "rails"]
    rails |= {"waited": waited, "groups_gb_s": [0.68 * 0.05 / 8] * 7 + [0.5 * 0.05 / 8]}
    assert {one.name: one.state for one in judge(json.dumps(made), ASKED).checks}["rails"] == state


def test_a_check_counts_as_slow_if_it_is_short_or_if_its_first_reason_is_a_busy_machine():
    busy, other = f"{waiting.BUSY}ranks waited", "no number"
    slow = [Check("rails", SHORT), Check("rails", UNKNOWN, (busy, other))]
    fast = [Check("rails", UNKNOWN), Check("rails", UNKNOWN, (other, busy)), Check("rails", PASS, (busy,))]
    assert [waiting.is_slow(one) for one in slow + fast] == [True, True, False, False, False]


@pytest.mark.parametrize("rows", [[7], [[]], [[8, 7, None]], [[8, [1.0, 2.0], [1.0, 2.0, "x", 0]]], "x"])
def test_a_damaged_row_of_another_step_changes_nothing_about_the_excuse_for_waiting(rows):
    made = ran(0.79, 0.25)
    (free,) = [step for step in made["steps"] if step["name"] == "free"]
    free["rows"] = rows
    assert {one.name: one.state for one in judge(json.dumps(made), ASKED).checks}["bandwidth"] == UNKNOWN
