"""Entry to a rehearsal, and its cleanup."""
