"""What is measured and what it should reach: steps, ranks, ceilings, gates. Pure functions over data."""
