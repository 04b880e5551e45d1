"""A Slurm cluster whose controller is a cloud's login node; nothing here names a cloud."""
