"""Waits here for capacity whose start is known."""

from __future__ import annotations

import pulumi
from pulumi_command import local

from components import remote_scripts
from components.after import after

#: Longer, and the update ends with the date instead: a terminal that waits for hours is of no use.
LIMIT_S = 1800


def begun(name: str, start: pulumi.Output[str], what: pulumi.Input[str], opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Return `start` (RFC 3339) once that time has come, which is when `what` starts; another time is waited for again."""
    wait = remote_scripts.read("wait_until")
    program = pulumi.Output.all(start=start, what=what).apply(lambda its: wait.call(**its, limit_s=LIMIT_S))
    waited = local.Command(
        name,
        create=remote_scripts.PYTHON,
        stdin=program,
        triggers=[what],
        logging=local.Logging.STDERR,
        add_previous_output_in_env=False,
        opts=opts,
    )
    return after(start, waited.stdout)
