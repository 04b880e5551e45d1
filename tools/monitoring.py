"""Write the files that Prometheus and Grafana need for a stack into a folder, from the stack's outputs.

pulumi stack output --json | python -m tools.monitoring FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tools import dashboard


def main(argv: list[str]) -> int:
    """Write prometheus.yml and busbar.json to a folder; return an exit status."""
    if len(argv) != 1:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    # If there is no stack, the engine has printed its own error message, and standard input is empty.
    given = sys.stdin.read().strip() or "{}"
    outputs = json.loads(given)
    if not outputs:
        sys.stderr.write("the stack has no outputs; they exist after its first update\n")
        return 1
    scrape = outputs.get("monitoring")
    if not scrape:
        sys.stderr.write("nothing of this stack is scraped; set monitoring.exporter, dcgmPort or switches, and update\n")
        return 1
    folder = Path(argv[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("prometheus.yml", scrape), ("busbar.json", dashboard.text())):
        (folder / name).write_text(text)
        sys.stdout.write(f"{folder / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
