"""AWS's refusals: code and message, as AWS's Pulumi provider prints them."""

from __future__ import annotations

import secrets
import uuid

from rehearsal.plugin import errors


class Problem(errors.Problem):
    """A reason to refuse a request, in AWS's wording."""

    def answer(self, service: str, operation: str) -> str:
        """Return the refusal as AWS's Pulumi provider prints it."""
        request = uuid.UUID(bytes=secrets.token_bytes(16), version=4)
        return (
            f"operation error {service}: {operation}, https response error StatusCode: {self.status}, "
            f"RequestID: {request}, api error {self.code}: {self.message}"
        )


def refused(path: str, code: str, message: str, status: int = 400) -> Problem:
    """Return a refusal with this code."""
    return Problem(path, message, status, code)


def invalid(path: str, message: str) -> Problem:
    """Return EC2's refusal of an invalid value."""
    return refused(path, "InvalidParameterValue", message)


def combination(path: str, message: str) -> Problem:
    """Return EC2's refusal of values that exclude each other."""
    return refused(path, "InvalidParameterCombination", message)


def not_played(path: str, message: str) -> Problem:
    """Return the refusal of a feature that AWS offers but the rehearsal does not."""
    return refused(path, "NotRehearsed", message, 501)
