"""The search on simulated fabrics, and figures of its quality."""
