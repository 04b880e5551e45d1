"""The error that stops work with one sentence."""


class Refusal(Exception):  # noqa: N818 - not a defect
    """Work cannot continue; the message says what was found, what is needed and what to do."""
