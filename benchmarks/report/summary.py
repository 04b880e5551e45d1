"""Writes what people read about a finished run: its table, its verdict in a sentence, and the page of the stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.judge import retest
from benchmarks.judge.checks import PASS, SKIPPED
from benchmarks.plan.size_text import size_text
from benchmarks.report import outputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.judge.verdict import Judgement


def table(judged: Judgement, searched: dict[str, Any]) -> str:
    """Return the table (see `rows`), followed by the verdict, notes and reasons."""
    lines = [*rows(judged), sentence(judged)]
    lines += [f"  - {one.name}: {why}" for one in judged.checks for why in one.why if why.startswith(retest.NOTE)]
    lines += skipped(judged)
    lines.extend(f"  - {reason}" for reason in outputs.reasons(judged, searched))
    return "\n".join(lines)


def skipped(judged: Judgement) -> list[str]:
    """Return, for a pass, a line for each reason why a check was skipped; the pass does not cover skipped checks."""
    if judged.verdict != PASS:
        return []
    return [f"  - {one.name}, skipped: {why}" for one in judged.checks if one.state == SKIPPED for why in one.why]


def rows(judged: Judgement) -> list[str]:
    """Return the lines of the table: every size of the deciding collective, and the largest size of each other collective."""
    unit = "GB/s" if judged.scale == 1 else f"GB/s, rehearsed at 1/{judged.scale}"
    lines = [
        f"{judged.gate.collective}, out of place, {unit}:",
        f"{'size':>12}  {'time us':>12}  {'algbw':>9}  {'busbw':>9}  {'wrong':>6}",
    ]
    lines += [f"{size_text(row['size_bytes']):>12}  {_timing(row)}" for row in judged.rows.get(judged.gate.collective, ())]
    others = {name: rows[-1] for name, rows in judged.rows.items() if name != judged.gate.collective and rows}
    if others:
        lines.append("the other collectives at their largest size:")
        lines += [f"{name:>16} {size_text(row['size_bytes']):>9}  {_timing(row)}" for name, row in others.items()]
    return lines


def sentence(judged: Judgement) -> str:
    """Return the verdict in one line."""
    if judged.busbw_gb_s is None:
        return f"verdict {judged.verdict.upper()}: no bus bandwidth was measured"
    share = f", {judged.busbw_gb_s / judged.ceiling_gb_s:.1%} of the wire" if judged.ceiling_gb_s else ""
    limit = "no gate" if judged.gate.limit_gb_s is None else f"gate {judged.gate.limit_gb_s:.4g}"
    rehearsed = f" (rehearsed at 1/{judged.scale})" if judged.scale != 1 else ""
    return (
        f"verdict {judged.verdict.upper()}: {judged.gate.collective} busbw {judged.busbw_gb_s:.4g} GB/s at "
        f"{size_text(judged.gate.size_bytes)}{share}; {limit}{rehearsed}"
    )


def page(judged: Judgement, searched: dict[str, Any], ssh: str, changes: Sequence[str]) -> str:
    """Return the page of the stack (Markdown); `changes` are sentences on what changed since the last run."""
    checks = "\n".join(f"| {one.name} | {one.state} | {_cell('; '.join(one.why))} |" for one in judged.checks)
    since = "".join(f"- {_cell(change)}\n" for change in changes)
    return (
        f"# {sentence(judged)}\n\n```\n{table(judged, searched)}\n```\n\n"
        f"| check | state | why |\n| --- | --- | --- |\n{checks}\n\n"
        + (f"Since the last run:\n\n{since}\n" if since else "")
        + f"A shell on the head node: `{ssh}`\n\nGate: {judged.gate.why}.\n"
    )


def _timing(row: dict[str, Any]) -> str:
    timing = row["out_of_place"]
    wrong = "-" if timing["wrong"] is None else f"{timing['wrong']:.0f}"
    return f"{timing['time_us']:>12.1f}  {timing['algbw_gb_s']:>9.5g}  {timing['busbw_gb_s']:>9.5g}  {wrong:>6}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
