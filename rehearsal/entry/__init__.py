"""The way in and out of a rehearsal."""
