"""Namespaces, cables, routers, rules and names."""
