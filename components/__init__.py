"""The only package that registers resources: one folder for each target, and `acceptance`, which is the same for all.

Nothing is imported here: a target's provider SDK takes half a second or more, and a stack needs only one.
"""
