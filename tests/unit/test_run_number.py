"""`make measure` raises `measure.run` by 1, for this and later updates by make until a destroy; the stack file is unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import run_number

FILE = "config:\n  busbar:measure:\n    run: 4\n"


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(run_number, "ROOT", tmp_path)
    (tmp_path / "Pulumi.dev.yaml").write_text(FILE)
    return tmp_path


@pytest.mark.parametrize(("given", "first"), [(FILE, 4), ("config:\n  busbar:target: oci\n", 1), ("config:\n", 1)])
def test_after_two_calls_of_make_measure_the_run_number_is_two_above_the_stack_file(checkout, capsys, given, first):
    (checkout / "Pulumi.dev.yaml").write_text(given)
    for verb in ("run", "raise", "raise", "run"):
        assert run_number.main([verb, "dev"]) == 0
    assert capsys.readouterr().out.split() == [str(first), str(first + 2)]
    assert (checkout / "Pulumi.dev.yaml").read_text() == given


def test_no_run_number_is_written_for_a_stack_without_a_stack_file(checkout):
    assert run_number.main(["raise", "nope"]) == 0
    assert not (checkout / ".busbar").exists()
