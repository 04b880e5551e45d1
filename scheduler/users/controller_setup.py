"""Sets up the directory of the cluster's users on this machine, as root: slapd, its certificate, SSSD, the command `cluster`.

Correct settings are not rewritten. An empty directory gets the users from the copy beside the home folders, if there is
a copy.
"""

import os
import pwd
import shutil
import sys
import tempfile
import time
from typing import Any, Dict

from scheduler import commands, node_setup
from scheduler.users import associations, client_setup, directory, home_folder, ldap, member, settings, snapshot
from scheduler.users.accounts import existing
from scheduler.users.directory import Layout
from scheduler.users.refusal import RefusalError

_UNITS = "/etc/systemd/system"
#: Debian's and Ubuntu's slapd, and openldap-servers of EPEL (Oracle Linux 9) and Amazon Linux.
_LAYOUTS = (
    Layout("/etc/ldap", "openldap", "/usr/lib/ldap"),
    Layout("/etc/openldap", "ldap", "/usr/lib64/openldap"),
)
_START_TIMEOUT_S = 30


def set_up(given: Dict[str, Any]) -> None:
    """Set up this machine.

    Args:
        given: `address`, at which other machines reach this machine; `hostname` of this machine; `home`, the folder of the home
            folders; `accounting`, the cluster's name in Slurm's database, empty without a database.
    """
    try:
        _set_up(given)
    except RefusalError as refusal:
        sys.exit(str(refusal))


def _set_up(given: Dict[str, Any]) -> None:
    mounted = home_folder.is_mounted(given["home"])
    if not os.path.isdir(given["home"]):
        sys.exit("{} is not a folder, but the users' homes must be in it".format(given["home"]))
    where = _layout()
    if os.path.exists(settings.PATH):
        before = settings.load()
        home_folder.refuse_unmounted(before.home, before.mounted)
    its = settings.Settings(given["home"], given["accounting"], mounted)
    wrote = _files(where, given)
    for question in ("is-enabled", "is-active"):  # the package's slapd, whose directory is empty, must not use the socket
        if not commands.run(["systemctl", question, "--quiet", "slapd"]).returncode:
            commands.demand("systemctl", "disable" if question == "is-enabled" else "stop", "slapd")
    node_setup.daemon(directory.UNIT, wrote)
    _await()
    _restore(its, f"{where.folder}/restoring")
    with open(f"{where.folder}/certificate.pem", encoding="utf-8") as source:
        client_setup.set_up(given["address"], source.read())
    # This file comes after the certificate: nodes that join become clients as soon as this file exists.
    node_setup.put(settings.PATH, settings.text_of(its).encode(), 0o644, "root")
    node_setup.put(member.COMMAND, member.command(), 0o755, "root")
    if its.accounting:
        associations.add(its.accounting, sorted(existing()))
    try:
        snapshot.write(its.snapshot)
    except OSError as error:
        sys.exit(f"{its.snapshot}, from which a new controller takes the users, was not written: {error.strerror}")


def _restore(its: settings.Settings, mark: str) -> None:
    """Fill an empty directory from the copy; continue if an earlier call was interrupted, which left the file `mark`.

    At the end of the set-up the copy is written again, so if the directory had only a part of the users, the copy would lose
    the others.
    """
    there = {entry["dn"][0] for entry in ldap.entries()}
    if there and not os.path.exists(mark):
        return
    with open(mark, "w", encoding="utf-8"):
        pass
    wanted = snapshot.read(its.snapshot) or directory.first_entries()
    missing = [entry for entry in wanted if entry["dn"][0] not in there]
    if missing:
        ldap.add(missing)
    os.unlink(mark)


def _layout() -> Layout:
    """Return the paths of this machine's OpenLDAP."""
    where = next((one for one in _LAYOUTS if os.path.isdir(f"{one.conf}/schema")), None)
    if where is None or not os.path.exists(directory.SLAPD):
        sys.exit(
            "there is no slapd, which stores the cluster's users; on Ubuntu install slapd, on Oracle Linux 9 openldap-servers "
            "of EPEL; for Oracle Linux 8 there is no such package, so the controller needs another image"
        )
    if not shutil.which("ldapadd"):
        sys.exit("there is no ldapadd, which changes the directory; install openldap-clients, on Ubuntu ldap-utils")
    module = any(os.path.exists(f"{where.modules}/back_mdb{end}") for end in (".la", ".so"))
    return where._replace(module=module)


def _files(where: Layout, given: Dict[str, Any]) -> bool:
    """Write the directory's files and folders; return whether a file was changed."""
    try:
        user = pwd.getpwnam(where.user)
    except KeyError:
        sys.exit(f"there is no user {where.user}, which the package of slapd creates")
    # /run/slapd is the folder of Debian's socket; the unit creates it again at every start.
    for folder, mode in ((where.folder, 0o755), (where.data, 0o700), ("/run/slapd", 0o755)):
        os.makedirs(folder, mode=mode, exist_ok=True)
    os.chown(where.data, user.pw_uid, user.pw_gid)
    wrote = [
        _certificate(where, given["hostname"], given["address"]),
        node_setup.put(f"{where.folder}/slapd.conf", directory.slapd_conf(where).encode(), 0o644, "root"),
    ]
    unit = directory.unit(where, given["address"]).encode()
    if node_setup.put(os.path.join(_UNITS, directory.UNIT), unit, 0o644, "root"):
        commands.demand("systemctl", "daemon-reload")
        return True
    return any(wrote)


def _certificate(where: Layout, hostname: str, address: str) -> bool:
    """Create the controller's key and certificate unless they exist for this name and address; return whether this was done."""
    request = f"{where.folder}/certificate.cnf"
    files = [f"{where.folder}/{name}" for name in ("key.pem", "certificate.pem")]
    text = directory.certificate_request(hostname, address).encode()
    if os.path.exists(request) and all(map(os.path.exists, files)):
        with open(request, "rb") as source:
            if source.read() == text:
                return False
    with tempfile.TemporaryDirectory() as folder:
        conf, key, certificate = (os.path.join(folder, name) for name in ("request", "key", "certificate"))
        with open(conf, "wb") as target:
            target.write(text)
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-config", conf]
        commands.demand(*words, "-days", str(directory.CERTIFICATE_DAYS), "-keyout", key, "-out", certificate)
        for made, path, mode, owner in ((key, files[0], 0o400, where.user), (certificate, files[1], 0o644, "root")):
            with open(made, "rb") as source:
                node_setup.put(path, source.read(), mode, owner)
    # The request is written last, so that after an interruption everything is created again.
    node_setup.put(request, text, 0o644, "root")
    return True


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
