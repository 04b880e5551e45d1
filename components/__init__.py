"""The only room that registers resources; one folder for each target, and what stands above the waist beside them.

It deliberately re-exports nothing: importing a target's provider SDK costs half a second, and a stack names only one.
"""
