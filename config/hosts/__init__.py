"""Existing machines, as a stack file names them."""
