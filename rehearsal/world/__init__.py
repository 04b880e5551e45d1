"""The world's folder, its name, and the faults asked for."""
