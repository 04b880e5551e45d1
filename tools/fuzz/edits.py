"""Damages documents with edits that can be recorded, repeated and left out one by one."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tools.fuzz.bases import Documents

#: Values that a parser of numbers and fields often handles wrongly.
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 0.5, 1e-9, 1e300, 10**400, 2**63, "", "0", "nan", "-inf", "x", [], {}, [0], {"a": 1}, [[]],
    float("nan"), float("inf"), "true", "false", " ", "\u0663", "\u00b2",
)  # fmt: skip
_WORDS = (
    "0", "-1", "nan", "inf", "1e400", "N/A", "...", "3", "0x10", "\u00b2", "\u0663", "#", "1,5", "345.38", "float", "half",
    "sum",
)  # fmt: skip
_LINES = (
    "# Out of bounds values : 0 OK", "# Out of bounds values : 5 FAILED", "# Avg bus bandwidth    : 350.0 ", "...", "",
    "# busbar rehearsal: scaled by 1/4000", "# Collective test starting: all_gather_perf",
    "#  Rank  0 Group  0 Pid   1349 on         vm device  0 [0000:00:06] NVIDIA H200",
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong",
    "#       size         count      type   redop    root     busbw   algbw   time  #wrong     time   algbw   busbw  #wrong",
    "#                      in-place                       out-of-place",
    "inst-0: Test NCCL failure common.cu:1203 'remote process exited or there was a network error'",
    "  8589934592    2147483648     float     sum      -1  24870.8  345.38  345.38       0  24749.5  347.07  347.07       0",
)  # fmt: skip
_FACTORS = (0.0, 0.1, 0.5, 0.9, 0.98, 1.02, 1.1, 2.0, 8.0, 1024.0)


@dataclass(frozen=True)
class Edit:
    """One replacement in a document.

    Attributes:
        document: name of the document.
        at: index of the first character that is replaced.
        was: the text that is replaced.
        now: the text that replaces it.
    """

    document: str
    at: int
    was: str
    now: str

    def apply(self, documents: Documents) -> Documents | None:
        """Return the documents with the edit; None if the document does not contain the text to replace."""
        text = documents.get(self.document)
        if text is None:
            return None
        at = self.at if text.startswith(self.was, self.at) else text.find(self.was)
        if at < 0:
            return None
        return documents | {self.document: text[:at] + self.now + text[at + len(self.was) :]}


def applied(edits: list[Edit], documents: Documents) -> Documents | None:
    """Return the documents after all `edits`; None if a document does not contain the text that an edit replaces."""
    found: Documents | None = documents
    for edit in edits:
        found = None if found is None else edit.apply(found)
    return found


def edits(documents: Documents, dice: random.Random) -> list[Edit]:
    """Make one to four random changes; return their edits, each of which applies to the result of the edits before it.

    A change has one edit for each document that it changes. Edits without effect are left out, so the list may be empty.
    """
    made: list[Edit] = []
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 4))):
        step = [_difference(name, documents[name], text) for name, text in _damaged(documents, dice).items()]
        for edit in step:
            documents = edit.apply(documents) or documents
        made += step
    return [edit for edit in made if edit.was != edit.now]


def _difference(name: str, before: str, after: str) -> Edit:
    """Return the shortest single edit that turns one text into another."""
    least = min(len(before), len(after))
    start = next((index for index in range(least) if before[index] != after[index]), least)
    tail = next((index for index in range(least - start) if before[-1 - index] != after[-1 - index]), least - start)
    return Edit(name, start, before[start : len(before) - tail], after[start : len(after) - tail])


def _damaged(documents: Documents, dice: random.Random) -> Documents:
    """Make one random change; return the changed documents."""
    steps = [name.removesuffix(".txt") for name in documents if name.endswith(".txt")]
    if steps and dice.random() < 0.25:  # noqa: PLR2004
        return _in_both(documents, dice.choice(steps), dice)
    name = dice.choice(sorted(documents))
    text = documents[name]
    if dice.random() < 0.1:  # noqa: PLR2004
        return {name: dice.choice(_OF_ANY)(text, dice)}
    if name.endswith(".txt"):
        return {name: dice.choice(_OF_LINES)(text, dice)}
    try:
        document = json.loads(text)
    except ValueError:
        return {name: dice.choice(_OF_ANY)(text, dice)}
    return {name: json.dumps(_leaf_changed(document, dice))}


def _in_both(documents: Documents, step: str, dice: random.Random) -> Documents:
    """Change a number of a row, or delete a row, in both the text and the JSON file, so that the two agree.

    If the files are already damaged, change one character of the text.
    """
    text, exact = documents[f"{step}.txt"], documents.get(f"{step}.json", "")
    lines = text.split("\n")
    rows = [number for number, line in enumerate(lines) if line.strip()[:1].isdigit()]
    try:
        results = json.loads(exact)["results"]
        index = dice.randrange(min(len(rows), len(results)))
        if dice.random() < 0.2:  # noqa: PLR2004
            del lines[rows[index]]
            return {
                f"{step}.txt": "\n".join(lines),
                f"{step}.json": _with_results(exact, results[:index] + results[index + 1 :]),
            }
        words = lines[rows[index]].split()
        placement = dice.choice(("out_of_place", "in_place"))
        place, key = dice.choice(((-4, "time"), (-3, "alg_bw"), (-2, "bus_bw"), (-1, "nwrong")))
        place -= 4 if placement == "out_of_place" else 0
        old = results[index][placement][key]
        new = dice.choice((1, 3)) if key == "nwrong" else old * dice.choice(_FACTORS)
        results[index][placement][key] = new
        words[place] = str(new) if key == "nwrong" else f"{new:.2f}"
        lines[rows[index]] = " ".join(words)
        return {f"{step}.txt": "\n".join(lines), f"{step}.json": _with_results(exact, results)}
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError):
        return {f"{step}.txt": _character(text, dice)}


def _with_results(exact: str, results: list[Any]) -> str:
    return json.dumps(json.loads(exact) | {"results": results})


# any text


def _character(text: str, dice: random.Random) -> str:
    at = dice.randrange(len(text) + 1)
    new = dice.choice(
        ("", "", "0", "9", ".", "-", " ", "\t", "\n", "\r", "\0", "#", '"', "}", "]", ",", "e", "\u00b2", "\ufffd")
    )
    return text[:at] + new + text[at + dice.choice((0, 1)) :]


def _cut(text: str, dice: random.Random) -> str:
    return text[: dice.randrange(len(text) + 1)]


def _hole(text: str, dice: random.Random) -> str:
    at = dice.randrange(len(text) + 1)
    return text[:at] + text[at + dice.randint(1, 80) :]


def _twice(text: str, _dice: random.Random) -> str:
    return text + text


_OF_ANY: tuple[Callable[[str, random.Random], str], ...] = (_character, _character, _cut, _hole, _twice)


# lines


def _line_changed(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    first, second = dice.randrange(len(lines)), dice.randrange(len(lines))
    what = dice.randrange(6)
    if what == 0:
        del lines[first]
    elif what == 1:
        lines.insert(second, lines[first])
    elif what == 2:  # noqa: PLR2004
        lines[first], lines[second] = lines[second], lines[first]
    elif what == 3:  # noqa: PLR2004
        lines.insert(first, dice.choice(_LINES))
    elif what == 4:  # noqa: PLR2004
        lines[first] = lines[first][: dice.randrange(len(lines[first]) + 1)] + dice.choice(("", lines[second]))
    else:
        lines[first] = dice.choice(("[1,0]<stdout>:", "inst-0: ", "# ", "   ")) + lines[first]
    return "\n".join(lines)


def _word_changed(text: str, dice: random.Random) -> str:
    lines = text.split("\n")
    rows = [number for number, line in enumerate(lines) if line.strip()[:1].isdigit()]
    number = dice.choice(rows) if rows and dice.random() < 0.8 else dice.randrange(len(lines))  # noqa: PLR2004
    words = lines[number].split(" ")
    filled = [index for index, word in enumerate(words) if word]
    if not filled:
        return _character(text, dice)
    index = dice.choice(filled)
    what = dice.randrange(4)
    if what == 0:
        words[index] = dice.choice(_WORDS)
    elif what == 1:
        words[index] = words[dice.choice(filled)]
    elif what == 2:  # noqa: PLR2004
        words[index] = ""
    else:
        words[index] = _scaled(words[index], dice)
    lines[number] = " ".join(words)
    return "\n".join(lines)


def _scaled(word: str, dice: random.Random) -> str:
    try:
        number = float(word)
    except ValueError:
        return word + dice.choice(_WORDS)
    return f"{number * dice.choice(_FACTORS):.2f}" if "." in word else f"{number * dice.choice(_FACTORS):.0f}"


_OF_LINES: tuple[Callable[[str, random.Random], str], ...] = (_line_changed, _word_changed)


# JSON


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: list[tuple[Any, ...]] = []
    for key, its in inside:
        found.append((*at, key))
        found += _places(its, (*at, key))
    return found


def _leaf_changed(document: Any, dice: random.Random) -> Any:
    places = _places(document)
    if not places:
        return dice.choice(_VALUES)
    *way, last = dice.choice(places)
    here = document
    for key in way:
        here = here[key]
    what = dice.randrange(6)
    if what == 0:
        del here[last]
    elif what == 1 and isinstance(here, list):
        here.insert(dice.randrange(len(here) + 1), copy.deepcopy(here[last]))
    elif what == 2 and isinstance(here, list):  # noqa: PLR2004
        other = dice.randrange(len(here))
        here[last], here[other] = here[other], here[last]
    elif what == 3:  # noqa: PLR2004
        other_place = dice.choice(places)
        there = document
        for key in other_place:
            there = there[key]
        here[last] = copy.deepcopy(there)
    elif what == 4 and isinstance(here[last], (int, float)) and not isinstance(here[last], bool):  # noqa: PLR2004
        number = here[last] * dice.choice(_FACTORS) if abs(here[last]) < 1e300 else 0  # noqa: PLR2004
        here[last] = int(number) if isinstance(here[last], int) and number < 1e300 else number  # noqa: PLR2004
    else:
        here[last] = dice.choice(_VALUES)
    return document
