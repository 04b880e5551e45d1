"""Programs on the controller that start and terminate a cluster's dynamic nodes; standard library of Python 3.6.

Slurm calls `resume`, `suspend` and `resume-failed`, which only record Slurm's request and return. `reconcile`, which a systemd
timer starts, carries the requests out. `reconcile`, `sweep` and `install` call the cloud; `reconcile` and `sweep` never do so
at the same time. `reconcile` can be killed at any point and run again.
"""
