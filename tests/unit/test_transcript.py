"""The parsers read every real transcript; other texts give a problem or a refusal, and never a crash."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.runner.transcript import nccl_version, parse_json, parse_text

GOLDEN = Path(__file__).parents[1] / "golden" / "transcripts"
H200 = (GOLDEN / "h200x2.txt").read_text()
H200_JSON = (GOLDEN / "h200x2.json").read_text()


def only(name: str):
    (run,) = parse_text((GOLDEN / name).read_text())
    return run


def test_the_transcript_of_two_a100_nodes_gives_every_row_and_its_published_bandwidth():
    run = only("oci-2xGPU4.8-ol7.txt")
    assert len(run.rows) == 25
    assert run.rows[-1].out_of_place.busbw_gb_s == 87.18
    assert run.rows[0].out_of_place.time_us == 35.23
    assert len(run.devices) == 16
    assert {device.host for device in run.devices} == {"inst-edjui-gpu4", "inst-vdgkk-gpu4"}
    assert run.average_busbw_gb_s == 30.037
    assert run.problems == ()


def test_a_table_without_its_end_is_read_and_the_missing_end_is_reported():
    run = only("oci-2xGPU4.8-slurm.txt")
    assert run.rows[0].in_place.busbw_gb_s == 224.87
    assert run.problems == ("the run's closing lines are missing",)


def test_nccl_log_lines_between_the_rows_are_not_read_as_rows_but_name_the_network():
    run = only("k8s-2pods-25G.txt")
    assert [row.size_bytes for row in run.rows] == [10737418240]
    assert run.network == "IBext"
    assert run.nccl == "2.18.5+cuda12.2"
    assert run.problems == ()


def test_missing_rows_are_a_problem_also_in_a_table_with_only_out_of_place_columns():
    run = only("aws-2xp5.48xlarge.txt")
    assert run.rows[-1].out_of_place.busbw_gb_s == 487.09
    assert run.rows[-1].in_place is None
    assert "the text leaves out rows ('...')" in run.problems


def test_text_and_json_of_one_run_agree():
    (text,) = parse_text(H200)
    exact = parse_json(H200_JSON)
    assert text.nccl == exact.nccl == "2.28.9"
    assert text.collective == exact.collective == "all_reduce"
    assert text.devices == exact.devices
    for printed, precise in zip(text.rows, exact.rows, strict=True):
        assert printed.size_bytes == precise.size_bytes
        assert printed.out_of_place.time_us == pytest.approx(precise.out_of_place.time_us, rel=0.01)
        assert printed.in_place.busbw_gb_s == pytest.approx(precise.in_place.busbw_gb_s, abs=0.005, rel=0.001)


@pytest.mark.parametrize(("absent", "kept"), [("in_place", "out_of_place"), ("out_of_place", "in_place")])
def test_a_json_result_with_only_in_place_or_only_out_of_place_numbers_has_no_problem(absent, kept):
    """Alltoall, for example, is measured only out of place."""
    document = json.loads(H200_JSON)
    whole = parse_json(json.dumps(document)).rows
    for result in document["results"]:
        result[absent] = None
    found = parse_json(json.dumps(document))
    assert [getattr(row, absent) for row in found.rows] == [None] * len(whole)
    assert [getattr(row, kept) for row in found.rows] == [getattr(row, kept) for row in whole]
    assert not found.problems


def test_the_environment_in_the_json_file_is_dropped_on_reading():
    assert "HYPOTHETICAL_TOKEN" in H200_JSON
    assert "HYPOTHETICAL_TOKEN" not in repr(parse_json(H200_JSON))


def test_columns_are_found_by_name_in_any_order():
    moved = "#  size  count  busbw  time  algbw  #wrong\n"
    # The columns of a placement (out of place or in place) begin with `time`. Here busbw comes before the first `time`, so it
    # belongs to no placement, and the table is refused.
    (run,) = parse_text(moved + "  8  2  0.5  1.0  0.25  0\n")
    assert run.rows == ()
    assert any("the header lacks algbw, busbw or #wrong" in problem for problem in run.problems)
    (run,) = parse_text(
        "#  count  size  busbw\n#  size  count  root  time  busbw  algbw  error\n  8  2  -1  1.0  0.5  0.25  0\n"
    )
    assert run.rows[0].out_of_place.busbw_gb_s == 0.5
    assert run.rows[0].out_of_place.algbw_gb_s == 0.25


def test_a_table_with_the_in_place_columns_first_is_parsed():
    header = "#   in-place   out-of-place\n#  size  count  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong\n"
    text = header + " 8 2 1 1 1 0 2 2 2 0\n"
    (run,) = parse_text(text)
    assert run.rows[0].in_place.time_us == 1
    assert run.rows[0].out_of_place.time_us == 2


HEADER = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"
)
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n"


def test_a_blank_reduction_column_is_accepted_and_a_truncated_row_is_still_a_problem():
    (run,) = parse_text(f"{HEADER} 256 4 float    -1 703.66 0.01 0.02 0 444.91 0.03 0.04 0\n{END}")
    assert (run.rows[0].redop, run.rows[0].out_of_place.busbw_gb_s, run.problems) == ("", 0.02, ())
    (run,) = parse_text(f"{HEADER} 256 4 float sum -1 703.66 0.01 0.02 0 444.91 0.03 0.04\n{END}")
    assert run.rows == ()
    assert "a row of 12 fields under a header of 13" in run.problems[0]


def test_several_rows_of_size_0_are_no_problem():
    rows = "".join(f" {size} 1 float none -1 9.0 0.0 0.0 0 9.0 0.0 0.0 0\n" for size in (0, 0, 256, 512))
    (run,) = parse_text(HEADER + rows + END)
    assert ([row.size_bytes for row in run.rows], run.problems) == ([0, 0, 256, 512], ())


def test_an_average_that_is_not_a_number_is_a_problem():
    (run,) = parse_text(f"{HEADER} 256 4 float sum -1 9.0 0.1 0.1 0 9.0 0.1 0.1 0\n{END.replace('1.0', '1.0.0')}")
    assert [one.partition(":")[0] for one in run.problems] == ["the average bus bandwidth"]


def cycles(*times: float) -> str:
    rows = "".join(f" {size} 1 float sum -1 {time} 1.0 1.0 0 {time} 1.0 1.0 0\n" for time in times for size in (8, 16))
    return HEADER + rows + END


def test_the_median_of_several_cycles_is_taken_while_a_truncated_cycle_is_reported():
    (run,) = parse_text(cycles(3.0, 9.0, 4.0), cycles=3)
    assert ([row.out_of_place.time_us for row in run.rows], run.problems) == ([4.0, 4.0], ())
    (run,) = parse_text(cycles(3.0, 9.0), cycles=3)
    assert "4 rows are not 3 whole cycles" in run.problems
    (run,) = parse_text(cycles(3.0, 9.0))
    assert "sizes do not grow: 8 B after 16 B" in run.problems


def test_wrong_values_of_one_cycle_are_counted_even_if_another_cycle_is_the_median():
    (run,) = parse_text(cycles(3.0, 9.0, 4.0).replace("9.0 1.0 1.0 0", "9.0 1.0 1.0 7", 1), cycles=3)
    assert run.rows[0].out_of_place.wrong == 7


def test_the_spread_and_every_ranks_median_are_read_from_operations_that_were_timed_one_by_one():
    document = json.loads(H200_JSON)
    times = [[50.0, 10.0, 11.0, 12.0], [60.0, 20.0, 21.0, 22.0]]
    spread = {"skipped_iterations": 1, "p50_us": 11.0, "p99_us": 12.0, "cv_pct": 3.0, "times_us": [1.0] * 4}
    document["results"][0]["out_of_place_per_iter"] = spread | {"per_process_max_times_us": times}
    found = parse_json(json.dumps(document)).rows[0].out_of_place_spread
    assert (found.iterations, found.rank_us, found.cv_pct) == (3, (11.0, 21.0), 3.0)
    document["results"][0]["out_of_place_per_iter"] = {"skipped_iterations": "x"}
    assert "an unreadable result" in parse_json(json.dumps(document)).problems[0]


def test_windows_line_endings_change_nothing():
    assert parse_text(H200.replace("\n", "\r\n")) == parse_text(H200)


def test_two_runs_in_one_text_are_two_transcripts():
    assert len(parse_text(H200 + H200)) == 2


def test_interleaved_runs_are_a_problem():
    lines = H200.splitlines()
    woven = "\n".join(line for pair in zip(lines, lines, strict=True) for line in pair)
    assert all(run.problems for run in parse_text(woven))


def test_nan_infinity_and_a_negative_busbw_are_problems_and_their_rows_are_left_out():
    for word in ("nan", "inf", "-1.00"):
        (run,) = parse_text(H200.replace("345.38  345.38", f"345.38  {word}"))
        assert len(run.rows) == 30
        assert any("is not a measurement" in problem for problem in run.problems)
    broken = json.loads(H200_JSON)
    broken["results"][3]["out_of_place"]["bus_bw"] = "nan"
    assert len(parse_json(json.dumps(broken)).rows) == 30


def test_the_count_of_wrong_values_of_an_unchecked_run_is_none_and_not_zero():
    (run,) = parse_text("# size count time algbw busbw #wrong\n 8 2 1.0 1.0 1.0 N/A\n")
    assert run.rows[0].out_of_place.wrong is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"results": 3}', H200_JSON[:4000]])
def test_truncated_json_and_documents_that_are_no_result_are_refused_with_a_sentence(text):
    with pytest.raises(ValueError, match=r"the JSON result"):
        parse_json(text)


def test_a_rehearsal_states_its_scale():
    banner = "# busbar rehearsal: all_reduce over TCP rails of this host, line rates scaled by 1/4000\n"
    (run,) = parse_text(banner + H200)
    assert run.scale == 4000


def test_version_codes_are_read_in_the_old_and_the_new_layout():
    assert nccl_version(22809) == "2.28.9"
    assert nccl_version(2708) == "2.7.8"


@given(st.text())
def test_any_text_is_read_without_a_crash(text):
    for run in parse_text(text):
        assert run.rows or run.problems


@given(st.lists(st.sampled_from([*H200.splitlines(), "nan", "8 2 float", "#  size count busbw"]), max_size=40))
def test_any_shuffle_of_real_lines_is_read_without_a_crash(lines):
    for run in parse_text("\n".join(lines)):
        assert all(row.out_of_place is None or row.out_of_place.busbw_gb_s >= 0 for row in run.rows)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(sorted(json.loads(H200_JSON))), json_values))
def test_any_json_document_is_read_or_refused(document):
    try:
        run = parse_json(json.dumps(document))
    except ValueError:
        return
    assert run.rows or run.problems


def test_code_that_is_sent_to_a_node_is_python_3_6():
    root = Path(__file__).parents[2]
    travelling = [path for room in ("launch", "search", "runner") for path in (root / "benchmarks" / room).glob("*.py")]
    scripts = [path for path in (root / "components" / "remote_scripts").glob("*.py") if path.name != "__init__.py"]
    assert travelling
    assert scripts
    for path in [*travelling, *scripts]:
        tree = ast.parse(path.read_text(), feature_version=(3, 6))
        assert not any(isinstance(node, ast.NamedExpr) for node in ast.walk(tree)), path
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not imported & {"__future__", "dataclasses"}, path
