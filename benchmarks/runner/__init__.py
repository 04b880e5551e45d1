"""The program that works on a head node: build, measure, search. Python 3.6 or later, standard library only.

`benchmarks.host.pack` packs it and the packages that it imports into one zipapp. It keeps no secret and sends no environment:
only one JSON line and lines of progress leave the node.
"""
