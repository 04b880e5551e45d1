"""Measurements and their meaning: plans, requests, verdicts, reports, records, and the runner for a head node.

`plan` and `judge` are pure functions over data. The runner is a separate program: `host` packs it for the head node, and the
Pulumi program never imports it.
"""
