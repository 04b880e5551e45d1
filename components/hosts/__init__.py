"""Machines that already exist: named by their addresses, reached with pinned host keys; nothing is created or removed."""
