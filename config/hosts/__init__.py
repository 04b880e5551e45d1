"""Machines that exist already, as a stack file names them."""
