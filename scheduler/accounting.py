"""Settings of Slurm's database on the controller: slurmdbd logs in to MariaDB over a local socket, without a password."""

from typing import Any, Dict

from scheduler.cluster import Cluster

CONF = "/etc/slurm/slurmdbd.conf"
UNIT = "slurmdbd.service"
DATABASE = "slurm_acct_db"
#: Port of slurmdbd, which sacct on every machine queries (slurmdbd.conf(5), DbdPort: the default).
PORT = 6819
_LOG = "/var/log/slurm/slurmdbd.log"
#: InnoDB's buffer pool; slurmdbd complains in its log about smaller values (accounting.html of Slurm, "MySQL Configuration"). A
#: controller with 8 GiB can spare this much, which suffices for the index of several million jobs.
_POOL_MIB = 512


def settings(cluster: Cluster) -> Dict[str, str]:
    """Return the database settings for slurm.conf. Jobs of users without an association are recorded, too."""
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        # sacct connects to this host from every node. The address works even where the controller's name is unknown.
        "AccountingStorageHost": cluster.controller_address,
        "AccountingStorageTRES": "gres/gpu",
        "JobAcctGatherType": "jobacct_gather/cgroup" if cluster.cgroups else "jobacct_gather/linux",
        "JobAcctGatherFrequency": "30",
    }


def slurmdbd_conf(cluster: Cluster, mark: str) -> str:
    """Return slurmdbd.conf; the file must belong to the user slurm and have mode 0600, because slurmdbd refuses other modes."""
    found = {
        "AuthType": "auth/munge",
        "DbdHost": cluster.controller,
        "DbdAddr": cluster.controller_address,
        "SlurmUser": "slurm",
        "PidFile": "/run/slurmdbd.pid",
        "LogFile": _LOG,
        "StorageType": "accounting_storage/mysql",
        # With this name, the client library uses the local socket, where MariaDB knows the calling user.
        "StorageHost": "localhost",
        "StorageUser": "slurm",
        "StorageLoc": DATABASE,
    }
    return "\n".join([mark, *(f"{key}={value}" for key, value in found.items())]) + "\n"


def mariadb_conf(mark: str) -> str:
    """Return MariaDB's settings: it uses no network, and has the sizes and the lock timeout that slurmdbd recommends."""
    lines = [
        *(mark, "[mysqld]", "skip-networking"),
        *(f"innodb_buffer_pool_size={_POOL_MIB}M", "innodb_log_file_size=64M", "innodb_lock_wait_timeout=900"),
        "max_allowed_packet=16M",
    ]
    return "\n".join(lines) + "\n"


def statements() -> str:
    """Return the SQL that creates the database and its user unless they exist."""
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
    """Return the input of `scheduler.accounting_setup` on the controller, as plain data."""
    return {
        "slurmdbd_conf": slurmdbd_conf(cluster, mark),
        "mariadb_conf": mariadb_conf(mark),
        "unit": unit(mark),
        "cluster": cluster.name,
    }
