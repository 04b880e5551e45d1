"""The engine's error for a look-up that failed."""

from __future__ import annotations

import grpc


class FailedInvoke(grpc.RpcError):
    """The engine's error for an invoke that failed; the provider's error is the argument, or else `words`."""

    words = ""

    def code(self) -> grpc.StatusCode:
        """Return the code that the engine uses for every error of a provider."""
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        """Return the engine's message."""
        return f"invocation of x returned an error: {self.args[0] if self.args else self.words}"
