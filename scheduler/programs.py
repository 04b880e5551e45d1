"""Files of a controller with dynamic nodes: programs that Slurm calls, and timers of the programs that run again and again."""

import io
import os
import zipfile
from typing import Dict

from scheduler.slurm_conf import MARK, PROGRAMS

#: One zipapp for Python 3.6 and its standard library; nothing else is installed.
ARCHIVE = "/usr/local/lib/busbar/elastic.pyz"
_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = b"import sys\nfrom scheduler.elastic.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can hold
#: Time limit of a run of `reconcile`. A longer run is killed, and the next run continues its work.
RUN_TIMEOUT_S = 600
_PERIOD_S = 5
_COPY_PERIOD_S = 10


def archive() -> bytes:
    """Return the programs as one zipapp; equal sources produce equal bytes."""
    here = os.path.dirname(os.path.abspath(__file__))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as target:
        target.writestr(zipfile.ZipInfo("__main__.py", _EPOCH), _MAIN)
        for folder in ("", "elastic", "users"):
            for name in sorted(os.listdir(os.path.join(here, folder))):
                if name.endswith(".py"):
                    with open(os.path.join(here, folder, name), "rb") as source:
                        place = "/".join(filter(None, ("scheduler", folder, name)))
                        target.writestr(zipfile.ZipInfo(place, _EPOCH), source.read())
    return _SHEBANG + packed.getvalue()


def wrappers() -> Dict[str, str]:
    """Return the programs that slurm.conf names, by path: Slurm calls each with the nodes as its only argument."""
    verbs = ("resume", "suspend", "resume-failed")
    return {
        f"{PROGRAMS}/busbar-{verb}": f'#!/bin/sh\n{MARK}\nexec /usr/bin/env python3 {ARCHIVE} {verb} "$1"\n' for verb in verbs
    }


def timers() -> Dict[str, str]:
    """Return the units of the programs that run again and again; systemd restarts each program a few seconds after its end."""
    # The unit busbar-entry has no time limit, because each test has one. A test that becomes due while the unit runs starts at
    # once in the same run, so a run may take long.
    return {
        **_timer("busbar-slurm", "reconcile", "Start and terminate nodes as Slurm requests", str(RUN_TIMEOUT_S)),
        **_timer("busbar-entry", "entry-tests", "Test new machines before they become nodes", "infinity"),
        # `keep-jobs` has its own unit: if a file server does not answer, only the copy waits, and `reconcile` is not delayed.
        **_timer("busbar-jobs", "keep-jobs", "Copy Slurm's jobs for the next controller", str(RUN_TIMEOUT_S), _COPY_PERIOD_S),
    }


def _timer(name: str, verb: str, duty: str, timeout: str, period_s: int = _PERIOD_S) -> Dict[str, str]:
    service = [
        *(MARK, "[Unit]", f"Description={duty}", "After=network-online.target slurmctld.service", ""),
        *("[Service]", "Type=oneshot", f"ExecStart=/usr/bin/env python3 {ARCHIVE} {verb}"),
        f"TimeoutStartSec={timeout}",
    ]
    timer = [
        *(MARK, "[Unit]", f"Description={duty}, every few seconds", ""),
        *("[Timer]", f"OnBootSec={period_s}", f"OnUnitInactiveSec={period_s}", "AccuracySec=1", ""),
        *("[Install]", "WantedBy=timers.target"),
    ]
    return {f"{name}.service": "\n".join(service) + "\n", f"{name}.timer": "\n".join(timer) + "\n"}
