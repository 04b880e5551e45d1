"""Commands on the login machine that a cloud has made: wait for its first boot, and make its key pair for the nodes.

Only the public half of that key leaves the machine.
"""

from __future__ import annotations

import pulumi
from pulumi_command import local, remote

from cloudinit.steps import ANNOUNCEMENT
from components import remote_scripts
from components.reach import Machine, to_machine


def announced(
    name: str, address: pulumi.Output[str], instance_id: pulumi.Output[str], timeout_s: int, opts: pulumi.ResourceOptions
) -> local.Command:
    """Return the Command that waits on the operator's machine, `timeout_s` at most, until the first boot is done."""
    return local.Command(
        f"{name}-announced",
        create=remote_scripts.PYTHON,
        stdin=address.apply(
            lambda host: remote_scripts.text("wait_for_banner", host=host, announcement=ANNOUNCEMENT, timeout_s=timeout_s)
        ),
        triggers=[instance_id],
        logging=local.Logging.STDERR,
        add_previous_output_in_env=False,
        opts=opts,
    )


def key(
    name: str,
    machine: pulumi.Output[Machine],
    instance_id: pulumi.Output[str],
    comment: str,
    opts: pulumi.ResourceOptions,
) -> remote.Command:
    """Return the Command that makes the machine's key pair, unless it has one, and prints the public half."""
    make = f"""umask 077
[ -f ~/.ssh/id_ed25519 ] || ssh-keygen -q -t ed25519 -N '' -C {comment} -f ~/.ssh/id_ed25519
cut -d ' ' -f 1,2 ~/.ssh/id_ed25519.pub
"""
    return remote.Command(
        f"{name}-key",
        connection=machine.apply(to_machine),
        create=make,
        triggers=[instance_id],
        add_previous_output_in_env=False,
        opts=opts,
    )
