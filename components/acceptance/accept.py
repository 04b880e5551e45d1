"""Stage `accept`: passes or fails the update; no output depends on it."""

from __future__ import annotations

from typing import Any

import pulumi
from pulumi_command import local

from benchmarks.judge.checks import PASS


class Accept(pulumi.ComponentResource):
    """Fails the update unless the verdict is pass.

    Creates: one Command that shows `table`, and fails unless the verdict is pass.
    `after` are outputs to settle first: the engine keeps only what is known by the time a resource fails.
    Outputs: none.
    """

    def __init__(
        self,
        name: str,
        *,
        verdict: pulumi.Output[str],
        table: pulumi.Output[str],
        after: list[pulumi.Output[Any]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("busbar:acceptance:Accept", name, None, opts)
        settled = pulumi.Output.all(*(one.apply(lambda _: None) for one in after))
        local.Command(
            f"{name}-verdict",
            create=verdict.apply(lambda found: "cat" if found == PASS else "cat >&2; exit 1"),
            stdin=pulumi.Output.all(table=table, settled=settled).apply(lambda known: str(known["table"])),
            logging=local.Logging.NONE,  # a pass is logged by the program, and a failure quotes the table in its error
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})
