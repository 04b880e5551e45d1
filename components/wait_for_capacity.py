"""Waits, on the operator's machine, for capacity whose start time is known."""

from __future__ import annotations

import pulumi
from pulumi_command import local

from components import remote_scripts
from components.after import after

#: The longest wait. If the capacity does not begin within this time, the update fails at once with a message that gives the
#: start time, so that no terminal waits for hours.
LIMIT_S = 1800


def begun(name: str, start: pulumi.Output[str], what: pulumi.Input[str], opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Return `start` as an output that is known only once this time has come.

    A Command on the operator's machine waits. If `what` changes, the Command waits again.

    Args:
        name: the Command's name in the engine.
        start: the time when the capacity begins, RFC 3339.
        what: the capacity, as the messages name it.
        opts: options of the Command.
    """
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
