"""A Slurm cluster whose controller runs on the login node; nothing here depends on a cloud."""
