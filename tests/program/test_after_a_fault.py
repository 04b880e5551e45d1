"""A measurement passes, and then a fault hits the next update: nothing may report a pass for a request without an answer.

The program runs on a recording engine that keeps outputs as the real engine does: if an update fails before its outputs are
known, the previous outputs remain, certificate included (pulumi 3.259.0, resource/deploy/step_executor.go). So a program
that reads the outputs compares them with its own request. Each entry of FAULTS was once injected into a running stack.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pulumi
import pytest
from conftest import BUILD_LINE, ROOT, Engine, configuration, ready_line, run_main
from consumer_program import demand
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from dev_stack import dev_asked
from measurement_line import document

from benchmarks.launch.protocol import Refused, data
from benchmarks.plan.asked import Asked
from benchmarks.records.answer import answer
from components.acceptance.accept import _FAILS
from config import read
from config.oci.model import Oci

CREATE, CONTACT, MEASURE, KEEP = (
    "cluster-pool-gpu-nodes",
    "acceptance-ready-contact",
    "acceptance-measure",
    "acceptance-records-keep",
)


class FaultError(Exception):
    """A resource that fails, or an engine that is killed."""


@dataclass
class Failing(Engine):
    """An engine that never creates the resource named `fails`. Its records stage prints a signed certificate."""

    fails: str = ""
    accepted: list[bool] = field(default_factory=list)

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        if args.name == self.fails:
            raise FaultError(args.name)
        if args.name == KEEP and KEEP not in self.lines:
            self.lines[KEEP] = json.dumps(answer(json.loads(args.inputs["stdin"])))
        if args.name == "acceptance-accept-verdict":
            self.accepted.append(args.inputs["interpreter"] != list(_FAILS))
        return super().new_resource(args)


def update(folder: Path, outputs: dict[str, Any], *, run: int, fails: str = "", **lines: str) -> tuple[dict[str, Any], bool]:
    """Run an update of a stack file that sets `measure.run` to `run`.

    Return the outputs that the stack has afterwards, and whether the update succeeded.
    """
    known = {
        CONTACT: ready_line(),
        "acceptance-build": BUILD_LINE,
        MEASURE: line(run),
        "acceptance-search": json.dumps({"schema": 1, "kind": "search", "needed": False}),
    }
    engine = Failing(known | {name.replace("_", "-"): text for name, text in lines.items()}, before=outputs, fails=fails)
    records = {"certificate": {"key": str(folder / "key.pem")}, "history": None, "report": None}
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(engine, project="busbar", stack="dev", preview=False, organization="organization")
    config = configuration(records=records, measure={"run": run})
    pulumi.runtime.set_all_config(config | {"oci:region": "us-rehearsed-1"})
    exported: dict[str, Any] = {}
    settled: dict[str, Any] = {}

    @pulumi.runtime.test
    def program() -> None:
        run_main()
        # A real stack sets no output before all outputs are known, and then sets all of them; so does this function.
        pulumi.Output.all(**exported).apply(settled.update)

    genuine, pulumi.export = pulumi.export, exported.__setitem__
    broken = False
    try:
        with contextlib.chdir(ROOT):
            program()
    except FaultError:
        broken = True
    finally:
        pulumi.export = genuine
    return (settled or outputs), bool(not broken and settled and all(engine.accepted))


def line(run: int, share: float = 0.98, **changes: Any) -> str:
    """Return the line that the measurement of run number `run` prints."""
    started = {"run_id": f"run{run}", "started": (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")}
    return json.dumps(document(dev_asked(), share=share) | started | changes)


def refused(why: str, kind: str = "measure") -> str:
    """Return the runner's line for a refused request."""
    return json.dumps(data(Refused("run2", why, kind)))


def damaged(**changes: Any) -> str:
    """Return the line of a second run whose deciding step differs by `changes`."""
    found = json.loads(line(2))
    (step,) = [one for one in found["steps"] if one["name"] == "all_reduce"]
    step |= changes
    return json.dumps(found)


