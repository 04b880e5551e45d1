"""Helper of tests: wait until a command on the login node of a rehearsed Slurm cluster prints what is expected."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tools.stage import Stage

PATIENCE_S = 240


def until(stage: Stage, command: str, holds: Callable[[str], bool], what: str) -> str:
    """Repeat a command on the login node until `holds` accepts its output; after PATIENCE_S, fail and show Slurm's state.

    A command whose exit status is not 0 is repeated, too: Slurm's commands fail while slurmctld restarts.
    """
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            said = stage.on_host(command)
        except AssertionError as failed:
            said = str(failed)
        else:
            if holds(said):
                return said
        time.sleep(1)
    shown = stage.on_host("sinfo -R; sinfo -N -l; squeue; sudo tail -n 20 /var/log/slurm/slurmctld.log")
    pytest.fail(f"not within {PATIENCE_S} s: {what}; {command!r} prints {said!r}\n{shown}")
