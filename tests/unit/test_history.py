"""History: records are added and never changed, a limit follows from them, and changes between runs are shown."""

from __future__ import annotations

import errno
import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from statistics import median

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.judge.verdict import Judgement
from benchmarks.plan.gate import Gate
from benchmarks.records import history, store
from benchmarks.records.history import HistoryError, Key, Record, append, changes, limit, load, record

KEY = Key("oci", "BM.GPU4.8", 2, "all_reduce", 8 << 30, "Ring")
VERSIONS = {"nccl": "2.28.9", "driver": "570.1"}
PLAN = {"sizes": "8 to 8 GiB by 2", "iterations": "20", "launcher": "mpirun"}


def made(number: int = 1, busbw_gb_s: float | None = 90.0, verdict: str = "pass", **other) -> Record:
    values = {
        "run_id": f"run{number:04d}",
        "started": f"2025-11-{number:02d}T04:49:00Z",
        "key": KEY,
        "verdict": verdict,
        "busbw_gb_s": busbw_gb_s,
        "peak_busbw_gb_s": busbw_gb_s,
        "latency_us": 30.0,
        "versions": VERSIONS,
        "rows": ({"size_bytes": 8 << 30, "out_of_place": {"busbw_gb_s": busbw_gb_s}, "in_place": None},),
        "plan": PLAN,
    }
    return Record(**values | other)


def required(records: list[Record], versions: dict = VERSIONS, plan: dict = PLAN) -> history.Limit | None:
    """Return the limit that `records` set for a run with these versions and this plan."""
    return limit(records, versions, plan)


@pytest.fixture(params=["path", "file", "memory"])
def folder(request, tmp_path):
    """Yield a history folder: as a path, as a file:// URL, and as a memory:// URL."""
    if request.param == "memory":
        yield f"memory://{tmp_path.name}/history"
        fsspec.filesystem("memory").store.clear()
    else:
        yield str(tmp_path / "history") if request.param == "path" else f"file://{tmp_path}/history"


def test_an_appended_record_is_loaded_unchanged(folder):
    records = [made(number) for number in (3, 1, 2)]
    assert all(append(folder, one) for one in records)
    assert load(folder, KEY, made(9).order).records == tuple(sorted(records, key=lambda one: one.order))


def test_the_first_record_of_a_run_is_kept_and_later_records_are_ignored(folder):
    assert append(folder, made())
    assert not append(folder, made(verdict="short"))
    (only,) = load(folder, KEY, made(9).order).records
    assert only == made()


def test_a_run_is_compared_only_with_earlier_runs_even_after_later_runs_are_recorded(folder):
    for number in range(1, 8):
        append(folder, made(number))
    seen = load(folder, KEY, made(6).order)
    assert [one.run_id for one in seen.records] == [f"run{number:04d}" for number in range(1, 6)]
    append(folder, made(9, 1.0))
    assert load(folder, KEY, made(6).order) == seen


def test_a_record_of_exactly_the_largest_size_is_kept_and_a_larger_record_is_refused(folder, monkeypatch):
    size = len(json.dumps(made(1).document(), indent=1)) + 1
    for module in (history, store):
        monkeypatch.setattr(module, "MAX_BYTES", size)
    assert append(folder, made(1))
    with pytest.raises(HistoryError, match=f"has {size + 1} bytes; at most {size} bytes are kept"):
        append(folder, made(2, verdict="short"))
    assert load(folder, KEY, made(9).order) == history.Past((made(1),), ())


def test_a_busbw_of_zero_is_a_number_in_the_history(folder):
    append(folder, made(1, 0.0, "short"))
    assert load(folder, KEY, made(9).order) == history.Past((made(1, 0.0, "short"),), ())


def test_runs_with_the_same_start_time_are_ordered_by_run_id(folder):
    first, second = made(1, run_id="a"), made(1, run_id="b")
    append(folder, second)
    append(folder, first)
    assert load(folder, KEY, second.order).records == (first,)


