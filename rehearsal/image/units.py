"""Stands in for systemd: reads unit files and runs their services and timers (systemd.service(5), systemd.timer(5))."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from rehearsal.image.standin import exclusive, fail

if TYPE_CHECKING:
    from collections.abc import Mapping

ETC = "/etc/systemd/system"
#: Folders of unit files, in the order in which systemd searches them: the administrator's units, units of archives that were
#: unpacked to /usr/local, and units of packages.
FOLDERS = (ETC, "/usr/local/lib/systemd/system", "/usr/lib/systemd/system")
TIMERS = ".timer"
_STOP_S = 30
_FORK_S = 60
#: The exit code of timeout(1) after timeout has ended a command.
_ENDED = 124
_TRUE = {"yes", "true", "1", "on"}
#: The first user id of dynamic users, and the number of these ids (systemd.exec(5)).
_DYNAMIC, _DYNAMIC_COUNT = 61184, 4336
_RUNS = "/usr/lib/rehearsal/timer"
#: Characters that may stand before a command (systemd.service(5), "Special executable prefixes").
_PREFIXES = "-@:+!|"
_UNITS_S = {"": 1.0, "s": 1.0, "sec": 1.0, "ms": 0.001, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}

Unit = dict[str, list[str]]


def read(name: str) -> Unit | None:
    """Return the values of a unit file by key, or None if there is no such unit; a name without a suffix means a service."""
    name = name if "." in name else f"{name}.service"
    path = next((path for path in (Path(folder, name) for folder in FOLDERS) if path.is_file()), None)
    if path is None:
        return None
    found: Unit = {}
    for line in path.read_text().replace("\\\n", " ").splitlines():
        key, sign, value = line.strip().partition("=")
        if sign and not key.startswith(("#", ";")):
            found.setdefault(key, []).append(value)
    return found


def _last(unit: Unit, key: str, default: str = "") -> str:
    return unit.get(key, [default])[-1].strip()


def seconds(text: str) -> float:
    """Return a time span such as `5` or `1min 30s` in seconds; exit with an error if it has no number or an unknown unit."""
    parts = re.findall(r"([\d.]+)\s*([a-z]*)", text)
    if not parts or any(word not in _UNITS_S for _, word in parts):
        fail(f"Failed to parse time span: {text}")
    return sum(float(number) * _UNITS_S[word] for number, word in parts)


def _marker(unit: str, kind: str) -> str:
    return f"/run/unit-{unit}.{kind}"


def pid_of(unit: str) -> int | None:
    """Return the process id of a unit's main process, or None if no such process runs."""
    places = [_marker(unit, "pid")]
    if (its := read(unit)) is not None and "PIDFile" in its:
        places.insert(0, _last(its, "PIDFile").replace("/var/run/", "/run/"))
    for place in places:
        try:
            pid = int(Path(place).read_text())
            os.kill(pid, 0)
        except PermissionError:  # the process exists, but runs as another user
            return pid
        except (OSError, ValueError):
            continue
        return pid
    return None


def active(unit: str) -> bool:
    """Return whether a unit is active: its main process runs, or a oneshot service with RemainAfterExit succeeded."""
    return pid_of(unit) is not None or Path(_marker(unit, "done")).exists()


def start(name: str) -> int:
    """Start the unit `name` and return an exit code. If several processes start one unit, they do so one after the other."""
    its = read(name)
    if its is None:
        raise LookupError(name)
    with exclusive(f"unit-{name}"):
        if active(name):
            return 0
        if not _conditions_hold([path.strip() for path in its.get("ConditionPathExists", [])]):
            return 0  # systemd skips a unit whose conditions do not hold, and reports this only in the journal
        if name.endswith(TIMERS):
            return _detach(name, [sys.executable, "-IS", _RUNS, name], dict(os.environ))
        return _start_service(name, its)


def _conditions_hold(paths: list[str]) -> bool:
    """Return whether a unit's conditions hold.

    A condition is a path, perhaps after `|` or `!` or both. It holds if the path exists; with `!` it holds if the path does not
    exist. Every condition without `|` must hold, and if there are conditions with `|`, at least one of them must hold.
    """
    alternatives = [_holds(path[1:]) for path in paths if path.startswith("|")]
    return all(_holds(path) for path in paths if not path.startswith("|")) and (not alternatives or any(alternatives))


def _holds(path: str) -> bool:
    return Path(path.removeprefix("!")).exists() != path.startswith("!")


def _start_service(name: str, its: Unit) -> int:
    environment = _environment(its)
    owner, group = _owner(name, its)
    prefix = ["setpriv", "--reuid", owner, "--regid", group, "--clear-groups"] if owner != "root" else []
    for folder in _last(its, "RuntimeDirectory").split():
        given = ["-o", owner, "-g", group, "-m", "755"]
        subprocess.run(["install", "-d", *given, f"/run/{folder}"], check=True)
    before = [(_words(line, environment), _may_fail(line)) for line in its.get("ExecStartPre", [])]
    commands = [(_words(line, environment), _may_fail(line)) for line in its.get("ExecStart", [])]
    kind = _last(its, "Type", "simple")
    if kind != "oneshot":
        for words, may_fail in before:
            if (code := _run(name, prefix + words, environment, None)) and not may_fail:
                return _failed(name, code)
        if kind != "forking":
            return _detach(name, prefix + commands[0][0], environment)
        code = _run(name, prefix + commands[0][0], environment, _FORK_S)
        return _failed(name, code) if code else 0
    limit = _last(its, "TimeoutStartSec", "infinity")
    end = None if limit == "infinity" else time.monotonic() + seconds(limit)
    for words, may_fail in before + commands:
        if (code := _run(name, prefix + words, environment, end and end - time.monotonic())) and not may_fail:
            return _failed(name, code)
    if _last(its, "RemainAfterExit").lower() in _TRUE:
        Path(_marker(name, "done")).touch()
    return 0


