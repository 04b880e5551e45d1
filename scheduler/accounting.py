"""Slurm's database on the controller: slurmdbd, whom MariaDB knows on the local socket, so that there is no password."""

from typing import Any, Dict

from scheduler.cluster import Cluster

CONF = "/etc/slurm/slurmdbd.conf"
UNIT = "slurmdbd.service"
DATABASE = "slurm_acct_db"
#: Where slurmdbd listens, whom sacct asks on every machine (slurmdbd.conf(5), DbdPort: the default).
PORT = 6819
_LOG = "/var/log/slurm/slurmdbd.log"
#: slurmdbd refuses smaller ones in its log (accounting.html of Slurm, "MySQL Configuration"); the pool is what a controller of
#: 8 GiB can give, and holds the index of some million jobs.
_POOL_MIB = 512


def settings(cluster: Cluster) -> Dict[str, str]:
    """Return what slurm.conf says about the database. Jobs of users without an association are counted, too."""
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        # By its address, because sacct on a node asks the database, too.
        "AccountingStorageHost": cluster.controller_address,
        "AccountingStorageTRES": "gres/gpu",
        "JobAcctGatherType": "jobacct_gather/cgroup" if cluster.cgroups else "jobacct_gather/linux",
        "JobAcctGatherFrequency": "30",
    }


def slurmdbd_conf(cluster: Cluster, mark: str) -> str:
    """Return slurmdbd.conf, which is slurm's alone (0600): slurmdbd refuses another mode."""
    found = {
        "AuthType": "auth/munge",
        "DbdHost": cluster.controller,
        "DbdAddr": cluster.controller_address,
        "SlurmUser": "slurm",
        "PidFile": "/run/slurmdbd.pid",
        "LogFile": _LOG,
        "StorageType": "accounting_storage/mysql",
        # The client library takes this name for the local socket, where MariaDB knows who calls.
        "StorageHost": "localhost",
        "StorageUser": "slurm",
        "StorageLoc": DATABASE,
    }
    return "\n".join([mark, *(f"{key}={value}" for key, value in found.items())]) + "\n"


def mariadb_conf(mark: str) -> str:
    """Return MariaDB's settings: no network, and the sizes that slurmdbd wants."""
    lines = [
        *(mark, "[mysqld]", "skip-networking"),
        *(f"innodb_buffer_pool_size={_POOL_MIB}M", "innodb_log_file_size=64M", "innodb_lock_wait_timeout=900"),
        "max_allowed_packet=16M",
    ]
    return "\n".join(lines) + "\n"


def statements() -> str:
    """Return the SQL that makes the database and its user; it changes nothing if they are there."""
    return (
        f"create database if not exists {DATABASE};\n"
        "create user if not exists 'slurm'@'localhost' identified via unix_socket;\n"
        f"grant all on {DATABASE}.* to 'slurm'@'localhost';\n"
    )


def unit(mark: str) -> str:
    """Return the unit of slurmdbd, which must run before slurmctld starts for the first time."""
    lines = [
        *(mark, "[Unit]", "Description=Slurm's database of jobs and users"),
        *("After=network-online.target munge.service mariadb.service", "Wants=munge.service mariadb.service"),
        *("Before=slurmctld.service", ""),
        *("[Service]", "Type=simple", "ExecStart=/usr/sbin/slurmdbd -D", "Restart=on-failure", "RestartSec=5", ""),
        *("[Install]", "WantedBy=multi-user.target"),
    ]
    return "\n".join(lines) + "\n"


def document(cluster: Cluster, mark: str) -> Dict[str, Any]:
    """Return what `scheduler.accounting_setup` does on the controller, as plain data."""
    return {
        "slurmdbd_conf": slurmdbd_conf(cluster, mark),
        "mariadb_conf": mariadb_conf(mark),
        "unit": unit(mark),
        "cluster": cluster.name,
    }
