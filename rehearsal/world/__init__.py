"""The world's folder, its name, and its planted faults."""
