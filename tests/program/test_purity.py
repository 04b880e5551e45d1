"""The program computes outputs only from outputs, without side effects, and writes nothing into the folder it is run from."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pulumi
import pytest
from conftest import BUILD_LINE, ROOT, Engine, configuration, ready_line, run_main
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from dev_stack import dev_asked
from measurement_line import document
from target_programs import aws, hosts, oci

#: Audit events of Python for access to the outside (library reference, "Audit events table").
_TOUCHES = ("open", "os.", "socket.", "subprocess.", "shutil.", "tempfile.", "urllib.", "glob.")
#: Python's import system, which may read files: the first call of a function may import a module.
_IMPORTS = "<frozen importlib"


class Watch:
    """Records audit events inside `apply`, on the thread that runs it."""

    def __init__(self) -> None:
        self.inside = threading.local()
        self.seen: list[str] = []
        self.calls = 0
        self.on = self.added = False

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on or not getattr(self.inside, "depth", 0) or not event.startswith(_TOUCHES):
            return
        if not _is_import(sys._getframe(1)):  # noqa: SLF001 - the frame that acts
            self.seen.append(" ".join([event, *(str(arg) for arg in args[:1])]))


def _is_import(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith(_IMPORTS):
        frame = frame.f_back
    return frame is not None


WATCH = Watch()


@pytest.fixture
def watched(monkeypatch) -> Iterator[Watch]:
    if not WATCH.added:  # a hook cannot be removed, so only a test that needs the hook adds it, once
        sys.addaudithook(WATCH.hook)
        WATCH.added = True
    genuine = pulumi.Output.apply

    def apply(self, func, run_with_unknowns=False):  # noqa: FBT002 - as in the SDK
        def noted(value):
            WATCH.calls += 1
            WATCH.inside.depth = getattr(WATCH.inside, "depth", 0) + 1
            try:
                return func(value)
            finally:
                WATCH.inside.depth -= 1

        return genuine(self, noted, run_with_unknowns)

    def noticed(name: str) -> Callable[[], float]:
        clock = getattr(time, name)

        def now() -> float:
            # logging and asyncio may read the clock: what an earlier test left in the event loop may be logged at any moment.
            caller = sys._getframe(1).f_globals["__name__"]  # noqa: SLF001 - who reads the clock
            if WATCH.on and getattr(WATCH.inside, "depth", 0) and not caller.startswith(("logging", "asyncio")):
                WATCH.seen.append(f"time.{name}")
            return clock()

        return now

    monkeypatch.setattr(pulumi.Output, "apply", apply)
    for name in ("time", "time_ns", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, noticed(name))
    WATCH.seen.clear()
    WATCH.calls, WATCH.on = 0, True
    yield WATCH
    WATCH.on = False


def run(records: dict[str, Any], *, share: float = 0.98, preview: bool = False) -> Engine:
    """Run the real program on a recording engine."""
    kept = {"schema": 1, "kind": "keep", "certificate": None, "report": None, "changes": [], "warnings": []}
    lines = {
        "acceptance-ready-contact": ready_line(),
        "acceptance-build": BUILD_LINE,
        "acceptance-measure": json.dumps(document(dev_asked(), share=share)),
        "acceptance-search": json.dumps({"schema": 1, "kind": "search", "needed": False}),
        "acceptance-records-history": json.dumps({"schema": 1, "kind": "look-up", "limit": None, "warnings": []}),
        "acceptance-records-keep": json.dumps(kept),
    }
    engine = Engine(lines)
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(engine, project="busbar", stack="dev", organization="organization", preview=preview)
    pulumi.runtime.set_all_config(configuration(records=records) | {"oci:region": "us-rehearsed-1"})

    @pulumi.runtime.test
    def program() -> None:
        run_main()

    program()
    return engine


def records(folder: Path) -> dict[str, Any]:
    """Return the settings that keep every kind of record, in `folder`."""
    key = folder / "key.pem"
    key.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key.chmod(0o600)
    return {"history": str(folder / "history"), "report": str(folder / "report"), "certificate": {"key": str(key)}}


@pytest.mark.parametrize("share", [0.98, 0.5], ids=["pass", "short"])
def test_nothing_is_read_or_written_or_timed_while_outputs_are_computed(watched, monkeypatch, tmp_path, share):
    (tmp_path / "kept").mkdir()
    monkeypatch.chdir(ROOT)
    run(records(tmp_path / "kept"), share=share)
    assert watched.calls > 20, "the watched program computes outputs"
    assert watched.seen == []


@pytest.mark.parametrize("target", [oci, aws, hosts], ids=["oci", "aws", "hosts"])
def test_a_stack_with_the_exporter_reads_nothing_while_outputs_are_computed(watched, monkeypatch, tmp_path, target):
    monkeypatch.chdir(ROOT)
    seen = target(monkeypatch, tmp_path, monitoring={"exporter": True})
    assert "monitoring-exporter" in seen.commands, "the programs for nodes are sent"
    assert watched.calls > 20
    assert watched.seen == []


def test_reading_a_file_and_reading_the_clock_inside_an_apply_are_both_detected(watched, tmp_path):
    (tmp_path / "x").write_text("x")

    @pulumi.runtime.test
    def program() -> None:
        pulumi.Output.from_input(1).apply(lambda _: (tmp_path / "x").read_text() + str(time.time()))

    asyncio.set_event_loop(asyncio.new_event_loop())
    program()
    assert [seen.split()[0] for seen in watched.seen] == ["open", "time.time"]


@pytest.mark.parametrize("preview", [True, False], ids=["preview", "update"])
def test_the_program_writes_nothing_into_the_folder_it_is_run_from(monkeypatch, tmp_path, preview):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "kept").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.syspath_prepend(str(ROOT))
    engine = run(records(tmp_path / "kept"), preview=preview)
    assert [name for _, name, _ in engine.resources if name.startswith("acceptance-")]
    assert not list((tmp_path / "elsewhere").iterdir())
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["key.pem"], "records are kept by Commands only"
