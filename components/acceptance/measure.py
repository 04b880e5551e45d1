"""Stage `measure`: the runner runs every step of the plan; the judgement follows from the runner's line and earlier runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from benchmarks.host import requests
from benchmarks.judge.verdict import judge
from benchmarks.plan.asked import Asked
from benchmarks.plan.ranks import Place
from benchmarks.records import requests as records_requests
from components.acceptance.build import Built
from components.acceptance.looks import Look
from components.acceptance.nonce import nonce
from components.acceptance.records import Records
from components.acceptance.runner import Runner
from components.reach import Ran


@dataclass(frozen=True)
class Measured:
    """A finished measurement: its Command, and the judgement of the Command's line before any retest."""

    command: Ran
    look: pulumi.Output[Look]


def measure(  # noqa: PLR0913 - what a measurement depends on, by name
    name: str,
    runner: Runner,
    *,
    built: Built,
    asked: pulumi.Output[Asked],
    identity: pulumi.Output[str],
    records: Records,
    after: Sequence[Ran],
    opts: pulumi.ResourceOptions,
) -> Measured:
    """Register the Command that measures what `asked` requests; it runs after the build and after the Commands in `after`.

    The judgement is a function of values in the state, so a preview of a measured stack shows the same judgement.
    """

    def request(where: Place, asked: Asked, identity: str, nonce: str, before: Sequence[str]) -> str:
        return requests.measure(where, asked, [identity, runner.digest, nonce], before)

    known = pulumi.Output.all(
        where=built.place,
        asked=asked,
        identity=identity,
        nonce=nonce(f"{name}-nonce", opts),
        before=pulumi.Output.all(*(one.stdout for one in after)),
    )
    wanted = known.apply(lambda values: request(**values))
    command = runner.run(name, wanted, [built.command, *after], opts)
    earlier = records.look_up(command.stdout, asked, built.place)

    def look(line: str, asked: Asked, answer: str) -> Look:
        limited = records_requests.with_history(asked, answer)
        return Look(limited, judge(line, limited))

    seen = pulumi.Output.all(line=command.stdout, asked=asked, answer=earlier)
    return Measured(command, seen.apply(lambda its: look(**its)))
