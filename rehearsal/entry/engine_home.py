"""Creates a world's home folder for Pulumi's engine: links to the user's own Pulumi home and to the plugins on PATH.

The engine prefers a plugin on PATH to an installed plugin, and warns about each plugin on PATH before all other output. If the
engine is told to use only installed plugins, the engine prints no warning. So the links make plugins on PATH look installed.
The stand-in plugins must not be installed in the user's own home, because an update against a real account would find the
stand-ins there. So each world has a home folder of its own.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from rehearsal.world.world import World

_PLUGIN = re.compile(r"pulumi-(language|resource|analyzer|converter|tool)-([\w.-]+)")
#: Higher than any version that an SDK or an older state requests: the engine's legacy search takes the highest version.
_VERSION = "v999.0.0"


def environment(world: World, path: str) -> dict[str, str]:
    """Create the home with the plugins on `path`; return the environment variables with which the engine uses this home."""
    home, own = world.folder("engine"), Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    for entry in own.glob("*"):
        if entry.name != "plugins":
            _link(home / entry.name, entry)
    plugins = dict(_installed(own / "plugins", path))
    for folder in world.folder("engine", "plugins").glob("*/"):
        if folder.name not in plugins:
            shutil.rmtree(folder)
    for name, files in plugins.items():
        folder = world.folder("engine", "plugins", name)
        for file in files:
            _link(folder / file.name, file)
    return {"PULUMI_HOME": str(home), "PULUMI_IGNORE_AMBIENT_PLUGINS": "true", "PULUMI_ENABLE_LEGACY_PLUGIN_SEARCH": "true"}


def _installed(own: Path, path: str) -> Iterator[tuple[str, list[Path]]]:
    """Yield each plugin's folder name and files.

    If `path` has the plugin, the first match on `path` is the plugin's only file. Otherwise, each installed version is yielded.
    """
    found: dict[str, Path] = {}
    for folder in path.split(os.pathsep):
        for file in Path(folder or ".").glob("pulumi-*-*"):
            if (match := _PLUGIN.fullmatch(file.name)) and os.access(file, os.X_OK):
                found.setdefault(f"{match[1]}-{match[2]}", file.absolute())
    yield from ((f"{name}-{_VERSION}", [file]) for name, file in found.items())
    for installed in own.glob("*-v*/"):
        if installed.name.rpartition("-v")[0] not in found and not installed.with_name(f"{installed.name}.partial").exists():
            yield installed.name, list(installed.iterdir())


def _link(link: Path, target: Path) -> None:
    """Make `link` point to `target`, unless the engine has created a file at the link's path."""
    if link.readlink() != target if link.is_symlink() else not link.exists():
        fresh = link.with_name(f".{link.name}.{os.getpid()}")
        fresh.symlink_to(target)
        fresh.replace(link)
