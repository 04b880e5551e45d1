"""The one error that ends work: its text is the sentence that a person reads."""


class Refusal(Exception):  # noqa: N818 - it is an answer, not a defect
    """Work that cannot go on; the message says what was found, what is needed and what to do."""
