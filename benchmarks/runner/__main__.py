"""The runner's command line.

    run            read a request (JSON) from standard input, start it unless it runs or is done, wait, print one JSON line
    submit         the same without waiting
    wait RUN_ID    wait for a request that was submitted, print its line
    plan           print the exact commands of the request on standard input and start nothing
    worker FOLDER  the detached work itself (started by `run`)

Exit status: 0 with one JSON line on standard output, or 1 with one sentence on standard error. Rows and progress go to
standard error while the work runs.
"""

import json
import sys
from typing import Any, Dict, List

from benchmarks.launch import protocol
from benchmarks.runner import build, jobs, measure, schedule, search_run
from benchmarks.runner.refusal import Refusal

_WORK: Dict[str, Any] = {"build": build, "schedule": schedule, "measure": measure, "search": search_run}


def main(argv: List[str]) -> int:
    """Carry out one command line and return the exit status."""
    try:
        return _dispatch(argv)
    except Refusal as refusal:
        print(f"busbar: {refusal}", file=sys.stderr)
        return 1


def _dispatch(argv: List[str]) -> int:
    if argv in (["run"], ["submit"]):
        request = _request()
        jobs.submit(request)
        if argv == ["submit"]:
            print(request.run_id)
            return 0
        return jobs.wait(request.run_id, request.timeout_s)
    if argv[:1] == ["wait"] and argv[1:]:
        return jobs.wait(argv[1], None)
    if argv == ["plan"]:
        request = _request()
        for command in _WORK[request.kind].commands(request):
            print(command)
        return 0
    if argv[:1] == ["worker"] and argv[1:]:
        return jobs.work(argv[1], _WORK)
    print(__doc__, file=sys.stderr)
    return 2


def _request() -> protocol.Request:
    try:
        return protocol.request(json.load(sys.stdin))
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the request is not one: {error}") from None
