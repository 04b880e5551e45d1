"""Plugins that Slurm's commands and daemons load, and that are on every machine before Slurm runs there."""

from scheduler.slurm_conf import MARK

#: Built by first boot (`cloudinit.pyxis`); Slurm looks for it by its whole path, because distributions have different folders.
PYXIS = "/usr/local/lib/slurm/spank_pyxis.so"


def pyxis_line() -> str:
    """Return the line by which Slurm loads Pyxis.

    Containers that a job names end with it: one whose unpacking was interrupted would otherwise serve the next job.
    """
    return f"required {PYXIS} container_scope=job"


def plugstack_conf() -> str:
    """Return plugstack.conf, which nodes get from the controller like slurm.conf, but not what it names."""
    return f"{MARK}\n{pyxis_line()}\n"
