"""Writes what a person reads when an update finishes: the verdict with its cause, the table, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.judge import retest
from benchmarks.judge.checks import PASS
from benchmarks.report import outputs, summary

if TYPE_CHECKING:
    from benchmarks.judge.verdict import Judgement
    from benchmarks.plan.asked import Asked
    from catalogue import Price

#: Longest cause in a headline, in characters; the complete sentence follows further down.
_LONGEST = 200
#: The check whose reasons repeat the numbers of the headline.
_SAID = "bandwidth"


@dataclass(frozen=True)
class Next:
    """What a person may want to do after an update.

    Attributes:
        ssh: the command that opens a shell on the head node.
        report: path of the report's page; None if there is none.
        run: `measure.run` of this measurement.
        rented: the machines that keep running, such as `2 x BM.GPU4.8`; empty where the stack rents none.
        price: what these machines cost, in words; empty if unknown.
        job: the command that submits the test job, if jobs start the machines.
    """

    ssh: str
    report: str | None
    run: int
    rented: str
    price: str
    job: str = ""

    @classmethod
    def of(cls, asked: Asked, own_price: Price | None, ssh: str, report: str | None, *, rents: bool, job: str = "") -> Next:  # noqa: PLR0913 - by name
        """Return the next steps after a measurement of `asked`; `rents` says whether the stack rents the machines."""
        costs = outputs.cost(asked, own_price) if rents else None
        price = f"{costs['usd_per_hour']:g} USD an hour ({costs['source']})" if costs else ""
        when = " while jobs need them" if job else ""
        return cls(ssh, report, asked.plan.run, f"{asked.nodes} x {asked.shape.name}{when}" if rents else "", price, job)


def headline(judged: Judgement, searched: dict[str, Any]) -> str:
    """Return verdict, number and gate in one line; unless the verdict is a pass, add the cause and its busbw.

    Pulumi's command plugin quotes the headline as Go's %q does, so double quotes and backslashes are replaced, and characters
    that cannot be printed become spaces.
    """
    cause = "" if judged.verdict == PASS else _cause(judged, searched)
    text = f"{summary.sentence(judged)}{'; ' if cause else ''}{cause}"
    return "".join(one if one.isprintable() else " " for one in text.replace('"', "'").replace("\\", "/"))


def screen(judged: Judgement, searched: dict[str, Any], following: Next) -> str:
    """Return what follows the headline: the command to type next, the reasons, the table, and what can be done now."""
    blocks = [
        [f"next, on the head node: {one['next']}" for one in outputs.culprits(searched)[:1] if one.get("next")],
        _why(judged, searched),
        summary.rows(judged),
        _onward(judged, following, _one_node(searched), refused=outputs.was_refused(judged, searched)),
    ]
    return "\n".join(line for block in blocks for line in block)


def _cause(judged: Judgement, searched: dict[str, Any]) -> str:
    """Return why the verdict is not a pass: the first culprit, or else the first reason that the headline does not contain."""
    named = outputs.culprits(searched)
    if named:
        more = f", and {len(named) - 1} more" if len(named) > 1 else ""
        return f"{blame(named[0])}{more}"
    said = [why for one in judged.checks if one.state == judged.verdict and one.name != _SAID for why in one.why]
    why = next(iter(said or judged.reasons), "")
    return why if len(why) <= _LONGEST else f"{why[:_LONGEST]}..."


def blame(culprit: dict[str, Any]) -> str:
    """Return a culprit's name, and the busbw that shows its slowness."""
    return f"{outputs.culprit_name(culprit)} {_number(culprit)}"


def _number(culprit: dict[str, Any]) -> str:
    """Return the culprit's lowest busbw: of all its trials or, where rails are to blame, of the trials of these rails."""
    blamed = set(culprit.get("rails", []))
    trials = [one for one in culprit.get("evidence", []) if not blamed or (one["rails"] and blamed >= set(one["rails"]))]
    numbers = [one["busbw_gb_s"] for one in trials if one["busbw_gb_s"] is not None]
    share = f"{culprit.get('ratio', 0):.0%} of healthy"
    return f"at {min(numbers):.4g} GB/s, {share}" if numbers else f"at {share}"


