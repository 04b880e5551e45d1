"""The search tried on simulated fabrics, and the figures that come of it."""
