"""A failed look-up is reported in a sentence, whatever the error is."""

from __future__ import annotations

import pulumi
import pytest

from components.report_findings import look_up


@pytest.mark.parametrize(
    ("error", "words"), [(TimeoutError(), "up: TimeoutError. The"), (OSError("no route.\nmore"), "up: no route.")]
)
def test_an_error_without_a_message_is_named_by_its_class(error, words):
    def fails() -> None:
        raise error

    with pytest.raises(pulumi.RunError) as refused:
        look_up("oci", "the shapes", "read them", fails)
    assert words in str(refused.value)
