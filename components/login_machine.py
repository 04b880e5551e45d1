"""Commands for a cloud's login machine: wait for its first boot, and check the result of that boot.

A failed first boot stops the wait at once; the next Command logs in, names the failed step and shows the end of the log.
"""

from __future__ import annotations

import pulumi
from pulumi_command import local, remote

from cloudinit.steps import ANNOUNCEMENT, FAILURE, MARK
from components import remote_scripts
from components.after import after
from components.reach import Machine, to_machine

_LOG = "/var/log/cloud-init-output.log"
#: Script that fails if the machine's first boot has failed. The word URN in it is replaced by the machine's URN in Pulumi.
BOOTED = f"""step=$(sed -n 's/.*"failed", "step": "\\([^"]*\\)".*/\\1/p' {MARK} 2>/dev/null)
if [ -n "$step" ]; then
  {{
    echo "the first boot of this machine failed in step $step; its log {_LOG} ends:"
    sudo -n tail -n 15 {_LOG}
    # A URN contains dollar signs. In double quotes, the shell would take them for variables.
    echo "Once the cause is fixed, replace this machine: pulumi up --replace '"'URN'"'"
  }} >&2
  exit 1
fi
"""


def announced(
    name: str, address: pulumi.Output[str], instance_id: pulumi.Output[str], timeout_s: int, opts: pulumi.ResourceOptions
) -> local.Command:
    """Return a Command on the operator's machine that waits, at most `timeout_s`, until first boot has finished or failed.

    The Command's output tells whether first boot has failed. A later update waits again only if the machine, its address,
    `timeout_s` or the waiting program has changed.
    """
    wait = remote_scripts.read("wait_for_banner")
    return local.Command(
        f"{name}-announced",
        create=remote_scripts.PYTHON,
        stdin=address.apply(lambda host: wait.call(host=host, announcement=ANNOUNCEMENT, failure=FAILURE, timeout_s=timeout_s)),
        triggers=[instance_id],
        logging=local.Logging.STDERR,
        add_previous_output_in_env=False,
        opts=opts,
    )


def booted(
    name: str, machine: pulumi.Output[Machine], instance: pulumi.CustomResource, opts: pulumi.ResourceOptions
) -> pulumi.Output[Machine]:
    """Return the machine as an output; it becomes known when a Command has logged in and found no failed first boot.

    If the first boot has failed, the Command fails with the step, the end of the log, and the command that replaces the
    machine.
    """
    looked = remote.Command(
        f"{name}-booted",
        connection=machine.apply(to_machine),
        create=instance.urn.apply(lambda urn: BOOTED.replace("URN", urn)),
        triggers=[instance.id],
        add_previous_output_in_env=False,
        opts=opts,
    )
    return after(machine, looked.stdout)
