"""Damaged transcripts, JSON results and lines for the parser and the judge, and what counts as a false pass."""
