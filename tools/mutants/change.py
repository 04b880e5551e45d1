"""Generates small mutants of a Python source from its syntax tree."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import random
from collections.abc import Iterator
from pathlib import Path

_COMPARE = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change: in `file`, `old` becomes `new` at line `line` (1-based) and column `column` (0-based)."""

    file: str
    line: int
    column: int
    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Change the file below `root`."""
        (root / self.file).write_text(self._changed(root))

    def shown(self, root: Path) -> str:
        """Return file:line and the lines that differ, in the form of a diff."""
        before = (root / self.file).read_text().splitlines()
        diff = difflib.unified_diff(before, self._changed(root).splitlines(), n=0, lineterm="")
        changed = [f"  {line[0]} {line[1:].strip()}" for line in list(diff)[2:] if line[0] in "-+"]
        return "\n".join([f"{self.file}:{self.line}", *changed])

    def is_python(self, root: Path) -> bool:
        """Tell whether the file is still valid Python after the change."""
        try:
            ast.parse(self._changed(root))
        except SyntaxError:
            return False
        return True

    def _changed(self, root: Path) -> str:
        text = (root / self.file).read_text()
        at = sum(len(line) for line in text.splitlines(keepends=True)[: self.line - 1]) + self.column
        if not text[at:].startswith(self.old):
            raise ValueError(f"{self.file}:{self.line} no longer holds {self.old!r} at column {self.column}")
        return text[:at] + self.new + text[at + len(self.old) :]


def sample(root: Path, files: list[str], count: int, dice: random.Random) -> list[Mutant]:
    """Return at most `count` mutants of `files`, each on another line; all lines that can be changed are equally likely."""
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    for file in files:
        for mutant in of(file, (root / file).read_text()):
            by_line.setdefault((file, mutant.line), []).append(mutant)
    places = sorted(by_line)
    found: list[Mutant] = []
    dice.shuffle(places)
    for place in places:
        if len(found) == count:
            break
        whole = [mutant for mutant in by_line[place] if mutant.is_python(root)]
        found += [dice.choice(whole)] if whole else []
    return found


def of(file: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of `source`; a few are invalid Python."""
    lines = source.splitlines()
    for node in _walk(ast.parse(source)):
        for at, end, new in _changes(node, source):
            row, column = at
            if end[0] != row or not lines[row - 1].isascii():  # in other lines, ast's columns are not positions in the text
                continue
            old = lines[row - 1][column : end[1]]
            if old != new:
                yield Mutant(file, row, column, old, new)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every node, except nodes for type checkers only, and nodes in f-strings, which have no position in Python 3.11."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.JoinedStr) or _is_for_types(child)):
            yield from _walk(child)


def _is_for_types(node: ast.AST) -> bool:
    """Tell whether a node is an `if TYPE_CHECKING`, or the options of a dataclass: tests need not notice changes of these."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.Call) and ast.unparse(node.func) in {"dataclass", "dataclasses.dataclass"}


Place = tuple[int, int]


def _start(node: ast.expr | ast.stmt) -> Place:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> Place:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def _changes(node: ast.AST, source: str) -> Iterator[tuple[Place, Place, str]]:
    """Yield (from, to, new text) for one node."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield _start(node), _end(node), str(not node.value)
        elif isinstance(node.value, int | float):
            yield _start(node), _end(node), repr(node.value + 1)
    elif isinstance(node, ast.expr):
        yield from _expression(node, source)
    elif isinstance(node, ast.If | ast.While):
        yield _start(node.test), _end(node.test), "False"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield _start(node), _end(node), "None"
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield _start(node), _end(node), "return None"


def _expression(node: ast.expr, source: str) -> Iterator[tuple[Place, Place, str]]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _operator(node.left, node.comparators[0], _COMPARE[type(node.ops[0])])
    elif isinstance(node, ast.BoolOp) and len(node.values) == 2:  # noqa: PLR2004 - one operator
        yield from _operator(node.values[0], node.values[1], "or" if isinstance(node.op, ast.And) else "and")
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not (_is_text(node.left) or _is_text(node.right)):
        yield from _operator(node.left, node.right, _ARITHMETIC[type(node.op)])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _start(node), _start(node.operand), ""
    elif isinstance(node, ast.Call) and len(node.args) == 2:  # noqa: PLR2004 - a pair
        first, second = (ast.get_source_segment(source, one) or "" for one in node.args)
        yield _start(node.args[0]), _end(node.args[1]), f"{second}, {first}"
    elif isinstance(node, ast.IfExp):
        yield _start(node.test), _end(node.test), "False"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _operator(left: ast.expr, right: ast.expr, new: str) -> Iterator[tuple[Place, Place, str]]:
    """Replace the text between two operands, if they are on one line."""
    if _end(left)[0] == _start(right)[0]:
        yield _end(left), _start(right), f" {new} "
