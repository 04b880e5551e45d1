"""What a rule is: a name, how grave a breach is, where it was read, and a function from an intent to sentences.

It deliberately decides nothing about what happens to a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from catalogue.aws.facts import NotAskedError
from catalogue.aws.intent import AwsIntent

ERROR, WARNING, NOTE = "error", "warning", "note"
Judge = Callable[[AwsIntent], Iterator[str]]


@dataclass(frozen=True)
class Finding:
    """One breach, or one thing that could not be judged (`note`): the rule's id, its severity, and one sentence."""

    rule: str
    severity: str
    text: str


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        number: in aws-parallelcluster's set of validators, as this project counts them; 0 for one of the services' own.
        id: its name, by which it can be suppressed.
        severity: `error` or `warning`.
        source: where it was read.
        judge: yields one sentence for each breach.
    """

    number: int
    id: str
    severity: str
    source: str
    judge: Judge

    def findings(self, intent: AwsIntent) -> Iterator[Finding]:
        """Yield what the rule says of `intent`; a note where it needs what no account was asked for."""
        try:
            for text in self.judge(intent):
                yield Finding(self.id, self.severity, text)
        except NotAskedError as missing:
            yield Finding(self.id, NOTE, f"{self.id} was not checked: no account was asked for {missing}.")


def rule(number: int, name: str, severity: str, source: str) -> Callable[[Judge], Rule]:
    """Turn a function into a rule."""
    return lambda judge: Rule(number, name, severity, source, judge)
