"""The tool that times `make` at older commits and at this commit: the order of the runs, and the table of medians."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import older_commits


def test_rounds_alternate_in_direction_and_every_cluster_is_destroyed_before_the_next(monkeypatch):
    ran = []

    def make(folder: Path, words: str) -> float:
        ran.append((folder.name, words))
        return float(len(ran))

    monkeypatch.setattr(older_commits, "make", make)
    found = older_commits.rounds([Path("a"), Path("HEAD")], 2)
    assert [name for name, words in ran if words == "down"] == ["a", "HEAD", "HEAD", "a"]
    assert [words for _, words in ran] == ["preview", "up", "up", "down"] * 4
    assert found["a"] == {"preview": [1.0, 13.0], "up": [2.0, 14.0], "unchanged up": [3.0, 15.0]}


def test_a_cluster_whose_update_failed_is_taken_down_too(monkeypatch):
    ran = []

    def make(_folder: Path, words: str) -> float:
        ran.append(words)
        if words == "up":
            raise SystemExit("`make up` of a ended with 2")
        return 1.0

    monkeypatch.setattr(older_commits, "make", make)
    with pytest.raises(SystemExit, match="ended with 2"):
        older_commits.rounds([Path("a")], 1)
    assert ran == ["preview", "up", "down"]


def test_the_table_has_medians_and_the_ratio_of_this_commit_to_the_older_commit():
    older = {"preview": [3.0, 5.0], "up": [30.0, 30.0], "unchanged up": [4.0, 4.0]}
    ours = {"preview": [2.0, 2.0], "up": [33.0, 33.0], "unchanged up": [1.0, 1.0]}
    lines = [line.split() for line in older_commits.table({"a": older, "HEAD": ours}, "HEAD").splitlines()]
    assert lines[0] == ["a", "HEAD"]
    assert lines[1:3] == [["preview", "4.0", "s", "0.50", "2.0", "s"], ["up", "30.0", "s", "1.10", "33.0", "s"]]
