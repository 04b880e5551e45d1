"""The judgement of this machine's cloud-init and shellcheck on first-boot texts; each program runs once for all texts."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

# Does the same as Debian's Python script that launches cloud-init, but for several files in one process.
_CLOUD_INIT = """
import contextlib, io, json, sys
from cloudinit.cmd import main
found = {}
for path in sys.argv[1:]:
    sys.argv = ["cloud-init", "schema", "-c", path]
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        try:
            code = main.main()
        except SystemExit as end:
            code = end.code
    found[path] = [code, said.getvalue()]
print(json.dumps(found))
"""


class Texts:
    """First-boot texts by name, and how cloud-init and shellcheck judge each text."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._schema: dict[str, Any] = {}
        self._shell: dict[str, list[Any]] = {}

    def script(self, name: str) -> str:
        """Return the shell script in a text."""
        files = {file["path"]: file["content"] for file in yaml.safe_load(self._texts[name])["write_files"]}
        return str(files["/var/lib/busbar/first-boot"])

    def judged_by_cloud_init(self, name: str) -> tuple[int, str]:
        """Return the exit status and output of `cloud-init schema` for a text."""
        launcher = shutil.which("cloud-init")
        if launcher is None:
            pytest.skip("cloud-init is not installed here")
        if not self._schema:
            python = Path(launcher).read_text().splitlines()[0].removeprefix("#!").split()[0]
            with tempfile.TemporaryDirectory() as folder:
                paths = self._written(folder, self._texts)
                # Run in the folder /: our own package `cloudinit` must not shadow the distribution's package.
                done = subprocess.run(
                    [python, "-c", _CLOUD_INIT, *paths], capture_output=True, text=True, check=False, cwd="/", timeout=300
                )
            assert done.returncode == 0, done.stderr
            self._schema = {Path(path).name: said for path, said in json.loads(done.stdout).items()}
        code, said = self._schema[name]
        return int(code or 0), said

    def judged_by_shellcheck(self, name: str) -> list[Any]:
        """Return shellcheck's remarks on the script in a text; there are none if shellcheck is not installed."""
        program = shutil.which("shellcheck")
        if program and not self._shell:
            with tempfile.TemporaryDirectory() as folder:
                paths = self._written(folder, {one: self.script(one) for one in self._texts})
                done = subprocess.run(
                    [program, "-s", "sh", "-f", "json1", *paths], capture_output=True, text=True, check=False, timeout=300
                )
            assert done.returncode in {0, 1}, done.stderr
            self._shell = {one: [] for one in self._texts}
            for remark in json.loads(done.stdout)["comments"]:
                self._shell[Path(remark["file"]).name].append(remark)
        return self._shell.get(name, [])

    @staticmethod
    def _written(folder: str, texts: Mapping[str, str]) -> list[str]:
        for name, text in texts.items():
            Path(folder, name).write_text(text)
        return [str(Path(folder, name)) for name in texts]
