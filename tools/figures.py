"""Measure the figures in README and CHANGELOG, one line each; a run takes some minutes and needs the rehearsal.

    make figures
    make figures PARTS="faults healthy"
    BUSY=1 make figures

The names in PARTS are: two, many, aws, search, pure (by default these five), boot, slurm, exporter, faults, pairs, healthy,
busy, half-rail and kills. The part slurm takes 5 minutes, and pairs takes 10. Each of healthy, half-rail and faults takes 15
minutes, kills takes 30, and busy takes 45.
RUNS=2 makes two runs of healthy, busy and half-rail instead of ten. KILLS=plugin restricts kills to the cases whose name has
the word plugin; FAULTS=slow_link restricts faults to the planted faults whose JSON contains that text. With BUSY=1, half of the
processors are occupied all the time. Each ratio compares runs in the same rehearsed world.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.judge import retest, waiting
from benchmarks.launch import launcher, protocol
from benchmarks.report.outputs import culprit_name
from catalogue.oci.shapes import SHAPES
from tools import half_busy, kills, slurm_figures
from tools.search import figures, looks_figures
from tools.stack_changes import DEFAULT, merged
from tools.stage import ROOT, Finished, Stage, standing_hosts

#: The dev stack's own plan, which `make up` runs.
_DEV_PLAN: dict[str, Any] = {
    "measure": {
        "sizes": {"from": 8, "to": "4M", "othersTo": "1M"},
        "iterations": 1,
        "warmup": 0,
        "collectives": DEFAULT,
        "spreadIterations": 5,
        "looks": DEFAULT,
    },
    "accept": {"allowSkipped": DEFAULT},
}
#: A plan with one large size: in a long transfer, the short bursts that traffic shaping lets through hardly change the busbw.
_LARGE_PLAN: dict[str, Any] = {
    "measure": {"sizes": {"from": "64M", "to": "64M", "othersTo": None}, "iterations": 1, "warmup": 0},
}
#: As in the stack file of aws-efa: individual operations over 64 rails on a few processors are not judged.
_EFA_PLAN = merged(_DEV_PLAN, {"measure": {"spreadIterations": 0}, "accept": {"allowSkipped": ["spread"]}})
_MANY = 8
#: Planted faults do not change, so looks (short measurements at other moments) would only repeat the deciding run.
_WITHOUT_LOOKS: dict[str, Any] = {"measure": {"looks": 0}, "accept": {"allowSkipped": ["looks"]}}
#: All stages are judged, as by default, but the plan has only one collective, and sizes that take seconds.
_MANY_PLAN: dict[str, Any] = {
    "measure": {"sizes": {"from": "2M", "to": "8M", "othersTo": None}, "spreadIterations": 5, "looks": DEFAULT},
    "accept": {"allowSkipped": DEFAULT},
}
#: A gate at 4 MiB. At this size healthy hosts were once wrongly judged short, because their ranks waited for one of only two
#: processors.
_JUDGED_AT_4M: dict[str, Any] = {"measure": {"sizes": {"from": "2M", "to": "4M"}}}


#: A planted fault, and the culprit that the search must report: kind, host indices, rail index.
_Planted = tuple[dict[str, Any], tuple[str, tuple[int, ...], int | None]]
#: A shape with few rails and ranks, so that the links limit busbw even on a few processors.
_FAULTY_SHAPE = "BM.GPU.GB200.4"
_FAULTS: tuple[_Planted, ...] = (
    ({"kind": "rail_rate", "host": 2, "rail": 1, "factor": 0.4}, ("rail", (2,), 1)),
    ({"kind": "rail_rate", "host": 7, "rail": 0, "factor": 0.5}, ("rail", (7,), 0)),
    ({"kind": "rail_rate", "host": 0, "rail": 3, "factor": 0.3}, ("rail", (0,), 3)),
    ({"kind": "rail_rate", "host": 4, "rail": 2, "factor": 0.6}, ("rail", (4,), 2)),
    ({"kind": "slow_host", "host": 1, "factor": 0.5}, ("node", (1,), None)),
    ({"kind": "slow_host", "host": 6, "factor": 0.3}, ("node", (6,), None)),
    ({"kind": "slow_host", "host": 3, "factor": 0.6}, ("node", (3,), None)),
    ({"kind": "slow_link", "hosts": [2, 3], "factor": 0.4}, ("link", (2, 3), None)),
    ({"kind": "slow_link", "hosts": [5, 6], "factor": 0.3}, ("link", (5, 6), None)),
    ({"kind": "slow_link", "hosts": [0, 7], "factor": 0.5}, ("link", (0, 7), None)),
)
#: Faults in a cluster of two hosts, where the search cannot tell which of the two hosts is at fault.
_PAIR = (0, 1)
_PAIR_FAULTS: tuple[_Planted, ...] = (
    ({"kind": "rail_rate", "host": 0, "rail": 0, "factor": 0.4}, ("link", _PAIR, 0)),
    ({"kind": "rail_rate", "host": 0, "rail": 2, "factor": 0.6}, ("link", _PAIR, 2)),
    ({"kind": "rail_rate", "host": 1, "rail": 1, "factor": 0.5}, ("link", _PAIR, 1)),
    ({"kind": "rail_rate", "host": 1, "rail": 3, "factor": 0.3}, ("link", _PAIR, 3)),
    ({"kind": "port_degraded", "host": 0, "rail": 1, "gbit_s": 200}, ("link", _PAIR, 1)),
    ({"kind": "port_degraded", "host": 1, "rail": 2, "gbit_s": 100}, ("link", _PAIR, 2)),
    ({"kind": "slow_host", "host": 0, "factor": 0.5}, ("link", _PAIR, None)),
    ({"kind": "slow_host", "host": 1, "factor": 0.3}, ("link", _PAIR, None)),
    ({"kind": "slow_link", "hosts": [0, 1], "factor": 0.4}, ("link", _PAIR, None)),
    ({"kind": "slow_link", "hosts": [0, 1], "factor": 0.6}, ("link", _PAIR, None)),
)
#: A culprit's `next` command prints two numbers: one measured on the culprit, and a healthy one. The command shows the fault if
#: the culprit's number is below this share of the healthy number.
_SHOWN = 0.8
#: On a slow fabric of many hosts, or with half of the processors occupied, the looks take minutes before the search starts.
_PATIENCE_S = 900
#: The parts that run by default.
_USUAL = ("two", "many", "aws", "search", "pure")
_HEALTHY_RUNS = int(os.environ.get("RUNS") or 10)
#: A plan without a search, for hosts with a fault: other parts measure the search.
_UNSEARCHED = merged(merged(_JUDGED_AT_4M, _WITHOUT_LOOKS), {"measure": {"search": "0 s"}})
#: A fault: one rail of one host has half of its rate.
_HALF_RAIL = {"kind": "rail_rate", "host": 3, "rail": 2, "factor": 0.5}


def main(parts: list[str]) -> None:
    """Print the figures of `parts`."""
    known: dict[str, Callable[[Path], None]] = {
        "two": lambda folder: _in_a_world(folder, _two_hosts, "dev"),
        "many": lambda folder: _in_a_world(folder, _many_hosts, "dev"),
        "aws": lambda folder: _in_a_world(folder, _efa, "aws-efa"),
        "search": lambda _folder: _searches(),
        "pure": lambda _folder: _pure_tests(),
        "boot": _failed_boots,
        "slurm": lambda folder: slurm_figures.figures(folder, say),
        "exporter": _exporter,
        "faults": _planted_on_many,
        "pairs": _planted_on_two,
        "healthy": lambda folder: _series(folder, "healthy", 1, _JUDGED_AT_4M),
        "busy": lambda folder: _series(folder, "healthy", 200, _JUDGED_AT_4M, is_busy=True),
        "half-rail": lambda folder: _series(folder, "half a rail", 300, _UNSEARCHED, _HALF_RAIL, is_busy=True),
        "kills": lambda folder: kills.figures(folder, say, os.environ.get("KILLS") or ""),
    }
    wrong = sorted(set(parts) - set(known))
    if wrong:
        sys.exit(f"{wrong[0]} is no part; the parts are {', '.join(known)}")
    with tempfile.TemporaryDirectory(prefix="busbar-figures-") as folder, half_busy.half_taken(wanted=half_busy.asked()):
        for part in parts or _USUAL:
            known[part](Path(folder) / part)


def _searches() -> None:
    figures.figures(say)
    figures.in_company(say)
    looks_figures.figures(say)


def _in_a_world(folder: Path, measure: Callable[[Stage], None], stack: str) -> None:
    stage = _stage(folder, stack)
    try:
        measure(stage)
    finally:
        stage.close()


def _stage(folder: Path, stack: str = "dev") -> Stage:
    folder.mkdir()
    made = Stage(folder, stack)
    made.report = str(folder / "report")
    return made


def say(name: str, figure: str) -> None:
    """Print one figure."""
    print(f"{name:<58} {figure}", flush=True)  # noqa: T201 - printing is its purpose


def _timed(what: str, finished: Finished) -> Finished:
    if finished.status != 0:
        sys.exit(f"{what} failed: {finished}")
    return finished


def _up(stage: Stage, settings: dict[str, Any]) -> Finished:
    """Update the stack with a longer time limit than the stage's own `up` has, because a busy machine needs more time."""
    return stage.command(*stage.up_words(**settings), timeout_s=_PATIENCE_S)


