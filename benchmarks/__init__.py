"""Measurements and their meaning: plans, requests, verdicts, reports, records, and the runner for a head node.

All parts except `records` and `runner` are pure functions over data. The runner is a separate program: it is packed from here,
and the operator's side never imports it.
"""
