"""The table of what each package may import, checked against the source."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: All on one worker: parsing every file of the checkout takes longer than the tests.
pytestmark = pytest.mark.xdist_group("floors")
#: Package or module (longest match wins) -> what it may import besides the standard library.
MAY = {
    "catalogue": {"catalogue"},
    # Layers of the measurement; each may import itself and lower layers.
    "benchmarks/plan": {"benchmarks.launch", "benchmarks.plan", "catalogue", "config"},
    "benchmarks/judge": {"benchmarks.launch", "benchmarks.plan", "benchmarks.judge", "catalogue", "config"},
    "benchmarks/report": {
        "benchmarks.launch",
        "benchmarks.plan",
        "benchmarks.judge",
        "benchmarks.report",
        "catalogue",
        "matplotlib",
    },
    "benchmarks/host": {"benchmarks.launch", "benchmarks.plan", "benchmarks.judge", "benchmarks.host", "catalogue"},
    "benchmarks/records": {
        *("benchmarks.launch", "benchmarks.plan", "benchmarks.judge", "benchmarks.report", "benchmarks.records", "catalogue"),
        *("fsspec", "cryptography", "config"),
    },
    "benchmarks/__init__.py": set(),
    # A node has only the standard library and the runner itself.
    "benchmarks/launch": {"benchmarks.launch"},
    "benchmarks/search": {"benchmarks.search"},
    "benchmarks/runner": {"benchmarks.launch", "benchmarks.search", "benchmarks.runner", "scheduler"},
    # The modules directly in scheduler/ are sent with the runner; those of its subfolders are not.
    "scheduler": {"scheduler"},
    "cloudinit": {"cloudinit", "yaml", "catalogue"},
    "manifests": {"manifests", "yaml", "config"},
    "components": set(),
    "components/inventory.py": {"pulumi", "catalogue", "components.reach"},
    "components/report_findings.py": {"pulumi", "config"},
    "components/terminations.py": {"pulumi", "catalogue"},
    "components/engine_state.py": {"pulumi"},
    "components/left_behind.py": {"pulumi", "components.engine_state", "components.report_findings"},
    "components/replaced_data.py": {"pulumi", "components.engine_state", "components.left_behind"},
    "components/after.py": {"pulumi"},
    "components/wait_for_capacity.py": {"pulumi", "pulumi_command", "components.after", "components.remote_scripts"},
    "components/reach.py": {"pulumi", "pulumi_command", "components.remote_scripts"},
    "components/remote_scripts": {"components.remote_scripts"},
    # On both clouds, one Command waits for the login node's first boot, and another one checks the result of that boot.
    "components/login_machine.py": {
        *("pulumi", "pulumi_command", "cloudinit", "components.after", "components.remote_scripts", "components.reach"),
    },
    "components/kept_programs.py": set(),
    "components/downloads.py": {"components.kept_programs"},
    "components/slurm": {
        *(
            "pulumi",
            "pulumi_command",
            "catalogue",
            "cloudinit",
            "components.after",
            "components.engine_state",
            "components.kept_programs",
            "components.left_behind",
            "components.reach",
            "components.report_findings",
            "components.terminations",
        ),
        *("config", "scheduler"),
    },
    "components/oci": {
        "pulumi",
        "pulumi_oci",
        "config",
        "components.after",
        "components.engine_state",
        "components.inventory",
        "components.replaced_data",
        "components.report_findings",
        "components.terminations",
        "components.left_behind",
        "components.reach",
        "components.login_machine",
        "components.oci",
        "components.slurm",
        "cloudinit",
        "catalogue",
        "scheduler",
    },
    "components/aws": {
        "pulumi",
        "pulumi_aws",
        "config",
        "components.after",
        "components.engine_state",
        "components.inventory",
        "components.replaced_data",
        "components.report_findings",
        "components.wait_for_capacity",
        "components.terminations",
        "components.left_behind",
        "components.reach",
        "components.login_machine",
        "components.aws",
        "components.slurm",
        "cloudinit",
        "catalogue",
        "scheduler",
    },
    # Existing machines need no provider.
    "components/hosts": {"pulumi", "components.inventory", "components.reach", "components.hosts", "config", "catalogue"},
    "components/kubernetes": {
        *(
            "pulumi",
            "pulumi_command",
            "components.downloads",
            "components.inventory",
            "components.kept_programs",
            "components.reach",
            "components.remote_scripts",
        ),
        *("components.kubernetes", "catalogue", "config", "manifests"),
    },
    "components/acceptance": {
        "pulumi",
        "pulumi_command",
        "components.acceptance",
        "components.inventory",
        "components.reach",
        "components.remote_scripts",
        "components.kept_programs",
        "benchmarks",
        "catalogue",
        "config",
    },
    "components/monitoring.py": {
        *("pulumi", "components.inventory", "components.reach", "components.remote_scripts", "config", "manifests"),
    },
    "config": {"pydantic", "pydantic_core", "catalogue", "config", "scheduler"},
    "config/read.py": {"pulumi", "pydantic", "pydantic_core", "config"},
    "__main__.py": {"pulumi", "config", "components", "benchmarks"},
    # The rehearsal's layers, from the lowest; none of them may import the program.
    "rehearsal": set(),
    "rehearsal/world": {"rehearsal.world"},
    "rehearsal/net": {"rehearsal.world", "rehearsal.net"},
    "rehearsal/image": {"rehearsal.image"},
    "rehearsal/host": {"rehearsal.world", "rehearsal.net", "rehearsal.image", "rehearsal.host"},
    "rehearsal/kubernetes": {
        *("rehearsal.world", "rehearsal.net", "rehearsal.host", "rehearsal.kubernetes"),
        "rehearsal.oci.shapes",
    },
    "rehearsal/plugin": {
        *("rehearsal.world", "rehearsal.net", "rehearsal.image", "rehearsal.host", "rehearsal.plugin", "rehearsal.protocol"),
        *("grpc", "google", "pulumi", "typing_extensions"),
    },
    "rehearsal/plugin/openpgp.py": {"cryptography"},
    "rehearsal/oci/api": {
        *("rehearsal.world", "rehearsal.net", "rehearsal.host", "rehearsal.plugin", "rehearsal.oci"),
        *("cryptography", "typing_extensions"),
    },
    "rehearsal/oci": {
        *("rehearsal.world", "rehearsal.net", "rehearsal.host", "rehearsal.plugin", "rehearsal.oci"),
        *("rehearsal.protocol", "typing_extensions"),
    },
    "rehearsal/aws": {
        *("rehearsal.world", "rehearsal.net", "rehearsal.image", "rehearsal.host", "rehearsal.plugin", "rehearsal.aws"),
        *("rehearsal.protocol", "botocore", "typing_extensions"),
    },
    # Rehearsed existing hosts have OCI's shapes, images and agent, so rehearsal/entry imports these modules of OCI's.
    "rehearsal/entry": {
        *("rehearsal.world", "rehearsal.net", "rehearsal.host", "rehearsal.kubernetes", "rehearsal.entry"),
        *("rehearsal.oci.host_images", "rehearsal.oci.machines", "rehearsal.oci.shapes"),
    },
    "rehearsal/enter": {"rehearsal.entry"},
    # The program server imports the SDKs for the programs that it forks.
    "rehearsal/engine/language/program_server.py": {"pulumi_aws", "pulumi_command", "pulumi_oci", "pydantic", "yaml"},
    "rehearsal/engine": {"rehearsal.engine", "rehearsal.protocol", "grpc", "google", "pulumi", "asyncssh"},
    "tools": {"tools", "rehearsal.world", "benchmarks", "catalogue", "config", "yaml"},
    # A stage plants faults on running hosts.
    "tools/stage.py": {
        "tools.plain_environment",
        "rehearsal.world",
        "rehearsal.host",
        "tools.stack_changes",
        "yaml",
        "rehearsal.plugin",
        "rehearsal.entry",
    },
    "tools/interruption.py": {"rehearsal.world", "rehearsal.host", "tools.stage"},
    # This tool catches the exceptions of config/read.py, which are Pulumi's.
    "tools/config.py": {"config", "yaml", "pulumi"},
    "tools/coverage_report.py": {"slipcover"},
}


def room_of(path: Path) -> str | None:
    place = path.relative_to(ROOT).as_posix()
    rooms = [room for room in MAY if place == room or place.startswith(f"{room}/")]
    return max(rooms, key=len, default=None)


def is_module(name: str) -> bool:
    place = ROOT / name.replace(".", "/")
    return place.with_suffix(".py").is_file() or place.is_dir()


def dynamic(call: ast.Call) -> str | None:
    """Return the module that a call imports, or None if the call imports nothing.

    If the module's name is an f-string, return the package before the placeholder.
    """
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if called not in {"import_module", "__import__"}:
        return None
    name = call.args[0]
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    start = parts[0].value if isinstance(parts[0], ast.Constant) else ""
    assert start, f"line {call.lineno} imports a module whose name is not in the source"
    return str(start).rpartition(".")[0] if len(parts) > 1 else str(start)


def named(node: ast.AST, package: str) -> Iterator[str]:
    """Yield the modules that one syntax node of a module in the package `package` imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        parent = package.rsplit(".", node.level - 1)[0] if node.level else ""
        base = ".".join(one for one in (parent, node.module) if one)
        yield from (full if is_module(full := f"{base}.{alias.name}") else base for alias in node.names)
    elif isinstance(node, ast.Call) and (name := dynamic(node)):
        yield name


