"""Waits for the first boot of the login machine that a cloud has made."""

from __future__ import annotations

import pulumi
from pulumi_command import local

from cloudinit.steps import ANNOUNCEMENT
from components import remote_scripts


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
