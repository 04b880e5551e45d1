"""The only package that registers resources: a folder for each target, and `acceptance` and other code for all targets.

Nothing is imported here: importing a target's provider SDK takes half a second or more, and a stack needs only one SDK.
"""
