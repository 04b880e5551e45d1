"""Reads what torchrun printed for one rank of ddp.py or of IIJ's script: accuracies, time per epoch, NCCL's network.

kubectl --namespace busbar-ddp logs busbar-ddp-0-xxxxx | python3 read_log.py
"""

from __future__ import annotations

import re
import sys
from datetime import datetime
from statistics import median
from typing import NamedTuple

#: The accuracies in IIJ's article of 2024-06-04, by epoch: two pods with an A100 each over 25 Gbit/s, from pre-trained weights.
ARTICLE = {10: 0.8046, 200: 0.856}
_LINE = re.compile(r"^[A-Z]+ +(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) .*?: (.*)$")
_NETWORK = re.compile(r"NCCL INFO (?:Using network (\S+)|NET/IB : Using (\[\d+\]\S+))")
_STAMP = "%Y-%m-%d %H:%M:%S,%f"


class Log(NamedTuple):
    """One rank's log.

    Attributes:
        accuracies: share of test images that were classified correctly, by epoch.
        losses: mean loss, by epoch.
        epoch_s: median time from one epoch's start to the next epoch's; None if the log has no two successive epochs.
        networks: the networks that NCCL used, according to the log.
        generated: whether the images were generated; then no accuracy can be compared with the article's.
        averaged: whether the ranks' gradients were found equal after they were averaged.
    """

    accuracies: dict[int, float]
    losses: dict[int, float]
    epoch_s: float | None
    networks: tuple[str, ...]
    generated: bool
    averaged: bool


def read(text: str) -> Log:
    """Parse the log of one rank."""
    starts: dict[int, datetime] = {}
    numbers: dict[str, dict[int, float]] = {"Accuracy": {}, "Loss": {}}
    generated = averaged = False
    networks: dict[str, None] = {}
    for line in text.splitlines():
        if network := _NETWORK.search(line):
            networks[network.group(1) or network.group(2)] = None
        found = _LINE.match(line)
        if not found:
            continue
        said = found.group(2)
        generated |= said.startswith("No CIFAR-10 in ")
        averaged |= bool(re.match(r"Gradients of \d+ ranks: .* by 0 after$", said))
        if start := re.fullmatch(r"Start Epoch (\d+)", said):
            starts[int(start.group(1))] = datetime.strptime(found.group(1), _STAMP)  # noqa: DTZ007 - differences only
        if number := re.fullmatch(r"Epoch: (\d+), (Accuracy|Loss): ([\d.e+-]+)", said):
            numbers[number.group(2)][int(number.group(1))] = float(number.group(3))
    times = [(starts[epoch + 1] - began).total_seconds() for epoch, began in starts.items() if epoch + 1 in starts]
    return Log(numbers["Accuracy"], numbers["Loss"], median(times) if times else None, tuple(networks), generated, averaged)


def sentences(log: Log) -> list[str]:
    """Return the results in words, with the article's numbers if they can be compared."""
    lines = [f"an epoch took {log.epoch_s:.2f} s" if log.epoch_s is not None else "the log has no two successive epochs"]
    lines += [f"NCCL used {', '.join(log.networks)}"] if log.networks else []
    lines += ["the ranks average their gradients: in a test before training, all had the same average"] if log.averaged else []
    if log.losses:
        first, last = min(log.losses), max(log.losses)
        lines.append(f"loss {log.losses[first]:g} in epoch {first}, {log.losses[last]:g} in epoch {last}")
    for epoch, accuracy in log.accuracies.items():
        beside = f"; the article has {ARTICLE[epoch]:g}" if epoch in ARTICLE and not log.generated else ""
        lines.append(f"accuracy {accuracy:g} after {epoch} epochs{beside}")
    return lines + (["the images were generated: do not compare their accuracy with CIFAR-10's"] if log.generated else [])


if __name__ == "__main__":
    print("\n".join(sentences(read(sys.stdin.read()))))  # noqa: T201 - the program's purpose
