"""Programs on the controller that start and end a cluster's dynamic nodes; standard library of Python 3.6.

Slurm calls `resume`, `suspend` and `resume-failed`. They only write down what Slurm wants and return. `reconcile`, run by a
systemd timer, does it: it is the only one that calls the cloud, and it can be killed at any line and run again.
"""
