"""A Slurm cluster whose controller runs on the login node; this package depends on no particular cloud."""
