"""Placeholders in a job's document, in place of the nodes and folders that are known only once the job runs.

Each placeholder is a text between two @ characters. No path, address or variable contains such a text. `filled` replaces each
placeholder with its value.
"""

import os
import re
from typing import Any, Dict

from benchmarks.launch.protocol import BuildLine

HOME, BINARIES, MPI, CUDA, NCCL, SHELL = "@home@", "@binaries@", "@mpi@", "@cuda@", "@nccl@", "@shell@"
#: Environment variable with the path of the program that replaces ssh; `benchmarks.runner.fanout` reads it on import.
REMOTE_SHELL = "BUSBAR_REMOTE_SHELL"
_ANY = re.compile(r"@[a-z]+[0-9]*@")


def name(number: int) -> str:
    """Return the placeholder for the name of node `number`, counted from 0."""
    return f"@name{number}@"


def address(number: int) -> str:
    """Return the placeholder for the address of node `number`."""
    return f"@address{number}@"


def built(line: BuildLine) -> Dict[str, str]:
    """Return the values of the placeholders after a build: the folders, and the program that replaces ssh."""
    return {
        HOME: line.home,
        BINARIES: line.binaries,
        MPI: line.mpi_home,
        CUDA: line.cuda_home,
        NCCL: line.nccl_home,
        SHELL: os.environ.get(REMOTE_SHELL, ""),
    }


def filled(value: Any, known: Dict[str, str]) -> Any:
    """Return plain data with every placeholder in its texts replaced; raise KeyError for an unknown placeholder."""
    if isinstance(value, str):
        return _ANY.sub(lambda found: known[found.group()], value)
    if isinstance(value, list):
        return [filled(one, known) for one in value]
    if isinstance(value, dict):
        return {key: filled(one, known) for key, one in value.items()}
    return value
