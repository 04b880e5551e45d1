"""Refuses to replace a file system or bucket: the engine would delete the old one, with its data, at the end of the update.

Many properties of a file system cannot be changed, such as its subnet, so a change of such a property replaces the file system.
Without this module, only `onDestroy: refuse` would stop such a replacement: this setting protects the resource, and the engine
does not replace a protected resource.
"""

from __future__ import annotations

import asyncio

import pulumi

from components.engine_state import resources_in_state
from components.left_behind import looked_for


def asks_first(name: str, path: str, allowed: tuple[str, ...]) -> pulumi.ResourceHookBinding:
    """Return the hook that refuses to replace the resource `name`, whose data would be deleted.

    If the engine will keep the replaced resource (`onDestroy: retain` in the last update), the hook warns that the resource is
    billed.

    Args:
        name: the resource's name in the engine.
        path: the key that allows the replacement, as users type it.
        allowed: the value of that key: ids of resources that may be replaced.
    """

    async def look(args: pulumi.ResourceHookArgs) -> None:
        if looked_for():
            return
        unknown = f"it is unknown whether the update would replace {name} and delete its data"
        state = await asyncio.to_thread(resources_in_state, unknown)
        # A resource that waits for its deletion was replaced by an earlier update, which was allowed to do so.
        found = [one for one in state if one["urn"] == args.urn and not one.get("delete") and not one.get("pendingReplacement")]
        for one in found:
            known = f"{name} ({one['id']})"
            if one.get("retainOnDelete"):
                pulumi.log.warn(
                    f"this update replaces {known}, whose data stay: {one['id']} is left in the account, is billed, and is no "
                    "longer in the state."
                )
            elif one["id"] in allowed:
                pulumi.log.warn(f"this update replaces {known} and deletes its data, as {path} allows.")
            else:
                named = f"does not name {one['id']}" if allowed else "is empty"
                raise pulumi.RunError(
                    f"{path} {named}, and this update would replace {known} and delete its data, because a changed setting "
                    "cannot be applied without a replacement. Undo the change, or copy the data elsewhere and allow the "
                    f"replacement with {path}: [{one['id']}]."
                )

    return pulumi.ResourceHookBinding(
        before_create=[pulumi.ResourceHook(f"{name}-data", look, pulumi.ResourceHookOptions(on_dry_run=True))]
    )
