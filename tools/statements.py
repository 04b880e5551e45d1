"""Count the commands that README and docs tell a reader to type, and those that a test runs: python -m tools.statements.

tools/statements.json names the test of each statement, or the reason why the statement has no test. If a statement is in none
of the lists in that file, tests/unit/test_statements.py fails.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "rehearsal/**/*.md", "tools/**/*.md")
#: First words of commands; code in running text is a command only if it starts with one of these and has more words.
_PROGRAMS = "make|pulumi|python3?|pip|sudo|ssh|aws|oci|gh|git|curl|prometheus|chromium|apt-get|yum|dnf|sbatch|srun|scontrol|jq"
_TYPED = re.compile(rf"(?:[A-Z]+=\S+ )*(?:{_PROGRAMS}|[\w./-]*/python3?|tools/[\w.-]+|rehearsal/enter) .+")
#: Languages of code blocks in three groups: blocks of commands, blocks of a stack file, and blocks that readers only look at.
_SHELL, _FILE, _DRAWN = ("sh", "", "bash"), ("yaml",), ("mermaid", "json")


def statements(text: str) -> Iterator[str]:
    """Yield the statements of a page: commands in blocks and in running text, and each stack file block."""
    parts = re.split(r"^ *```(\w*)\n(.*?)^ *```$", text, flags=re.MULTILINE | re.DOTALL)
    for prose in parts[::3]:
        spans = (" ".join(span.replace("\\|", "|").split()) for span in re.findall(r"`([^`]+)`", prose))
        yield from (span for span in spans if _TYPED.fullmatch(span))
    for language, block in zip(parts[1::3], parts[2::3], strict=True):
        if language in _FILE:
            yield block.strip()
        elif language in _SHELL:
            lines = [line.strip() for line in block.splitlines() if line.strip()]
            yield from (line for line in lines if _TYPED.fullmatch(line) or language == "sh" or re.match(r"export \w+=", line))
        elif language not in _DRAWN:
            raise ValueError(f"a block of {language}: say in {__name__} whether readers type such a block")


def found() -> dict[str, list[str]]:
    """Return each statement with the pages that contain it."""
    pages: dict[str, list[str]] = {}
    for page in sorted({path for pattern in PAGES for path in ROOT.glob(pattern)}):
        for statement in dict.fromkeys(statements(page.read_text())):
            pages.setdefault(statement, []).append(str(page.relative_to(ROOT)))
    return pages


@dataclass(frozen=True)
class Lists:
    """How each statement is tested.

    Attributes:
        run: statements that a test runs, each with the test's name; the test may run the same program with other arguments.
        recorded: statements for which a test calls the tool and only records the commands that the tool would run, each with
            the test's name.
        not_run: all other statements, each with the reason why no test runs the statement.
    """

    run: dict[str, str]
    recorded: dict[str, str]
    not_run: dict[str, str]

    @classmethod
    def read(cls) -> Lists:
        """Return the lists of tools/statements.json."""
        return cls(**json.loads((ROOT / "tools" / "statements.json").read_text()))


def main() -> None:
    """Print the count, and the statements that are not run."""
    pages, lists = found(), Lists.read()
    counts = f"{len(lists.run)} run by a test, {len(lists.recorded)} with their commands recorded, {len(lists.not_run)} not run"
    sys.stdout.write(f"{len(pages)} statements: {counts}\n")
    for statement, why in lists.not_run.items():
        sys.stdout.write(f"  {statement}: {why} ({', '.join(pages.get(statement, []))})\n")


if __name__ == "__main__":
    main()