def _excused(what: str, finished: Finished, stage: Stage) -> str:
    """Return why the machine was too busy for a verdict; empty if the update succeeded. Exit if it failed for other reasons."""
    measured = _measured(stage)
    why = next(iter(measured.get("reasons") or ()), "")
    if finished.status and measured.get("verdict") == "unknown" and why.startswith(waiting.BUSY):
        return f"unknown, {why}"
    _timed(what, finished)
    return ""


def _unchanged(stage: Stage, plan: dict[str, Any]) -> str:
    again = _timed("unchanged up", stage.up(**plan))
    changes = sum(int(count) for count in re.findall(r"([0-9]+) (?:created|updated|deleted|replaced|to \w+)", again.text))
    return f"{again.seconds:.1f} s, {changes} changes"


def _efa(stage: Stage) -> None:
    found = _up(stage, _EFA_PLAN)
    why = _excused("up", found, stage)
    say("aws: up on a clean state, 2 x 32 rails, 10 collectives", f"{found.seconds:.1f} s{why and f'; {why}'}")
    say("aws: unchanged up", why or _unchanged(stage, _EFA_PLAN))
    why = _excused("up with one large size", _up(stage, merged(_LARGE_PLAN, {"measure": {"run": 2}})), stage)
    outputs = stage.outputs()["measured"]
    sent = [count for by in outputs["transport"]["tx_bytes"].values() for name, count in by.items() if name.endswith("s0")]
    say(f"aws: busbw / ceiling, at {outputs['gate']['size_bytes']} B", why or f"{outputs['wire_efficiency']:.4f}")
    say("aws: rails that carried bytes; least over most", f"{sum(map(bool, sent))}; {min(sent) / max(sent):.3f}")
    say("aws: destroy", f"{_timed('destroy', stage.destroy()).seconds:.1f} s, {len(_own(stage))} resources left")


