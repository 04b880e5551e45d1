"""Named rules for the configuration and for facts about an account: one engine for every target."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from config.model import UnreadError

ERROR, WARNING, NOTE = "error", "warning", "note"
#: M: the configuration that is judged. F: facts that the account reported.
M = TypeVar("M")
F = TypeVar("F")
_T = TypeVar("_T")


class Breach(NamedTuple):
    """One mistake: the path of the wrong key, and the text that follows this path in the sentence, without a full stop."""

    path: str
    text: str


Judge = Callable[[M, F], Iterator[Breach]]


class NotAskedError(Exception):
    """A rule needs a fact that was not looked up in an account; the message names the fact."""


@dataclass(frozen=True)
class Finding:
    """One breach, or one rule that could not be checked (`note`)."""

    rule: str
    severity: str
    path: str
    text: str

    @property
    def sentence(self) -> str:
        """Return the finding as text: the path as typed, what is wrong there, and the rule's name."""
        return f"{self.path} {self.text}{'' if self.text.endswith('?') else '.'} [{self.rule}]"


@dataclass(frozen=True)
class Rule(Generic[M, F]):
    """One rule.

    Attributes:
        id: the rule's name, by which it can be suppressed.
        severity: `error` or `warning`.
        source: where the rule comes from.
        judge: yields each breach.
        guard: whether the rule protects data, money or texts rendered from the configuration; a guard cannot be suppressed.
        number: the number that this project gave to the vendor's check which the rule repeats; 0 if it repeats no check.
    """

    id: str
    severity: str
    source: str
    judge: Judge[M, F]
    guard: bool = False
    number: int = 0

    def findings(self, wanted: M, facts: F) -> Iterator[Finding]:
        """Yield the rule's findings, and a note if the rule needs a fact that was not looked up.

        If the rule reads a value that the stack file sets wrongly, the rule yields no further findings.
        """
        try:
            for path, text in self.judge(wanted, facts):
                yield Finding(self.id, self.severity, path, text)
        except NotAskedError as missing:
            yield Finding(self.id, NOTE, self.id, f"was not checked, because this is not known: {missing}")
        except UnreadError:
            return


def rule(name: str, severity: str, source: str, *, guard: bool = False, number: int = 0) -> Callable[[Judge[M, F]], Rule[M, F]]:
    """Turn a function into a rule."""
    return lambda judge: Rule(name, severity, source, judge, guard, number)


def collected(*modules: Any) -> dict[str, Rule[Any, Any]]:
    """Return the rules of `modules` by name, in the order in which they are written."""
    return {one.id: one for module in modules for one in vars(module).values() if isinstance(one, Rule)}


def check(rules: Mapping[str, Rule[M, F]], wanted: M, facts: F, suppress: Collection[str] = ()) -> tuple[Finding, ...]:
    """Return the findings of all rules that are not suppressed, in the rules' order; a guard cannot be suppressed."""
    kept = {name for name in suppress if name in rules and not rules[name].guard}
    found = [finding for one in rules.values() if one.id not in kept for finding in one.findings(wanted, facts)]
    return tuple(found)


def suppressed(names: Sequence[str], where: str, rules: Mapping[str, Rule[Any, Any]]) -> Iterator[Finding]:
    """Yield an error for each name that is unknown or names a guard; `names` is the list at the path `where`."""
    for index, name in enumerate(names):
        if text := _unsuppressible(name, rules):
            yield Finding("suppress", ERROR, f"{where}[{index}]", text)


def _unsuppressible(name: str, rules: Mapping[str, Rule[Any, Any]]) -> str:
    if name not in rules:
        return f"is {name!r}, which is no rule; {nearest(name, rules)}"
    if rules[name].guard:
        return f"is {name!r}, which cannot be suppressed: it guards data, money or what is rendered from the configuration"
    return ""


def nearest(name: str, among: Iterable[str]) -> str:
    """Return the end of a sentence: the name in `among` that is most like `name`, or all of `among` if no name is similar."""
    known = list(among)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def known(facts: Mapping[str, _T], key: str, noun: str) -> _T:
    """Return the fact with the key `key`; if it is missing, the error names it by `noun` and the key.

    Raises:
        NotAskedError: the fact was not looked up.
    """
    if key not in facts:
        raise NotAskedError(f"{noun} {key}")
    return facts[key]
