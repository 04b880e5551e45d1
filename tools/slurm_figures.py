"""Measure how long the rehearsed Slurm cluster of oci-on-demand takes for a test job, and count cloud calls for 64 nodes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tools.stage import ROOT, SHORT_PLAN, Stage

Say = Callable[[str, str], None]
_STACK, _CLOUD = "oci-on-demand", "oci"
_PATIENCE_S = 600


def figures(folder: Path, say: Say) -> None:
    """Print the times of one cycle, from `sbatch` until the last node is terminated, and the cloud calls for 64 nodes."""
    folder.mkdir()
    stage = Stage(folder, _STACK)
    try:
        _cycle(stage, say)
    finally:
        stage.close()
    _sixty_four(say)


def _cycle(stage: Stage, say: Say) -> None:
    built = stage.up(**SHORT_PLAN)
    if built.status:
        sys.exit(f"up failed: {built}")
    alone = stage.machines(_CLOUD)
    say(f"{_STACK}: up without nodes", f"{built.seconds:.1f} s, machines: {alone}")
    began = time.monotonic()
    stage.on_host("cd /home/.busbar && sbatch nccl-test.sh")
    most = alone

    def has_ended() -> bool:
        nonlocal most
        most = max(most, stage.machines(_CLOUD))
        return not stage.on_host("squeue -h").strip()

    ran_s = _seconds_until(has_ended, "the test job ends", began)
    say(f"{_STACK}: from sbatch until the test job ends", f"{ran_s:.0f} s, nodes started: {most - alone}")
    left_s = _seconds_until(lambda: stage.machines(_CLOUD) == alone, "idle nodes end", began)
    say(f"{_STACK}: from sbatch until the last node is terminated (after 1 min idle)", f"{left_s:.0f} s")
    judged = stage.up(**SHORT_PLAN)
    measured = stage.outputs()["measured"]
    say(
        f"{_STACK}: the next up",
        f"{judged.seconds:.1f} s, {measured['verdict']}, busbw {measured['busbw_gb_s']:.4g} GB/s, "
        f"{measured['wire_efficiency']:.4f} of the wire",
    )


def _seconds_until(holds: Callable[[], bool], what: str, began: float) -> float:
    """Wait until a condition holds; return the seconds since `began`."""
    while not holds():
        if time.monotonic() > began + _PATIENCE_S:
            sys.exit(f"not within {_PATIENCE_S} s: {what}")
        time.sleep(1)
    return time.monotonic() - began


def _sixty_four(say: Say) -> None:
    words = [sys.executable, "tests/elastic_session.py", "sixty_four"]
    done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"64 nodes: {done.stderr}")
    seen = json.loads(done.stdout)["sixty_four"]
    say("64 nodes: the resume program returns after", f"{seen['resume_s']:.2f} s")
    say("64 nodes: nodes that ran the job", f"{seen['ran']}")
    say("64 nodes: calls to launch, calls to terminate", f"{seen['launches']}, {seen['terminates']}")
    say("64 nodes: machines left", f"{seen['left']}")
