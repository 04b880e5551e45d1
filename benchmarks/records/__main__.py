"""Command line of the records: reads a request (JSON) from standard input, prints the answer as a JSON line.

python -m benchmarks.records < request.json
"""

from __future__ import annotations

import json
import sys

from benchmarks.records.answer import answer


def main() -> int:
    """Answer one request."""
    print(json.dumps(answer(json.load(sys.stdin)), sort_keys=True))  # noqa: T201 - its contract
    return 0


if __name__ == "__main__":
    sys.exit(main())
