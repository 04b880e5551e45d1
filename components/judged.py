"""Reports the findings of rules: errors stop the program, warnings and notes are logged."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi

from config.rule import ERROR, WARNING, Finding


def refuse(findings: Iterable[Finding], more: Iterable[str] = ()) -> None:
    """Log warnings and notes; stop on errors, whose sentences `more` follows.

    Raises:
        pulumi.RunError: with one sentence for each error.
    """
    errors = []
    for found in findings:
        if found.severity == ERROR:
            errors.append(found.sentence)
        elif found.severity == WARNING:
            pulumi.log.warn(found.sentence)
        else:
            pulumi.log.info(found.sentence)
    if errors:
        raise pulumi.RunError("\n".join([*errors, *more]))


def reason(error: Exception) -> str:
    """Return the service's own words of a look-up that failed."""
    text = str(error)
    for before in (" returned an error: ", "api error "):
        text = text.partition(before)[2] or text
    return text.strip().splitlines()[0].rstrip(".")
