"""Stage `accept`: passes or fails the update. No output of the stack depends on this stage."""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi_command import local

from benchmarks.judge.checks import PASS

#: What the command plugin executes: `_SHOWS` after a pass, and `_FAILS` after any other verdict. The plugin appends `create` to
#: these arguments, so the shell takes `create` as the script's `$0` and does not execute it.
#:
#: The program registers the stack's outputs while this Command runs. If the Command failed at once, the engine might stop
#: before it has the outputs, and would keep those of the previous update (seen on a busy machine). So `_FAILS` waits first.
_SHOWS = ("/bin/sh", "-c", "cat")
_FAILS = ("/bin/sh", "-c", "cat >&2; sleep 1; exit 1")


class Accept(pulumi.ComponentResource):
    """Fails the update unless the verdict is `pass`.

    Creates: one Command that shows `screen`, and fails unless the verdict is `pass`. The error message of a failed Command
    begins with `exit status 1: running "..."` and quotes the Command's input `create` there (pulumi-command 1.2.1,
    provider/pkg/provider/local/commandOutputs.go, `run`). So `create` is the sentence `headline`.
    The Command waits for the outputs in `after`: when a resource fails, the engine saves only the outputs that are known by
    then.
    Outputs: none.
    """

    def __init__(  # noqa: PLR0913 - what the outputs show, as named arguments
        self,
        name: str,
        *,
        verdict: pulumi.Output[str],
        headline: pulumi.Output[str],
        screen: pulumi.Output[str],
        after: list[pulumi.Output[Any]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("busbar:acceptance:Accept", name, None, opts)
        settled = pulumi.Output.all(*(one.apply(lambda _: None) for one in after))
        local.Command(
            f"{name}-verdict",
            create=headline,
            interpreter=verdict.apply(lambda found: list(_SHOWS if found == PASS else _FAILS)),
            stdin=pulumi.Output.all(screen=screen, settled=settled).apply(lambda known: str(known["screen"])),
            logging=local.Logging.NONE,  # the program logs a pass, and the error message of a failure quotes `screen`
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
