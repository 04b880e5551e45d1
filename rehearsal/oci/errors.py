"""OCI's refusals: status, code and message."""

from __future__ import annotations

from rehearsal.plugin import errors


class Problem(errors.Problem):
    """A reason to refuse. The wording is the vendor's where it is known."""

    def sentence(self) -> str:
        """Return the refusal as a preview shows it: the vendor's status, code and message."""
        return f"{self.status}-{self.code}, {self.message}"

    def answer(self, service: str, operation: str) -> str:
        """Return the refusal as the vendor's provider prints it."""
        where = f"\nProperty: {self.path}" if self.path else ""
        return f"{self.sentence()}{where}\nService: {service}\nOperation Name: {operation}"


def not_found(path: str, ocid: str) -> Problem:
    """Return the vendor's refusal of a reference to a resource that does not exist."""
    return Problem(
        path,
        f"Authorization failed or requested resource not found: {ocid}.",
        status=404,
        code="NotAuthorizedOrNotFound",
    )
