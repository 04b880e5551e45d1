"""Stand for nodes and folders in the document of a job, until the job knows them.

Each is a text between two @, which no path, address or variable contains; `filled` puts the values in their places.
"""

import re
from typing import Any, Dict

HOME, BINARIES, MPI, CUDA, NCCL, SHELL = "@home@", "@binaries@", "@mpi@", "@cuda@", "@nccl@", "@shell@"
_ANY = re.compile(r"@[a-z]+[0-9]*@")


def name(number: int) -> str:
    """Return what stands for the name of node `number`, counted from 0."""
    return f"@name{number}@"


def address(number: int) -> str:
    """Return what stands for the address of node `number`."""
    return f"@address{number}@"


def filled(value: Any, known: Dict[str, str]) -> Any:
    """Return plain data with every placeholder in its texts replaced; KeyError for one that is not known."""
    if isinstance(value, str):
        return _ANY.sub(lambda found: known[found.group()], value)
    if isinstance(value, list):
        return [filled(one, known) for one in value]
    if isinstance(value, dict):
        return {key: filled(one, known) for key, one in value.items()}
    return value
