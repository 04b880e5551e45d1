"""How this cloud says no: the vendor's code and sentence, as its provider prints them; decides nothing."""

from __future__ import annotations

import secrets
import uuid

from rehearsal.plugin import errors


class Problem(errors.Problem):
    """A reason to refuse, in the vendor's words."""

    def answer(self, service: str, operation: str) -> str:
        """As the vendor's provider prints the refusal of a call."""
        request = uuid.UUID(bytes=secrets.token_bytes(16), version=4)
        return (
            f"operation error {service}: {operation}, https response error StatusCode: {self.status}, "
            f"RequestID: {request}, api error {self.code}: {self.message}"
        )


class WaitError(Exception):
    """What the provider says when it waited for a state and the service went to another one."""


def refused(path: str, code: str, message: str, status: int = 400) -> Problem:
    """A refusal by its code."""
    return Problem(path, message, status, code)


def invalid(path: str, message: str) -> Problem:
    """EC2's answer to a value that it cannot take."""
    return refused(path, "InvalidParameterValue", message)


def combination(path: str, message: str) -> Problem:
    """EC2's answer to values that do not go together."""
    return refused(path, "InvalidParameterCombination", message)


def not_played(path: str, message: str) -> Problem:
    """What the vendor has and this rehearsal does not."""
    return refused(path, "NotPlayed", message, 501)
