"""Runs a command as one of a job's TensorFlow workers: sets TF_CONFIG from Slurm's variables.

    python3 tf_config.py COMMAND...

MNIST_HOSTS has the names of the job's nodes in Slurm's order; one task runs on each node.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

#: A job's port is 20000 plus the last four digits of the job's number, so that two jobs on one node hardly ever share a port.
_FIRST_PORT = 20000
_PORTS = 10000


def tf_config(environment: Mapping[str, str]) -> dict[str, object]:
    """Return TF_CONFIG for the task that has the given environment.

    Raises:
        ValueError: a variable is missing, or the number of tasks differs from the number of nodes.
    """
    missing = [name for name in ("MNIST_HOSTS", "SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID") if not environment.get(name)]
    if missing:
        raise ValueError("not set: {}; submit mnist.sbatch".format(", ".join(missing)))
    hosts = environment["MNIST_HOSTS"].split()
    tasks, index = int(environment["SLURM_NTASKS"]), int(environment["SLURM_PROCID"])
    if tasks != len(hosts):
        raise ValueError(f"SLURM_NTASKS is {tasks}, but the job has {len(hosts)} nodes; start one task on each")
    port = _FIRST_PORT + int(environment["SLURM_JOB_ID"]) % _PORTS
    workers = [f"{host}:{port}" for host in hosts]
    return {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}


def main() -> None:
    """Replace this process with the command in sys.argv."""
    if len(sys.argv) == 1:
        sys.exit("usage: tf_config.py COMMAND...")
    try:
        os.environ["TF_CONFIG"] = json.dumps(tf_config(os.environ))
    except ValueError as error:
        sys.exit(f"tf_config.py: {error}")
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - the command is the job's own


if __name__ == "__main__":
    main()
