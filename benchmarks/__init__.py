"""What is measured and what it means: plans, requests, verdicts, reports, records, and the runner for a head node.

All of it is pure functions over data but `records` and `runner`. The runner is a separate program: it is packed from here and
never imported by the operator's side.
"""
