"""Small changes to the product, one at a time, that some test has to notice."""
