"""Set-up, checks and measurements of this checkout; a cluster needs none of it."""
