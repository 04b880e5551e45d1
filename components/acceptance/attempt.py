"""Numbers the attempts to measure. After a refusal the next update has a new number, and so sends the request again."""

from __future__ import annotations

import asyncio
from typing import Any

import pulumi

#: The engine's function that reads outputs, and the pauses in seconds between calls of this function. While the engine writes
#: a state that is kept in a folder, the state is unreadable for a moment: the file with the state's attributes is empty
#: (gocloud.dev, blob/fileblob, as in pulumi 3.259.0).
_READ = "pulumi:pulumi:readStackOutputs"
_PAUSES_S = (0.05, 0.1, 0.2, 0.5, 1.0)


def last_measured() -> pulumi.Output[dict[str, Any]]:
    """Return this stack's output `measured` as the previous update left it; empty before the first update.

    A StackReference would read the output only once, and would fail the update if the state was being written.
    """
    return pulumi.Output.from_input(_before()).apply(lambda found: found if isinstance(found, dict) else {})


def attempt(last: pulumi.Output[dict[str, Any]]) -> pulumi.Output[int]:
    """Return this attempt's number: the number of the `last` measurement (0 if there was none), plus 1 after a refusal.

    The state keeps a refusal as a result, so without a new number the engine sees no change and does not run the request again.
    """
    return last.apply(lambda found: int(found.get("attempt", 0)) + bool(found.get("refused")))


async def _before() -> Any:
    """Return the record of the measurement that the previous update exported; None before the first update."""
    stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    for pause_s in _PAUSES_S:
        try:
            return await _measured(stack)
        except Exception as error:  # noqa: BLE001 - the engine raises errors of any kind
            pulumi.log.debug(f"the outputs of {stack} cannot be read yet: {error}")
        await asyncio.sleep(pause_s)
    return await _measured(stack)


async def _measured(stack: str) -> Any:
    found = await pulumi.runtime.invoke_async(_READ, {"name": stack})
    return found["outputs"].get("measured")
