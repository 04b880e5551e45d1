"""Slurm's short form for many names: `gpu-[1-3,7]`. Lines in Slurm's files must be short, so long lists need this form."""

import re
from typing import Dict, Iterable, List, Sequence

_NUMBERED = re.compile(r"(.*?)(\d+)\Z", re.DOTALL)


def short(names: Iterable[str]) -> str:
    """Return the names as one expression: `a-1`, `a-2`, `b` become `a-[1-2],b`."""
    groups: Dict[str, List[str]] = {}
    for name in names:
        found = _NUMBERED.match(name)
        prefix, digits = found.groups() if found else (name, "")
        groups.setdefault(prefix, []).append(digits)
    return ",".join(_group(prefix, digits) for prefix, digits in groups.items())


def _group(prefix: str, digits: Sequence[str]) -> str:
    if len(digits) == 1:
        return prefix + digits[0]
    # Slurm reads [08-10] as two-digit numbers, so a range has only numbers of the same width.
    parts = []
    for width in sorted({len(one) if one.startswith("0") else 0 for one in digits}):
        same = sorted({int(one) for one in digits if one and (len(one) if one.startswith("0") else 0) == width})
        parts += [_range(first, last, width) for first, last in _runs(same)]
    bare = [prefix] if "" in digits else []
    return ",".join([*bare, *([f"{prefix}[{','.join(parts)}]"] if parts else [])])


def _runs(numbers: Sequence[int]) -> List[List[int]]:
    found: List[List[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def _range(first: int, last: int, width: int) -> str:
    begin = f"{first:0{width}}" if width else str(first)
    end = f"{last:0{width}}" if width else str(last)
    return begin if first == last else f"{begin}-{end}"


def names(short_form: str) -> List[str]:
    """Return the names of an expression with at most one bracket in each part, in order."""
    found: List[str] = []
    for prefix, inside in re.findall(r"([^,\[\]]+)(?:\[([^\]]*)\])?", short_form):
        if not inside:
            found.append(prefix)
            continue
        for part in inside.split(","):
            begin, _, end = part.partition("-")
            width = len(begin) if begin.startswith("0") else 0
            found += [
                f"{prefix}{number:0{width}}" if width else f"{prefix}{number}"
                for number in range(int(begin), int(end or begin) + 1)
            ]
    return found
