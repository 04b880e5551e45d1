"""Programs that program_server.py forks look as if a language host had started Python for them."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import program_server
from wait_until import wait_until

from rehearsal.engine.language.forked import Forked

#: Writes what a program sees of its process, then ends as its first argument says.
PROGRAM = """
import json, os, sys, time
seen = {"argv": sys.argv[1:], "python": sys.executable, "beside": sys.path[0], "folder": os.getcwd(), "input": sys.stdin.read()}
seen["environment"] = dict(os.environ)
seen["network"] = os.readlink("/proc/self/ns/net")
seen["loaded"] = [name for name in ("pulumi_oci.core.vcn", "pulumi_aws.ec2.instance") if name in sys.modules]
open(sys.argv[2] + ".new", "w").write(json.dumps(seen | {"pid": os.getpid()}))
os.rename(sys.argv[2] + ".new", sys.argv[2])
print("this is not the output of pytest")
if sys.argv[1] == "sleep":
    time.sleep(60)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with program_server(tmp_path_factory.mktemp("server")) as path:
        yield path


@pytest.fixture
def begin(server: str, tmp_path: Path):
    """Return a function that starts the program and returns it with the path of the file that the program writes."""
    source = tmp_path / "program.py"
    source.write_text(PROGRAM)

    def start(how: str) -> tuple[Forked, Path]:
        seen = tmp_path / f"{how}.json"
        return Forked(server, "/nowhere/bin/python", [str(source), how, str(seen)], {"ONLY": "this"}), seen

    return start


def test_a_forked_program_has_the_hosts_folder_and_network_and_only_the_given_environment_and_arguments(begin, tmp_path):
    program, path = begin("0")
    assert program.wait() == 0
    seen = json.loads(path.read_text())
    assert seen["argv"] == ["0", str(path)]
    assert (seen["python"], seen["beside"]) == ("/nowhere/bin/python", str(tmp_path))
    assert (seen["folder"], seen["input"]) == (str(Path.cwd()), "")
    assert seen["environment"] == {"ONLY": "this"}
    assert seen["network"] == str(Path("/proc/self/ns/net").readlink())
    assert len(seen["loaded"]) == 2, "the SDKs were imported before the fork"


def test_the_exit_status_of_a_forked_program_and_the_signal_that_ended_it_are_reported(begin):
    assert begin("7")[0].wait() == 7
    program, path = begin("sleep")
    wait_until(path.exists, "the program runs")
    assert program.poll() is None
    program.send_signal(signal.SIGTERM)
    assert program.wait() == -signal.SIGTERM


def test_a_forked_program_is_killed_when_its_host_disappears(begin):
    program, path = begin("sleep")
    wait_until(path.exists, "the program runs")
    pid = json.loads(path.read_text())["pid"]
    program.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the program is gone")
