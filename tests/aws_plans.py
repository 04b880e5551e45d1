"""Short plans for rehearsed stacks on AWS."""

from __future__ import annotations

import json
from typing import Any

from tools.stage import ONE_SIZE, ROOT

SCHEMA = json.loads((ROOT / "docs" / "outputs.schema.json").read_text())
#: The largest message is 8 MiB, because 64 rails share a few processors with another test. There are two iterations, because a
#: rail lets its first 64 KiB pass at once, which distorts a single iteration more than the mean of two.
PLAN: dict[str, Any] = {"measure": {"sizes": {"to": "8M"}, "iterations": 2}}
QUICK: dict[str, Any] = ONE_SIZE | {"records": {"history": None}}
