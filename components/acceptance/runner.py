"""Copies the runner to the head node whenever its content changes, and registers one Command for each request to it."""

from __future__ import annotations

import json
from typing import Any

import pulumi

from benchmarks.host import pack
from components.kept_programs import kept
from components.reach import Head, Ran, Reach


class Runner(pulumi.ComponentResource):
    """The packed runner and the files that it needs, in the head node's home folder.

    Creates: one copy of the runner, and one copy of every file in `files` (name in the home folder -> local path and sha256).
    Outputs: none; `run` registers one Command for each request. If `identity` changes, machines were replaced: everything is
    copied again, and every request is sent again. If `attempt` changes, every request is sent again. If a request is already
    done, the runner answers at once.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what every request needs, once
        self,
        name: str,
        reach: Reach,
        head: pulumi.Output[Head],
        identity: pulumi.Output[str],
        attempt: pulumi.Output[int],
        files: dict[str, tuple[str, str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("busbar:acceptance:Runner", name, None, opts)
        data = pack.runner()
        self.digest = pack.digest(data)
        self._program = pack.file_name(data)
        self._reach, self._head, self.identity, self.attempt = reach, head, identity, attempt
        mine = pulumi.ResourceOptions(parent=self)
        copies = [
            reach.copy(
                f"{name}-program",
                head=head,
                file=kept(data, self._program),
                there=self._program,
                triggers=[self.digest, identity],
                opts=mine,
            ),
            *(
                reach.copy(f"{name}-file", head=head, file=path, there=there, triggers=[sha256, identity], opts=mine)
                for there, (path, sha256) in files.items()
            ),
        ]
        self._copies = [one for one in copies if one is not None]
        self.register_outputs({})

    def run(self, name: str, request: pulumi.Output[str], after: list[Any], opts: pulumi.ResourceOptions) -> Ran:
        """Send `request` to the runner, after the resources `after`; return the Command that prints the runner's line.

        The runner starts a detached run for each request, and finds that run by the request's hash. So a Command that has lost
        its connection, or that runs again with an unchanged request, gets the result of the same run.
        """
        waits = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[*self._copies, *after]))
        return self._reach.run(
            name,
            head=self._head,
            command=request.apply(self._start),
            stdin=request,
            triggers=[self.identity, self.attempt],
            opts=waits,
        )

    def _start(self, request: str) -> str:
        """Return the shell command that gets `request` on its standard input.

        If an earlier stage failed, or if the request is a search that is not needed, the command is `cat`, which returns the
        request unchanged. Otherwise the command asks the runner.
        """
        asked = json.loads(request)
        idle = asked["kind"] == "search" and not asked["trials"] and not asked["again"]
        return "cat" if idle or "failed" in asked else f"python3 -IS {self._program} ask"
