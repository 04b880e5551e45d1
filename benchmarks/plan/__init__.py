"""What is measured and what it should give: sizes, collectives, steps, ceilings, gates. Pure functions over data."""
