"""What people and other stacks read: outputs, table, page, pictures."""
