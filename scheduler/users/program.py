"""The command `cluster` as one file, and what sets up the machines that know its users."""

import json
import os
from typing import Any, Dict

from scheduler.over_stdin import text
from scheduler.programs import zipapp
from scheduler.users import client

PROGRAM = "/usr/local/bin/cluster"
_MAIN = b"import sys\nfrom scheduler.users.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"


def cluster() -> bytes:
    """Return the command `cluster`; equal sources produce equal bytes."""
    return zipapp(_MAIN, ("", "users"))


def controller(given: Dict[str, Any]) -> bytes:
    """Return what sets up the controller, for `sudo -n python3 -IS -`; see `scheduler.users.controller_setup.main`."""
    return text(cluster(), "scheduler.users.controller_setup", f"main({json.dumps(given)!r}, path)")


def member(packed: bytes, controller_address: str, certificate: str) -> bytes:
    """Return what makes a machine know the users, for `sudo -n python3 -IS -`; it prints nothing. `packed` is `cluster()`."""
    return text(packed, "scheduler.users.client_setup", f"main({controller_address!r}, {certificate!r})")


def member_of_this(controller_address: str) -> bytes:
    """Return `member` on the controller itself, whose files it is made of; empty if the controller has no users."""
    if not os.path.exists(PROGRAM):
        return b""
    with open(PROGRAM, "rb") as source:
        packed = source.read()
    with open(client.CERTIFICATE, encoding="utf-8") as known:
        return member(packed, controller_address, known.read())
