"""The program that works on a head node: build, spread, measure; Python 3.6 upward, standard library alone.

Packed into one zipapp by `benchmarks.host.pack`, where its modules stand at the top level beside `transcript`. It deliberately
judges nothing, keeps no secret and sends no environment: what leaves the node is one JSON line and lines of progress.
"""
