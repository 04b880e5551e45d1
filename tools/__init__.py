"""Set-up, checks and measurements of this checkout; nothing that a cluster needs."""
