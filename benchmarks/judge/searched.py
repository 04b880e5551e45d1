"""Reads the search's line: a damaged line counts as an incomplete search, never as a search that found no culprit."""

from __future__ import annotations

from typing import Any

from benchmarks.judge.measurement import LineError, is_number, last_json


def read(text: str) -> dict[str, Any]:
    """Return the search's line at the end of `text`; if it cannot be read, return a failed search."""
    try:
        line = last_json(text)
    except LineError as error:
        return _failed({}, str(error))
    if not isinstance(line, dict) or line.get("kind") != "search":
        return _failed({}, "the runner's line is not a search result")
    if {"trials", "again"} <= line.keys() and line["trials"] is None is line["again"]:
        return {"schema": 1, "kind": "search", "needed": False}  # the runner returns an empty request unchanged
    why, refused = _damage(line)
    return _failed(line, why, refused=refused) if why else line


def _damage(line: dict[str, Any]) -> tuple[str, bool]:
    """Return what cannot be read in a search's line (empty if nothing is damaged), and whether the runner refused to search."""
    named = line.get("culprits", [])
    if not isinstance(named, list) or not all(map(_is_culprit, named)):
        return "the search's line contains a culprit that cannot be read", False
    why = line.get("failed")
    if not isinstance(line.get("needed"), bool):
        return str(why or "the search's line does not say whether a search was needed"), bool(why)
    if line["needed"] and not why and not isinstance(line.get("complete"), bool):
        return "the search's line does not say whether the search is complete", False
    return "", False


def _failed(line: dict[str, Any], why: str, *, refused: bool = False) -> dict[str, Any]:
    again = {"again": line["again"]} if "again" in line else {}
    said = {"needed": True, "culprits": [], "complete": False, "failed": why, "refused": refused}
    return {"schema": 1, "kind": "search", **said, **again}


def _is_culprit(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and isinstance(found.get("kind"), str)
        and _are_names(found.get("nodes"))
        and _are_names(found.get("rails"))
        and is_number(found.get("ratio"))
        and isinstance(found.get("evidence"), list)
        and all(map(_is_evidence, found["evidence"]))
    )


def _is_evidence(found: Any) -> bool:
    if not isinstance(found, dict) or not _are_names(found.get("nodes")) or not _are_names(found.get("rails")):
        return False
    number = found.get("busbw_gb_s")
    return is_number(number) or (number is None and isinstance(found.get("why"), str))


def _are_names(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)
