"""Show the state of a stack on one screen, from its outputs; no account or machine is queried.

pulumi stack output --json | python -m tools.status
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

from benchmarks.plan.size_text import size_text
from benchmarks.report import ending, outputs

#: Maximum number of reasons and nodes shown, and maximum length of a reason.
_REASONS, _NODES, _LONGEST = 4, 8, 160


def status(found: dict[str, Any], now: datetime) -> str:
    """Return the lines for the stack outputs `found`."""
    measured, nodes = found["measured"], found.get("nodes") or []
    age = _age(measured["measured_at"], now)
    return "\n".join(
        [
            _verdict(measured),
            *(f"  - {ending.blame(one)}; next, on the head node: {one['next']}" for one in _culprits(measured)[:1]),
            *_some([f"  - {_cut(one)}" for one in measured["reasons"]], _REASONS, "  - ", "reasons"),
            f"measured: {ending.measured_at(measured['measured_at'])}{age}",
            f"nodes:    {len(nodes)}",
            *_some([f"  {one['name']} {one['address']} ({one['pool']})" for one in nodes], _NODES, "  ", "nodes"),
            f"ssh:      {found.get('ssh') or 'no head node'}",
            f"report:   {measured['report'] or 'none'}",
            f"costs:    {_costs(found, rehearsed=measured['rehearsed'])}",
        ]
    )


def _verdict(measured: dict[str, Any]) -> str:
    word = f"verdict {measured['verdict'].upper()}"
    bound = measured["gate"]
    if measured["busbw_gb_s"] is None or bound is None:
        return f"{word}: no bus bandwidth was measured"
    gate = "no gate" if bound["limit_gb_s"] is None else f"gate {bound['limit_gb_s']:.4g}"
    ceiling = f", ceiling {measured['ceiling_gb_s']:.4g}" if measured["ceiling_gb_s"] else ""
    rehearsed = f" (rehearsed at 1/{measured['scale']})" if measured["rehearsed"] else ""
    at = size_text(bound["size_bytes"])
    return f"{word}: {bound['collective']} busbw {measured['busbw_gb_s']:.4g} GB/s at {at}; {gate}{ceiling}{rehearsed}"


def _culprits(measured: dict[str, Any]) -> list[dict[str, Any]]:
    return outputs.culprits(measured["search"] or {})


def _some(lines: list[str], most: int, indent: str, what: str) -> list[str]:
    """Return the first lines, and the number of the remaining lines."""
    return lines[:most] + ([f"{indent}and {len(lines) - most} more {what}"] if len(lines) > most else [])


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _age(started: str | None, now: datetime) -> str:
    """Return the time since `started`, in words."""
    if started is None:
        return ""
    minutes = int((now - datetime.fromisoformat(started)).total_seconds() // 60)
    days, hours = minutes // 1440, minutes // 60
    return f", {f'{days} days' if days > 1 else f'{hours} h' if hours > 1 else f'{max(minutes, 0)} min'} ago"


def _costs(found: dict[str, Any], *, rehearsed: bool) -> str:
    costs = (found.get("expected") or {}).get("cost")
    if found.get("target") in {"hosts", "kubernetes"}:
        return "none: this stack rents nothing"
    if not found.get("nodes"):
        return "no GPU node; in a real account, login nodes, storage and the nodes that Slurm started are billed"
    known = f"{costs['usd_per_hour']:g} USD an hour ({costs['source']})" if costs else "a price that is not known here"
    return f"nothing (rehearsed); for real machines: {known}" if rehearsed else known


def main() -> int:
    """Read a stack's outputs from standard input, and show the stack's state; return an exit status."""
    try:
        found = json.load(sys.stdin)
        sys.stdout.write(status(found, datetime.now(UTC)) + "\n")
    except (ValueError, KeyError, TypeError):
        sys.stderr.write("status: these are no outputs of this program; a stack has none before its first successful update\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
