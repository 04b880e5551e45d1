"""What each target may be asked for: one model for each, refusing in a sentence with what was given and what is allowed.

It deliberately reads no configuration and asks no cloud: `settings` hands the values over, and it opens only files
that they name.
"""
