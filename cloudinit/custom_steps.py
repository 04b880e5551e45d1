"""The steps of a first boot that download the user's scripts, check their sha256, and run them as root with a time limit."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Protocol

from cloudinit import downloads
from cloudinit.steps import Step

_FOLDER = "/var/lib/busbar/actions"
#: Time limit of a script, which is also the default time limit for the start of a node.
_RUN_S = 1800


class Action(Protocol):
    """One script."""

    @property
    def script(self) -> str:
        """Return the script's URL."""
        ...

    @property
    def sha256(self) -> str:
        """Return the script's sha256."""
        ...

    @property
    def args(self) -> tuple[str, ...]:
        """Return the script's arguments."""
        ...


class Actions(Protocol):
    """The scripts of one machine, in their order."""

    @property
    def on_node_start(self) -> Sequence[Action]:
        """Return the scripts that run before all other steps."""
        ...

    @property
    def on_node_configured(self) -> Sequence[Action]:
        """Return the scripts that run after all other steps."""
        ...


def around(work: Sequence[Step], wanted: Actions | None) -> list[Step]:
    """Return the steps `work` of a first boot, with the steps that run the user's scripts before and after `work`."""
    if wanted is None:
        return list(work)
    return [*_steps("on-node-start", wanted.on_node_start), *work, *_steps("on-node-configured", wanted.on_node_configured)]


def _steps(name: str, scripts: Sequence[Action]) -> list[Step]:
    """Return one step for each script; if there are several, each step's name contains a number."""
    names = [f"{name}-{number}" if len(scripts) > 1 else name for number in range(1, len(scripts) + 1)]
    return [_step(*each) for each in zip(names, scripts, strict=True)]


def _step(name: str, action: Action) -> Step:
    file = f"{_FOLDER}/{name}"
    words = shlex.join([file, *action.args])
    return Step(
        name,
        f"""
mkdir -p {_FOLDER}
{downloads.checked(shlex.quote(action.script), file, (action.sha256,))}
chmod 700 {file}
timeout {_RUN_S} {words}
""",
    )
