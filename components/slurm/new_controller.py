"""Refuses a new login node that would terminate machines that Slurm started, until the stack file allows their number.

With Slurm, the login node is the controller: programs on it launch and terminate machines. A new controller takes over the
jobs of the old controller, but terminates all machines that the old controller launched. If the stack file no longer has
`slurm`, the update terminates these machines, too. So the program asks the account for these machines before the engine creates
the login node. An update always asks; a preview asks only with `preflight`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import pulumi

from components import terminations
from components.left_behind import looked_for
from components.report_findings import look_up_or_refuse
from components.terminations import Ending

#: What a message calls the machines that Slurm started.
STARTED = "Slurm's nodes"
_WHY = (
    "the login node is Slurm's controller, and a new login node terminates all nodes that Slurm started (jobs that run there "
    "start again from the beginning, or end if they must not be requeued)"
)


@dataclass(frozen=True)
class Started:
    """Machines that Slurm started and that are not terminated.

    Attributes:
        own: machines that a new controller of this stack would terminate.
        renamed: machines of this stack that were started under another name of the cluster; a new controller would not find
            them.
    """

    own: Sequence[Ending]
    renamed: Sequence[str]


def asks_first(  # noqa: PLR0913 - each argument depends on the cloud
    name: str, target: str, allowed: int, find: Callable[[], Awaitable[Started]], *, right: str, preflight: bool
) -> pulumi.ResourceHook:
    """Return the hook that refuses to create the login node `name` while it would terminate more machines than `allowed`.

    The hook also refuses while machines run that a new controller would not find, and if `find` fails. An update always queries
    the account; a preview does so only if `preflight` is true.

    Args:
        name: the login node's name in the engine.
        target: the target, which is the group of its keys in the stack file.
        allowed: the value of the target's key `allowReplace`.
        find: returns the machines that Slurm started.
        right: the permission that `find` needs.
        preflight: whether a preview may query the account.
    """

    async def look(_: pulumi.ResourceHookArgs) -> None:
        if looked_for() or (pulumi.runtime.is_dry_run() and not preflight):
            return
        why = (
            f"{name} is created only after this look-up, because a new controller terminates these machines, and their jobs "
            "then start again or end."
        )
        found = await look_up_or_refuse(find, "Which machines Slurm has started", right, why)
        if found.renamed:
            raise pulumi.RunError(
                f"{target}.name had another value when Slurm started {', '.join(found.renamed)}. A controller finds its "
                f"machines by this name, so after this update nothing would terminate these machines, and they would be "
                f"billed. Undo the change of {target}.name, or terminate the machines before you change it."
            )
        terminations.judge(f"{target}.allowReplace", allowed, found.own, _WHY)

    return pulumi.ResourceHook(f"{name}-new-controller", look, pulumi.ResourceHookOptions(on_dry_run=True))
