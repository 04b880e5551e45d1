"""A user's own Pulumi program. It requires the certificate of a busbar stack through the example file that users copy."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pulumi
import pytest

ROOT = Path(__file__).parents[1]


class Reader(pulumi.runtime.Mocks):
    """Answers a StackReference with `outputs`."""

    def __init__(self, outputs: dict[str, Any]) -> None:
        self.outputs = outputs

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        return args.name, dict(args.inputs) | {"outputs": self.outputs}

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        raise NotImplementedError(args.token)  # a program that only reads outputs makes no invokes


def demand(
    monkeypatch: pytest.MonkeyPatch, outputs: dict[str, Any], *, key: str, preview: bool, **asked: Any
) -> list[dict[str, Any]]:
    """Run a program that requires a certificate and does nothing else; return the certificates that it got."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "consumer"))
    from busbar_certificate import require_certificate  # noqa: PLC0415 - the line above puts its folder on the path

    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(Reader(outputs), project="other", stack="dev", organization="organization", preview=preview)
    noted: list[dict[str, Any]] = []

    @pulumi.runtime.test
    def program() -> None:
        stack = pulumi.StackReference("organization/busbar/dev")
        require_certificate(stack, key, **asked).apply(noted.append)

    program()
    return noted
