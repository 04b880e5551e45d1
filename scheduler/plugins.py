"""Plugins that Slurm's commands and daemons load; every machine has the plugins before Slurm runs on it."""

from scheduler.slurm_conf import MARK

#: Pyxis, which first boot builds (`cloudinit.pyxis`). Slurm gets the absolute path, because the folder of
#: Slurm's plugins differs between distributions.
PYXIS = "/usr/local/lib/slurm/spank_pyxis.so"


def pyxis_line() -> str:
    """Return the line with which Slurm loads Pyxis.

    Containers with a name are removed at the end of the job. Otherwise the next job could use a container whose unpacking was
    interrupted.
    """
    return f"required {PYXIS} container_scope=job"


def plugstack_conf() -> str:
    """Return plugstack.conf. Nodes get this file from the controller, like slurm.conf; they already have the plugins."""
    return f"{MARK}\n{pyxis_line()}\n"
