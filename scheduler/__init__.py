"""Slurm's files, rendered from data; pure. It travels with the runner, so it is the standard library of Python 3.6 alone."""
