"""The types of requests and of the runner's lines, and the launchers, which turn a description of ranks into a command.

Python 3.6, standard library only.
"""
