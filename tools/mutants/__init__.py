"""Small changes to the product, one at a time, each of which some test must detect."""
