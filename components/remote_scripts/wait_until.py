"""Waits until a point in time, such as the start of reserved capacity; runs on the operator's machine."""

import json
import re
import sys
import time
from datetime import datetime, timezone


def main(start: str, what: str, limit_s: float) -> None:
    """Sleep until the time `start` (RFC 3339); exit at once with a message if that time is more than `limit_s` away.

    `what` is the name of the capacity that begins at this time.
    """
    whole = re.sub(r"\.\d+", "", start).replace("Z", "+00:00")  # a fraction of a second does not matter
    begins = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S%z")
    left = (begins - datetime.now(timezone.utc)).total_seconds()  # noqa: UP017 - Python before 3.11 has no datetime.UTC
    if left > limit_s:
        hours, minutes = left / 3600, limit_s / 60
        begins_later = f"{what} begins at {start}, in {hours:.1f} hours, and no machine can start in it before then"
        sys.exit(
            f"{begins_later}. This update stops now, so other resources may be missing. Run `pulumi up` at most "
            f"{minutes:.0f} minutes before that, or use static: 0 until then."
        )
    if left > 0:
        print(f"waiting {left:.0f} s until {what} begins at {start}", file=sys.stderr, flush=True)
        time.sleep(left)
    print(json.dumps({"begun": start}))
