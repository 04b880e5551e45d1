"""Write docs/aws-permissions.json: the IAM policy that an operator of target aws needs."""

from __future__ import annotations

import json
from pathlib import Path

from catalogue.aws.permissions import LOOKUPS, RESOURCES, policy

PAGE = Path(__file__).parents[1] / "docs" / "aws-permissions.json"

if __name__ == "__main__":
    PAGE.write_text(json.dumps(policy(RESOURCES, LOOKUPS), indent=2) + "\n")
