"""Builds two programs: the controller's command `cluster`, and the program that sets up the users on a new machine.

An update writes an archive of programs on the controller. The archive contains this package, and the command `cluster` imports
the package from it. The program for a new machine contains a copy of the whole archive; the controller sends it to the machine.
"""

import os

from scheduler.over_stdin import text
from scheduler.programs import ARCHIVE
from scheduler.slurm_conf import MARK
from scheduler.users import client, settings

COMMAND = "/usr/local/bin/cluster"


def command() -> bytes:
    """Return the command `cluster`."""
    lines = [
        *("#!/usr/bin/env python3", MARK, "import sys"),
        f"sys.path.insert(0, {ARCHIVE!r})",
        "from scheduler.users.__main__ import main",
        "sys.exit(main(sys.argv[1:]))",
    ]
    return ("\n".join(lines) + "\n").encode()


def program(controller: str) -> bytes:
    """Return the program that makes a machine a client of the user directory at the address `controller`.

    It runs as root under `python3 -IS -`, as a part of the program of `scheduler.elastic.join.text`. It prints nothing, unless
    it fails: then it exits with a message on stderr. The text is empty if the controller has no user directory.
    """
    if not os.path.exists(settings.PATH):
        return b""
    with open(ARCHIVE, "rb") as source:
        packed = source.read()
    with open(client.CERTIFICATE, encoding="utf-8") as known:
        certificate = known.read()
    return text(packed, "scheduler.users.client_setup", f"set_up({controller!r}, {certificate!r})")
