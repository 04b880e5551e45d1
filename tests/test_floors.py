"""Imports only go down: the table of rooms, held by reading the source."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: Room (longest match wins) -> what it may import beside the standard library.
MAY = {
    "catalogue": {"catalogue"},
    # Floors of the measurement, each importing itself and what is below it.
    "benchmarks/plan": {"benchmarks.plan", "catalogue", "config"},
    "benchmarks/judge": {"benchmarks.plan", "benchmarks.judge", "catalogue", "config"},
    "benchmarks/report": {"benchmarks.plan", "benchmarks.judge", "benchmarks.report", "catalogue", "matplotlib"},
    "benchmarks/host": {"benchmarks.plan", "benchmarks.judge", "benchmarks.host", "catalogue"},
    "benchmarks/records": {
        *("benchmarks.plan", "benchmarks.judge", "benchmarks.report", "benchmarks.records", "catalogue"),
        *("fsspec", "cryptography", "config"),
    },
    "benchmarks/__init__.py": set(),
    # On a node there is the standard library and the runner itself, packed side by side under bare names.
    "benchmarks/runner": {path.stem for path in (ROOT / "benchmarks" / "runner").glob("*.py")},
    "cloudinit": {"cloudinit", "yaml", "catalogue"},
    "components": set(),
    "components/cluster.py": {"pulumi", "catalogue"},
    "components/judged.py": {"pulumi", "config"},
    "components/connection.py": {"pulumi_command", "components.cluster"},
    "components/onsite": set(),
    # The bastion or head reports its public key and is waited for, so both clouds need Commands.
    "components/way_in.py": {"pulumi", "pulumi_command", "cloudinit", "components.onsite"},
    "components/oci": {
        "pulumi",
        "pulumi_oci",
        "config",
        "components.cluster",
        "components.judged",
        "components.way_in",
        "components.oci",
        "cloudinit",
        "catalogue",
    },
    "components/aws": {
        "pulumi",
        "pulumi_aws",
        "config",
        "components.cluster",
        "components.judged",
        "components.way_in",
        "components.aws",
        "cloudinit",
        "catalogue",
    },
    # Machines that exist need no provider at all.
    "components/hosts": {"pulumi", "components.cluster", "components.hosts", "config", "catalogue"},
    "components/ready.py": {
        "catalogue",
        "pulumi",
        "pulumi_command",
        "components.cluster",
        "components.connection",
        "components.onsite",
    },
    "components/sweep.py": {
        "pulumi",
        "pulumi_command",
        "components.cluster",
        "components.connection",
        "components.ready",
        "benchmarks",
        "catalogue",
    },
    "config": {"pydantic", "pydantic_core", "catalogue", "config"},
    "config/read.py": {"pulumi", "pydantic", "pydantic_core", "config"},
    "__main__.py": {"pulumi", "config", "components.cluster", "components.ready", "components.sweep", "benchmarks"},
    "rehearsal": {"rehearsal", "grpc", "google", "pulumi", "pulumi_oci", "yaml"},
    "rehearsal/engine": {"rehearsal.engine", "grpc", "google", "pulumi", "asyncssh", "language", "command"},
}


def room_of(path: Path) -> str | None:
    place = path.relative_to(ROOT).as_posix()
    rooms = [room for room in MAY if place == room or place.startswith(f"{room}/")]
    return max(rooms, key=len, default=None)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:  # a relative import stays in its own folder
            base = node.module or ""
            found |= {f"{base}.{alias.name}" for alias in node.names} if base in {"components", "components.oci"} else {base}
    return {name for name in found if name.split(".")[0] not in sys.stdlib_module_names}


def sources() -> list[Path]:
    rooms = ("catalogue", "config", "benchmarks", "cloudinit", "components", "rehearsal")
    found = [path for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    return [*found, ROOT / "__main__.py"]


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_imports_only_what_its_room_may(path):
    room = room_of(path)
    assert room is not None
    allowed = MAY[room]
    for name in imports(path):
        assert any(name == room or name.startswith(f"{room}.") for room in allowed), f"{path.name} imports {name}"


def test_the_rehearsal_never_knows_the_program():
    program = {"config", "components", "benchmarks", "cloudinit", "catalogue"}
    for path in (ROOT / "rehearsal").rglob("*.py"):
        assert not {name.split(".")[0] for name in imports(path)} & program, path


def test_no_room_is_named_for_what_it_is_not():
    bad = {"utils", "helpers", "lib", "common", "misc"}
    assert not [path for path in sources() if bad & set(path.relative_to(ROOT).with_suffix("").parts)]


def test_only_the_front_door_reads_the_configuration():
    for path in sources():
        if path != ROOT / "config" / "read.py" and "tools" not in path.parts:
            assert "pulumi.Config(" not in path.read_text(), path
