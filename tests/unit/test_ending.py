"""The last screen of an update: the verdict with its cause first, then the next command, then the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from measured_outputs import SEARCHED
from measurement_line import GPU4, a_plan, document

from benchmarks.judge.verdict import judge
from benchmarks.plan.asked import Asked
from benchmarks.report import ending, outputs
from catalogue import Price

GOLDEN = Path(__file__).parents[1] / "golden" / "screens"
ASKED = Asked(a_plan(16 << 20), GPU4, 2)
REAL = Asked(a_plan(1 << 30, 4 << 30), GPU4, 2)
PRICE = Price(24.0, "the stack's own records.pricePerNodeHour")
SSH = "ssh -J opc@203.0.113.5 opc@10.0.1.2"
NOTHING = {"needed": False}


def shown(asked: Asked, *, share: float = 0.98, scale: int = 4000, searched: dict | None = None, rents: bool = True) -> str:
    """Return headline and screen of a run that reached `share` of its ceiling."""
    judged = judge(json.dumps(document(asked, share, scale)), asked)
    following = ending.Next.of(asked, PRICE, SSH, ".busbar/report/dev/report.html", rents=rents)
    return f"{ending.headline(judged, searched or NOTHING)}\n{ending.screen(judged, searched or NOTHING, following)}\n"


TEXTS = {
    "pass-rehearsed": lambda: shown(ASKED),
    "pass-real": lambda: shown(REAL, scale=1),
    "short-rehearsed": lambda: shown(ASKED, share=0.5, searched=SEARCHED),
    "short-on-hosts": lambda: shown(REAL, share=0.5, scale=1, rents=False, searched=SEARCHED),
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_screen_is_the_screen_that_was_reviewed(name, reviewed):
    reviewed(GOLDEN / f"{name}.txt", TEXTS[name]())


def test_every_reviewed_screen_is_compared_and_no_reviewed_file_is_left_over():
    assert {path.stem for path in GOLDEN.iterdir() if not path.name.startswith("status-")} == set(TEXTS)


def test_if_the_busbw_is_below_the_gate_the_headline_names_both_and_the_culprit_with_the_culprits_busbw():
    judged = judge(json.dumps(document(ASKED, 0.5)), ASKED)
    text = ending.headline(judged, SEARCHED)
    assert text.startswith("verdict SHORT: all_reduce busbw 0.025 GB/s at 64 MiB, 50.0% of the wire; gate 0.0425 ")
    assert text.endswith("; rail mlx5_3 of node inst-a at 0.001 GB/s, 50% of healthy")


@pytest.mark.parametrize(
    ("kind", "rails", "called"),
    [
        ("node", [], "node a and b"),
        ("link", ["mlx5_3"], "the link between a and b on mlx5_3"),
        ("rail", ["mlx5_3", "mlx5_4"], "rails mlx5_3, mlx5_4 of node a and b"),
        ("rail_plane", ["mlx5_3"], "rail mlx5_3 of all nodes"),
        ("group", [], "the group of a and b"),
        ("between", [], "the links that pairs of the nodes a and b share"),
    ],
)
def test_the_headline_names_every_kind_of_culprit_with_the_busbw_of_the_culprits_rails(kind, rails, called):
    trials = [
        {"nodes": ["a", "b"], "rails": [], "busbw_gb_s": 0.02, "why": ""},
        {"nodes": ["a", "b"], "rails": ["mlx5_0"], "busbw_gb_s": 0.0005, "why": ""},
        {"nodes": ["a", "b"], "rails": ["mlx5_3"], "busbw_gb_s": 0.001, "why": ""},
    ]
    culprit = {"kind": kind, "nodes": ["a", "b"], "rails": rails, "ratio": 0.5, "evidence": trials, "next": "look"}
    assert outputs.culprit_name(culprit) == called
    text = ending.headline(judge(json.dumps(document(ASKED, 0.5)), ASKED), {"needed": True, "culprits": [culprit, culprit]})
    number = "0.001" if rails else "0.0005"
    assert text.endswith(f"; {called} at {number} GB/s, 50% of healthy, and 1 more")


@pytest.mark.parametrize(
    ("tried", "changes", "said"),
    [
        (["abc", "ab"], {}, "a, b are slow together, and no smaller group of these nodes is slow ("),
        (["ac", "bc"], {}, "a, b are slow with other nodes, and fine with each other ("),
        (["ab"], {}, "a, b are slow in every pair ("),
        (["ac", "bc"], {"flapping": True}, "a, b are slow in pairs that change from trial to trial ("),
        (["ac"], {"nodes": ["a", "... 40 nodes"]}, "a, ... 40 nodes are slow as a group ("),
        ([], {}, "a, b are slow as a group ("),
    ],
)
def test_the_evidence_tells_in_which_way_a_group_is_slow(tried, changes, said):
    trials = [{"nodes": list(nodes), "rails": [], "busbw_gb_s": 0.02, "why": ""} for nodes in tried]
    culprit = {"kind": "group", "nodes": ["a", "b"], "rails": [], "ratio": 0.5, "evidence": trials, "next": "look"}
    assert outputs.culprit_finding(culprit | changes).startswith(said)


def test_a_headline_is_one_line_without_characters_that_the_command_plugin_would_escape():
    found = document(ASKED)
    found["steps"] = [
        step | {"failed": 'ended: "no\ndevice"\t\\n'} if step["name"] == "all_reduce" else step for step in found["steps"]
    ]
    text = ending.headline(judge(json.dumps(found), ASKED), NOTHING)
    assert text.startswith("verdict UNKNOWN: ")
    assert "'no device' /n" in text
    assert json.dumps(text, ensure_ascii=False) == f'"{text}"'


def test_the_next_command_is_under_the_headline_and_appears_once():
    text = TEXTS["short-rehearsed"]()
    assert text.splitlines()[1] == "next, on the head node: ssh 10.0.1.2 'cat state'"
    assert text.count("ssh 10.0.1.2 'cat state'") == 1
    another = SEARCHED["culprits"][0] | {"next": "look elsewhere"}
    lines = shown(ASKED, share=0.5, searched=SEARCHED | {"culprits": [*SEARCHED["culprits"], another]}).splitlines()
    assert [line for line in lines if line.startswith("next,")] == lines[1:2]


@pytest.mark.parametrize("name", TEXTS)
def test_every_line_except_prose_fits_in_eighty_columns(name):
    """A terminal wraps sentences; Pulumi indents its output by four columns, so 76 columns are left."""
    sentences = ("verdict", "next,", "  - ", "running", "measured")
    assert max(len(line) for line in TEXTS[name]().splitlines() if not line.startswith(sentences)) <= 76


@pytest.mark.parametrize(
    ("asked", "scale", "price", "costs"),
    [
        (ASKED, 4000, PRICE, f", rehearsed; real machines cost 48 USD an hour ({PRICE.source})"),
        (ASKED, 4000, None, ", rehearsed"),
        (REAL, 1, PRICE, f", 48 USD an hour ({PRICE.source})"),
        (REAL, 1, None, ", at an unknown price (set records.pricePerNodeHour)"),
    ],
)
def test_the_screen_says_which_machines_run_and_what_they_cost_and_how_long_real_machines_run(asked, scale, price, costs):
    judged = judge(json.dumps(document(asked, scale=scale)), asked)

    def lines(job: str) -> list[str]:
        following = ending.Next.of(asked, price, SSH, None, rents=True, job=job)
        return ending.screen(judged, NOTHING, following).splitlines()

    of_jobs, others = lines("ssh login busbar-test"), lines("")
    assert of_jobs[-1] == f"running:  2 x BM.GPU4.8 while jobs need them{costs}"
    assert others[-1] == f"running:  2 x BM.GPU4.8{' until the stack is destroyed' if scale == 1 else ''}{costs}"
    (again,) = [line for line in others if line.startswith("again:")]
    assert again.replace("again:    ", "again:    ssh login busbar-test; then ") in of_jobs
    assert not [line for line in others if line.startswith("report:")]


def test_an_update_that_shows_an_earlier_run_says_that_this_update_measured_nothing():
    judged = judge(json.dumps(document(ASKED, 0.5)), ASKED)
    run = judged.line["run_id"]
    started = "2026-01-02T03:04:05Z"
    refused_before = {"run": run, "measured_at": None}
    for other in ({}, {"run": "another", "measured_at": started}, refused_before):
        assert ending.unmeasured(judged, other) == []
    (said,) = ending.unmeasured(judged, {"run": run, "measured_at": started})
    assert said == f"nothing was measured now: this is run {run}, measured 2026-01-02 03:04:05 UTC"
