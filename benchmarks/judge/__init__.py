"""What a measurement means: rows checked, bytes traced, checks made, one verdict. Pure functions over data."""
