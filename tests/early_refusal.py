"""Checks of a refusal: it begins with the path of a key, and the program has registered no resource before it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pulumi

from config.model import fields_by_key, inner
from config.schema import StackFile

#: Keys that may be refused after the first registration: the program compares them with running machines or with an existing
#: file system, which it looks up only while it registers resources.
_LATE = re.compile(r"aws\.(allowReplace|storage\.\w+\.(existing|efa)) ")


@contextlib.contextmanager
def early_refusal(made: Sequence[tuple[str, str, Any]]) -> Iterator[None]:
    """Fail if the program in the `with` block refuses a key after it has registered a resource.

    `made` are the program's registrations: type, name, inputs. Components do not count, and keys in `_LATE` are exempt.
    """
    try:
        yield
    except pulumi.RunError as refusal:
        rented = [name for kind, name, _ in made if not kind.startswith("busbar:")]
        if rented and begins_with_a_path(str(refusal)) and not _LATE.match(str(refusal)):
            raise AssertionError(f"a key was refused after the registration of {', '.join(rented)}") from refusal
        raise


def begins_with_a_path(sentence: str) -> bool:
    """Tell whether a sentence begins with the path of a key, as users type it.

    The key may also be unknown, if its group exists.
    """
    path = sentence.split(" ", maxsplit=1)[0]
    here: Any = StackFile
    for step in re.sub(r"\[\d+\]", "", path).split("."):
        known = fields_by_key(here) if here is not None else {}
        if step not in known:
            # `step` is a key of a map (tags, limits), or an unknown key of a group that exists.
            return here is None or "is not a" in sentence
        here = inner(known[step].annotation)
    return True
