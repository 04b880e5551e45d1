"""The report is one page that needs nothing else, shows every number once, and lets nothing in its data act."""

from __future__ import annotations

import html.parser
import json

import pytest
from a_line import ASKED, line, row, with_step
from test_outputs import SEARCHED, whole

from benchmarks.report import outputs, plot, summary, web_page


def flat(text, searched=None):
    """Return what the page reads of a stack's outputs."""
    stack = whole(text, searched)
    return outputs.flat(stack["expected"], stack["measured"]) | {name: stack[name] for name in ("target", "nodes")}


PASSED = flat(line())
SHORT = flat(with_step("all_reduce", rows=[row(n, 0.02) for n in ASKED.plan.sizes_bytes]), SEARCHED)


class Links(html.parser.HTMLParser):
    """Everything that a page would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [tag for tag in [tag] if tag in {"script", "link", "iframe", "img", "object"}]
        self.found += [value for name, value in attrs if name in {"src", "href"} and not str(value).startswith("#")]


@pytest.mark.parametrize("found", [PASSED, SHORT, flat("")], ids=["pass", "short", "nothing"])
def test_a_page_needs_nothing_beside_itself(found):
    links = Links()
    links.feed(web_page.html(found))
    assert links.found == []


def test_a_page_shows_verdict_number_gate_and_every_check():
    text = web_page.html(PASSED)
    for expected in ("0.049 GB/s of bus bandwidth at 64 MiB", "98.0%", ">pass<", *(one["name"] for one in PASSED["checks"])):
        assert expected in text


def test_a_search_is_shown_as_a_matrix_and_as_sentences():
    text = web_page.html(SHORT)
    assert "Pairs of nodes" in text
    assert "rail mlx5_3 of node inst-a is slow" in text
    assert "Pairs of nodes" not in web_page.html(PASSED)


def test_markup_in_the_data_is_shown_and_never_interpreted():
    evil = "<script>alert(1)</script>"
    damaged = PASSED | {"shape": evil, "reasons": [evil], "versions": {evil: evil}}
    damaged["checks"] = [{"name": evil, "state": "pass", "why": [evil]}]
    text = web_page.html(damaged, None, (evil,))
    assert evil not in text
    assert "&lt;script&gt;" in text


def test_the_same_numbers_give_the_same_bytes():
    past = {"rows": PASSED["results"]["all_reduce"]}
    assert web_page.html(PASSED, past) == web_page.html(PASSED, past)
    assert plot.png(plot.curves(PASSED, past)) == plot.png(plot.curves(PASSED, past))


def drawn(outputs, label: str) -> tuple[list[float], list[float]]:
    """Return where the line with that label begins and ends: x and y."""
    (axes,) = plot.curves(outputs).axes
    (line,) = [one for one in axes.get_lines() if str(one.get_label()).startswith(label)]
    return list(line.get_xdata()), list(line.get_ydata())


def test_a_picture_shows_every_size_of_a_collective_at_its_own_number():
    sizes, numbers = drawn(PASSED, "all_reduce")
    assert sizes == [found["size_bytes"] for found in PASSED["results"]["all_reduce"]]
    assert numbers == [found["out_of_place"]["busbw_gb_s"] for found in PASSED["results"]["all_reduce"]]


def test_a_picture_shows_what_the_wire_allows_and_the_gate_at_its_size():
    assert drawn(PASSED, "ceiling")[1] == pytest.approx([0.05, 0.05])
    sizes, limits = drawn(PASSED, "gate")
    assert sizes == [32 * 1024**2, 64 * 1024**2]
    assert limits == pytest.approx([0.0425, 0.0425])


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(8, "8 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536 * 1024, "1536 KiB"), (1024**2, "1 MiB"), (3 * 1024**3, "3 GiB")],
)
def test_sizes_are_written_in_the_largest_unit_that_is_exact(size_bytes, text):
    assert summary.size(size_bytes) == text


def test_files_are_written_from_the_outputs_that_the_engine_prints(tmp_path):
    (tmp_path / "outputs.json").write_text(
        json.dumps(whole(with_step("all_reduce", rows=[row(n, 0.02) for n in ASKED.plan.sizes_bytes]), SEARCHED))
    )
    assert web_page.main([str(tmp_path / "outputs.json"), str(tmp_path / "out")]) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.html", "busbw.png", "pairs.png"}
    assert (tmp_path / "out" / "busbw.png").read_bytes().startswith(b"\x89PNG")


def test_the_run_before_is_drawn_where_it_is_given(tmp_path):
    stack = whole(with_step("all_reduce", rows=[row(size, 0.02) for size in ASKED.plan.sizes_bytes]))
    before = [{"size_bytes": size, "out_of_place": {"busbw_gb_s": 0.01}} for size in ASKED.plan.sizes_bytes]
    (tmp_path / "now").write_text(json.dumps(stack))
    (tmp_path / "before").write_text(json.dumps({"rows": before}))
    for folder, past in (("single", []), ("compared", ["before"])):
        files = [str(tmp_path / name) for name in ("now", folder, *past)]
        assert web_page.main(files) == 0
    single, compared = ((tmp_path / folder / "report.html").read_text() for folder in ("single", "compared"))
    assert ("last run" in single, "last run" in compared) == (False, True)
