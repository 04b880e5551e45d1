"""Finds the test files that can detect a change of a file: test files whose imports lead to the file, the nearest first."""

from __future__ import annotations

import ast
import functools
from collections import deque
from pathlib import Path

#: Modules that reach more files than their import statements show, because they pack, send or run other sources.
_CARRIES = {
    "__main__.py": ("components/*/cluster.py",),
    "benchmarks/host/pack.py": ("benchmarks/runner/*.py", "benchmarks/search/*.py"),
    "components/remote_scripts/__init__.py": ("components/remote_scripts/*.py",),
}
#: How a test or its helper runs the whole program.
_RUNS_THE_PROGRAM = 'runpy.run_path(str(ROOT / "__main__.py")'


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
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            else:
                continue
            for name in names:
                found |= self._files(name, path)
        for pattern in _CARRIES.get(path.relative_to(self._root).as_posix(), ()):
            found |= set(self._root.glob(pattern))
        if path in self._tests and _RUNS_THE_PROGRAM in text:
            found.add(self._root / "__main__.py")
        return frozenset(found)

    def _files(self, name: str, importer: Path) -> set[Path]:
        """Return the files that importing `name` runs: each package on the path, and the module."""
        found = set()
        for folder in (self._root, importer.parent):
            here = folder
            for part in name.split("."):
                here /= part
                found |= {one for one in (here / "__init__.py", here.with_suffix(".py")) if one.is_file()}
        if "." not in name and name in self._beside and importer in self._tests:
            found.add(self._beside[name])
        return found
