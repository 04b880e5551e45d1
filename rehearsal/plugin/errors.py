"""Refusals and failures of requests; each cloud uses the wording of its vendor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Problem:
    """One reason why the service would refuse some inputs.

    Attributes:
        path: the property, in Pulumi's notation (`createVnicDetails.subnetId`).
        message: one sentence: what was given, what is allowed, why.
        status: the HTTP status of the service's answer.
        code: the service's error code.
    """

    path: str
    message: str
    status: int = 400
    code: str = "InvalidParameter"

    def sentence(self) -> str:
        """Return the text that a preview shows: the vendor's code and message."""
        return f"{self.code}: {self.message}"

    def answer(self, service: str, operation: str) -> str:
        """Return the refusal as the vendor's provider prints it."""
        return f"{service} {operation}: {self.sentence()}"


class ServiceError(Exception):
    """The service refused a call; the text has the format of the vendor's provider."""

    def __init__(self, problem: Problem, service: str, operation: str) -> None:
        self.problem = problem
        super().__init__(problem.answer(service, operation))


class RequestTimeoutError(Exception):
    """A call got no answer in time; the text is that of the vendors' HTTP clients."""

    def __init__(self, operation: str) -> None:
        super().__init__(f"{operation}: net/http: request canceled (Client.Timeout exceeded while awaiting headers)")


class SlowEndError(RequestTimeoutError):
    """A deletion did not finish within the provider's time limit."""

    def __init__(self, operation: str, timeout_s: float) -> None:
        Exception.__init__(
            self,
            f"{operation}: timeout while waiting for state to become 'terminated' (last state: 'shutting-down', "
            f"timeout: {timeout_s:g}s)",
        )


class PartlyCreatedError(Exception):
    """A resource exists and is billed, though its creation failed, so the engine must keep it in the state."""

    def __init__(self, resource_id: str, outputs: Mapping[str, Any], inputs: Mapping[str, Any], reason: str) -> None:
        self.resource_id = resource_id
        self.outputs = outputs
        self.inputs = inputs
        self.reason = reason
        super().__init__(reason)
