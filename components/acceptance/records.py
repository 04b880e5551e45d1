"""Records of a measurement as resources of their own: earlier runs, certificate, report. Their failure is a warning.

Commands on the operator's machine do the work, so nothing is read, written or drawn while the program computes outputs.
"""

from __future__ import annotations

from pathlib import Path

import pulumi
from pulumi_command import local

from benchmarks.records.requests import Keeping, Kept, kept

#: The program's own Python where this checkout has set it up, else the one on PATH; what cannot even start says so in JSON.
_ANSWER = (
    "python=.busbar/venv/bin/python; [ -x $python ] || python=python3; "
    "$python -m benchmarks.records || "
    """echo '{"failed": "records: python -m benchmarks.records did not run on this machine"}'"""
)


class Records(pulumi.ComponentResource):
    """What is known and kept of a measurement beside the stack's state.

    Creates: one Command that looks up earlier runs, and one that keeps this run; neither where nothing is to be kept.
    Outputs: none; `look_up` and `keep` return answers.
    """

    def __init__(self, name: str, keeping: Keeping, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:acceptance:Records", name, None, opts)
        self._name, self._keeping = name, keeping
        if keeping.history and "://" not in keeping.history and not Path(keeping.history).expanduser().is_dir():
            pulumi.log.warn(
                f"records.history is {keeping.history}, and there is no such folder: the next measurement has no earlier runs "
                "to be compared with",
                self,
            )
        self.register_outputs({})

    def look_up(self, request: pulumi.Output[str]) -> pulumi.Output[str]:
        """Return the answer to the look-up `request`."""
        if not self._keeping.history:
            return pulumi.Output.from_input("{}")
        return self._ask("history", request)

    def keep(self, request: pulumi.Output[str]) -> pulumi.Output[Kept]:
        """Carry out `request` and return what was kept; what was not is logged as a warning."""
        if not (self._keeping.history or self._keeping.report or self._keeping.certificate_key):
            return pulumi.Output.from_input(Kept())
        done = self._ask("keep", request).apply(kept)
        done.apply(self._warn)
        return done

    def _ask(self, what: str, request: pulumi.Output[str]) -> pulumi.Output[str]:
        return local.Command(
            f"{self._name}-{what}",
            create=_ANSWER,
            stdin=request,
            logging=local.Logging.STDERR,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(parent=self),
        ).stdout

    def _warn(self, done: Kept) -> None:
        for warning in done.warnings:
            pulumi.log.warn(warning, self)
