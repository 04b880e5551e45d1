"""Outputs, tables, pages and pictures of a judged measurement."""
