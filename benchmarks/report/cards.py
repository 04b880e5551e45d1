"""The top of the report page: which run the page describes and, if that run is short, what is to blame."""

from __future__ import annotations

import statistics
from html import escape
from typing import Any

from benchmarks.report import ending
from benchmarks.report.outputs import culprit_finding, culprit_sentence, culprits

#: Largest number of nodes that the identity names, and largest number of trials that a culprit's card lists.
_NAMED, _NUMBERS = 8, 24


def identity(outputs: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (name, text) of each fact that identifies this measurement: stack, time, run, cluster, nodes and price."""
    nodes = [node["name"] for node in outputs["nodes"]]
    more = f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else ""
    pool = f", pool {outputs['pool']}" if outputs.get("pool") else ""
    found = [
        ("stack", outputs.get("stack") or ""),
        ("measured", _when(outputs)),
        ("cluster", f"{len(nodes)} x {outputs['shape']}, target {outputs['target']}{pool}"),
        ("nodes", f"{', '.join(nodes[:_NAMED])}{more}"),
        ("price", _price(outputs)),
    ]
    return [(name, words) for name, words in found if words]


def top(outputs: dict[str, Any]) -> str:
    """Return the identity as the page's first block."""
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(words)}</dd>' for name, words in identity(outputs))}</dl>"


def cards(outputs: dict[str, Any]) -> str:
    """Return a card for each culprit: what it is, its busbw, the rails or pairs that were tried, and what to type next.

    If the search found no culprit, or did not complete, a paragraph reports that. If there was no search, the text is empty.
    """
    search = outputs.get("search")
    if not search:
        return ""
    named = culprits(search)
    found = "".join(map(_card, named))
    if not named or not search.get("complete"):
        found += f"<p>{escape(str(search.get('summary') or 'The search did not complete.'))}</p>"
    title = "To blame" if named else "The search"
    return f"<h2>{title}</h2>{found}"


def other_reasons(outputs: dict[str, Any]) -> list[str]:
    """Return the reasons for the verdict that are not on a card."""
    carded = {culprit_sentence(one) for one in culprits(outputs.get("search") or {})}
    return [one for one in outputs["reasons"] if one not in carded]


def numbers(culprit: dict[str, Any]) -> list[tuple[str, float | None, bool]]:
    """Return each rail or pair that was tried: its name, its busbw (GB/s), and whether it is to blame."""
    blamed = set(culprit.get("rails", []))
    found = []
    for one in culprit.get("evidence", []):
        name = f"{' - '.join(one['nodes'])}{', ' + ', '.join(one['rails']) if one['rails'] else ''}"
        is_blamed = blamed >= set(one["rails"]) and bool(one["rails"]) if blamed else _holds(culprit, set(one["nodes"]))
        found.append((name, one["busbw_gb_s"], is_blamed))
    return found


def _holds(culprit: dict[str, Any], tried: set[str]) -> bool:
    """Tell whether a trial of the nodes `tried` contains the blamed node or link.

    If several nodes are blamed as a group, or the paths between them, the evidence has only trials that contain what is blamed.
    """
    nodes = set(culprit.get("nodes", []))
    if culprit.get("kind") in {"group", "between"}:
        return True
    return bool(nodes & tried) if len(nodes) == 1 else nodes <= tried


def _when(outputs: dict[str, Any]) -> str:
    """Return when this was measured, and in which run."""
    if not outputs.get("measured_at"):
        return "never"
    return f"{ending.measured_at(outputs['measured_at'])}{', run ' + outputs['run'] if outputs.get('run') else ''}"


def _card(culprit: dict[str, Any]) -> str:
    said = culprit_finding(culprit).partition(" (")[0]
    found = numbers(culprit)
    top = _healthy(culprit)
    rows = "".join(
        f"<tr{' class=blamed' if is_blamed else ''}><td>{escape(name)}</td><td class=n>{_gb_s(number)}</td>"
        f'<td class=bar><i style="width:{min(100.0, 100 * (number or 0) / top):.1f}%"></i></td></tr>'
        for name, number, is_blamed in found[:_NUMBERS]
    )
    follows = f"<p>Next, on the head node: <code>{escape(str(culprit['next']))}</code></p>" if culprit.get("next") else ""
    head = "<tr><th>tried</th><th class=n>GB/s</th><th></th></tr>"
    return (
        f"<section class=culprit><h3>{escape(ending.blame(culprit))}</h3><p>{escape(said)}.</p>"
        f"<div class=wide><table>{head}{rows}</table></div>{follows}</section>"
    )


def _healthy(culprit: dict[str, Any]) -> float:
    """Return the healthy busbw (GB/s), shown as a full bar; if every trial is slow, compute it from the culprit's ratio."""
    found = numbers(culprit)
    blamed = [number for _, number, is_blamed in found if is_blamed and number]
    ratio = culprit.get("ratio") or 0.0
    healthy = statistics.median(blamed) / ratio if blamed and ratio else 0.0
    return max([healthy, *(number or 0.0 for _, number, _ in found)]) or 1.0


def _gb_s(number: float | None) -> str:
    return "none" if number is None else f"{number:.4g}"


def _price(outputs: dict[str, Any]) -> str:
    """Return what the nodes cost per hour."""
    cost = outputs.get("cost")
    if outputs["target"] in {"hosts", "kubernetes"}:
        return "none: this stack rents nothing"
    if not cost:
        return "unknown (set records.pricePerNodeHour)"
    real = "none (rehearsed); real machines cost " if outputs["rehearsed"] else ""
    return f"{real}{cost['usd_per_hour']:g} USD an hour ({cost['source']})"
