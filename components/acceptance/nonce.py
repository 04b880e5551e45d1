"""A random number in a request: no stack ever gets the result of another stack, or of one that was destroyed."""

from __future__ import annotations

import pulumi
from pulumi_command import local


def nonce(name: str, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Return a random number that is created once per stack and is a part of the request.

    A known request is answered with the line of its earlier run: by the head node, or by a file beside the home folders. With
    this number, a stack that was destroyed and recreated, or another stack with the same files, never gets an old line.
    """
    made = local.Command(
        name,
        create="od -An -N16 -tx1 /dev/urandom | tr -d ' \\n'",
        logging=local.Logging.NONE,
        add_previous_output_in_env=False,
        opts=opts,
    )
    return made.stdout