def imported(text: str, package: str) -> set[str]:
    """Return every module outside the standard library that a text imports, also under TYPE_CHECKING and by a call."""
    found = {name for node in ast.walk(ast.parse(text)) for name in named(node, package)}
    return {name for name in found if name.split(".")[0] not in sys.stdlib_module_names}


@functools.cache
def imports(path: Path) -> set[str]:
    found = imported(path.read_text(), ".".join(path.relative_to(ROOT).parent.parts))
    # Two packages are named `cloudinit`: ours and the installed program cloud-init. Only the latter has a module `cmd`.
    return {name for name in found if name.split(".")[:2] != ["cloudinit", "cmd"]}


def is_python(path: Path) -> bool:
    if path.suffix == ".py":
        return True
    return path.is_file() and path.read_bytes()[:32].partition(b"\n")[0].startswith(
        (b"#!/usr/bin/env python3", b"#!/usr/bin/python3")
    )


def sources() -> list[Path]:
    rooms = ("catalogue", "config", "scheduler", "benchmarks", "cloudinit", "manifests", "components", "rehearsal", "tools")
    found = [path for room in rooms for path in sorted((ROOT / room).rglob("*")) if is_python(path)]
    return [*found, ROOT / "__main__.py"]


def circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """Return the groups of modules that import each other."""
    reached: dict[str, set[str]] = {}
    for start in arrows:
        seen, left = set(), [start]
        while left:
            for name in arrows.get(left.pop(), set()) - seen:
                seen.add(name)
                left.append(name)
        reached[start] = seen
    found = [{start, *(one for one in reached[start] if start in reached.get(one, ()))} for start in arrows]
    return [group for number, group in enumerate(found) if len(group) > 1 and group not in found[:number]]


