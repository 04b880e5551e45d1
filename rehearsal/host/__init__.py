"""Hosts, file systems and what they are made of."""
