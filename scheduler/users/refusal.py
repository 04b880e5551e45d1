"""What ends a command with one sentence for the person who typed it."""


class RefusalError(Exception):
    """The command changed nothing; the text says why."""