@pytest.mark.parametrize("field", ["target", "shape", "nodes", "collective", "size_bytes", "algorithm", "scale"])
def test_runs_that_differ_in_a_field_of_their_key_are_not_compared(folder, field):
    other = replace(KEY, **{field: 4 if isinstance(getattr(KEY, field), int) else "other"})
    append(folder, made(key=other))
    assert load(folder, KEY, made(9).order).records == ()
    assert len(load(folder, other, made(9).order).records) == 1


def test_a_missing_folder_has_no_records(folder):
    assert load(folder, KEY, made(9).order) == history.Past((), ())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "not JSON"),
        (b'{"schema": 1, "run_id": "ru', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a record of version 1"),
        (b'{"schema": 2}', "not a record of version 1"),
        (b'{"schema": 1}', "fields"),
        (json.dumps(made(2).document() | {"busbw_gb_s": "fast"}).encode(), "numbers"),
        (json.dumps(made(2).document() | {"busbw_gb_s": float("nan")}).encode(), "numbers"),
        (json.dumps(made(2).document() | {"extra": 1}).encode(), "fields"),
        (json.dumps(made(2).document() | {"rows": [1]}).encode(), "rows"),
        (json.dumps(made(2).document() | {"versions": []}).encode(), "versions"),
        (json.dumps(made(2).document() | {"plan": "all"}).encode(), "plan"),
        (json.dumps(made(3).document()).encode(), "another run"),
        (b" " * store.MAX_BYTES, "not JSON"),
        (b" " * (store.MAX_BYTES + 1), "larger than"),
    ],
)
def test_a_broken_file_is_reported_and_skipped(folder, text, why):
    append(folder, made(1))
    kept = store.store(folder)
    assert kept.add(made(2).name(), text)
    kept.add(f"{KEY.digest()}/notes.txt", b"not ours")
    past = load(folder, KEY, made(9).order)
    assert [one.run_id for one in past.records] == ["run0001"]
    (warning,) = past.warnings
    assert made(2).name() in warning
    assert why in warning


def test_a_file_that_cannot_be_opened_is_reported(tmp_path):
    append(str(tmp_path), made(1))
    (tmp_path / made(2).name()).mkdir()
    (warning,) = load(str(tmp_path), KEY, made(9).order).warnings
    assert "cannot be read" in warning


def test_an_unwritable_folder_is_reported_with_its_path_and_the_reason(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match=r"history: .*file.* cannot be written: \w+"):
        append(str(tmp_path / "file"), made())


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_folder_on_a_file_system_without_hard_links_gets_each_file_once_and_keeps_no_draft(tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, "no hard links")

    monkeypatch.setattr(store.os, "link", refuse)
    assert append(str(tmp_path), made())
    assert not append(str(tmp_path), made())
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [made().name().rpartition("/")[2]]


def test_a_url_of_an_unknown_protocol_is_refused_and_the_refusal_names_the_protocol():
    with pytest.raises(HistoryError, match="cannot reach nosuch://bucket: Protocol not known: nosuch"):
        append("nosuch://bucket", made())


def test_a_store_that_does_not_answer_is_reported_after_the_timeout(monkeypatch):
    monkeypatch.setattr(store, "TIMEOUT_S", 0.05)
    never = threading.Event()
    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda _url: never.wait(60))
    with pytest.raises(HistoryError, match="no answer within"):
        load("memory://x", KEY, made(9).order)
    never.set()


