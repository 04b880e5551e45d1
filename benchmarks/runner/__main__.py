"""The runner's command line.

    run            read a request (JSON) from standard input, start it unless it is running or done, wait, print one JSON line
    ask            like `run`, but a refusal is printed as a JSON line, too: Pulumi, which calls `ask`, keeps that line
    submit         `run` without waiting
    wait RUN_ID    wait for a request that was submitted, print its line
    plan           read a request from standard input, print its exact commands, start nothing
    worker FOLDER  do the work of the request in FOLDER; `run`, `ask` and `submit` start this command, detached
    entry FILE     test new machines in pairs, before they become nodes: standard input lists them, the document FILE says how
    job FILE       build and measure in the Slurm job that runs this command, as the document FILE describes

Exit status of `run`, `ask`, `wait` and `entry`: 0 with one JSON line on standard output, or 1 with one sentence on standard
error (`ask` exits with 0 in both cases). Rows and progress go to standard error while the work runs.
"""

import importlib
import json
import sys
from typing import Any, List

from benchmarks.launch import protocol
from benchmarks.runner import jobs
from benchmarks.runner.refusal import Refusal

#: At most this many characters of a refusal go into a line.
_SENTENCE = 4000
#: Modules by kind of request and by command. Nodes keep no bytecode of the runner, so every start compiles what it imports.
#: Therefore each start imports only the module that it needs.
_MODULES = {
    "build": "build", "schedule": "schedule", "measure": "measure", "search": "search_run",
    "job": "slurm_job", "entry": "entry_test",
}  # fmt: skip


def main(argv: List[str]) -> int:
    """Carry out one command line and return the exit status."""
    try:
        if argv[:1] == ["job"] and argv[1:]:
            return int(_module("job").main(argv[1]))
        if argv[:1] == ["entry"] and argv[1:]:
            return int(_module("entry").main(argv[1]))
        return _ask(sys.stdin.read()) if argv == ["ask"] else _dispatch(argv)
    except Refusal as refusal:
        print(f"busbar: {refusal}", file=sys.stderr)
        return 1


def _module(name: str) -> Any:
    return importlib.import_module(f"benchmarks.runner.{_MODULES[name]}")


def _dispatch(argv: List[str]) -> int:
    if argv in (["run"], ["submit"]):
        request = _request(sys.stdin.read())
        jobs.submit(request)
        if argv == ["submit"]:
            print(request.run_id)
            return 0
        return jobs.wait(request.run_id, request.timeout_s)
    if argv[:1] == ["wait"] and argv[1:]:
        return jobs.wait(argv[1], None)
    if argv == ["plan"]:
        request = _request(sys.stdin.read())
        for command in _module(request.kind).commands(request):
            print(command)
        return 0
    if argv[:1] == ["worker"] and argv[1:]:
        jobs.work(argv[1], _module)
        return 0
    print(__doc__, file=sys.stderr)
    return 2


def _ask(text: str) -> int:
    """Run the request `text`; if it is refused, print the reason as a line of the request's kind."""
    try:
        request = _request(text)
        jobs.submit(request)
        return jobs.wait(request.run_id, request.timeout_s)
    except (Refusal, OSError) as refusal:  # OSError: for example, the disk is full
        print(f"busbar: {refusal}", file=sys.stderr)
        print(json.dumps(protocol.data(_refused(text, str(refusal)[:_SENTENCE])), sort_keys=True))
        return 0


def _refused(text: str, why: str) -> protocol.Refused:
    """Return the line of a refusal; a request that cannot be read may still contain its kind and its run id."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    named = said if isinstance(said, dict) else {}
    return protocol.Refused(run_id=str(named.get("run_id", "")), failed=why, kind=str(named.get("kind", "")))


def _request(text: str) -> protocol.Request:
    try:
        return protocol.request(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the request is invalid: {error}") from None
