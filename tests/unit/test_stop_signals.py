"""A signal stops a program that serves the engine, whenever the signal arrives."""

from __future__ import annotations

import subprocess
import sys

from conftest import ROOT

#: A program in which a signal arrives at a random step of the wait, a thousand times.
_MANY = """
import os, random, signal
from rehearsal.protocol import StopSignals
for _ in range(1000):
    stop = StopSignals()
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGTERM))
    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 2e-4))
    while not stop.wait(5e-5):
        pass
    os.close(stop._told), os.close(stop._tell)
print("all arrived")
"""


def test_a_signal_that_arrives_at_any_step_of_the_wait_ends_the_wait():
    done = subprocess.run([sys.executable, "-c", _MANY], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "all arrived\n", done.stderr


def test_a_wait_without_a_signal_ends_after_its_time():
    program = "from rehearsal.protocol import StopSignals\nprint(StopSignals().wait(0.01))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"
