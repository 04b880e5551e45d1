"""Launchers, which turn a description of ranks into a command, and the types of requests and of the runner's lines.

Python 3.6, standard library only.
"""
