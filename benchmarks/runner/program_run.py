"""Runs one test program with a time limit, then reads the program's rows and compares its printed text with its JSON file.

The JSON file contains a rank's complete environment, so it is deleted as soon as it has been read. The evidence keeps those
fields of the file that `benchmarks.runner.evidence` lists.
"""

import contextlib
import json
import math
import os
import re
import shlex
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from benchmarks.runner import agreement, evidence, fanout, jobs, transcript
from benchmarks.runner.child import bounded
from benchmarks.runner.refusal import Refusal

_FETCH_TIMEOUT_S = 60
#: Exit statuses with which a check for disk space does not prove a full disk: 0 (there is enough space), 124 and 255 (the node
#: did not answer).
_UNKNOWN = (0, 124, 255)
#: A run with wrong values completes, counts the wrong values in its rows, prints this line, and exits with an error.
_WRONG = re.compile(r"# Out of bounds values : [1-9]\d* FAILED")
#: If the exit status is at least this, a signal killed the program. A run that only counted wrong values exits with a lower
#: status, which nccl-tests itself sets (testNumResults, 7 in version 2.19.6).
_SIGNALLED = 128
#: Words in the line that most likely has the cause of a failure. nccl-tests writes "Test CUDA failure"; Open MPI writes the
#: other words. Only Open MPI reports a rank that was killed: "mpirun noticed that process rank 5 with PID 812 on node gpu-2
#: exited on signal 9".
_TELLING = ("failure", "failed", "error", "refused", "unable", "invalid")
_KILLED = "exited on signal"


class Run(NamedTuple):
    """Result of one run.

    Attributes:
        transcript: what was parsed from the run's JSON document, or from the run's text if the document cannot be used.
        problems: inconsistencies in the text, in the document, or between text and document.
        text: everything that the run printed.
        seconds: how long the run took.
        exact: the JSON document as the evidence has it; empty if it could not be read.
    """

    transcript: transcript.Transcript
    problems: List[str]
    text: str
    seconds: float
    exact: str = ""


class Job(NamedTuple):
    """A run that is to be started: its command, and where its first rank writes the JSON file.

    Attributes:
        name: name of the run, and of the file that keeps the run's output.
        argv: the command.
        result: path of the JSON file.
        timeout_s: time limit of the run.
        cycles: how often each size is measured.
        silence_s: how long the run may print nothing; in a rehearsal, this time is multiplied by the scale.
        before_end: function that is called before a limit stops the run, while the run's ranks still exist.
        result_at: address of the first rank's node; None if the first rank runs on this node.
    """

    name: str
    argv: List[str]
    result: str
    timeout_s: float
    cycles: int = 1
    result_at: Optional[str] = None
    silence_s: float = math.inf
    before_end: Callable[[], None] = lambda: None


def run(job: Job, here: str, see: Callable[[str], None]) -> Run:
    """Run `job`; while the job runs, write its output to a file in the folder `here`, and pass every line to `see`.

    Raises:
        Refusal: the job could not be started, did not finish in time or failed; the message has the likely cause.
        OSError: the disk of the JSON file is full, so that the file is missing or cut off.
    """
    result = _Result(job)
    result.drop()  # nccl-tests would write to another file name if this file existed
    began = time.monotonic()
    try:
        text = _run(job, os.path.join(here, job.name + ".txt"), see)
        seconds = time.monotonic() - began
        exact = _exact(result)
        if not _is_whole(exact):
            result.find_room()
        found, problems = compared(text, exact, job.name, job.cycles)
    finally:
        result.drop()
    return Run(found, problems, text, seconds, "" if isinstance(exact, OSError) else evidence.without_environment(exact))


class _Result:
    """The JSON file of a run, on this node or on another node."""

    def __init__(self, job: Job) -> None:
        self._path = job.result
        self._address = job.result_at

    def drop(self) -> None:
        """Remove the file; on another node, also create the file's folder, which only this user can read."""
        if self._address:
            folder, path = shlex.quote(os.path.dirname(self._path)), shlex.quote(self._path)
            fanout.on(self._address, f"umask 077; mkdir -p {folder}; rm -f {path}", b"", _FETCH_TIMEOUT_S)
        elif os.path.exists(self._path):
            os.unlink(self._path)

    def read(self) -> str:
        """Return the file's text.

        Raises:
            OSError: the file cannot be read.
        """
        if not self._address:
            with jobs.text(self._path) as source:
                return str(source.read())
        answer = fanout.on(self._address, "cat " + shlex.quote(self._path), b"", _FETCH_TIMEOUT_S)
        if answer.status != 0:
            raise OSError(f"{self._address}: {answer.why}")
        return answer.out

    def find_room(self) -> None:
        """Check for free disk space by writing a second file into the folder of the JSON file and removing the second file.

        Raises:
            OSError: there is no space, so the full disk explains a missing or cut-off JSON file.
        """
        path = self._path + ".room"
        if self._address:
            here = shlex.quote(path)
            written = f"head -c {jobs.ROOM_BYTES} /dev/zero >{here}; status=$?; rm -f {here}; exit $status"
            answer = fanout.on(self._address, written, b"", _FETCH_TIMEOUT_S)
            if answer.status not in _UNKNOWN:
                raise OSError(f"{self._address}: {answer.why}")
        else:
            jobs.find_room(path)