def test_a_local_folder_needs_no_driver(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    assert append(str(tmp_path), made())
    assert load(str(tmp_path), KEY, made(9).order).records


def test_concurrent_writers_write_a_record_once_and_leave_no_partial_file(tmp_path):
    results = []
    threads = [threading.Thread(target=lambda: results.append(append(str(tmp_path), made()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [False] * 7 + [True]
    assert [path.name for path in (tmp_path / KEY.digest()).iterdir()] == [made().name().split("/")[1]]


@pytest.mark.parametrize("run_id", ["", "../up", "a/b", "a b", "x" * 129])
def test_a_record_with_an_invalid_run_id_is_refused(run_id):
    with pytest.raises(HistoryError, match="1 to 128 letters and digits"):
        made(run_id=run_id)


@pytest.mark.parametrize("started", ["", "yesterday", "2025-11-21T04:49:00", "2025-11-21T04:49:00+01:00"])
def test_a_start_time_that_is_not_utc_is_refused(started):
    with pytest.raises(HistoryError, match="is not UTC"):
        made(started=started)


def test_of_many_earlier_runs_only_the_oldest_and_the_newest_are_loaded(folder, monkeypatch):
    monkeypatch.setattr(history, "NEWEST", 2)
    monkeypatch.setattr(history, "OLDEST", 1)
    for number in range(1, 6):
        append(folder, made(number))
    assert [one.run_id for one in load(folder, KEY, made(9).order).records] == ["run0001", "run0004", "run0005"]
    assert [one.run_id for one in load(folder, KEY, made(4).order).records] == ["run0001", "run0002", "run0003"]


def test_the_limit_from_the_first_passes_is_not_lowered_by_slow_decay_over_600_daily_runs(tmp_path):
    """The fabric loses 0.01 % a day: 2 % within the last 200 runs, and a tenth of its busbw in three years."""
    for day in range(600):
        started = (datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=day)).strftime("%Y-%m-%dT%H:%M:%SZ")
        append(str(tmp_path), made(1, 390 * 0.9999**day, run_id=f"run{day:04d}", started=started, rows=()))
    past = load(str(tmp_path), KEY, ("2030-01-01T00:00:00Z", "x"))
    assert required(list(past.records)).busbw_gb_s == pytest.approx(390 * 0.96, rel=0.001)


def test_five_passes_give_a_limit_and_four_passes_give_no_limit():
    numbers = [90.0, 91.0, 89.0, 92.0, 88.0]
    records = [made(day + 1, number) for day, number in enumerate(numbers)]
    assert required(records[:4]) is None
    found = required(records)
    assert found.busbw_gb_s == pytest.approx(90.0 - 4 * 1.4826 * 1.0)
    assert found.since == ""
    assert found.source == "the history of 5 passes (median 90 GB/s less 4 deviations of 1.5)"


def test_from_ten_passes_on_the_first_five_and_the_last_ten_set_limits_and_the_higher_limit_applies():
    low, high = [80.0] * 6, [90.0] * 10
    days = [made(day, number) for day, number in enumerate([*low, *high], 1)]
    assert required(days).source.startswith("the history of the last 10 passes (median 90 GB/s ")
    assert required(days[:9]).source.startswith("the history of 9 passes (")
    falling = [made(day, number) for day, number in enumerate([*high, *low], 1)]
    assert required(falling).source.startswith("the history of the first 5 passes (median 90 GB/s ")
    assert required(falling[5:15]).source.startswith("the history of the first 5 passes (")


def test_equal_passes_give_a_limit_four_percent_below_their_busbw():
    assert required([made(day, 90.0) for day in range(1, 6)]).busbw_gb_s == pytest.approx(90.0 * 0.96)


def test_the_limit_is_computed_only_from_runs_that_passed():
    bad = [made(day, 10.0, verdict) for day, verdict in enumerate(["short", "unknown", "short"], 10)]
    unmeasured = [made(20, None)]
    good = [made(day, 90.0) for day in range(1, 6)]
    assert required(good + bad + unmeasured) == required(good)
    assert required(good[:4] + bad + unmeasured) is None


@given(st.lists(st.floats(1, 1000), min_size=5, max_size=40))
def test_the_limit_is_at_most_96_percent_of_the_higher_median_of_the_first_and_the_last_passes(numbers):
    found = required([made(1, number) for number in numbers]).busbw_gb_s
    compared = [numbers] if len(numbers) < 10 else [numbers[:5], numbers[-10:]]
    assert found <= max(median(one) for one in compared) * 0.96 * (1 + 1e-9)


def test_one_outlier_hardly_moves_the_limit():
    good = [made(day, 90.0 + day % 3) for day in range(1, 10)]
    assert required([*good, made(11, 5.0)]).busbw_gb_s == pytest.approx(required(good).busbw_gb_s, abs=1.0)


def test_changes_show_verdict_busbw_latency_and_every_version():
    now = made(2, 81.0, "short", versions={"nccl": "2.29.1", "os": "ol9"}, latency_us=33.0)
    assert changes(made(1), now) == (
        "the verdict went from pass to short since 2025-11-01T04:49:00Z",
        "all_reduce busbw went from 90 to 81 GB/s (-10.0%) since 2025-11-01T04:49:00Z",
        "latency went from 30 to 33 us (+10.0%) since 2025-11-01T04:49:00Z",
        "driver went from 570.1 to nothing since 2025-11-01T04:49:00Z",
        "nccl went from 2.28.9 to 2.29.1 since 2025-11-01T04:49:00Z",
        "os went from nothing to ol9 since 2025-11-01T04:49:00Z",
    )


def test_a_changed_plan_is_reported_with_the_setting_that_differs():
    assert changes(made(1), made(2, plan=PLAN | {"iterations": "5"})) == (
        "iterations of the plan went from 20 to 5 since 2025-11-01T04:49:00Z: the previous run sets no limit for this run",
    )
    assert changes(made(1, plan={}), made(2)) == ()


def test_equal_runs_show_no_changes_but_a_first_run_or_a_missing_busbw_is_reported_as_a_change():
    assert changes(made(1), made(2)) == ()
    assert changes(None, made(2)) == ("this is the first run of its kind",)
    assert changes(made(1, None), made(2)) == ("all_reduce busbw was not measured before and is now",)
    assert changes(made(1), made(2, None)) == ("all_reduce busbw was measured before and is not now",)


def judged(line: dict[str, str]) -> Judgement:
    row = {"size_bytes": 8, "out_of_place": {"busbw_gb_s": 0.02}, "in_place": None}
    return Judgement(
        verdict="short",
        reasons=("slow",),
        gate=Gate("all_gather", 8, 0.03, "a reason"),
        busbw_gb_s=0.02,
        peak_busbw_gb_s=0.021,
        latency_us=12.5,
        ceiling_gb_s=0.05,
        scale=4000,
        rows={"all_gather": (row,), "all_reduce": ()},
        line=line,
    )


def test_a_judgements_record_contains_what_was_measured(tmp_path):
    line = {"run_id": "abc", "started": "2025-11-21T04:49:00Z"}
    found = record(judged(line), "oci", "BM.GPU4.8", 2, {"nccl": "2.28.9"})
    assert found.key == Key("oci", "BM.GPU4.8", 2, "all_gather", 8, scale=4000)
    assert (found.verdict, found.busbw_gb_s, found.latency_us, len(found.rows)) == ("short", 0.02, 12.5, 1)
    append(str(tmp_path), found)
    assert load(str(tmp_path), found.key, made(30).order).records == (found,)


def test_runs_on_the_same_machines_are_compared_even_if_the_image_has_changed(tmp_path):
    """A run with another driver is compared; a run on other machines of the same shape, which may be slower, is not."""
    line = {"run_id": "abc", "started": "2025-11-21T04:49:00Z", "machines": {"a": "serial-1", "b": "serial-2"}}
    first = record(judged(line), "oci", "BM.GPU4.8", 2, {"driver": "510", "os": "Oracle Linux 7.9"})
    append(str(tmp_path), first)
    again = line | {"run_id": "abd", "started": "2025-11-22T04:49:00Z"}
    reinstalled = record(judged(again), "oci", "BM.GPU4.8", 2, {"driver": "550", "os": "Oracle Linux 8.9"})
    replaced = record(judged(again | {"machines": {"a": "serial-1", "b": "serial-3"}}), "oci", "BM.GPU4.8", 2, {})
    assert load(str(tmp_path), reinstalled.key, reinstalled.order).records == (first,)
    assert load(str(tmp_path), replaced.key, replaced.order).records == ()


def test_a_line_that_names_no_run_leaves_no_record():
    assert record(judged({}), "oci", "BM.GPU4.8", 2, {}) is None


def test_a_fabric_that_loses_one_percent_per_run_is_caught_by_comparison_with_its_first_passes():
    passed: list = []
    for day in range(1, 29):
        busbw = 390 * 0.99**day
        known = required(passed)
        if known is not None and busbw < known.busbw_gb_s:
            break
        passed.append(made(day, busbw))
    assert 6 <= len(passed) <= 14, len(passed)


@pytest.mark.parametrize("runs_each", [1, 3, 5, 6])
def test_upgrades_do_not_hide_a_fabric_that_loses_one_percent_per_run(runs_each):
    """Until a new kernel has five passes of its own, the faster passes with earlier kernels help to set the limit."""
    passed: list = []
    for day in range(1, 29):
        busbw, versions = 390 * 0.99**day, {"kernel": str(day // runs_each)}
        known = required(passed, versions)
        if known is not None and busbw < known.busbw_gb_s:
            break
        passed.append(made(day, busbw, versions=versions))
    assert 6 <= len(passed) <= 14, len(passed)


def test_passes_with_other_versions_set_a_limit_that_names_what_changed_since():
    old = [made(day, 90.0) for day in range(1, 4)] + [
        made(day, 90.0, versions=VERSIONS | {"driver": "575.2"}) for day in (4, 5)
    ]
    found = required(old, {"nccl": "2.31.2", "driver": "580.0", "kernel": "6.8"})
    assert found.busbw_gb_s == pytest.approx(90 * 0.96)
    assert found.since == (
        "driver went from 570.1 and 575.2 to 580.0, kernel went from nothing to 6.8, nccl went from 2.28.9 to 2.31.2"
    )


@pytest.mark.parametrize("name", ["nccl", "driver", "kernel", "efa_installer", "image_sha256", "nccl_tests"])
def test_every_changed_version_is_named(name):
    found = required([made(day) for day in range(1, 6)], VERSIONS | {name: "new"})
    assert found.since.startswith(f"{name} went from ")
    assert found.since.endswith(" to new")


def test_after_five_passes_with_new_versions_only_those_passes_are_compared():
    """A slower NCCL that was accepted is not reported at every later run."""
    new = VERSIONS | {"nccl": "2.31.2"}
    old, since = [made(day, 90.0) for day in range(1, 9)], [made(day, 80.0, versions=new) for day in range(9, 14)]
    assert required(old + since[:4], new).since == "nccl went from 2.28.9 to 2.31.2"
    assert required(old + since, new) == history.Limit(
        pytest.approx(80 * 0.96), "the history of 5 passes (median 80 GB/s less 4 deviations of 0.8)"
    )
    assert required(old + since).busbw_gb_s == pytest.approx(90 * 0.96)  # after a return to the old version


@pytest.mark.parametrize("plan", [PLAN | {"iterations": "5"}, PLAN | {"launcher": "pyxis"}, PLAN | {"NCCL_PROTO": "LL"}])
def test_runs_of_another_plan_are_not_compared(plan):
    assert required([made(day) for day in range(1, 8)], plan=plan) is None


def test_old_records_without_a_plan_are_compared_and_the_limit_says_that_plans_are_missing(folder):
    for day in range(1, 6):
        document = made(day).document()
        del document["plan"]
        assert store.store(folder).add(made(day).name(), json.dumps(document).encode())
    past = load(folder, KEY, made(9).order)
    assert [len(past.records), past.warnings] == [5, ()]
    assert required(list(past.records)).since == "some of the earlier passes do not state their plan and launcher"


def test_runs_with_another_nccl_are_compared_but_runs_on_other_machines_or_with_another_algorithm_are_not():
    line = {"run_id": "abc", "started": "2025-11-21T04:49:00Z", "machines": {"a": "1"}, "versions": {"nccl": "2.28.9"}}

    def key(algorithm: str = "Ring", **changes):
        return record(judged(line | changes), "oci", "BM.GPU4.8", 2, {}, algorithm).key.digest()

    assert key() == key(started="2025-12-21T04:49:00Z")
    assert key() == key(versions={"nccl": "2.31.2"})  # an upgrade that loses bandwidth is exactly what history must show
    others = [key(machines={"a": "2"}), key(machines=None), key(""), key()]
    assert len(set(others)) == len(others)