def _failed(name: str, code: int) -> int:
    shown = name if "." in name else f"{name}.service"
    sys.stderr.write(
        f"Job for {shown} failed because the control process exited with error code ({code}).\n"
        f'See "systemctl status {shown}" and "journalctl -xeu {shown}" for details.\n'
    )
    return 1


def _environment(its: Unit) -> dict[str, str]:
    found = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LANG": "C.UTF-8"}
    for line in its.get("Environment", []):
        found |= dict(word.partition("=")[::2] for word in shlex.split(line))
    for path in its.get("EnvironmentFile", []):
        if Path(path.lstrip("-")).is_file():
            lines = Path(path.lstrip("-")).read_text().splitlines()
            rows = [row.strip() for row in lines if "=" in row and not row.lstrip().startswith("#")]
            found |= {row.partition("=")[0]: " ".join(shlex.split(row.partition("=")[2])) for row in rows}
        elif not path.startswith("-"):
            fail(f"Failed to load environment file {path}: No such file or directory")
    return found


def _owner(name: str, its: Unit) -> tuple[str, str]:
    """Return the user and group of a service; a dynamic user gets a user id that is computed from the service's name."""
    user = _last(its, "User", "root")
    if _last(its, "DynamicUser").lower() in _TRUE and not _exists(user):
        number = str(_DYNAMIC + zlib.crc32(name.encode()) % _DYNAMIC_COUNT)
        return number, number
    return user, _last(its, "Group", user)


def _exists(user: str) -> bool:
    return user != "root" and subprocess.run(["getent", "passwd", user], stdout=subprocess.DEVNULL, check=False).returncode == 0


def _may_fail(line: str) -> bool:
    """Tell whether a command's failure counts as success: `-` is among the characters before the command."""
    command = line.strip()
    return "-" in command.removesuffix(command.lstrip(_PREFIXES))


def _words(line: str, environment: Mapping[str, str]) -> list[str]:
    """Return the words of a command; the value of `$NAME` is split into words, the value of `${NAME}` is not."""
    words: list[str] = []
    for word in shlex.split(line.strip().lstrip(_PREFIXES)):
        if re.fullmatch(r"\$\w+", word):
            words += environment.get(word[1:], "").split()
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda found: environment.get(found[1], ""), word))
    return words


def _log(name: str) -> int:
    return os.open(f"/var/log/{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)


def _run(name: str, words: list[str], environment: Mapping[str, str], limit_s: float | None) -> int:
    """Run a command to its end; return its exit code, or `_ENDED` if it was killed at the time limit."""
    log = _log(name)
    process = subprocess.Popen(
        words, env=dict(environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    os.close(log)
    running = Path(_marker(name, "run"))
    running.write_text(str(process.pid))
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return _ENDED
    finally:
        running.unlink(missing_ok=True)


def _detach(name: str, words: list[str], environment: Mapping[str, str]) -> int:
    log = _log(name)
    daemon = subprocess.Popen(
        words, env=dict(environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    os.close(log)
    Path(_marker(name, "pid")).write_text(str(daemon.pid))
    return 0


def stop(name: str) -> None:
    """Stop a unit: with `KillMode=process` only its main process, otherwise the whole process group of its main process."""
    its = read(name) or {}
    if pid := pid_of(name):
        kill = _kill if _last(its, "KillMode") == "process" else _kill_group
        kill(pid, signal.SIGTERM)
        end = time.monotonic() + _STOP_S
        while pid_of(name) is not None:
            if time.monotonic() > end:
                kill(pid, signal.SIGKILL)
            time.sleep(0.02)
    running = Path(_marker(name, "run"))
    if running.exists():  # a command that is part of the unit's start is still running
        _kill_group(int(running.read_text()), signal.SIGTERM)
    for kind in ("done", "pid"):
        Path(_marker(name, kind)).unlink(missing_ok=True)


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _kill_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(os.getpgid(pid), number)


def run_timer(name: str) -> None:
    """Start a timer's service at the first of the timer's times, and then repeat (OnUnitActiveSec, OnUnitInactiveSec).

    Return when the timer will not be due again. Exit with an error if a setting of the timer, such as OnCalendar, is not
    supported; only settings that are spans of time are supported.
    """
    its = read(name) or {}
    known = {"OnBootSec", "OnStartupSec", "OnActiveSec", "OnUnitActiveSec", "OnUnitInactiveSec"}
    if unplayed := sorted(key for key in its if key.startswith("On") and key not in known):
        fail(f"{name}: the stand-in supports time spans only, not {', '.join(unplayed)}")
    service = _last(its, "Unit", name.removesuffix(TIMERS) + ".service").removesuffix(".service")
    up = float(Path("/proc/uptime").read_text().split()[0])
    began = time.monotonic()
    due = [began - up + seconds(one) for key in ("OnBootSec", "OnStartupSec") for one in its.get(key, [])]
    due += [began + seconds(one) for one in its.get("OnActiveSec", [])]
    while due:
        time.sleep(max(0.0, min(due) - time.monotonic()))
        ran = time.monotonic()
        start(service)
        due = [ran + seconds(one) for one in its.get("OnUnitActiveSec", [])]
        due += [time.monotonic() + seconds(one) for one in its.get("OnUnitInactiveSec", [])]


def links(name: str) -> list[str]:
    """Return the paths of the links that enable a unit."""
    shown = name if "." in name else f"{name}.service"
    wanted = _last(read(name) or {}, "WantedBy", "multi-user.target").split() or ["multi-user.target"]
    return [f"{ETC}/{target}.wants/{shown}" for target in wanted]
