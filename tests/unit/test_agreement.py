"""A run that contradicts itself is not a measurement: its text and JSON must agree row by row, and each must be consistent."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from benchmarks.judge.verdict import judge
from benchmarks.runner.agreement import contradictions, disagreements
from benchmarks.runner.program_run import compared
from benchmarks.runner.transcript import parse_json, parse_text
from tools.fuzz.bases import bases, line_of

GOLDEN = Path(__file__).parents[1] / "golden" / "transcripts"
TEXT = (GOLDEN / "h200x2.txt").read_text()
JSON = json.loads((GOLDEN / "h200x2.json").read_text())


def problems(text: str, document: dict) -> list[str]:
    """Return every contradiction in one run."""
    return compared(text, json.dumps(document), "all_reduce")[1]


def changed(path: str, value: object, document: dict = JSON) -> dict:
    """Return a copy of the JSON result in which the field at `path` is `value`."""
    found = copy.deepcopy(document)
    here = found
    *parts, last = path.split(".")
    for part in parts:
        here = here[int(part)] if part.lstrip("-").isdigit() else here[part]
    here[int(last) if last.lstrip("-").isdigit() else last] = value
    return found


def test_a_real_run_agrees_with_itself():
    assert problems(TEXT, JSON) == []


def test_a_contradiction_quotes_the_texts_number_and_the_json_results_number():
    (said,) = problems(TEXT, changed("average_bus_bandwidth.bandwidth", 12.5))
    assert said.startswith("the average is ")
    assert said.endswith(" GB/s in the text and 12.5 GB/s in the JSON result")


def test_the_text_of_real_transcripts_does_not_contradict_itself():
    for name in ("oci-2xGPU4.8-ol7.txt", "k8s-2pods-25G.txt"):
        (run,) = parse_text((GOLDEN / name).read_text())
        assert contradictions(run) == [], name


LAST = TEXT.splitlines()[-7]
BEFORE = TEXT.splitlines()[-8]
HEADER = "#       size         count      type   redop"
BANNER = "# busbar rehearsal: every rate is scaled by 1/4000\n"

#: Ways in which the text of a run contradicts its JSON result, or itself: a part of the text, and its replacement.
OF_THE_TEXT = [
    ("24870.8  345.38  345.38       0", "24870.8  345.38  200.38       0"),
    ("24870.8  345.38  345.38       0", "24870.8  200.38  345.38       0"),
    ("24870.8  345.38  345.38       0", "34870.8  345.38  345.38       0"),
    ("24870.8  345.38  345.38       0", "24870.8  345.38  345.38       3"),
    ("24870.8  345.38  345.38       0", "-24870.8  345.38  345.38       0"),
    ("24870.8  345.38  345.38       0", "24870.8  345.x8  345.38       0"),
    ("24870.8  345.38  345.38       0", "24870.8  345.38  345.38"),
    ("24749.5  347.07  347.07       0", "24749.5  347.07  147.07       0"),
    ("24749.5  347.07  347.07       0", "34749.5  347.07  347.07       0"),
    ("24749.5  347.07  347.07       0", "24749.5  347.07  347.07     N/A"),
    ("    2147483648     float     sum", "    1147483648     float     sum"),
    ("    2147483648     float     sum", "    2147483648      half     sum"),
    ("    2147483648     float     sum", "    2147483648     float     max"),
    ("  8589934592    2147483648", "  8589934588    2147483648"),
    (LAST, "..."),
    (LAST, f"{LAST}\n{LAST}"),
    (f"{BEFORE}\n{LAST}", f"{LAST}\n{BEFORE}"),
    (HEADER, f"{LAST}\n{HEADER}"),
    ("# Collective test concluded", f"{LAST}\n# Collective test concluded"),
    ("out-of-place                       in-place    ", "in-place                       out-of-place    "),
    ("Out of bounds values : 0 OK", "Out of bounds values : 5 FAILED"),
    ("# Out of bounds values : 0 OK\n", ""),
    ("Avg bus bandwidth    : 113.325", "Avg bus bandwidth    : 213.325"),
    ("Avg bus bandwidth    : 113.325", "Avg bus bandwidth    : nan"),
    ("# Avg bus bandwidth    : 113.325 \n", ""),
    ("Collective test starting: all_reduce_perf", "Collective test starting: all_gather_perf"),
    ("nccl-library=22809", "nccl-library=21805"),
    ("device  1", "device  0"),
    ("#  Rank  1 Group  0 Pid   1350 on         vm device  1 [0000:00:07] NVIDIA H200\n", ""),
    ("1350 on         vm", "1350 on      other"),
    ("# Using devices", f"{BANNER}# Using devices"),
]
#: Ways in which a JSON result contradicts the text, or itself: the path of a field, and its new value.
OF_THE_JSON = [
    ("results.-1.out_of_place.bus_bw", 200.0),
    ("results.-1.out_of_place.alg_bw", 200.0),
    ("results.-1.out_of_place.time", 40000.0),
    ("results.-1.out_of_place.time", 0.0),
    ("results.-1.out_of_place.time", -24870.8),
    ("results.-1.out_of_place.time", "nan"),
    ("results.-1.out_of_place.bus_bw", True),
    ("results.-1.out_of_place.nwrong", 3.0),
    ("results.-1.out_of_place.nwrong", 0.5),
    ("results.-1.out_of_place.nwrong", None),
    ("results.-1.out_of_place", None),
    ("results.-1.in_place.nwrong", None),
    ("results.-1.in_place.nwrong", 0.5),
    ("results.-1.in_place", None),
    ("results.-1.in_place.bus_bw", 34.0),
    ("results.-1.in_place.time", 2.0),
    ("results.5.out_of_place.bus_bw", 34.0),
    ("results.-1.size", 8589934588),
    ("results.-1.size", 8589934592.5),
    ("results.-1.count", 7),
    ("results.-1.count", 0),
    ("results.-1.type", "half"),
    ("results.-1.redop", "max"),
    ("results.-1.out_of_place_per_iter", {"skipped_iterations": 0, "times_us": [1], "p50_us": 9, "p99_us": 2, "cv_pct": 1}),
    ("results.-1", JSON["results"][-2]),
    ("results", JSON["results"][:-1]),
    ("results", JSON["results"][::-1]),
    ("results", [*JSON["results"], JSON["results"][-1]]),
    ("out_of_bounds.count", 5),
    ("out_of_bounds.count", None),
    ("out_of_bounds.okay", "false"),
    ("out_of_bounds", None),
    ("average_bus_bandwidth.bandwidth", 12.0),
    ("average_bus_bandwidth", None),
    ("errors", ["an async error on communicator 0"]),
    ("errors", "an async error on communicator 0"),
    ("nccl_version", 21805),
    ("config.validation", 0),
    ("config.devices.1.device", 0),
    ("config.devices.1.rank", 0),
    ("config.devices.1.hostname", "another"),
    ("config.devices", 7),
    ("config.devices", []),
    ("args.0", "./build/all_gather_perf"),
    ("rehearsal", {"scale": 4000}),
]
#: Changes of text and JSON together, which then contradict the rest of the run or the plan: a part of the text and its
#: replacement, the path of a field in the JSON result and its new value.
OF_BOTH = [
    ("24870.8  345.38  345.38       0", "49741.7  345.38  345.38       0", "results.-1.out_of_place.time", 49741.6663),
    ("24870.8  345.38  345.38       0", "0.00     345.38  345.38       0", "results.-1.out_of_place.time", 0.0),
    ("24870.8  345.38  345.38       0", "24870.8  414.46  345.38       0", "results.-1.out_of_place.alg_bw", 414.458231),
    ("24870.8  345.38  345.38       0", "24870.8  345.38  604.42       0", "results.-1.out_of_place.bus_bw", 604.418253),
    ("24870.8  345.38  345.38       0", "24870.8  345.38  345.38       3", "results.-1.out_of_place.nwrong", 3.0),
    ("24749.5  347.07  347.07       0", "9749.50  347.07  347.07       0", "results.-1.in_place.time", 9749.5094),
    ("24749.5  347.07  347.07       0", "24749.5  347.07  694.15       0", "results.-1.in_place.bus_bw", 694.149888),
    ("24749.5  347.07  347.07       0", "24749.5  347.07  347.07     N/A", "results.-1.in_place.nwrong", None),
    ("    2147483648     float     sum", "    1073741824      half     sum", "results.-1.type", "half"),
    ("  8589934592    2147483648", "  8589934588    2147483648", "results.-1.size", 8589934588),
    (f"{LAST}\n", "", "results", JSON["results"][:-1]),
    (f"{BEFORE}\n", "", "results", [*JSON["results"][:-2], JSON["results"][-1]]),
    ("starting: all_reduce_perf", "starting: all_gather_perf", "args.0", "./build/all_gather_perf"),
    ("device  1", "device  0", "config.devices.1.device", 0),
    ("1350 on         vm", "1350 on      other", "config.devices.1.hostname", "other"),
    ("Out of bounds values : 0 OK", "Out of bounds values : 5 FAILED", "out_of_bounds.count", 5),
]
(REAL,) = [one for one in bases() if one.name == "a real server"]


def verdict(text: str, document: dict) -> str:
    """Return the verdict on a whole measurement whose deciding run wrote `text` and `document`."""
    said = {"all_reduce.txt": text, "all_reduce.json": json.dumps(document)}
    return judge(line_of(REAL.documents | said, REAL.asked), REAL.asked).verdict


def test_the_unchanged_run_of_these_tests_passes():
    assert verdict(TEXT, JSON) == "pass"


@pytest.mark.parametrize(("printed", "instead"), OF_THE_TEXT)
def test_a_text_that_contradicts_the_json_result_or_itself_gives_the_verdict_unknown(printed, instead):
    assert printed in TEXT
    assert verdict(TEXT.replace(printed, instead), JSON) == "unknown"


def test_a_cut_text_or_a_text_with_two_runs_or_a_json_result_without_rows_gives_the_verdict_unknown():
    assert verdict(TEXT[: TEXT.index(LAST) + len(LAST)], JSON) == "unknown"
    assert verdict(TEXT + TEXT, JSON) == "unknown"
    assert verdict(TEXT, JSON | {"results": {}}) == "unknown"


@pytest.mark.parametrize(("path", "value"), OF_THE_JSON)
def test_a_json_result_that_contradicts_the_text_or_itself_gives_the_verdict_unknown(path, value):
    assert verdict(TEXT, changed(path, value)) == "unknown"


@pytest.mark.parametrize(("printed", "instead", "path", "value"), OF_BOTH)
def test_text_and_json_that_agree_but_contradict_the_rest_of_the_run_or_the_plan_do_not_pass(printed, instead, path, value):
    assert printed in TEXT
    assert verdict(TEXT.replace(printed, instead), changed(path, value)) in {"unknown", "short"}


def test_at_least_90_contradictions_are_listed_and_none_is_listed_twice():
    kinds = [*OF_THE_TEXT, *((path, str(value)) for path, value in OF_THE_JSON), *OF_BOTH]
    assert len({str(kind) for kind in kinds}) == len(kinds) >= 90


def test_ranks_that_share_a_gpu_are_a_problem_although_text_and_json_agree():
    found = problems(TEXT.replace("device  1", "device  0"), changed("config.devices.1.device", 0))
    assert any("ranks 0 and 1 both drive GPU 0 of vm" in one for one in found)


def test_wrong_values_counted_only_in_the_rows_are_a_problem():
    text = TEXT.replace("24870.8  345.38  345.38       0", "24870.8  345.38  345.38       3")
    assert any("its rows count 3" in one for one in problems(text, changed("results.-1.out_of_place.nwrong", 3.0)))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"results": [], "a": ' + "[" * 100_000])
def test_a_json_result_nested_too_deeply_is_refused(text):
    with pytest.raises(ValueError, match="cut or broken"):
        parse_json(text)


def test_values_checked_only_out_of_place_are_a_problem_if_the_program_checks_in_place_too():
    text = TEXT.replace("24749.5  347.07  347.07       0", "24749.5  347.07  347.07     N/A")
    document = changed("results.-1.in_place.nwrong", None)
    assert any("only out of place" in one for one in problems(text, document))
    renamed = text.replace("starting: all_reduce_perf", "starting: alltoall_perf")
    assert problems(renamed, changed("args.0", "./build/alltoall_perf", document)) == []


def test_text_and_json_of_every_cycle_of_a_run_are_compared_and_not_only_of_the_median_cycle():
    rows = [line for line in TEXT.splitlines() if line.strip()[:1].isdigit()]
    twice = TEXT.replace(rows[-1], "\n".join([rows[-1], *rows]))
    document = JSON | {"results": [*JSON["results"], *JSON["results"]]}
    (printed,), precise = parse_text(twice, 2), parse_json(json.dumps(document), 2)
    assert disagreements(printed, precise) == []
    (broken,) = parse_text(twice.replace("24870.8  345.38", "24870.8  245.38", 1), 2)
    assert disagreements(broken, precise)
