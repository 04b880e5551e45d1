"""Namespaces, cables, routers, rules and name services."""
