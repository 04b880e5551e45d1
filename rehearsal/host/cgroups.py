"""Control groups of hosts that run containers. The groups are below this process's own group, so no other group is touched."""

from __future__ import annotations

import time
from pathlib import Path

from rehearsal.world.world import World

_TOP = Path("/sys/fs/cgroup")
#: How long to wait for killed processes to leave their group.
_PATIENCE_S = 5


def join(world: World, host_id: str) -> str:
    """Create a host's groups in every hierarchy; return the shell commands with which a process enters the groups.

    Raises:
        RuntimeError: this machine has only cgroup version 2.
    """
    own = _own()
    if not own:
        raise RuntimeError(
            "a rehearsed Kubernetes node needs cgroup version 1, but this machine has only version 2: boot the machine with "
            "systemd.unified_cgroup_hierarchy=0, or rehearse on another machine."
        )
    made = [folder / world.netns(f"h{host_id}") for folder in own]
    # The paths are recorded, because the process that stops the host may be in groups other than this process's groups.
    (world.folder("hosts", host_id) / "cgroups").write_text("".join(f"{one}\n" for one in made))
    for one in made:
        one.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (one.parent / file).exists():
                (one / file).write_text((one.parent / file).read_text())
    return "\n".join(f"echo $$ > {one}/cgroup.procs" for one in made)


def remove(world: World, host_id: str) -> None:
    """Remove the groups of a host whose processes have been killed; idempotent."""
    record = world.path / "hosts" / host_id / "cgroups"
    end = time.monotonic() + _PATIENCE_S
    for top in map(Path, record.read_text().split()) if record.exists() else ():
        while top.exists() and not _removed(top) and time.monotonic() < end:
            time.sleep(0.05)


def _own() -> list[Path]:
    """Return the folder of this process's group in every hierarchy of cgroup version 1."""
    rows = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    named = [(name.removeprefix("name="), path) for _, names, path in rows for name in names.split(",") if name]
    return [_TOP / name / path.lstrip("/") for name, path in named if (_TOP / name).is_dir()]


def _removed(top: Path) -> bool:
    try:
        for one in sorted(top.rglob("*/"), reverse=True):
            one.rmdir()
        top.rmdir()
    except OSError:
        return False
    return True
