"""End a rehearsal and remove everything that the rehearsal left: `python3 -m rehearsal.entry.clear [FOLDER]`.

FOLDER is the world's folder; the default is this checkout's world. Hosts, networks, planted faults and the stand-in clouds'
records are removed, even if a killed test left them. No other world is touched, because the names of a world's namespaces
derive from the world's folder. Other worlds that still have namespaces on this machine are listed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

from rehearsal.entry import cleanup
from rehearsal.net import wires
from rehearsal.world.world import World

_CHECKOUT = Path(__file__).resolve().parents[2]
_NAMESPACES = Path("/run/netns")


def clear(world: World) -> None:
    """Demolish `world` and remove its folder.

    Raises:
        RuntimeError: a command is running in the world.
    """
    with wires.locked(world, "setup"):
        door = os.open(world.folder("locks") / "door", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(door, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"a command is running in {world.path}; end it first.") from None
        finally:
            os.close(door)
        cleanup.demolish(world)
    shutil.rmtree(world.path, ignore_errors=True)


def others(world: World) -> dict[str, int]:
    """Return the number of namespaces of each other world, by that world's tag."""
    names = [one.name for one in _NAMESPACES.glob("bb??????-*")] if _NAMESPACES.is_dir() else []
    return dict(Counter(name[2:8] for name in names if name[2:8] != world.tag))


def main(words: list[str]) -> int:
    """Clear one world; return an exit status."""
    folder = words[0] if words else os.environ.get("BUSBAR_WORLD", str(_CHECKOUT / ".busbar" / "world"))
    world = World.at(Path(folder))
    if os.geteuid() != 0:
        sys.stderr.write("clear: only root can end the rehearsal's namespaces\n")
        return 2
    try:
        clear(world)
    except RuntimeError as problem:
        sys.stderr.write(f"clear: {problem}\n")
        return 1
    sys.stderr.write(f"clear: nothing is left of {world.path}\n")
    for tag, count in sorted(others(world).items()):
        sys.stderr.write(
            f"clear: world bb{tag} of another folder has {count} namespaces; if nobody uses that world, end it with "
            "`python3 -m rehearsal.entry.clear FOLDER`\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
