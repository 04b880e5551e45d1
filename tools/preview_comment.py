"""Turn the JSON of `pulumi preview --json` into a comment for a pull request.

tools/preview_comment.py FILE     FILE may begin with other lines; the comment goes to standard output
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

#: First line of every comment that this program writes; the next run of the workflow finds the comment by this line.
MARK = "<!-- busbar preview -->"
_ACCEPTANCE = "::busbar:acceptance:Acceptance::"
#: Operations of the engine that only read.
_READ = {"read", "refresh"}
_NO_CHANGE = {"same", *_READ}
#: Maximum number of rows, because GitHub accepts at most 65,536 characters.
_MOST_ROWS = 300


def read(text: str) -> dict[str, Any]:
    """Return the preview in `text`, which may begin with lines of `make`.

    Raises:
        ValueError: there is no preview.
    """
    for at, line in enumerate(lines := text.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads("\n".join(lines[at:]))
            return found
    raise ValueError("no preview: the text contains no JSON object")


def comment(preview: dict[str, Any]) -> str:
    """Return the comment as Markdown: the errors, the expected bandwidth, and the changes."""
    said = [one for one in preview.get("diagnostics", []) if _ACCEPTANCE in one.get("urn", "") and one["severity"] == "info"]
    expected = [one["message"].strip() for one in said] or ["No bandwidth could be predicted."]
    errors = [one["message"].strip() for one in preview.get("diagnostics", []) if one["severity"] == "error"]
    counts = {what: count for what, count in (preview.get("changeSummary") or {}).items() if what not in _READ}
    summary = ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "nothing"
    rows = sorted((one["op"], *_named(one["urn"])) for one in preview.get("steps", []) if one["op"] not in _NO_CHANGE)
    table = [f"| {op} | `{kind}` | `{name}` |" for op, kind, name in rows[:_MOST_ROWS]]
    more = [f"and {len(rows) - _MOST_ROWS} more"] if len(rows) > _MOST_ROWS else []
    return "\n".join(
        [
            MARK,
            "### busbar: what this change would do",
            *(f"**Error:** {error}" for error in errors),
            *(f"```\n{one}\n```" if "\n" in one else one for one in expected),
            "",
            f"<details><summary>{summary}</summary>",
            "",
            *(["| | type | name |", "| --- | --- | --- |", *table] if table else []),
            *more,
            "</details>",
            "",
        ]
    )


def _named(urn: str) -> tuple[str, str]:
    """Return a resource's type and name. A URN ends in ::TYPES::NAME; of TYPES, the part after the last $ is the type."""
    *_, kinds, name = urn.split("::")
    return kinds.rpartition("$")[2], name


if __name__ == "__main__":
    sys.stdout.write(comment(read(Path(sys.argv[1]).read_text())))
