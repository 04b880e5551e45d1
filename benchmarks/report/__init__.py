"""Stack outputs, tables, pages and pictures of a judged measurement."""
