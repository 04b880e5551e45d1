"""Hosts, file systems and their parts."""
