"""The report is one self-contained page that agrees with the outputs and executes nothing from its data."""

from __future__ import annotations

import functools
import html.parser
import json
import re

import pytest
from measured_outputs import SEARCHED, whole
from measurement_line import ASKED, BUILT, line, row, with_step
from report_pages import PAGES, page

from benchmarks.judge.verdict import judge
from benchmarks.plan.size_text import size_text
from benchmarks.report import cards, nodes, outputs, pairs, plot, web_page


def flat(text, searched=None):
    """Return the part of a stack's outputs that the page uses."""
    stack = whole(text, searched)
    return outputs.flat(stack["expected"], stack["measured"]) | {name: stack[name] for name in ("target", "nodes")}


PASSED = flat(line())
SHORT = flat(with_step("all_reduce", rows=[row(n, 0.02) for n in ASKED.plan.sizes_bytes]), SEARCHED)


OUTPUTS = {"pass": PASSED, "short": SHORT, "nothing": flat("")}


@functools.cache
def page_of(kind: str) -> str:
    """Return the page of the outputs named `kind`; each page is drawn once."""
    return web_page.html(OUTPUTS[kind])


class Links(html.parser.HTMLParser):
    """Every URL and script that a page would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [tag for tag in [tag] if tag in {"script", "link", "iframe", "img", "object"}]
        self.found += [value for name, value in attrs if name in {"src", "href"} and not str(value).startswith("#")]


@pytest.mark.parametrize("kind", OUTPUTS)
def test_a_page_needs_no_other_file(kind):
    links = Links()
    links.feed(page_of(kind))
    assert links.found == []


def test_a_page_shows_the_verdict_and_the_busbw_and_its_share_of_the_ceiling_and_every_check():
    text = page_of("pass")
    for expected in ("0.049 GB/s of bus bandwidth at 64 MiB", "98.0%", ">pass<", *(one["name"] for one in PASSED["checks"])):
        assert expected in text


def test_a_page_shows_every_measured_row_and_opens_the_rows_of_the_deciding_collective():
    text = page_of("pass")
    assert text.count("<h2>All rows</h2>") == 1
    rows = text[text.index("<h2>All rows</h2>") : text.index("<h2>Versions and evidence</h2>")]
    for name, found in PASSED["results"].items():
        opened = " open" if name == PASSED["gate"]["collective"] else ""
        _, _, block = rows.partition(f"<details{opened}><summary>{name}</summary>")
        table = block[: block.index("</details>")]
        cells = [re.findall(r"<td class=n>([^<]*)</td>", one) for one in table.split("<tr>")[2:]]
        assert [size for size, *_ in cells] == [size_text(one["size_bytes"]) for one in found]
        for (_, *shown), one in zip(cells, found, strict=True):
            numbers = [one["out_of_place"][key] for key in ("time_us", "algbw_gb_s", "busbw_gb_s", "wrong")]
            numbers += [one["in_place"][key] for key in ("time_us", "busbw_gb_s", "wrong")]
            assert [float(text) for text in shown] == pytest.approx(numbers, rel=1e-4)
    assert "All rows" not in page_of("nothing")


def test_a_page_of_a_rehearsal_says_by_which_factor_its_wires_were_slowed_down():
    said = "Rehearsed: every wire was slowed down by a factor of 4000."
    assert (PASSED["rehearsed"], PASSED["scale"]) == (True, 4000)
    assert said in page_of("pass")
    assert "Rehearsed" not in web_page.html(PASSED | {"rehearsed": False, "scale": 1})


def test_a_search_is_shown_as_a_matrix_and_as_sentences():
    text = page_of("short")
    assert "Pairs of nodes" in text
    assert "rail mlx5_3 of node inst-a is slow" in text
    assert "Pairs of nodes" not in page_of("pass")


def test_markup_in_the_data_is_shown_and_never_interpreted():
    evil = "<script>alert(1)</script>"
    damaged = PASSED | {"shape": evil, "reasons": [evil], "versions": {evil: evil}}
    damaged["checks"] = [{"name": evil, "state": "pass", "why": [evil]}]
    text = web_page.html(damaged, None, (evil,))
    assert evil not in text
    assert "&lt;script&gt;" in text


def test_a_page_and_a_picture_that_are_drawn_twice_from_the_same_numbers_have_the_same_bytes():
    past = {"rows": PASSED["results"]["all_reduce"]}
    assert web_page.html(PASSED, past) == web_page.html(PASSED, past)
    assert plot.png(plot.curves(PASSED, past)) == plot.png(plot.curves(PASSED, past))


def drawn(outputs, label: str) -> tuple[list[float], list[float]]:
    """Return the x and y values of the line whose label begins with `label`."""
    axes, _time = plot.curves(outputs).axes
    (line,) = [one for one in axes.get_lines() if str(one.get_label()).startswith(label)]
    return list(line.get_xdata()), list(line.get_ydata())


def test_a_picture_shows_every_message_size_of_a_collective_with_its_busbw():
    sizes, numbers = drawn(PASSED, "all_reduce")
    assert sizes == [found["size_bytes"] for found in PASSED["results"]["all_reduce"]]
    assert numbers == [found["out_of_place"]["busbw_gb_s"] for found in PASSED["results"]["all_reduce"]]


def test_a_picture_shows_the_ceiling_and_the_gate_at_the_gates_message_size():
    assert drawn(PASSED, "ceiling")[1] == pytest.approx([0.05, 0.05])
    sizes, limits = drawn(PASSED, "gate")
    assert sizes == [32 * 1024**2, 64 * 1024**2]
    assert limits == pytest.approx([0.0425, 0.0425])


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(8, "8 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536 * 1024, "1536 KiB"), (1024**2, "1 MiB"), (3 * 1024**3, "3 GiB")],
)
def test_sizes_are_written_in_the_largest_unit_that_is_exact(size_bytes, text):
    assert size_text(size_bytes) == text


def test_files_are_written_from_the_outputs_that_the_engine_prints(tmp_path):
    (tmp_path / "outputs.json").write_text(
        json.dumps(whole(with_step("all_reduce", rows=[row(n, 0.02) for n in ASKED.plan.sizes_bytes]), SEARCHED))
    )
    assert web_page.main([str(tmp_path / "outputs.json"), str(tmp_path / "out")]) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.html", "busbw.png", "pairs.png"}
    web_page.write(flat(""), tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]
    web_page.write(SHORT, tmp_path / "out")
    assert (tmp_path / "out" / "busbw.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_says_why_there_is_no_page_for_a_stack_that_measured_nothing(tmp_path, capsys):
    found = whole(line()) | {"expected": None, "measured": outputs.nothing_measured("gpu", "gpu has no nodes yet")}
    (tmp_path / "outputs.json").write_text(json.dumps(found))
    assert web_page.main([str(tmp_path / "outputs.json"), str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == "web_page: there is nothing to show: gpu has no nodes yet\n"
    assert not (tmp_path / "out").exists()


def test_the_previous_run_is_drawn_if_there_is_a_previous_run(tmp_path):
    stack = whole(with_step("all_reduce", rows=[row(size, 0.02) for size in ASKED.plan.sizes_bytes]))
    before = [{"size_bytes": size, "out_of_place": {"busbw_gb_s": 0.01}} for size in ASKED.plan.sizes_bytes]
    (tmp_path / "now").write_text(json.dumps(stack))
    (tmp_path / "before").write_text(json.dumps({"rows": before}))
    for folder, past in (("single", []), ("compared", ["before"])):
        files = [str(tmp_path / name) for name in ("now", folder, *past)]
        assert web_page.main(files) == 0
    single, compared = ((tmp_path / folder / "report.html").read_text() for folder in ("single", "compared"))
    assert ("last run" in single, "last run" in compared) == (False, True)


def test_the_page_begins_with_stack_and_run_and_cluster_and_nodes_and_price():
    known = PASSED | {"stack": "organization/busbar/prod"}
    assert dict(cards.identity(known)) == {
        "stack": "organization/busbar/prod",
        "measured": "2026-01-02 03:04:05 UTC, run abc",
        "cluster": "2 x BM.GPU4.8, target oci",
        "nodes": "inst-a, inst-b",
        "price": "none (rehearsed); real machines cost 48 USD an hour (a test)",
    }
    text = web_page.html(known)
    assert text.index("organization/busbar/prod") < text.index(">pass<")
    assert dict(cards.identity(flat("")))["measured"] == "never"
    assert dict(cards.identity(PASSED | {"target": "hosts"}))["price"] == "none: this stack rents nothing"


def test_the_page_ends_with_versions_and_the_transcripts_location():
    known = {"versions": {"nccl": "2.29.2", "driver": "<580>"}, "evidence": {"path": "/runs/1", "sha256": "ab"}}
    text = web_page.html(PASSED | known)
    said = text[text.index("<h2>Versions and evidence</h2>") :]
    assert said.index("<td>driver</td><td>&lt;580&gt;</td>") < said.index("<td>nccl</td><td>2.29.2</td>")
    assert "<code>/runs/1</code>" in said
    assert "<code>ab</code>" in said
    assert "transcript" not in web_page.html(PASSED | {"evidence": None})


def test_a_culprits_card_shows_the_culprits_bandwidth_and_each_rail_and_the_next_command():
    two = [("mlx5_2", 0.002), ("mlx5_3", 0.001)]
    evidence = [
        {"nodes": ["inst-a", "inst-b"], "rails": [rail], "busbw_gb_s": busbw_gb_s, "why": ""} for rail, busbw_gb_s in two
    ]
    culprit = SHORT["search"]["culprits"][0] | {"evidence": evidence}
    tried = [("inst-a - inst-b, mlx5_2", 0.002, False), ("inst-a - inst-b, mlx5_3", 0.001, True)]
    assert cards.numbers(culprit) == tried
    text = cards.cards(SHORT | {"search": SHORT["search"] | {"culprits": [culprit]}})
    assert "rail mlx5_3 of node inst-a at 0.001 GB/s, 50% of healthy" in text
    assert "ssh 10.0.1.2" in text


@pytest.mark.parametrize(
    ("kind", "rails", "widths"),
    [("node", [], [50.0, 40.0]), ("rail", ["mlx5_3"], [50.0, 100.0]), ("link", [], [50.0, 40.0])],
)
def test_a_bar_is_full_for_a_healthy_busbw_and_half_full_for_half_of_that_busbw(kind, rails, widths):
    """This also holds if every attempt was slow or returned no result."""
    tried = [(rails, 0.5), (["mlx5_2"] if rails else [], 1.0 if rails else 0.4), (rails, None)]
    evidence = [{"nodes": ["a", "b"], "rails": on, "busbw_gb_s": number, "why": ""} for on, number in tried]
    culprit = {"kind": kind, "nodes": ["a", "b"], "rails": rails, "ratio": 0.5 if rails else 0.45, "evidence": evidence}
    text = cards.cards(SHORT | {"search": SHORT["search"] | {"culprits": [culprit]}})
    assert [float(one) for one in re.findall(r"width:([\d.]+)%", text)] == [*widths, 0.0]


def test_a_blamed_node_marks_all_its_pairs_and_no_other_pair():
    evidence = [{"nodes": names, "rails": [], "busbw_gb_s": 1.0, "why": ""} for names in (["a", "b"], ["b", "c"], ["a", "c"])]
    node = {"kind": "node", "nodes": ["b"], "rails": [], "evidence": evidence}
    link = {"kind": "link", "nodes": ["a", "c"], "rails": [], "evidence": evidence}
    assert [is_blamed for _, _, is_blamed in cards.numbers(node)] == [True, True, False]
    assert [is_blamed for _, _, is_blamed in cards.numbers(link)] == [False, False, True]


def test_every_trial_on_a_groups_card_is_marked_even_if_only_one_of_its_nodes_is_in_the_group():
    evidence = [{"nodes": names, "rails": [], "busbw_gb_s": 1.0, "why": ""} for names in (["a", "c"], ["b", "d"])]
    group = {"kind": "group", "nodes": ["a", "b"], "rails": [], "evidence": evidence}
    assert [is_blamed for _, _, is_blamed in cards.numbers(group)] == [True, True]


def test_a_search_that_did_not_complete_says_why_and_blames_nobody():
    failed = {"needed": True, "culprits": [], "failed": "no answer from inst-b", "complete": False}
    text = cards.cards(SHORT | {"search": outputs.measured(*failed_search(failed), 0)["search"]})
    assert "no answer from inst-b" in text
    assert "To blame" not in text
    assert cards.cards(PASSED) == ""


def failed_search(found):
    """Return the arguments of `outputs.measured` for a measurement with verdict short and the search result `found`."""
    short = with_step("all_reduce", rows=[row(n, 0.02) for n in ASKED.plan.sizes_bytes])
    return judge(short, ASKED), ASKED, BUILT, found


EIGHT = [{"name": f"n{index}", "address": f"10.0.1.{index}"} for index in range(8)]
SEVERAL = [[a, b, 0.02 if b == 7 else 0.049] for a in range(8) for b in range(a + 1, 8) if (a, b) != (0, 6)]


def of_eight(*named):
    """Return the outputs of a short measurement of eight nodes: the last node is slow, and one pair was not measured."""
    search = {"culprits": list(named), "complete": True, "healthy_gb_s": 0.049, "pairs": SEVERAL, "summary": ""}
    return SHORT | {"nodes": EIGHT, "search": search}


SLOW_NODE = {"kind": "node", "nodes": ["n7"], "rails": [], "ratio": 0.4, "evidence": [], "next": "look"}


def test_the_matrix_is_red_below_the_gate_while_its_scale_always_ends_at_the_ceiling():
    found = pairs.read(of_eight(SLOW_NODE))
    assert (found.limit_gb_s, found.ceiling_gb_s) == (SHORT["gate"]["limit_gb_s"], SHORT["ceiling_gb_s"])
    assert found.short == {(one, 7) for one in range(7)}
    single = pairs.read(SHORT)
    assert single.short == {(0, 1)}
    assert single.ceiling_gb_s == SHORT["ceiling_gb_s"]


def test_the_matrix_outlines_only_the_pairs_that_the_search_blamed():
    assert pairs.read(of_eight()).blamed == frozenset()
    assert pairs.read(of_eight(SLOW_NODE)).blamed == {(one, 7) for one in range(7)}
    link = SLOW_NODE | {"kind": "link", "nodes": ["n1", "n2"]}
    assert pairs.read(of_eight(link)).blamed == {(1, 2)}
    assert (
        pairs.read(of_eight(SLOW_NODE | {"kind": "rail_plane", "nodes": [one["name"] for one in EIGHT]})).blamed == frozenset()
    )


@pytest.mark.parametrize(
    ("kind", "group", "slow", "outlined"),
    [
        ("group", [6, 7], [(4, 6), (1, 7)], {(4, 6), (1, 7)}),  # slow with other nodes, and fine with each other
        ("group", [5, 6, 7], [(2, 3)], set()),  # slow only in rings
        ("group", [0, 1, 2, "... 17 nodes"], [(0, 1), (1, 4)], set()),  # the list is shortened, so its pairs are not known
        ("between", [1, 2, 3, 4], [(1, 2), (3, 4), (4, 6)], {(1, 2), (3, 4)}),
    ],
)
def test_no_fine_pair_is_outlined_where_several_nodes_are_blamed_together(kind, group, slow, outlined):
    measured = of_eight(SLOW_NODE | {"kind": kind, "nodes": [f"n{index}" if index in range(8) else index for index in group]})
    measured["search"]["pairs"] = [[a, b, 0.02 if (a, b) in slow else 0.049] for a, b, _ in SEVERAL]
    assert pairs.read(measured).blamed == outlined


def test_an_unmeasured_pair_has_no_number_while_a_pair_without_a_result_is_red():
    found = pairs.read(of_eight())
    assert (0, 6) not in found.measured
    none = pairs.read(SHORT | {"search": SHORT["search"] | {"pairs": [[1, 0, None], [0, 1, 0.049]]}})
    assert none.measured == {(0, 1): 0.0}
    assert none.short == {(0, 1)}


def test_pair_numbers_are_white_on_dark_colours_and_black_on_light_colours():
    """The scale is dark at zero and at the ceiling, and light near the limit below which a pair is red."""
    limit, ceiling = pairs.read(of_eight()).limit_gb_s, pairs.read(of_eight()).ceiling_gb_s
    asked = [0.0, 0.45 * limit, 0.55 * limit, limit + 0.45 * (ceiling - limit), limit + 0.55 * (ceiling - limit), ceiling]
    measured = of_eight()
    measured["search"] = measured["search"] | {"pairs": [[0, other + 1, value] for other, value in enumerate(asked)]}
    figure = pairs.matrix(measured)
    names = [one["name"] for one in EIGHT]
    for axis in (figure.axes[0].xaxis, figure.axes[0].yaxis):
        assert [label.get_text() for label in axis.get_ticklabels()] == names
        assert [float(at) for at in axis.get_ticklocs()] == list(range(8))
    inks = {text.get_position(): text.get_color() for text in figure.axes[0].texts}
    assert [inks[other + 1, 0] for other in range(6)] == ["white", "white", "black", "black", "white", "white"]
    assert [inks[0, other + 1] for other in range(6)] == [inks[other + 1, 0] for other in range(6)]


@pytest.mark.parametrize("kind", ["rail_plane", "between"])
def test_the_node_table_blames_no_node_where_the_finding_says_that_no_node_is_to_blame(kind):
    found = nodes.rows(of_eight(SLOW_NODE | {"kind": kind, "nodes": ["n0", "n1", "n7"]}))
    assert not any(row.is_blamed for row in found)


def test_the_node_table_shows_each_nodes_bandwidth_and_traffic_and_which_node_is_blamed():
    found = nodes.rows(of_eight(SLOW_NODE))
    assert [row.name for row in found if row.is_blamed] == ["n7"]
    assert (found[7].worst_pair_gb_s, found[0].worst_pair_gb_s, found[0].middle_pair_gb_s) == (0.02, 0.02, 0.049)
    sent = {"hcas": ["r0", "r1"], "tx_bytes": {"n0": {"r0": 2_000_000_000, "r1": 1_000_000_000, "eth0": 5}}}
    counted = nodes.rows(of_eight() | {"transport": sent, "inside_gb_s": [float(each) for each in range(8)]})
    assert (counted[0].sent_gb, counted[0].least_rail_gb, counted[1].sent_gb) == (3.0, 1.0, None)
    assert counted[5].inside_gb_s == 5.0


def test_the_node_table_can_be_sorted_by_any_column_without_a_script():
    text = nodes.table(of_eight(SLOW_NODE) | {"inside_gb_s": [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]})
    assert [int(place) for place in re.findall(r"--inside_gb_s:(\d+)", text)] == [7, 6, 5, 4, 3, 2, 1, 0]
    for key in ("name", "inside_gb_s", "worst_pair_gb_s"):
        assert f"for=by-{key}" in text
        assert f"#by-{key}:checked ~ .wide .row {{ order: var(--{key}) }}" in text
    assert "least rail" not in nodes.table(PASSED | {"transport": None})


def test_a_busbw_above_the_axis_is_drawn_as_a_triangle_and_the_axis_always_includes_the_gate():
    burst = [
        found | {"out_of_place": found["out_of_place"] | {"busbw_gb_s": 0.9}} for found in PASSED["results"]["all_reduce"][:2]
    ]
    bursting = PASSED | {"results": PASSED["results"] | {"gather": burst}}
    bandwidth, time = plot.curves(bursting).axes
    assert (bandwidth.get_ylabel(), time.get_ylabel()) == ("bus bandwidth, GB/s", "time, us")
    assert bandwidth.get_ylim() == (0, pytest.approx(1.2 * PASSED["ceiling_gb_s"]))
    (marks,) = [one for one in bandwidth.get_lines() if one.get_marker() == "^"]
    assert list(marks.get_xdata()) == [found["size_bytes"] for found in burst]
    assert time.get_yscale() == "log"
    said = "message size; both plots show out-of-place results"
    assert time.get_xlabel() == said + "; a triangle marks a value above the axis"
    assert plot.curves(PASSED | {"ceiling_gb_s": None}).axes[1].get_xlabel() == said
    above = PASSED | {"gate": PASSED["gate"] | {"limit_gb_s": 1.0}}
    assert plot.highest_gb_s(above) > 1.0
    assert plot.highest_gb_s(PASSED | {"ceiling_gb_s": None}) is None


def test_time_is_drawn_over_size_for_every_collective():
    _bandwidth, time = plot.curves(PASSED).axes
    (line,) = [one for one in time.get_lines() if one.get_label() == "all_reduce"]
    assert list(line.get_ydata()) == [found["out_of_place"]["time_us"] for found in PASSED["results"]["all_reduce"]]


def test_message_sizes_have_their_units_below_the_plot():
    figure = plot.curves(PASSED)
    plot.png(figure)
    shown = [label.get_text() for label in figure.axes[1].get_xticklabels()]
    assert {"8 B", "4 KiB", "2 MiB"} <= set(shown), shown


@pytest.mark.parametrize("sizes", [3, 18])
def test_the_time_axis_is_labelled_for_few_sizes_and_not_crowded_for_many_sizes(sizes):
    rows = PASSED["results"]["all_reduce"]
    assert len(rows) >= sizes
    _bandwidth, time = plot.curves(PASSED | {"results": {"all_reduce": rows[-sizes:]}}).axes
    lowest, highest = time.get_ylim()
    assert 2 <= len([one for one in time.get_yticks() if lowest <= one <= highest]) <= 10


@pytest.mark.parametrize("found", [PASSED, SHORT, of_eight(SLOW_NODE), flat("")], ids=["pass", "short", "eight", "nothing"])
def test_nothing_on_the_page_contradicts_the_verdict(found):
    text = web_page.html(found)
    badge = re.search(r'<p><span class="badge (\w+)">(\w+)</span>', text)
    assert badge.groups() == (found["verdict"], found["verdict"])
    assert ("<h2>To blame</h2>" in text) == bool((found["search"] or {}).get("culprits"))
    assert ("<h2>Why</h2>" in text) == (found["verdict"] != "pass")
    shown = pairs.read(found)
    assert shown is None or (found["verdict"], bool(shown.short)) == ("short", True)
    assert all(not one.is_blamed for one in nodes.rows(found)) or found["verdict"] == "short"
    assert ("Bandwidth and time" in text) == (found["busbw_gb_s"] is not None)


def test_a_printed_page_shows_every_folded_row_and_the_verdict_in_dark_ink():
    printed = page_of("pass").partition("@media print")[2].partition("</style>")[0]
    for rule in (".badge { color: var(--ink)", "details::details-content { content-visibility: visible"):
        assert rule in printed
    (together,) = [line for line in printed.splitlines() if "break-inside: avoid" in line]
    assert "details {" in together, "the rows of a collective are on one page"


@pytest.mark.parametrize("name", PAGES)
def test_the_data_of_a_page_agrees_with_its_verdict_for_any_number_of_nodes(name):
    found = page(name)
    assert found["verdict"] == name.partition("-")[0]
    assert dict(cards.identity(found))["cluster"].startswith(f"{PAGES[name][0]} x BM.GPU4.8")
    listed = nodes.rows(found)
    assert len(listed) == PAGES[name][0]
    blamed = {row.name for row in listed if row.is_blamed}
    shown = pairs.read(found)
    if found["verdict"] != "short":
        assert (blamed, shown) == (set(), None)
        return
    assert blamed == {f"inst-{len(listed) - 1}"}
    assert shown is not None
    assert shown.short == shown.blamed == {pair for pair in shown.measured if len(listed) - 1 in pair}
    assert min(row.worst_pair_gb_s for row in listed if row.is_blamed) < shown.limit_gb_s < shown.ceiling_gb_s
