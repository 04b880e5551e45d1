"""A stand-in command logs its words in a form that a shell can parse."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from rehearsal.image.standin import quoted


@given(st.text(st.sampled_from("ab1 '\"$@%+=:,./-_~\\é\n")))
def test_an_argument_is_quoted_as_shlex_quotes_it(word):
    assert quoted(word) == shlex.quote(word)
