"""The program that works on a head node: build, measure, search. Python 3.6 or later, standard library only.

`benchmarks.host.pack` packs the program and the packages that it imports into one zipapp. To the machine that started it, the
program returns only one JSON line and lines of progress, and never the environment of a process.
"""
