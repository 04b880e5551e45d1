"""The exception that ends a command with one sentence for the person who typed it."""


class RefusalError(Exception):
    """The command is refused; the text says why."""