@functools.cache
def signing() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("faults")
    (made / "key.pem").write_bytes(signing().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (made / "key.pem").chmod(0o600)
    return made


@pytest.fixture(scope="module")
def passed(folder) -> dict[str, Any]:
    """The outputs of a stack whose measurement passed."""
    found, ok = update(folder, {}, run=1)
    assert ok
    assert found["measured"]["verdict"] == "pass"
    assert found["measured"]["certificate"]
    return found


@pytest.fixture(scope="module")
def updated(folder, passed) -> Callable[..., tuple[dict[str, Any], bool]]:
    """Runs the second update. Several faults look the same to the engine; for these faults, the update runs only once."""

    @functools.cache
    def run(fails: str, *lines: tuple[str, str]) -> tuple[dict[str, Any], bool]:
        return update(folder, passed, run=2, fails=fails, **dict(lines))

    return run


@functools.cache
def request(run: int) -> str:
    """Return the digest of the request that a stack file with `measure.run` set to `run` makes; a preview shows this digest."""
    config = configuration(measure={"run": run})
    stack = read.parse({key.partition(":")[2]: text for key, text in config.items()})
    assert isinstance(stack.wanted, Oci)
    return Asked.of(stack, stack.wanted.pools[0].row, 2).digest()


def test_an_update_that_fails_again_without_a_new_measurement_says_that_nothing_was_measured_now(folder, passed, monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_, **__: told.append(text))
    slow = line(2, 0.5)
    outputs, ok = update(folder, passed, run=2, acceptance_measure=slow)
    assert (ok, outputs["measured"]["verdict"]) == (False, "short")
    assert not [text for text in told if "nothing was measured now" in text]
    assert not update(folder, outputs, run=2, acceptance_measure=slow)[1]
    (said,) = [text for text in told if "nothing was measured now" in text]
    assert said.startswith("nothing was measured now: this is run run2, measured 20")


@dataclass(frozen=True)
class Fault:
    """A fault, as the engine sees it.

    Attributes:
        fails: the resource that is never created; empty if every resource is created.
        lines: what stages print instead of a pass.
        verdict: the exported record's verdict after the fault; if nothing replaced the record, the previous update's verdict.
        is_answered: whether the record that is exported after the fault answers the new request.
    """

    fails: str = ""
    lines: dict[str, str] = field(default_factory=dict)
    verdict: str = "pass"
    is_answered: bool = False


def prints(text: str, verdict: str) -> Fault:
    """Return a fault after which the measurement prints `text`; the judgement of `text` is `verdict`."""
    return Fault(lines={"acceptance_measure": text}, verdict=verdict, is_answered=True)


DECIDING = next(one for one in json.loads(line(2))["steps"] if one["name"] == "all_reduce")
FULL = {"schema": 1, "kind": "keep", "certificate": None, "report": None, "changes": [], "warnings": ["no report was drawn"]}
HUNG = damaged(rows=[], problems=["the run all_reduce was stopped after 60 s with 0 rows done"])
OUT_OF_LINE = damaged(problems=["all_reduce: text and JSON result differ in busbw of 8 rows"])
WRONG = damaged(
    rows=[[size, [*first[:3], 3], [*second[:3], 3]] for size, first, second in DECIDING["rows"]],
)

#: The faults by name.
FAULTS = {
    "kill -9 engine in create": Fault(CREATE),
    "kill -9 engine in measure": Fault(MEASURE),
    "SIGHUP in measure": Fault(MEASURE),
    "SIGTERM in measure": Fault(MEASURE),
    "kill -9 stand-in cloud in create": Fault(CREATE),
    "kill -9 command plugin in measure": Fault(MEASURE),
    "head disk full": prints(refused("[Errno 28] No space left on device: '/home/opc/.busbar/runs/run2'"), "unknown"),
    "sshd of head killed in measure": Fault(MEASURE),
    "worker killed": prints(refused("the work on the head node ended without a result; last log line: none"), "unknown"),
    "rank stopped": prints(HUNG, "unknown"),
    "bastion sshd away": Fault("acceptance-runner-program"),
    "bastion key changed": Fault(CONTACT),
    "agent without key": Fault(CONTACT),
    "leftover of an earlier run": prints(line(2), "pass"),
    "wrong count": prints(WRONG, "short"),
    "JSON that the text contradicts": prints(OUT_OF_LINE, "unknown"),
    "two ups of one stack": Fault("acceptance-records"),
    "two checkouts at once": prints(line(2), "pass"),
    "report folder full": Fault(lines={"acceptance_records_keep": json.dumps(FULL)}, is_answered=True),
    "state folder full": Fault(MEASURE),
    "destroy that is refused": Fault(CREATE),
}


@pytest.mark.parametrize("name", FAULTS)
def test_after_an_earlier_pass_an_update_with_a_fault_passes_only_if_its_own_request_is_answered_with_a_pass(
    updated, monkeypatch, name
):
    fault = FAULTS[name]
    after, ok = updated(fault.fails, *fault.lines.items())
    measured = after["measured"]
    assert ok == (fault.is_answered and fault.verdict == "pass"), "an update succeeds only with a pass of its own"
    assert measured["verdict"] == fault.verdict
    assert measured["asked"] == request(2 if fault.is_answered else 1), "the record says which request it answers"
    assert measured["run"] == ("run2" if fault.is_answered else "run1")
    key = signing().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    demands = functools.partial(demand, monkeypatch, after, key=key, preview=False, allow_rehearsed=True)
    if ok and measured["certificate"]:
        (said,) = demands(asked=request(2))
        assert (said["run_id"], said["asked"]) == ("run2", request(2))
    else:
        with pytest.raises(pulumi.RunError) as refused:
            demands(asked=request(2))
        answers = f"it is for the request {request(1)}, not for {request(2)}"
        assert ("has no certificate" if fault.is_answered else answers) in str(refused.value)


BUSY = "the GPUs are in use, so nothing was started: inst-1: process 7 (python3) of root computes on a GPU"


@pytest.mark.parametrize(
    ("stage", "kind", "why"),
    [
        ("acceptance_measure", "measure", BUSY),
        ("acceptance_measure", "measure", "on inst-1, the programs are not those of the build; nothing was started"),
        ("acceptance_measure", "measure", "the request is invalid: the document is []; it must be an object"),
        ("acceptance_build", "build", "nccl-tests did not build: x.cu:1: error: nccl.h: No such file"),
    ],
)
def test_after_a_refused_request_the_verdict_is_unknown_with_the_reason_until_the_next_update_measures_again(
    folder, passed, stage, kind, why
):
    # If the build is refused, the measure stage prints the build's refusal again.
    lines = {"acceptance_measure": refused(why)} | {stage: refused(why, kind)}
    after, ok = update(folder, passed, run=2, **lines)
    measured = after["measured"]
    assert not ok
    assert (measured["verdict"], measured["reasons"], measured["refused"]) == ("unknown", [why], True)
    assert (measured["asked"], measured["busbw_gb_s"], measured["certificate"]) == (request(2), None, None)
    assert [passed["measured"]["attempt"], measured["attempt"]] == [0, 0]
    again, ok = update(folder, after, run=2)
    assert ok
    assert (again["measured"]["attempt"], again["measured"]["refused"]) == (1, False)
    after, _ = update(folder, again, run=2)
    assert after["measured"]["attempt"] == 1, "a request that was answered is not sent again"


def test_if_the_search_after_a_short_measurement_is_refused_the_verdict_is_short_and_the_record_is_marked_as_refused(
    folder, passed
):
    why = "the work on the head node ended without a result; last log line: none"
    slow = {"acceptance_measure": line(2, share=0.5), "acceptance_search": refused(why, "search")}
    measured = update(folder, passed, run=2, **slow)[0]["measured"]
    assert (measured["verdict"], measured["reasons"][-1], measured["refused"]) == ("short", why, True)
    assert measured["busbw_gb_s"]


def test_a_certificate_is_refused_if_the_stacks_machines_have_other_addresses_than_the_measured_machines(passed, monkeypatch):
    other = passed | {"nodes": [node | {"address": "10.9.9.9"} for node in passed["nodes"]]}
    key = signing().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    with pytest.raises(pulumi.RunError, match="machines with other addresses"):
        demand(monkeypatch, other, key=key, preview=False, allow_rehearsed=True)


def test_a_preview_shows_the_digest_of_the_measurement_request(passed):
    assert passed["expected"]["asked"] == passed["measured"]["asked"] == request(1)
    assert request(1) != request(2)


def test_the_command_that_fails_an_update_shows_the_result_and_then_waits_so_that_the_engine_gets_the_outputs_first():
    with subprocess.Popen([*_FAILS, "headline"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert command.stdin is not None
        assert command.stderr is not None
        command.stdin.write("the result\n")
        command.stdin.close()
        assert command.stderr.readline() == "the result\n"
        with pytest.raises(subprocess.TimeoutExpired):
            command.wait(timeout=0.2)
    assert command.returncode == 1
