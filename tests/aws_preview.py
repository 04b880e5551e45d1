"""Runs the program for target aws as a preview or an update does, but on an engine and an account that tests simulate."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pulumi
from aws_program import Cloud, account
from conftest import BUILD_LINE, HOST_KEY, ROOT, groups, run_main, texts
from early_refusal import early_refusal

from config import read
from config.stack import Stack
from tools.stack_changes import merged

ZONE, OTHER = "us-east-1a", "us-east-1b"
READY = {"schema": 2, "kind": "ready", "host_key": HOST_KEY, "count": 2, "groups": [], "fronts": [], "networks": []}
#: Changes that prevent a stack's usual warnings: they set the key of Lustre's packages, and what a destroy does with files.
_QUIET = {"aws": {"storage": {"lustre": {"onDestroy": "refuse", "clientKey": "0" * 40}, "home": {"onDestroy": "refuse"}}}}


def parsed(**changes: Any) -> Stack:
    """Return the stack of Pulumi.aws-efa.yaml, with `changes`."""
    return read.parse(texts(groups("aws-efa", **merged(_QUIET, changes))))


@dataclass
class Seen:
    """The registrations, exports, warnings and notes of one run of the program."""

    cloud: Cloud
    outputs: dict[str, Any] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Record a warning."""
        self.warned.append(text)


def run(monkeypatch: Any, lines: dict[str, str] | None = None, *, preview: bool = True, **changes: Any) -> Seen:
    """Run the real __main__.py for the stack of Pulumi.aws-efa.yaml, with `changes`; `lines` has what each Command prints.

    The key `answers` of `changes` is no setting: it holds what look-ups in the account return.
    """
    answers = account(
        **{
            "getRegion": {"region": "us-east-1"},
            "getInstanceTypeOfferings": {"locations": [ZONE, OTHER]},
            "getCapacityBlockReservation": {
                "state": "active",
                "instanceType": "p5.48xlarge",
                "availabilityZone": ZONE,
                "instanceCount": 2,
                "placementGroupArn": "",
            },
        }
        | changes.pop("answers", {})
    )
    cloud = Cloud({}, f"cluster-login-instance-id {HOST_KEY}", answers=answers)
    seen = Seen(cloud)
    register = cloud.new_resource
    said = {"acceptance-ready-contact": json.dumps(READY), "acceptance-build": BUILD_LINE, "acceptance-measure": "{}"} | (
        lines or {}
    )
    said.setdefault("acceptance-search", json.dumps({"schema": 1, "kind": "search", "needed": False}))

    def new_resource(args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        name, outputs = register(args)
        return name, outputs | ({"stdout": said[args.name]} if args.name in said else {})

    monkeypatch.setattr(cloud, "new_resource", new_resource)
    monkeypatch.setattr(
        pulumi, "export", lambda name, value: pulumi.Output.from_input(value).apply(lambda v: _keep(seen, name, v))
    )
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: seen.warn(text))
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_, **__: seen.told.append(text))
    monkeypatch.chdir(ROOT)
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(cloud, project="busbar", stack="aws-efa", organization="organization", preview=preview)
    given = texts(groups("aws-efa", **merged(_QUIET, changes)))
    pulumi.runtime.set_all_config({f"busbar:{key}": text for key, text in given.items()})

    @pulumi.runtime.test
    def program() -> None:
        run_main()

    with early_refusal(cloud.made):
        program()
    return seen


def _keep(seen: Seen, name: str, value: Any) -> None:
    seen.outputs[name] = value
