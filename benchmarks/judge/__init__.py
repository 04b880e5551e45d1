"""From a measurement's line to checks and a verdict. Pure functions over data."""
