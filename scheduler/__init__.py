"""Slurm's files, rendered from data; pure. It travels with the runner, so it needs only the standard library of Python 3.6."""
