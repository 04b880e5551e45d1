"""Finds machines that run for a stack but are not in its state, because the update that created them was killed.

A vendor carries out a request even if the engine dies before it records the result. The next request would create a second
machine, and both would be billed. So before the engine creates a machine, the program asks the account which machines already
run for the same resource, and checks whether the state contains them. A machine that the update is replacing is in the state,
so it is no reason to refuse. tools/take_in.py imports machines that the state lacks.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pulumi

from components.engine_state import ids_in_state
from components.report_findings import look_up_or_refuse

_WHY = (
    "Nothing is created without the look-up, because a machine that a killed update left running would be billed in addition "
    "to the new machine."
)
#: Environment variable with the path of a file for tools/take_in.py. If a resource is about to be created, but a machine that
#: the state lacks already runs for the resource, the file gets a line of JSON, [URN, id]. If several machines run for the
#: resource, an update writes no line, because tools/take_in.py could not choose the machine to import. The preview that
#: tools/take_in.py starts writes a line for each machine, so that its refusal can name all of them.
NOTED = "BUSBAR_LEFT_BEHIND"


@dataclass(frozen=True)
class LeftBehind:
    """A machine that already runs for a resource that is about to be created.

    Attributes:
        id: the machine's id at the vendor.
        words: description for people, such as `i-0123 (10.1.0.4)`.
    """

    id: str
    words: str


def never_twice(
    name: str,
    find: Callable[[], Awaitable[Sequence[LeftBehind]]],
    *,
    right: str,
    preflight: bool,
    first: Sequence[pulumi.ResourceHook] = (),
) -> pulumi.ResourceHookBinding:
    """Return the hook that refuses to create the resource `name` while `find` returns machines that the state lacks.

    `find` needs the permission `right`. An update always queries the account. If `preflight` is false, a preview queries the
    account only if tools/take_in.py started the preview. The hooks in `first` run before this one.
    """

    async def look(args: pulumi.ResourceHookArgs) -> None:
        if pulumi.runtime.is_dry_run() and not preflight and not looked_for():
            return
        what = f"Whether a machine already runs for {name}"
        found = await look_up_or_refuse(find, what, right, _WHY)
        known = await asyncio.to_thread(ids_in_state) if found else frozenset()
        strange = [one for one in found if one.id not in known]
        if not strange:
            return
        if len(strange) == 1 or looked_for():
            _note(args.urn, strange)
        if looked_for():
            return
        raise pulumi.RunError(_refusal(strange))

    options = pulumi.ResourceHookOptions(on_dry_run=True)
    return pulumi.ResourceHookBinding(before_create=[*first, pulumi.ResourceHook(f"{name}-never-twice", look, options)])


def _refusal(strange: Sequence[LeftBehind]) -> str:
    named = ", ".join(one.words for one in strange)
    command = f"`python -m tools.take_in {pulumi.get_stack()}`"
    elsewhere = "a stack of the same name whose state is elsewhere, give one of the two stacks another name."
    if len(strange) == 1:
        return (
            f"{named} runs under this stack's name but is not in its state: an update that was killed created this machine. "
            f"The machine is billed, so no second machine is created. Import it into the state with {command}, or terminate "
            f"it by hand; then update again. If it belongs to {elsewhere}"
        )
    return (
        f"{named} run under this stack's name but are not in its state: updates that were killed created these machines. "
        f"They are billed, so no other machine is created. Terminate all machines but one by hand; {command} imports the "
        f"remaining machine into the state. If they belong to {elsewhere}"
    )


def looked_for() -> bool:
    """Return whether tools/take_in.py, which changes nothing in the account, started this preview."""
    return pulumi.runtime.is_dry_run() and NOTED in os.environ


def _note(urn: str, strange: Sequence[LeftBehind]) -> None:
    if NOTED in os.environ:
        with Path(os.environ[NOTED]).open("a", encoding="utf-8") as target:
            target.writelines(json.dumps([urn, one.id]) + "\n" for one in strange)
