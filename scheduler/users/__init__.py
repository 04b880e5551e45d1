"""Users of a cluster: their directory on the controller, the machines that read it, and the command that changes it.

Standard library of Python 3.6 only: the programs run on the machines themselves.
"""
