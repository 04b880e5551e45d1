"""Makes this machine's SSSD forget a user, so that it asks the directory again."""

import contextlib
import os
import shutil
import signal
import subprocess

_PID = "/run/sssd.pid"
_TIMEOUT_S = 30


def forget(name: str) -> None:
    """Expire a user in SSSD's cache, and end SSSD's offline state if it is offline (sssd(8), SIGUSR2)."""
    with contextlib.suppress(OSError, ValueError), open(_PID, encoding="utf-8") as source:
        os.kill(int(source.read()), signal.SIGUSR2)
    if shutil.which("sss_cache"):
        words = ["sss_cache", "--user", name]
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_TIMEOUT_S, check=False)
