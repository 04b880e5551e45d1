"""Makes a machine a client of the user directory: SSSD queries the controller. Runs as root; keeps files that are correct."""

import os
import re
import shutil
import sys

from scheduler import commands, node_setup
from scheduler.slurm_conf import MARK
from scheduler.users import client

_NSSWITCH = "/etc/nsswitch.conf"
_SSSD = "/usr/sbin/sssd"
#: Databases of nsswitch.conf that SSSD serves.
_DATABASES = ("passwd", "group")


def set_up(controller: str, certificate: str) -> None:
    """Set up this machine for the directory at the address `controller`, whose TLS certificate is `certificate`."""
    if not os.path.exists(_SSSD):
        sys.exit(
            "there is no sssd, which looks up the cluster's users; install sssd-ldap, on Ubuntu also libnss-sss and libpam-sss"
        )
    wrote = [
        node_setup.put(path, text.encode(), mode, "root")
        for path, text, mode in (
            (client.CERTIFICATE, certificate, 0o644),
            (client.SSSD_CONF, client.sssd_conf(controller, MARK), 0o600),
        )
    ]
    _name_service()
    _homes_over_nfs()
    node_setup.daemon("sssd", any(wrote))


def _name_service() -> None:
    """Make look-ups of users and groups query SSSD after the machine's own files."""
    with open(_NSSWITCH, encoding="utf-8") as source:
        text = source.read()
    wanted = with_sssd(text)
    if wanted == text:
        return
    # On Oracle Linux, authselect generates the file and also adds SSSD to PAM.
    if os.path.islink(_NSSWITCH) and shutil.which("authselect"):
        commands.demand("authselect", "select", "sssd", "--force")
    else:
        node_setup.put(_NSSWITCH, wanted.encode(), 0o644, "root")


def with_sssd(text: str) -> str:
    """Return nsswitch.conf(5) with `sss` in the lines of users and groups, and everything else unchanged."""
    lines = text.splitlines()
    for database in _DATABASES:
        at = next((number for number, line in enumerate(lines) if re.match(rf"{database}:", line)), None)
        if at is None:
            lines.append(f"{database}: files sss")
        elif "sss" not in lines[at].partition("#")[0].split():
            found, mark, comment = lines[at].partition("#")
            lines[at] = f"{found.rstrip()} sss{' #' + comment if mark else ''}"
    return "\n".join(lines) + "\n"


def _homes_over_nfs() -> None:
    """If SELinux is enabled, let sshd read the keys in home folders that are mounted over NFS (sshd_selinux(8))."""
    if not shutil.which("getsebool") or commands.run(["selinuxenabled"]).returncode:
        return
    if b"--> on" not in commands.run(["getsebool", "use_nfs_home_dirs"]).stdout:
        commands.demand("setsebool", "-P", "use_nfs_home_dirs", "on")