def _why(judged: Judgement, searched: dict[str, Any]) -> list[str]:
    """Return the checks that were retested or skipped, then the reasons.

    A culprit's reason ends with its next command; the first culprit's command is left out.
    """
    twice = [f"{one.name}: {why}" for one in judged.checks for why in one.why if why.startswith(retest.NOTE)]
    named = outputs.culprits(searched)
    whole = [outputs.culprit_sentence(one) for one in named]
    found = outputs.reasons(judged, searched)
    short = {text: outputs.culprit_finding(one) for text, one in zip(whole[:1], named, strict=False)}
    return (
        [f"  - {short.get(one, one)}" for one in twice]
        + summary.skipped(judged)
        + [f"  - {short.get(one, one)}" for one in found]
    )


def _one_node(searched: dict[str, Any]) -> str:
    """Return the first node that is blamed on its own; empty if there is none."""
    single = [one["nodes"][0] for one in outputs.culprits(searched) if one.get("kind") in {"node", "rail"} and one.get("nodes")]
    return str(single[0]) if single else ""


def _without(node: str, following: Next, *, rehearsed: bool) -> str:
    """Return how to continue without `node`."""
    if not following.rented:
        return f"exclude:  take {node} out of the nodes in the stack file, then {'make up' if rehearsed else 'pulumi up'}"
    return f"replace:  {f'make replace NODE={node}' if rehearsed else f'pulumi stack export | python3 -m tools.replace {node}'}"


def _onward(judged: Judgement, following: Next, node: str, *, refused: bool) -> list[str]:
    """Return one line for each thing that a person may want to do now; in a rehearsal the lines show `make` targets."""
    rehearsed = judged.scale != 1
    again = f"pulumi config set --path measure.run {following.run + 1} && pulumi up"
    first = f"{following.job}; then " if following.job else ""
    unchanged = "tries again on the head node" if refused else "does not measure again"
    return [
        f"measured: {measured_at(judged.line.get('started'))}; an update without changes {unchanged}",
        *([f"report:   {following.report}"] if following.report else []),
        f"shell:    {'make ssh' if rehearsed else following.ssh}",
        f"again:    {first}{'make measure' if rehearsed else again}",
        *([_without(node, following, rehearsed=rehearsed)] if node else []),
        f"destroy:  {'make down' if rehearsed else 'pulumi destroy'}",
        f"running:  {_running(following, rehearsed=rehearsed)}",
    ]


def _running(following: Next, *, rehearsed: bool) -> str:
    """Return what keeps running until the stack is destroyed, and what that costs."""
    if not following.rented:
        return "none: this stack rents nothing"
    if rehearsed:
        return f"{following.rented}, rehearsed{f'; real machines cost {following.price}' if following.price else ''}"
    price = following.price or "at an unknown price (set records.pricePerNodeHour)"
    if following.job:
        return f"{following.rented}, {price}"
    return f"{following.rented} until the stack is destroyed, {price}"


def unmeasured(judged: Judgement, last: dict[str, Any]) -> list[str]:
    """Return a line that says that this update measured nothing; empty unless `last` is the same run as `judged`.

    `last` is the record from before the update. The start times are compared, too, because a refused run and the next
    attempt have the same id; a refused run has no start time.
    """
    run, started = judged.line.get("run_id"), judged.line.get("started")
    if not run or (run, started) != (last.get("run"), last.get("measured_at")):
        return []
    return [f"nothing was measured now: this is run {run}, measured {measured_at(started)}"]


def measured_at(started: Any) -> str:
    """Return a start time in readable form."""
    return str(started).replace("T", " ").replace("Z", " UTC") if started else "never"