def _failed_boots(folder: Path) -> None:
    """Measure how long an update continues after a step of a login node's first boot has failed, on both clouds."""
    folder.mkdir()
    for stack in ("dev", "aws-efa"):
        _in_a_world(folder / stack, _failed_boot, stack)


def _failed_boot(stage: Stage) -> None:
    stage.faults({"kind": "command_fails", "host": -1, "command": "rm"})

    def has_failed() -> bool:
        consoles = (one.read_text(errors="replace") for one in stage.world.glob("console/*.log"))
        return any("first boot failed in step" in text for text in consoles)

    with ThreadPoolExecutor() as pool:
        update = pool.submit(stage.build)
        while not has_failed() and not update.done():
            time.sleep(0.1)
        began = time.monotonic()
        found = update.result()
        seconds = time.monotonic() - began
    named = re.search(r"first boot of this machine failed in step ([\w-]+)", found.text)
    step = named[1] if named else "no step is named"
    say(f"{stage.stack}: first failed boot step to the end of up", f"{seconds:.1f} s, {step}")
    again = stage.build()
    say(f"{stage.stack}: the next up, asking the same machine", f"{again.seconds:.1f} s, exit {again.status}")


def _two_hosts(stage: Stage) -> None:
    say("preview of a new stack, 2 hosts", f"{_timed('preview', stage.preview(**_DEV_PLAN)).seconds:.1f} s")
    say("up on a clean state, 2 hosts, 10 collectives", f"{_timed('up', stage.up(**_DEV_PLAN)).seconds:.1f} s")
    say("unchanged up", _unchanged(stage, _DEV_PLAN))
    say("program resources, 2 hosts", str(len(_own(stage))))
    say("build and measure beyond the runs' own time, 2 hosts", f"{_overhead(stage):.1f} s")
    _timed("up with one large size", stage.up(**_LARGE_PLAN))
    outputs = stage.outputs()
    size = outputs["measured"]["gate"]["size_bytes"]
    say(f"rehearsed busbw / scaled wire ceiling, at {size} B", f"{outputs['measured']['wire_efficiency']:.4f}")
    ratios = [outputs["measured"]["busbw_gb_s"] / _by_hand(stage, size) for _ in range(2)]
    say("busbw through the product / by hand with mpirun, two measurements", ", ".join(f"{ratio:.4f}" for ratio in ratios))


