"""MariaDB and slurmdbd as the distributions package them.

The programs come from Debian's packages on the machine that runs the rehearsal.
"""

from __future__ import annotations

from rehearsal.image import slurm_packages
from rehearsal.image.package import Package

_MACHINE = "/usr/lib/rehearsal/machine"
_PROGRAMS = ("bin/mariadb", "bin/mariadb-install-db", "sbin/mariadbd")
#: MariaDB 10.11's own unit (support-files/mariadb.service.in), limited to what starts the server.
_UNIT = """[Unit]
Description=MariaDB database server
After=network.target

[Service]
Type=simple
User=mysql
Group=mysql
RuntimeDirectory=mysqld
ExecStart=/usr/sbin/mariadbd

[Install]
WantedBy=multi-user.target
"""


def _mariadb(version: str, folder: str) -> Package:
    """Return the package of MariaDB's server; the server reads its settings from files in `folder`.

    Installing this package creates the database, as with Debian's real package. With Red Hat's real package, the unit creates
    the database when the unit starts for the first time.
    """
    return {
        "version": version,
        "files": [
            *(("link", f"/usr/{path}", f"{_MACHINE}/{path}") for path in _PROGRAMS),
            ("text", "/usr/lib/systemd/system/mariadb.service", _UNIT),
            ("text", "/etc/my.cnf", f"[client-server]\n!includedir {folder}\n"),
        ],
        "postinst": f"""getent passwd mysql || useradd --system --no-create-home --shell /bin/false mysql
install -d {folder}
install -d -o mysql -g mysql /var/lib/mysql
[ -d /var/lib/mysql/mysql ] || mariadb-install-db --user=mysql --auth-root-authentication-method=socket --skip-test-db
""",
    }


_DAEMON = slurm_packages.daemon("slurmdbd")
DEBIAN: dict[str, Package] = {
    "mariadb-server": _mariadb("1:10.11.7-2ubuntu2", "/etc/mysql/mariadb.conf.d"),
    "slurmdbd": {"version": "23.11.4-1.2ubuntu5", "files": _DAEMON},
    "slurm-wlm-mysql-plugin": {"version": "23.11.4-1.2ubuntu5"},
}
#: Packages from the repositories of Oracle Linux 9 itself, not from EPEL.
EL: dict[str, Package] = {"mariadb-server": _mariadb("10.5.22-1.el9", "/etc/my.cnf.d")}


def epel(release: str) -> dict[str, Package]:
    """Return slurmdbd as in Oracle's mirror of EPEL."""
    return {"slurm-slurmdbd": {"version": f"22.05.9-1.el{release}", "files": _DAEMON, "needs": ["slurm"]}}
