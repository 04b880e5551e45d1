"""What sets up Slurm's database on the controller, as one text."""

import json

from scheduler import accounting
from scheduler.cluster import Cluster
from scheduler.over_stdin import text
from scheduler.programs import zipapp
from scheduler.slurm_conf import MARK


def controller(cluster: Cluster) -> bytes:
    """Return what sets it up, for `sudo -n python3 -IS -`; see `scheduler.accounting_setup.main`."""
    given = {
        "slurmdbd_conf": accounting.slurmdbd_conf(cluster, MARK),
        "mariadb_conf": accounting.mariadb_conf(MARK),
        "unit": accounting.unit(MARK),
        "cluster": cluster.name,
    }
    return text(zipapp(b"", ("",)), "scheduler.accounting_setup", f"main({json.dumps(given)!r})")
