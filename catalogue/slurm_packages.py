"""Packages of Slurm and of the software that Slurm's users need, by distribution.

Sources: packages.fedoraproject.org for EPEL, which Oracle serves from its own repository (EPEL 9 has 22.05.9-1.el9; EPEL 8 has
20.11.9-1.el8, which is too old for busbar); Fedora's slurm.spec of Slurm 19.05 (the package is built with PMIx and requires
PMIx); packages.ubuntu.com (noble; not jammy, whose Slurm 21.08 does not tell the resume program which job needs which nodes).
"""

from __future__ import annotations

from dataclasses import dataclass

_Names = tuple[str, ...]


@dataclass(frozen=True)
class SlurmPackages:
    """The packages to install on a controller and on nodes.

    Attributes:
        version: version of Slurm.
        repositories: packages that add repositories; they are installed first.
        slurm: slurmctld, slurmd, the clients and munge, on all machines.
        containers: what tasks in containers need: the headers of this Slurm and a compiler, to build the plugin Pyxis, and
            PMIx. On Ubuntu, only the development package of PMIx contains the file name by which Slurm loads PMIx.
        users: the client of the directory of users, on all machines.
        directory: the directory's server and its tools, on the controller.
        accounting: Slurm's database of jobs, and MariaDB for it, on the controller.
    """

    version: str
    repositories: _Names
    slurm: _Names
    containers: _Names
    users: _Names
    directory: _Names
    accounting: _Names


_EL_SLURM = ("slurm", "slurm-slurmctld", "slurm-slurmd", "munge")
_EL_ACCOUNTING = ("slurm-slurmdbd", "mariadb-server")
_EL_CONTAINERS = ("slurm-devel", "gcc", "make", "pmix")
EL9 = SlurmPackages(
    "22.05.9",
    ("oracle-epel-release-el9",),
    _EL_SLURM,
    _EL_CONTAINERS,
    ("sssd-ldap",),
    ("openldap-servers", "openldap-clients"),
    _EL_ACCOUNTING,
)
NOBLE = SlurmPackages(
    "23.11.4",
    (),
    ("slurmctld", "slurmd", "slurm-client", "munge"),
    ("libslurm-dev", "gcc", "make", "libc6-dev", "libpmix-dev"),
    ("sssd-ldap", "libnss-sss", "libpam-sss"),
    ("slapd", "ldap-utils"),
    ("slurmdbd", "slurm-wlm-mysql-plugin", "mariadb-server"),
)
