"""The error that ends work with one sentence."""


class Refusal(Exception):  # noqa: N818 - not a defect
    """Work that cannot go on; the message says what was found, what is needed and what to do."""
