"""Set-up, checks, measurements and commands of this checkout; a cluster, once built, needs nothing from this folder."""
