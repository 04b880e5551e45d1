"""The engine in a world finds stand-ins as if they were installed plugins; the user's own Pulumi home gets no stand-in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rehearsal.entry import engine_home
from rehearsal.world.world import World


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    """A user's own Pulumi home with two installed plugins, a third plugin that is half installed, and credentials."""
    made = tmp_path / "own"
    for name in ("resource-oci-v5.5.0", "resource-command-v1.2.1", "resource-random-v4.0.0"):
        (made / "plugins" / name).mkdir(parents=True)
        (made / "plugins" / name / f"pulumi-{name.rpartition('-v')[0]}").write_text("genuine")
    (made / "plugins" / "resource-random-v4.0.0.partial").touch()
    (made / "credentials.json").write_text("{}")
    monkeypatch.setenv("PULUMI_HOME", str(made))
    return made


def on_path(folder: Path, *names: str) -> str:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(str(folder))
        (folder / name).chmod(0o755)
    return str(folder)


def plugins(home: str) -> dict[str, str]:
    return {one.parent.name: one.read_text() for one in Path(home, "plugins").glob("*/pulumi-*")}


def test_plugins_on_the_search_path_are_linked_into_the_worlds_pulumi_home_and_replace_the_users_plugins_there(tmp_path, own):
    first = on_path(tmp_path / "first", "pulumi-resource-oci", "pulumi-language-python")
    second = on_path(tmp_path / "second", "pulumi-resource-oci", "pulumi", "pulumi-watch")
    Path(second, "pulumi-resource-aws").write_text("not a program")
    made = engine_home.environment(World.at(tmp_path / "world"), os.pathsep.join([first, second]))
    assert plugins(made["PULUMI_HOME"]) == {
        "resource-oci-v999.0.0": first,
        "language-python-v999.0.0": first,
        "resource-command-v1.2.1": "genuine",
    }
    assert not list(own.glob("plugins/*/*first*"))
    assert Path(made["PULUMI_HOME"], "credentials.json").read_text() == "{}"


def test_a_second_command_in_the_world_uses_the_plugins_on_its_own_search_path_and_keeps_the_engines_files(tmp_path, own):
    world = World.at(tmp_path / "world")
    home = Path(engine_home.environment(world, on_path(tmp_path / "first", "pulumi-resource-oci"))["PULUMI_HOME"])
    (home / "logs").mkdir()
    (own / "logs").mkdir()
    engine_home.environment(world, on_path(tmp_path / "second", "pulumi-resource-aws"))
    assert set(plugins(str(home))) == {"resource-aws-v999.0.0", "resource-oci-v5.5.0", "resource-command-v1.2.1"}
    assert not (home / "logs").is_symlink()
