"""Stage `records`: looks up earlier runs, and keeps this run, its certificate and its report; a failure fails no update.

A failed look-up only skips the check `history`; any other failure is a warning. Commands on the operator's machine do the work,
so the program reads, writes and draws nothing while it computes outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
from pulumi_command import local

from benchmarks.judge.verdict import judge
from benchmarks.plan.asked import Asked
from benchmarks.plan.ranks import Place
from benchmarks.records import requests
from benchmarks.records.requests import Keeping, Kept, Way
from components.acceptance.looks import End

#: Runs benchmarks.records with this checkout's Python if the checkout is set up, else with the python3 on PATH. If the module
#: fails, the answer is a JSON line that says so.
_ANSWER = (
    "python=.busbar/venv/bin/python; [ -x $python ] || python=python3; "
    "$python -m benchmarks.records || "
    """echo '{"failed": "records: python -m benchmarks.records failed on this machine"}'"""
)


@dataclass(frozen=True)
class Whole:
    """A mapping that passes through outputs as one value; the SDK would wrap every entry of a plain dict in an output."""

    fields: dict[str, Any]


class Records(pulumi.ComponentResource):
    """A measurement's records, which are kept in addition to the stack's state.

    Creates: a Command that looks up earlier runs, if a history is configured; a Command that keeps this run, if any record is
    configured.
    The methods `look_up` and `keep` create these Commands, and return their answers; without a Command, the answer is empty.
    """

    def __init__(self, name: str, keeping: Keeping, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:acceptance:Records", name, None, opts)
        self._name, self.keeping = name, keeping
        history = keeping.records.history
        if history and "://" not in history and not Path(history).expanduser().is_dir():
            pulumi.log.warn(
                f"records.history is {history}, but there is no such folder: the next measurement has no earlier runs "
                "to be compared with",
                self,
            )
        self.register_outputs({})

    def look_up(
        self, line: pulumi.Output[str], asked: pulumi.Output[Asked], where: pulumi.Output[Place | None]
    ) -> pulumi.Output[str]:
        """Return a JSON answer with the limit that comparable earlier runs set for the run that printed `line`.

        `where` is the place of that run; None if nothing was measured.
        """
        if not self.keeping.records.history:
            return pulumi.Output.from_input("{}")

        def request(line: str, asked: Asked, where: Place | None) -> str:
            return requests.nothing() if where is None else requests.look_up(judge(line, asked), asked, self.keeping, where)

        known = pulumi.Output.all(line=line, asked=asked, where=where)
        return self._ask("history", known.apply(lambda its: request(**its)))

    def keep(
        self,
        *,
        end: pulumi.Output[End | None],
        where: pulumi.Output[Place | None],
        identity: pulumi.Output[str],
        outputs: pulumi.Output[Whole | None],
        way: pulumi.Output[Way | None],
    ) -> pulumi.Output[Kept]:
        """Keep the run, if there was one, and return what was kept; each failure is logged as a warning.

        `way` leads to the machine that has the transcript; it is None if the transcript was already copied elsewhere.
        """
        wanted = self.keeping.records
        if not (wanted.history or wanted.report or wanted.certificate.key):
            return pulumi.Output.from_input(Kept())
        known = pulumi.Output.all(end=end, where=where, identity=identity, outputs=outputs, way=way)
        stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
        request = known.apply(lambda its: self._request(stack=stack, **its))
        done = self._ask("keep", request).apply(requests.kept)
        done.apply(self._warn)
        return done

    def _request(  # noqa: PLR0913 - by name
        self, *, end: End | None, where: Place | None, identity: str, outputs: Whole | None, way: Way | None, stack: str
    ) -> str:
        if end is None or where is None or outputs is None:
            return requests.nothing()
        return requests.keep(end.judged, end.asked, self.keeping, identity, where, outputs.fields, stack, way)

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