def _by_hand(stage: Stage, size_bytes: int) -> float:
    """Run the same binary with the same arguments by hand on the head node, at one size; return its busbw in GB/s."""
    request = protocol.load(protocol.Measure, json.loads(_inputs(stage, "acceptance-measure")["stdin"]))
    words = [word for word in launcher.deciding(request) if not word.startswith("NCCL_DEBUG")]
    words = [word for index, word in enumerate(words) if word != "-x" or "=" in words[index + 1]]
    words[words.index("-b") + 1] = str(size_bytes)
    words = words[: words.index("-J")]
    login = stage.outputs()["ssh"].split()[1:]
    config = stage.folder / "ssh_config"
    config.write_text("Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n")
    found = _timed("the run by hand", stage.inside("ssh", "-F", str(config), *login, shlex.join(words)))
    (row,) = [line.split() for line in found.text.splitlines() if line.split()[:1] == [str(size_bytes)]]
    # The printed busbw has only two decimals; busbw that is computed from the time and the rank count is exact.
    ranks = request.gpus * len(request.nodes)
    return float(size_bytes / (float(row[5]) * 1e3) * 2 * (ranks - 1) / ranks)


def _many_hosts(stage: Stage) -> None:
    before = _available_mb()
    why = _excused("up", _up(stage, {"oci": {"pools": [{"nodes": _MANY}]}}), stage)
    time.sleep(5)  # until the last Command's processes have exited
    own = _own(stage)
    created = {resource["urn"].rsplit("::", 1)[1]: _when(resource) for resource in own if "created" in resource}
    boot_s = (created["acceptance-ready-contact"] - created["cluster-pool-gpu-configuration"]).total_seconds()
    say(f"program resources, {_MANY} hosts", str(len(own)))
    say(f"{_MANY} hosts from launch to the last one ready", f"{boot_s:.1f} s")
    say("memory of one idle host", f"{(before - _available_mb()) / (_MANY + 1):.0f} MB")
    ratio = why or f"{stage.outputs()['measured']['wire_efficiency']:.4f}"
    say(f"rehearsed busbw / scaled wire ceiling, {_MANY} hosts, 4 MiB", ratio)


def _planted_on_many(folder: Path) -> None:
    chosen = tuple(one for one in _FAULTS if (os.environ.get("FAULTS") or "") in json.dumps(one[0]))
    most = _planted_on(folder, _MANY, chosen, "the right end")
    pairs = _MANY * (_MANY - 1) // 2
    what = "most rounds of a search above; rounds that would test one pair at a time"
    say(what, f"{most}; {pairs}, {pairs / max(most, 1):.1f} times as many")


def _planted_on_two(folder: Path) -> None:
    _planted_on(folder, len(_PAIR), _PAIR_FAULTS, "both ends")


def _planted_on(folder: Path, hosts: int, faults: tuple[_Planted, ...], where: str) -> int:
    """Plant one fault after another on running hosts; return the largest number of rounds that a search needed.

    The hosts exist, and the stack lists them. The ring follows the order of the list, so it crosses a bad link between
    neighbours.
    """
    folder.mkdir()
    stage, settings = standing_hosts(folder, hosts, _FAULTY_SHAPE)
    plan = merged(_MANY_PLAN, _WITHOUT_LOOKS) if hosts == _MANY else {}
    settings = merged(plan, settings) | {"records": {"history": None}}
    right, shown, most = 0, 0, 0
    try:
        _timed("the build", stage.build(**settings))
        for number, (fault, wanted) in enumerate(faults, 1):
            stage.refault(fault)
            named, seen, rounds = _planted(stage, merged(settings, {"measure": {"run": number}}), fault, wanted)
            right, shown, most = right + named, shown + seen, max(most, rounds)
        stage.refault()
    finally:
        stage.close()
    say(f"planted faults that the first line names correctly, {hosts} hosts", f"{right} of {len(faults)}")
    say(f"of these, shown by their `next` command at {where}", f"{shown} of {len(faults)}")
    return most


