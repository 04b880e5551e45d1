"""Keeps what the steps of a measurement printed, and the steps' exact results, in one file named by the hash of its text."""

import gzip
import hashlib
import json
import os
from typing import Dict, Iterable

from benchmarks.launch.protocol import Evidence
from benchmarks.runner import jobs

#: Suffix of the name of a step's exact result, which is nccl-tests' JSON document without the rank's environment.
EXACT = ".json"
#: Size limit of the kept output of a failed step.
_FAILED_BYTES = 1 << 20
#: The fields of nccl-tests' JSON document that are kept: fields of version 2.19.6, and the field `rehearsal`. This is an allow
#: list: a deny list would miss fields that a later version adds.
_PUBLIC = (
    *("version", "start_time", "end_time", "args", "nccl_version", "config", "rehearsal", "results"),
    *("out_of_bounds", "average_bus_bandwidth", "errors"),
)


def keep(here: str, texts: Dict[str, str], failed: Iterable[str] = (), head: str = "") -> Evidence:
    """Compress the steps' outputs into a file named by the text's hash; outputs of `failed` steps also stay as text files."""
    text = head + "".join(f"# busbar step {name}\n{printed}" for name, printed in texts.items())
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    path = os.path.join(here, digest + ".txt.gz")
    with open(path, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as target:
        target.write(data)
    for name in set(texts) - set(failed):
        if os.path.exists(os.path.join(here, name + ".txt")):
            os.unlink(os.path.join(here, name + ".txt"))
    return Evidence(path, digest)


def printed_by(here: str, name: str) -> str:
    """Return the end of what a failed step printed; empty if the step's output was not kept."""
    path = os.path.join(here, name + ".txt")
    if not os.path.exists(path):
        return ""
    with jobs.text(path) as source:
        return str(source.read())[-_FAILED_BYTES:]


def without_environment(text: str) -> str:
    """Return nccl-tests' `-J` document on one line, with only the fields in `_PUBLIC`: without a rank's environment.

    A document that cannot be parsed gives an empty text, because its content is unknown.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict):
        return ""
    return json.dumps({key: document[key] for key in _PUBLIC if key in document}) + "\n"
