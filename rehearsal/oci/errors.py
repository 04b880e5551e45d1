"""How this cloud says no: the vendor's status, code and sentence; decides nothing."""

from __future__ import annotations

from rehearsal.plugin import errors


class Problem(errors.Problem):
    """A reason to refuse, in the vendor's words."""

    def sentence(self) -> str:
        """As a preview shows it: the vendor's status, code and the sentence."""
        return f"{self.status}-{self.code}, {self.message}"

    def answer(self, service: str, operation: str) -> str:
        """As the vendor's provider prints the refusal of a call."""
        where = f"\nProperty: {self.path}" if self.path else ""
        return f"{self.sentence()}{where}\nService: {service}\nOperation Name: {operation}"


def not_found(path: str, ocid: str) -> Problem:
    """A reference that leads nowhere, in the vendor's words."""
    return Problem(
        path,
        f"Authorization failed or requested resource not found: {ocid}.",
        status=404,
        code="NotAuthorizedOrNotFound",
    )
