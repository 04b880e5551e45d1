"""The stack's state, which hooks read from the engine while the engine writes it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pulumi
import pytest

from components import engine_state


def engine(folder, monkeypatch, script: str) -> None:
    """Put a shell script on PATH in place of the engine."""
    (folder / "pulumi").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_an_error_of_the_engine_is_reported_and_ids_of_replaced_resources_are_listed_too(monkeypatch, tmp_path):
    state = {"deployment": {"resources": [{"urn": "a"}, {"urn": "b", "id": "x", "delete": True}, {"urn": "c", "id": "y"}]}}
    engine(tmp_path, monkeypatch, f"echo '{json.dumps(state)}'")
    assert engine_state.ids_in_state() == {"x", "y"}
    monkeypatch.setattr(engine_state, "_BETWEEN_TRIES_S", 0)
    engine(tmp_path, monkeypatch, "echo no access >&2; exit 255")
    with pytest.raises(pulumi.RunError, match=r"^`pulumi stack export --stack \S+` failed, so it is unknown .*: no access\n$"):
        engine_state.ids_in_state()


def test_a_state_that_is_being_written_is_read_again(monkeypatch, tmp_path):
    pauses: list[float] = []
    monkeypatch.setattr(engine_state, "time", SimpleNamespace(sleep=pauses.append))
    state = json.dumps({"deployment": {"resources": [{"urn": "b", "id": "x"}]}})
    written = "echo x >> tries; [ $(wc -l < tries) -gt 3 ]"
    cut = "echo 'error: failed to load checkpoint: EOF' >&2; exit 255"
    monkeypatch.chdir(tmp_path)
    engine(tmp_path, monkeypatch, f"{{ {written}; }} || {{ {cut}; }}; echo '{state}'")
    assert engine_state.ids_in_state() == {"x"}
    assert (tmp_path / "tries").read_text().count("x") == 4
    assert len(pauses) == 3
    assert min(pauses) >= 0.5, "the engine may need half a second to write the state"