def _is_whole(exact: Union[str, OSError]) -> bool:
    """Tell whether a result was read and is one complete JSON document."""
    try:
        return not isinstance(exact, OSError) and json.loads(exact) is not None
    except (ValueError, RecursionError):
        return False


def environment(argv: List[str]) -> Dict[str, str]:
    """Return mpirun's environment: this program's variables, except those of SSH and Pulumi, plus those from `added`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SSH_", "PULUMI_"))}
    kept.update(added(argv))
    return kept


def added(argv: List[str]) -> Dict[str, str]:
    """Return what mpirun needs in addition to a login's variables: the ranks' MPI variables, and the consent to run as root."""
    said = [word.split("=", 1) for flag, word in zip(argv, argv[1:]) if flag == "-x" and "=" in word]  # noqa: RUF007 - 3.10
    kept = {name: value for name, value in said if name.startswith(("OPAL_", "PRTE_", "PMIX_"))}
    if os.geteuid() == 0:  # the user chose to log in as root, but mpirun runs as root only with both variables
        kept.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return kept


def _run(job: Job, path: str, see: Callable[[str], None]) -> str:
    kept = []
    began, home = time.monotonic(), os.path.expanduser("~")
    limits = (job.timeout_s, job.silence_s, job.before_end)
    with contextlib.ExitStack() as opened:
        try:
            child = opened.enter_context(bounded(job.argv, *limits, cwd=home, env=environment(job.argv)))
        except OSError as error:
            raise Refusal(f"the run {job.name} could not be started: {error}") from error
        with jobs.text(path, "w") as log:
            for line in child.lines():
                kept.append(line)
                child.silence_s *= transcript.scale_of(line)
                log.write(line + "\n")
                log.flush()
                see(line)
        status = child.status()
    if child.late:
        rows = sum(line.lstrip()[:1].isdigit() for line in kept)
        raise Refusal(
            f"the run {job.name} was stopped after {time.monotonic() - began:.0f} s with {rows} rows done; its output is {path}"
        )
    counted = 0 < status < _SIGNALLED and any(_WRONG.match(line) for line in kept)
    if status != 0 and not counted:
        raise Refusal(f"the run {job.name} exited with status {status}: {_cause(kept)} (its output is {path} on the head node)")
    return "\n".join(kept) + "\n"


def _cause(lines: List[str]) -> str:
    """Return the line that most likely has the cause of a failure."""
    telling = [line for line in lines if _KILLED in line] or [
        line for line in lines if any(word in line.lower() for word in _TELLING)
    ]
    words = telling or lines or ["it printed nothing"]
    return words[0].strip()[:500]


def _exact(result: _Result) -> Union[str, OSError]:
    try:
        return result.read()
    except OSError as error:
        return error


def compared(text: str, exact: Union[str, OSError], name: str, cycles: int = 1) -> Tuple[transcript.Transcript, List[str]]:
    """Return the run `name`, parsed from its printed text and its JSON file, and the problems found in text and file.

    Raises:
        Refusal: the text does not contain exactly one run.
    """
    runs = transcript.parse_text(text, cycles)
    if len(runs) != 1:
        raise Refusal(f"the output of {name} contains {len(runs)} runs instead of one")
    printed = runs[0]
    try:
        if isinstance(exact, OSError):
            raise exact
        precise = transcript.parse_json(exact, cycles)
    except (OSError, ValueError) as error:
        return printed, [*printed.problems, f"the JSON result could not be used: {error}"]
    problems = [*printed.problems, *precise.problems]
    problems += [*agreement.disagreements(printed, precise), *agreement.contradictions(precise)]
    return precise._replace(
        network=printed.network, waited=printed.waited, nccl_tests=printed.nccl_tests, nccl=precise.nccl or printed.nccl
    ), problems
