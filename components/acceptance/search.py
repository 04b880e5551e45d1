"""Stage `search`: retests the steps that seemed slow, searches for the cause, and determines the final judgement."""

from __future__ import annotations

import pulumi

from benchmarks.host import requests
from benchmarks.judge import retest, searched
from benchmarks.plan.ranks import Place
from components.acceptance.build import Built
from components.acceptance.looks import End, Look
from components.acceptance.measure import Measured
from components.acceptance.runner import Runner


def search(  # noqa: PLR0913 - what a search depends on, by name
    name: str, runner: Runner, *, built: Built, measured: Measured, budget_s: int, opts: pulumi.ResourceOptions
) -> pulumi.Output[End]:
    """Register the retest and the search for the cause, each done only if `measured` needs it.

    After `budget_s` seconds, the search starts no new round.
    """

    def request(where: Place, look: Look) -> str:
        return requests.search(where, look.asked, look.judged, budget_s=budget_s, reasons=[runner.digest])

    def end(look: Look, stdout: str) -> End:
        line = searched.read(stdout)
        judged = retest.settled(look.judged, look.asked, line)
        return End(look.asked, judged, retest.unblamed(judged, line))

    wanted = pulumi.Output.all(where=built.place, look=measured.look).apply(lambda known: request(**known))
    command = runner.run(name, wanted, [measured.command], opts)
    return pulumi.Output.all(look=measured.look, stdout=command.stdout).apply(lambda known: end(**known))
