"""Reports rules' findings and failed look-ups: errors stop the program, warnings and notes are logged."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import pulumi

from config.rule import ERROR, WARNING, Finding

_T = TypeVar("_T")


def refuse(findings: Iterable[Finding], more: Iterable[str] = ()) -> None:
    """Log warnings and notes; stop the program if there are errors.

    Raises:
        pulumi.RunError: there are errors. The message has one sentence for each error, followed by the sentences in `more`.
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


def look_up(cloud: str, what: str, right: str, ask: Callable[[], _T]) -> _T:
    """Look something up in a cloud: return what `ask` returns.

    Raises:
        pulumi.RunError: the look-up failed. The message has what was looked up, the service's message, the permission that the
            look-up needs, and how to continue without the look-up.
    """
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - the SDKs raise no narrower class
        raise pulumi.RunError(
            f"{cloud}.preflight is true, but {what} could not be looked up: {reason(error)}. The look-up needs valid "
            f"credentials and this permission: {right}. To skip such look-ups, set {cloud}.preflight: false."
        ) from None


async def look_up_or_refuse(find: Callable[[], Awaitable[_T]], what: str, right: str, why: str) -> _T:
    """Return what `find` returns.

    Raises:
        pulumi.RunError: `find` failed. The message has what was looked up (`what`), the service's message, the permission that
            the look-up needs (`right`), and the reason why nothing is created without the look-up (`why`).
    """
    try:
        return await find()
    except Exception as error:  # noqa: BLE001 - the SDKs raise no narrower class
        raise pulumi.RunError(
            f"{what} could not be looked up: {reason(error)}. The look-up needs valid credentials and this permission: "
            f"{right}. {why}"
        ) from None


#: Words that the engine, pulumi-terraform-bridge and AWS's SDK put before the service's message. The bridge writes `invoking
#: aws:ec2/getAmi:getAmi: 1 error occurred:`, and then the error in a line of its own. The SDK (smithy-go) writes `api error`
#: only before codes that the SDK does not know.
_BEFORE = (
    r" returned an error: ",
    r"\d+ errors? occurred:\s+\* ",
    r"RequestID: [^,\s]+, (?:HostID: [^,\s]+, )?",
    r"api error ",
)


def reason(error: Exception) -> str:
    """Return the service's message about a failed look-up; the name of the error's class if there is no message."""
    text = str(error)
    for before in _BEFORE:
        text = re.split(before, text, maxsplit=1)[-1]
    return (text.strip().splitlines() or [type(error).__name__])[0].rstrip(".")
