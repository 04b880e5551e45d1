"""Makes this machine the one that has the cluster's users, as root: directory, certificate, `cluster`, and SSSD.

What is right already stays. A directory that is empty takes the users from the copy beside the homes, if there is one.
"""

import os
import pwd
import shutil
import sys
import tempfile
import time
from typing import Any, Dict, List

from scheduler import commands, node_setup
from scheduler.users import associations, client_setup, directory, ldap, member, settings, snapshot
from scheduler.users.accounts import existing
from scheduler.users.directory import Layout
from scheduler.users.refusal import RefusalError

_UNITS = "/etc/systemd/system"
#: Debian's and Ubuntu's slapd; openldap-servers of EPEL (Oracle Linux 9) and Amazon Linux.
_LAYOUTS = (
    Layout("/etc/ldap", "openldap", "/usr/lib/ldap"),
    Layout("/etc/openldap", "ldap", "/usr/lib64/openldap"),
)
_SLAPD = ("/usr/sbin/slapd", "/usr/libexec/slapd")
_START_TIMEOUT_S = 30


def set_up(given: Dict[str, Any]) -> Dict[str, Any]:
    """Set up this machine; return its `certificate`, the number of `users`, whether they were `restored`, and what `changed`.

    Args:
        given: `address`, at which machines reach this one; `hostname`, its own; `home`, the folder of the homes; `accounting`,
            the cluster's name in Slurm's database, empty without one.
    """
    try:
        return _set_up(given)
    except RefusalError as refusal:
        sys.exit(str(refusal))


def _set_up(given: Dict[str, Any]) -> Dict[str, Any]:
    if not os.path.isdir(given["home"]):
        sys.exit("{} is no folder, but the users' homes are to be there".format(given["home"]))
    where, slapd = _layout()
    if os.path.exists(settings.PATH):
        settings.refuse_unmounted(settings.load())
    its = settings.Settings(given["home"], given["accounting"], os.path.ismount(given["home"]))
    changed = _files(where, slapd, given)
    if not commands.run(["systemctl", "is-active", "--quiet", "slapd"]).returncode:
        # The package's own directory, which is empty, has the socket.
        commands.demand("systemctl", "disable", "slapd")
        commands.demand("systemctl", "stop", "slapd")
        changed.append("slapd")
    changed += commands.service(directory.UNIT, bool(changed))
    _await()
    restored = _fill(its, changed)
    for path, body, mode in ((settings.PATH, settings.text_of(its).encode(), 0o644), (member.COMMAND, member.command(), 0o755)):
        if node_setup.put(path, body, mode, "root"):
            changed.append(path)
    with open(f"{where.folder}/certificate.pem", encoding="utf-8") as source:
        certificate = source.read()
    changed += client_setup.set_up(given["address"], certificate)
    users = sorted(existing())
    if its.accounting:
        associations.add(its.accounting, users)
    try:
        if snapshot.write(its.snapshot):
            changed.append(its.snapshot)
    except OSError as error:
        sys.exit(f"{its.snapshot}, from which a new controller takes the users, was not written: {error.strerror}")
    return {"certificate": certificate, "users": len(users), "restored": restored, "changed": changed}


def _layout() -> "tuple[Layout, str]":
    """Return where OpenLDAP is here, and its server."""
    slapd = next((path for path in _SLAPD if os.path.exists(path)), "")
    where = next((one for one in _LAYOUTS if os.path.isdir(f"{one.conf}/schema")), None)
    if not slapd or where is None:
        sys.exit(
            "there is no slapd, which has the cluster's users; on Ubuntu install slapd, on Oracle Linux 9 openldap-servers of "
            "EPEL; for Oracle Linux 8 there is no such package, so the controller needs another image"
        )
    if not shutil.which("ldapadd"):
        sys.exit("there is no ldapadd, which changes the directory; install openldap-clients, on Ubuntu ldap-utils")
    module = any(os.path.exists(f"{where.modules}/back_mdb{end}") for end in (".la", ".so"))
    return where._replace(module=module), slapd


def _files(where: Layout, slapd: str, given: Dict[str, Any]) -> List[str]:
    """Write the directory's files and folders; return which were written."""
    try:
        user = pwd.getpwnam(where.user)
    except KeyError:
        sys.exit(f"there is no user {where.user}, which the package of slapd creates")
    # /run/slapd is Debian's place of the socket; the unit makes it again at every start.
    for folder, mode in ((where.folder, 0o755), (where.data, 0o700), ("/run/slapd", 0o755)):
        os.makedirs(folder, mode=mode, exist_ok=True)
        if folder == where.data:
            os.chown(folder, user.pw_uid, user.pw_gid)
    changed = _certificate(where, given["hostname"], given["address"])
    path = f"{where.folder}/slapd.conf"
    if node_setup.put(path, directory.slapd_conf(where).encode(), 0o644, "root"):
        changed.append(path)
    path = os.path.join(_UNITS, directory.UNIT)
    if node_setup.put(path, directory.unit(where, slapd, given["address"]).encode(), 0o644, "root"):
        commands.demand("systemctl", "daemon-reload")
        changed.append(path)
    return changed


def _certificate(where: Layout, hostname: str, address: str) -> List[str]:
    """Make the controller's key and certificate unless it has them for this name and address."""
    request = f"{where.folder}/certificate.cnf"
    files = [f"{where.folder}/{name}" for name in ("key.pem", "certificate.pem")]
    text = directory.certificate_request(hostname, address).encode()
    if os.path.exists(request) and all(map(os.path.exists, files)):
        with open(request, "rb") as source:
            if source.read() == text:
                return []
    with tempfile.TemporaryDirectory() as folder:
        conf, key, certificate = (os.path.join(folder, name) for name in ("request", "key", "certificate"))
        with open(conf, "wb") as target:
            target.write(text)
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-config", conf]
        commands.demand(*words, "-days", str(directory.CERTIFICATE_DAYS), "-keyout", key, "-out", certificate)
        for made, path, mode, owner in ((key, files[0], 0o400, where.user), (certificate, files[1], 0o644, "root")):
            with open(made, "rb") as source:
                node_setup.put(path, source.read(), mode, owner)
    # Last: what an interrupted run left is made again.
    node_setup.put(request, text, 0o644, "root")
    return [files[1]]


def _await() -> None:
    """Wait until the directory answers."""
    end = time.monotonic() + _START_TIMEOUT_S
    while True:
        why = ldap.answers()
        if not why:
            return
        if time.monotonic() > end:
            sys.exit(f"the directory did not answer within {_START_TIMEOUT_S} s: {why}; see journalctl -u {directory.UNIT}")
        time.sleep(0.1)


def _fill(its: settings.Settings, changed: List[str]) -> bool:
    """Fill an empty directory from its copy, or with its first entries; return whether it was the copy."""
    if ldap.entries():
        return False
    kept = snapshot.read(its.snapshot)
    ldap.add(kept or directory.first_entries())
    changed.append(directory.BASE)
    return bool(kept)
