"""A random number in the request of a measurement: no stack gets the measurement of another stack, or of a destroyed one."""

from __future__ import annotations

import pulumi
from pulumi_command import local


def nonce(name: str, opts: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Return a random number that is created once per stack and is a part of each measurement's request.

    A request that was answered before gets the line of its earlier run. The head node keeps this line; for a test job of Slurm,
    a file on the home file system has the line. With this number, a stack that was destroyed and recreated, or another stack
    with the same files, never gets an old line.
    """
    made = local.Command(
        name,
        # `printf` gets each byte as one argument and prints them without spaces.
        create="bytes=$(od -An -N16 -tx1 /dev/urandom) && printf %s $bytes",
        logging=local.Logging.NONE,
        add_previous_output_in_env=False,
        opts=opts,
    )
    return made.stdout