def _planted(
    stage: Stage, settings: dict[str, Any], fault: dict[str, Any], wanted: tuple[str, tuple[int, ...], int | None]
) -> tuple[bool, bool, int]:
    """Update with a planted fault; return whether the first line blames it, whether the next command shows it, and the rounds.

    An update without a measurement is printed; it counts as neither blamed nor shown.
    """
    ended, measured = _newly_measured(stage, settings)
    what = f"planted: {json.dumps(fault)}"
    if not measured:
        say(what, f"left no measurement: {ended}")
        return False, False, 0
    search = measured["search"] or {"rounds": 0, "seconds": 0.0, "culprits": []}
    found = stage.outputs()
    named, seen, how = _named(found, _FAULTY_SHAPE), False, "nothing to type"
    if search["culprits"]:
        culprit = search["culprits"][0]
        seen, how = _typed(stage, found, culprit)
        first = next((line for line in ended.text.splitlines() if "verdict SHORT: " in line), "")
        if culprit_name(culprit) not in first:
            named, how = [], f"{how}; the first line was {first!r}"
    say(what, f"named {named}, {search['rounds']} rounds, {search['seconds']:.0f} s; {how}")
    return named == [wanted], named == [wanted] and seen, int(search["rounds"])


def _newly_measured(stage: Stage, settings: dict[str, Any]) -> tuple[Finished, dict[str, Any]]:
    """Update; return how the update ended, and its measurement (empty if the update made none)."""
    before = _measured(stage).get("run")
    ended = _up(stage, settings)
    measured = _measured(stage)
    return ended, measured if measured.get("run") not in {None, before} else {}


def _measured(stage: Stage) -> dict[str, Any]:
    """Return the measurement from the outputs; empty if the update stopped before the measurement, or there was no update."""
    try:
        found = stage.outputs().get("measured")
    except FileNotFoundError:
        return {}
    return found if isinstance(found, dict) else {}


def _typed(stage: Stage, outputs: dict[str, Any], culprit: dict[str, Any]) -> tuple[bool, str]:
    """Run a culprit's next command on the head node; return whether the output shows the fault, and a text with the numbers.

    The command must connect to the named nodes and to no others. If it also measures another rail or pair, the blamed number
    must be much lower than the other number. Otherwise, it must be lower than the number that the output states for a healthy
    pair.
    """
    addresses = [node["address"] for node in outputs["nodes"] if node["name"] in culprit["nodes"]]
    text = stage.on_host(culprit["next"])
    numbers = [(what, float(number)) for what, number in re.findall(r"^(\S.*): ([\d.e-]+) GB/s$", text, re.MULTILINE)]
    if not numbers:
        return False, f"next printed no number: {text[-300:]!r}"
    (what, blamed), *beside = numbers
    healthy = re.findall(r"a healthy pair has ([\d.e-]+)", what)
    fine = _SHOWN * beside[0][1] if beside else float(healthy[0]) if healthy else 0.0
    ends = set(re.findall(r"ssh ([\d.]+) ", culprit["next"])) == set(addresses)
    return ends and blamed < fine, f"next measures {', '.join(f'{name}: {number:.4g} GB/s' for name, number in numbers)}"


def _standing(folder: Path) -> tuple[Stage, dict[str, Any]]:
    """Return a stack of listed existing hosts; a ring follows the list's order, so it crosses a bad link between neighbours."""
    folder.mkdir()
    stage, settings = standing_hosts(folder, _MANY)
    return stage, merged(_MANY_PLAN, settings)


def _named(outputs: dict[str, Any], shape: str = "BM.GPU4.8") -> list[tuple[str, tuple[int, ...], int | None]]:
    """Return the culprits by index, like planted faults: hosts in the order of the list, rails in the order of the shape."""
    order = [node["name"] for node in outputs["nodes"]]
    rdma = SHAPES[shape].rdma
    kernel = sorted(rdma.hca if rdma else (), key=lambda name: int(name.rpartition("_")[2]))
    return [
        (
            culprit["kind"],
            tuple(sorted(order.index(name) for name in culprit["nodes"])),
            kernel.index(culprit["rails"][0]) if len(culprit["rails"]) == 1 else None,
        )
        for culprit in (outputs["measured"]["search"] or {"culprits": []})["culprits"]
    ]


def _series(folder: Path, what: str, first: int, plan: dict[str, Any], *faults: dict[str, Any], is_busy: bool = False) -> None:
    """Plant `faults` and measure the hosts in several runs (RUNS); with `is_busy`, half of the processors are taken meanwhile.

    Print how many runs had each verdict, how many blamed a host, and how many measured twice.
    """
    stage, settings = _standing(folder)
    settings = merged(settings, plan)
    try:
        stage.refault(*faults)
        with half_busy.half_taken(wanted=is_busy):
            _verdicts(stage, settings, f"{what}, {half_busy.said()}" if is_busy else what, first)
    finally:
        stage.close()


