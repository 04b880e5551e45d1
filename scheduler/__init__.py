"""Renders Slurm's files and sets Slurm up on machines. It also runs there, so Python 3.6 and the standard library only."""