def test_no_modules_import_each_other():
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in sources()}
    assert not circles({name: imports(path) for path, name in names.items()})


def test_an_import_cycle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("if TYPE_CHECKING: from yaml import Node", "yaml"),
        ("__import__('botocore.loaders')", "botocore.loaders"),
        ("importlib.import_module(f'oci.{name}.models')", "oci"),
        ("from .spec import load", "rehearsal.host.spec"),
        ("from . import spec", "rehearsal.host.spec"),
        ("from ..net import wires", "rehearsal.net.wires"),
    ],
)
def test_an_import_is_found_however_it_is_written(line, module):
    assert imported(line, "rehearsal.host") == {module}


def test_an_import_whose_name_cannot_be_read_is_refused():
    with pytest.raises(AssertionError, match="line 1 imports a module whose name is not in the source"):
        imported("importlib.import_module(name)", "rehearsal.host")


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_imports_only_what_its_package_may_import(path):
    room = room_of(path)
    assert room is not None
    allowed = MAY[room]
    for name in imports(path):
        assert any(name == room or name.startswith(f"{room}.") for room in allowed), f"{path.name} imports {name}"


def test_the_rehearsal_never_imports_the_program():
    program = {"config", "components", "benchmarks", "cloudinit", "catalogue", "scheduler", "tools"}
    for path in filter(is_python, (ROOT / "rehearsal").rglob("*")):
        assert not {name.split(".")[0] for name in imports(path)} & program, path


def test_no_file_in_the_folder_tests_imports_a_module_whose_name_begins_with_test():
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text()
        if re.search(r"import.*\btest_|from\s+test_", text):  # parsing all files takes a second
            assert not [name for name in imported(text, "") if name.startswith("test_")], path


def test_no_package_has_a_misleading_name():
    bad = {"utils", "helpers", "lib", "common", "misc"}
    assert not [path for path in sources() if bad & set(path.relative_to(ROOT).with_suffix("").parts)]


def test_only_the_module_config_read_reads_the_configuration():
    for path in sources():
        if path != ROOT / "config" / "read.py" and "tools" not in path.parts:
            assert "pulumi.Config(" not in path.read_text(), path


def test_no_name_contains_gbps_because_gbps_could_mean_gigabits_or_gigabytes():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    texts = [path for path in paths if path.is_file() and path.suffix != ".png" and path != Path(__file__)]
    assert not [path for path in texts if "_gbps" in path.read_text(errors="replace").lower()]