def _verdicts(stage: Stage, settings: dict[str, Any], what: str, first: int) -> None:
    verdicts, blamed, twice, began = [], 0, 0, time.monotonic()
    for number in range(first, first + _HEALTHY_RUNS):
        ended, measured = _newly_measured(stage, merged(settings, {"measure": {"run": number}}))
        if not measured:
            sys.exit(f"{what}: run {number} left no measurement: {ended}")
        verdicts.append(measured["verdict"])
        blamed += bool(_named(stage.outputs()))
        twice += any(why.startswith(retest.NOTE) for check in measured["checks"] for why in check["why"])
        if verdicts[-1] != "pass":
            say(f"{what}: run {number}", "; ".join(measured["reasons"]))
    counts = ", ".join(f"{verdicts.count(one)} {one}" for one in ("pass", "short", "unknown"))
    each_s = (time.monotonic() - began) / _HEALTHY_RUNS
    say(f"{what}, {_MANY} hosts", f"{counts}; {blamed} blamed a host; {twice} measured twice; {each_s:.0f} s each")


def _overhead(stage: Stage) -> float:
    """Return how many seconds build and measurement took together, without the runs' own time."""
    ended = {one["urn"].rsplit("::", 1)[1]: _when(one) for one in _own(stage) if "created" in one}
    began = max(ended["acceptance-runner-program"], ended["acceptance-runner-file"])
    (line,) = [json.loads(one["outputs"]["stdout"]) for one in stage.resources() if one["urn"].endswith("::acceptance-measure")]
    runs_s = sum(step.get("seconds", 0.0) for step in line["steps"])
    return (ended["acceptance-measure"] - began).total_seconds() - float(runs_s)


def _own(stage: Stage) -> list[dict[str, Any]]:
    """Return the resources that the program registers, excluding the engine's own."""
    return [one for one in stage.resources() if not one["type"].startswith("pulumi:")]


def _inputs(stage: Stage, name: str) -> dict[str, Any]:
    for resource in stage.resources():
        if resource["urn"].endswith(f"::{name}"):
            return dict(resource["inputs"])
    sys.exit(f"the state has no {name}")


def _when(resource: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", resource["created"]))


def _available_mb() -> float:
    text = Path("/proc/meminfo").read_text()
    return int(re.findall(r"MemAvailable:\s+(\d+) kB", text)[0]) / 1000


def _exporter(folder: Path) -> None:
    """Measure how long a scrape of sixteen mlx5 devices takes. Their files are copies of tests/golden/rdma/mlx5_0.txt."""
    rows = [
        line.split("\t") for line in (ROOT / "tests/golden/rdma/mlx5_0.txt").read_text().splitlines() if "counters/" in line
    ]
    for number in range(16):
        for path, text in rows:
            place = folder / f"mlx5_{number}" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{text}\n")
    program = (
        "import sys, time; from components.remote_scripts.rdma_exporter import collect\n"
        "for _ in range(200):\n"
        "    wall, cpu = time.perf_counter(), time.process_time(); body = collect(sys.argv[1])\n"
        "    print(time.perf_counter() - wall, time.process_time() - cpu, body.count(b'_total{'))\n"
    )
    found = subprocess.run([sys.executable, "-c", program, str(folder)], cwd=ROOT, capture_output=True, text=True, check=True)
    walls, cpus, counts = zip(*(map(float, line.split()) for line in found.stdout.splitlines()), strict=True)
    shown = ", ".join(f"{name} {_median(times) * 1e3:.1f} ms" for name, times in (("time", walls), ("processor", cpus)))
    say("a scrape of 16 mlx5 devices, median of 200", f"{shown}, {counts[0]:.0f} counters; load {os.getloadavg()[0]:.1f}")


def _median(times: Sequence[float]) -> float:
    return sorted(times)[len(times) // 2]


def _pure_tests() -> None:
    began = time.monotonic()
    found = subprocess.run(["tools/test", "pure"], cwd=ROOT, capture_output=True, text=True, check=False)
    say(
        "tests that need neither root nor network",
        f"{time.monotonic() - began:.1f} s, {found.stdout.splitlines()[-1].strip('= ')}",
    )


if __name__ == "__main__":
    main(sys.argv[1:])
