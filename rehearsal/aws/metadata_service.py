"""One host's EC2 instance metadata service (IMDSv2 only): issues tokens, returns texts by path, and writes SSM parameters.

The command is `metadata_service.py WORLD HOST_ID PORT`. This program runs in the host's network namespace, but not in the
host's other namespaces. The host reaches the service at 169.254.169.254:80, but cannot see the service's process. The host's
record lists the parameters of Systems Manager that the host's role may write. The service reads the record again for each call
with a valid token. The role's credentials are valid for EC2's API only.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(CHECKOUT))

from rehearsal.host.metadata_server import (  # noqa: E402 - needs the import path that is set just above
    BAD,
    CONFLICT,
    FORBIDDEN,
    NOT_ALLOWED,
    NOT_FOUND,
    OK,
    UNAUTHORIZED,
    serve,
)

TTL_MOST_S = 21_600
CREDENTIALS = "latest/meta-data/iam/security-credentials/"
RENEWED_S = 3600
#: Path that only the rehearsal has: the image's `aws` command sends requests for Systems Manager to this path.
PARAMETER = "rehearsal/ssm/parameter"


class Service:
    """The metadata service of one host.

    Attributes:
        tokens: issued tokens, and the monotonic time in seconds at which each expires.
    """

    def __init__(self, world: Path, host_id: str) -> None:
        self._world, self._record = world, world / "hosts" / host_id / "spec.json"
        self.tokens: dict[str, float] = {}
        self._given = (0.0, "")

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, str]:
        """Return status and text for one request; header names are in lower case."""
        path = path.strip("/")
        if path == "latest/api/token":
            return self._token(headers) if method == "PUT" else (NOT_ALLOWED, "")
        if "x-forwarded-for" in headers or not self._knows(headers.get("x-aws-ec2-metadata-token", "")):
            return UNAUTHORIZED, ""
        spec = json.loads(self._record.read_text())
        if path == PARAMETER and method == "POST":
            return self._put(spec, json.loads(body))
        if method != "GET":
            return NOT_ALLOWED, ""
        if path.startswith(CREDENTIALS) and path in spec["metadata"]:
            return OK, self._credentials(spec["instance_id"], path.removeprefix(CREDENTIALS))
        return self._text(spec["metadata"], path)

    def _credentials(self, instance: str, role: str) -> str:
        """Return the role's credentials, which change every hour; the first such request starts the rehearsed EC2 API."""
        # These imports would double the size of this process, and few hosts ever call the API: import only when needed.
        from rehearsal.aws import sessions  # noqa: PLC0415
        from rehearsal.net import services  # noqa: PLC0415
        from rehearsal.world.world import World  # noqa: PLC0415

        services.start(World.at(self._world), "aws", CHECKOUT)
        now = time.time()
        if now - self._given[0] > RENEWED_S:
            self._given = (now, sessions.issue(self._world, instance, role, now))
        return self._given[1]

    def _token(self, headers: dict[str, str]) -> tuple[int, str]:
        asked = headers.get("x-aws-ec2-metadata-token-ttl-seconds", "")
        # A request through a proxy gets no token.
        if "x-forwarded-for" in headers:
            return FORBIDDEN, ""
        if not asked.isdecimal() or not 1 <= int(asked) <= TTL_MOST_S:
            return BAD, ""
        now = time.monotonic()
        self.tokens = {token: end for token, end in self.tokens.items() if end > now}
        token = base64.urlsafe_b64encode(os.urandom(40)).decode()
        self.tokens[token] = now + int(asked)
        return OK, token

    def _knows(self, token: str) -> bool:
        return self.tokens.get(token, 0) > time.monotonic()

    @staticmethod
    def _text(metadata: dict[str, str], path: str) -> tuple[int, str]:
        """Return the text at a path, or the names in the folder at the path."""
        if path in metadata:
            return OK, metadata[path]
        below = [name.removeprefix(f"{path}/").partition("/") for name in sorted(metadata) if name.startswith(f"{path}/")]
        names = dict.fromkeys(first + slash for first, slash, _ in below)
        return (OK, "\n".join(names)) if names else (NOT_FOUND, "")

    def _put(self, spec: dict[str, Any], asked: dict[str, Any]) -> tuple[int, str]:
        name = str(asked["Name"])
        # These imports would double the size of this process, and few hosts ever write parameters: import only when needed.
        from rehearsal.aws import parameters  # noqa: PLC0415
        from rehearsal.world.world import World  # noqa: PLC0415

        if not spec["may_put"] and not any(path.startswith("latest/meta-data/iam/") for path in spec["metadata"]):
            return NOT_FOUND, "no role"
        if not any(fnmatchcase(name, pattern) for pattern in spec["may_put"]):
            return FORBIDDEN, "AccessDeniedException"
        overwrite = bool(asked.get("Overwrite"))
        try:
            made = parameters.put(
                World.at(self._world), name, str(asked["Value"]), type=str(asked["Type"]), overwrite=overwrite
            )
        except parameters.ExistsError:
            return CONFLICT, "ParameterAlreadyExists"
        return OK, json.dumps({"Version": made.version, "Tier": "Standard"})


if __name__ == "__main__":
    serve(Service(Path(sys.argv[1]), sys.argv[2]).answer, int(sys.argv[3]), "EC2ws")
