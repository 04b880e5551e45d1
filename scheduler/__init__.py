"""Renders Slurm's files from data, as pure functions; part of the runner, so Python 3.6 and the standard library only."""
