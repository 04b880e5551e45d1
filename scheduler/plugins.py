"""Plugins that Slurm's commands and daemons load; every machine has them before Slurm runs there."""

from scheduler.slurm_conf import MARK

#: Pyxis, which first boot builds (`cloudinit.pyxis`). Slurm gets the absolute path, because plugin folders differ.
PYXIS = "/usr/local/lib/slurm/spank_pyxis.so"


def pyxis_line() -> str:
    """Return the line with which Slurm loads Pyxis.

    Containers with a name are removed at the end of the job: otherwise, if the unpacking of a container was interrupted, the
    next job would use the incomplete container.
    """
    return f"required {PYXIS} container_scope=job"


def plugstack_conf() -> str:
    """Return plugstack.conf. Nodes get this file from the controller, like slurm.conf, but not the plugins that it names."""
    return f"{MARK}\n{pyxis_line()}\n"
