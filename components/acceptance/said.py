"""Composes the text that a person reads at the end of an update."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.records.requests import Kept
from benchmarks.report import ending, summary
from components.acceptance.looks import End
from config.records import Records


@dataclass(frozen=True)
class Said:
    """The Markdown page for the output `readme`, the first line of the final message, and the lines after it."""

    page: str
    headline: str
    screen: str


def said(end: End | None, waits: str, ssh: str, kept: Kept, records: Records, *, rents: bool, job: str) -> Said:  # noqa: PLR0913
    """Return the texts about `end`, the result of a measurement.

    Args:
        end: None if nothing was measured.
        waits: the reason why nothing was measured; empty after a measurement.
        ssh: command that opens a shell on the head node, or on the login node if Slurm starts the nodes.
        kept: where the report is, and what changed since the previous run.
        records: the stack's settings for records, including the price.
        rents: whether the stack rents its nodes.
        job: command that submits the test job; empty if updates measure without a job.
    """
    if end is None:
        return Said(f"# {waits}\n\nA shell on the login node: `{ssh}`\n", waits, "")
    following = ending.Next.of(end.asked, records.price, ssh, kept.report, rents=rents, job=job)
    return Said(
        summary.page(end.judged, end.searched, ssh, kept.changes),
        ending.headline(end.judged, end.searched),
        ending.screen(end.judged, end.searched, following),
    )
