"""Feeds damaged transcripts, JSON results and lines to the parser and the judge; defines what counts as a false pass."""
