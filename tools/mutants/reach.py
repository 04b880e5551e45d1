"""Finds the test files that can detect a change of a file: test files whose imports lead to the file, the nearest first."""

from __future__ import annotations

import ast
import functools
from collections import deque
from collections.abc import Iterator
from pathlib import Path

#: Modules that reach more files than their import statements show, because they pack, send or run other sources.
_CARRIES = {
    "__main__.py": ("components/*/cluster.py",),
    "benchmarks/host/pack.py": ("benchmarks/runner/*.py", "benchmarks/search/*.py"),
    "components/remote_scripts/__init__.py": ("components/remote_scripts/*.py",),
}
#: How a test or its helper runs the whole program.
_RUNS_THE_PROGRAM = 'runpy.run_path(str(ROOT / "__main__.py")'
#: The fields of a statement that hold statements.
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class Reach:
    """The imports of a checkout."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tests = sorted((root / "tests").rglob("*.py"))
        self._beside = {path.stem: path for path in self._tests}

    def tests_of(self, file: str) -> list[str]:
        """Return the test files that reach `file`, the nearest first; test files that run the whole program come last."""
        target, program = self._root / file, self._root / "__main__.py"
        found = []
        for test in self._tests:
            reached = self._distances(test)
            if test.name.startswith("test_") and target in reached:
                found.append((program in reached, reached[target], test.relative_to(self._root).as_posix()))
        return [name for _, _, name in sorted(found)]

    @functools.cache  # noqa: B019 - lives as long as the run
    def _distances(self, start: Path) -> dict[Path, int]:
        seen, waiting = {start: 0}, deque([start])
        while waiting:
            here = waiting.popleft()
            for there in self._imports(here):
                if there not in seen:
                    seen[there] = seen[here] + 1
                    waiting.append(there)
        return seen

    @functools.cache  # noqa: B019 - lives as long as the run
    def _imports(self, path: Path) -> frozenset[Path]:
        text = path.read_text()
        found: set[Path] = set()
        for statement in _statements(ast.parse(text)):
            if isinstance(statement, ast.Import):
                names = [alias.name for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                names = [statement.module, *(f"{statement.module}.{alias.name}" for alias in statement.names)]
            else:
                continue
            for name in names:
                found |= self._files(name, path)
        for pattern in _CARRIES.get(path.relative_to(self._root).as_posix(), ()):
            found |= set(self._root.glob(pattern))
        if path in self._tests and _RUNS_THE_PROGRAM in text:
            found.add(self._root / "__main__.py")
        return frozenset(found)

    def _files(self, name: str, importer: Path) -> frozenset[Path]:
        """Return the files that importing `name` runs: those of each package in the dotted name, and the module."""
        found = self._under(self._root, name) | self._under(importer.parent, name)
        if "." not in name and name in self._beside and importer in self._tests:
            return found | {self._beside[name]}
        return found

    @functools.cache  # noqa: B019 - lives as long as the run
    def _under(self, folder: Path, name: str) -> frozenset[Path]:
        found: set[Path] = set()
        for part in name.split("."):
            folder /= part
            found |= {one for one in (folder / "__init__.py", folder.with_suffix(".py")) if one.is_file()}
        return frozenset(found)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield every statement of a module. `ast.walk` would also visit expressions, and take four times as long."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for block in _BLOCKS:
            waiting.extend(getattr(node, block, ()))
