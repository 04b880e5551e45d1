"""One host's instance metadata service: versions 2 and 1, and the certificate and key of its instance principal.

This program runs in the host's network namespace, but not in the host's other namespaces:
`metadata_service.py WORLD HOST_ID PORT`.
Source: "Getting Instance Metadata": version 2 requires `Authorization: Bearer Oracle` and refuses forwarded requests; version 1
returns 404 if a host has it disabled. An identity is issued when it is requested for the first time
(`rehearsal.oci.api.identity`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(CHECKOUT))

from rehearsal.host.metadata_server import (  # noqa: E402 - the path to this package is set just above
    NOT_ALLOWED,
    NOT_FOUND,
    OK,
    UNAUTHORIZED,
    serve,
)

_PROOF = "Bearer Oracle"
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host")
_IDENTITY = ("cert.pem", "key.pem", "intermediate.pem")
_MAKE_S = 120


class Service:
    """The metadata service of one host."""

    def __init__(self, world: Path, host_id: str) -> None:
        self._world, self._host = world, host_id

    def answer(self, method: str, path: str, headers: dict[str, str], _: bytes) -> tuple[int, str]:
        """Return status and text for one request; header names are in lower case."""
        if method != "GET":
            return NOT_ALLOWED, ""
        texts = json.loads((self._world / "hosts" / self._host / "spec.json").read_text())["metadata"]
        root, *steps = path.partition("?")[0].strip("/").split("/")
        version = steps.pop(0) if steps else ""
        if root != "opc" or version not in ({"v2"} if texts["legacy"] == "no" else {"v1", "v2"}):
            return NOT_FOUND, ""
        if version == "v2" and (headers.get("authorization") != _PROOF or any(name in headers for name in _FORWARDED)):
            return UNAUTHORIZED, ""
        if steps[:1] == ["identity"]:
            return self._identity(steps[1:])
        if steps[:1] not in (["instance"], ["vnics"], ["host"]) or steps[0] not in texts:
            return NOT_FOUND, ""
        return _at(json.loads(texts[steps[0]]), steps[1:])

    def _identity(self, steps: list[str]) -> tuple[int, str]:
        if len(steps) != 1 or steps[0] not in _IDENTITY:
            return NOT_FOUND, ""
        kept = self._world / "identities" / f"{self._host}.json"
        if not kept.exists():
            self._make()
        found = json.loads(kept.read_text())
        return OK, found[steps[0]]

    def _make(self) -> None:
        """Issue an identity for this host. A separate process does this, with the Python interpreter of the cloud's services.

        Raises:
            OSError: the identity could not be issued.
        """
        announced = json.loads((self._world / "services" / "oci.json").read_text())
        own = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(CHECKOUT), "BUSBAR_WORLD": str(self._world)}
        argv = [announced["program"][0], "-m", "rehearsal.oci.api.identity", self._host]
        done = subprocess.run(argv, env=own, stdin=subprocess.DEVNULL, timeout=_MAKE_S, check=False)
        if done.returncode:
            raise OSError(f"no identity was issued: {argv[-2]} exited with {done.returncode}.")


def _at(document: Any, steps: list[str]) -> tuple[int, str]:
    """Return status and text for a part of a document: plain text for a string or a number, JSON for anything else."""
    for step in steps:
        if isinstance(document, list) and step.isdecimal() and int(step) < len(document):
            document = document[int(step)]
        elif isinstance(document, dict) and step in document:
            document = document[step]
        else:
            return NOT_FOUND, ""
    plain = isinstance(document, str | int) and not isinstance(document, bool)
    return OK, str(document) if plain else json.dumps(document, indent=2)


if __name__ == "__main__":
    serve(Service(Path(sys.argv[1]), sys.argv[2]).answer, int(sys.argv[3]), "OCI")
