"""Installs a program for each pool. With it, the controller tests the pool's new machines in pairs before they become nodes."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pulumi

from benchmarks.host import requests
from benchmarks.launch.protocol import Source
from benchmarks.plan.asked import Asked
from config.slurm import entry_script

if TYPE_CHECKING:
    from components.inventory import PlannedSet
    from components.reach import Head, Ran, Reach
    from config.stack import Stack

#: The test's own time limit is this much shorter than the controller's limit for the test, so that the test can still report
#: its result.
_MARGIN_S = 60
_PAIR = 2


def entry_tests(  # noqa: PLR0913 - what the tests depend on, by name
    name: str,
    reach: Reach,
    sets: Sequence[PlannedSet],
    stack: Stack,
    *,
    controller: pulumi.Output[Head],
    runner: str,
    source: Source,
    opts: pulumi.ResourceOptions,
) -> list[Ran]:
    """Register one Command for each pool whose new machines are tested.

    The Command writes the test's program, and the document with the request that this program carries out.

    `runner` is the runner's file name in the folder that all machines share; `source` is the nccl-tests archive: a file in that
    folder, or a URL.
    """
    made: list[Ran] = []
    for one in sets:
        if one.shape is not None and one.entry_timeout_s:
            text = reach.network.apply(partial(_document, Asked.of(stack, one.shape, _PAIR), source, one, runner))
            command = reach.run(
                f"{name}-entry-{one.name}",
                head=controller,
                command=text.apply(partial(writes, one.job_folder, runner, one.name)),
                stdin=text,
                triggers=[],
                opts=opts,
            )
            made.append(command)
    return made


def _document(asked: Asked, source: Source, one: PlannedSet, runner: str, network: str | None) -> str:
    limit_s, homes = one.entry_timeout_s - _MARGIN_S, one.launcher.homes
    return requests.entry_test(asked, source, homes, network=network or "", timeout_s=limit_s, reasons=[runner])


def writes(folder: str, runner: str, pool: str, text: str) -> str:
    """Return the command that writes the document from stdin and then the test's program, both atomically."""
    document, path = f"entry-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json", entry_script(folder, pool)
    body = shlex.quote(f"#!/bin/sh\n# Written by busbar.\nexec python3 -IS {folder}/{runner} entry {folder}/{document}\n")
    return (
        f"cd {folder} && cat > {document}.new && mv {document}.new {document} && "
        f"printf %s {body} > {path}.new && chmod 755 {path}.new && mv {path}.new {path}"
    )
