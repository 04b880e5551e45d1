"""One contract for every launcher, and for the data between the operator's side and the runner."""

from __future__ import annotations

import copy
import dataclasses
import json
import random
import re
import shlex
import subprocess
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurement_line import ASKED, BUILT, document, fits_its_type, place

from benchmarks.host import requests, schema
from benchmarks.judge.verdict import judge
from benchmarks.launch import launcher, mpirun, protocol
from benchmarks.launch.protocol import Launch, Node, Ranks, UnfitError
from benchmarks.plan.steps import LOOK_STEPS

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "runner.schema.json").read_text())
FITS = jsonschema.Draft202012Validator(SCHEMA)
NODES = [Node("a", "10.0.0.1"), Node("b", "10.0.0.2"), Node("c", "10.0.0.3")]
INSIDE = ["sh", "/x/container.conf"]
TASKS = ["env", "A=b", "srun", "--mpi=pmix", "--container-image=/x/a.sqsh", "/bin/sh", "/x/container.conf"]
START = ["enroot", "start", "--conf", "/x/conf", "busbar-1"]


def launch(kind: str) -> Launch:
    """Return the data of a launcher of this kind, as a target would send it."""
    start = {"enroot": START, "containerd": INSIDE, "pyxis": TASKS}.get(kind, [])
    queue = "compute" if kind == "slurm" else ""
    mca = {"btl": "tcp,self", "plm_rsh_args": "-o BatchMode=yes"}
    if kind == "remote_shell":
        mca["plm_rsh_agent"] = "/busbar/in-pod"
    return Launch(kind=kind, mpi_home="/mpi", bind_to="none", mca=mca, hostfile="/x/hosts", start=start, queue=queue)


def contexts(words: list[str]) -> list[tuple[str, str, list[str]]]:
    """Return mpirun's application contexts in a command for Slurm: number of ranks, host, program with arguments."""
    found = re.split(r" : ", " ".join(words[words.index("/mpi/bin/mpirun") :]))
    pattern = re.compile(r"-np (\d+) --map-by ppr:\d+:node --host (\S+) .*?(/bin/echo.*)")
    return [(count, host, ran.split()) for one in found for count, host, ran in pattern.findall(one)]


def ranks(**changes) -> Ranks:
    given = {"program": "/bin/echo", "arguments": ["-b", "8"], "environment": {"NCCL_DEBUG": "INFO"}, "per_node": 2}
    return Ranks(**given | changes)


@pytest.fixture(params=sorted(launcher.LAUNCHERS))
def kind(request) -> str:
    return str(request.param)


def test_every_rank_gets_its_program_and_arguments_and_environment(kind):
    words = launcher.command(launch(kind), NODES, [ranks()])
    assert words[-3:] == ["/bin/echo", "-b", "8"]
    assert "NCCL_DEBUG=INFO" in " ".join(words[: words.index("/bin/echo")])


def test_ranks_on_all_nodes_are_counted_as_nodes_times_ranks_per_node(kind):
    words = launcher.command(launch(kind), NODES, [ranks()])
    if kind == "slurm":
        assert [(count, host) for count, host, _ in contexts(words)] == [("2", "a:2"), ("2", "b:2"), ("2", "c:2")]
    elif kind == "pyxis":
        assert words[2:7] == ["srun", "--nodes=3", "--ntasks=6", "--ntasks-per-node=2", "--nodelist=a,b,c"]
    else:
        assert "-np 6 -npernode 2 --hostfile /x/hosts" in " ".join(words)


def test_ranks_for_some_nodes_are_placed_only_on_these_nodes_in_the_given_order(kind):
    if kind == "pyxis":
        return  # Slurm starts ranks on all nodes of its job
    words = launcher.command(launch(kind), NODES, [ranks(nodes=[2, 0], per_node=1)])
    if kind == "slurm":
        assert contexts(words) == [("1", "c:1", ["/bin/echo", "-b", "8"]), ("1", "a:1", ["/bin/echo", "-b", "8"])]
    else:
        assert "-np 2 --map-by ppr:1:node --host 10.0.0.3:1,10.0.0.1:1" in " ".join(words)


def test_programs_that_start_in_one_command_keep_their_own_environments(kind):
    if kind == "pyxis":
        return  # this launcher starts only one program
    nodes = [0] if kind == "slurm" else [0, 1]  # in Slurm, each node is one context of mpirun
    pair = [ranks(nodes=nodes, environment={"RAIL": "0"}), ranks(nodes=nodes, environment={"RAIL": "1"})]
    words = " ".join(launcher.command(launch(kind), NODES, pair))
    first, second = re.split(r" : ", words)
    assert ("RAIL=0" in first, "RAIL=1" in first) == (True, False)
    assert ("RAIL=0" in second, "RAIL=1" in second) == (False, True)


def test_a_person_can_type_the_launchers_command(kind):
    spaced = ranks(environment={"NCCL_TESTS_SPLIT": "MOD 8"}, arguments=["a b", "$HOME", "'"])
    words = launcher.command(launch(kind), NODES, [spaced])
    typed = subprocess.run(["sh", "-c", f"printf '%s\\0' {shlex.join(words)}"], capture_output=True, text=True, check=True)
    assert typed.stdout.split("\0")[:-1] == words


def test_in_a_container_the_program_follows_the_command_that_starts_the_container():
    words = launcher.command(launch("enroot"), NODES, [ranks()])
    at = words.index("/bin/echo")
    assert words[at - len(START) : at] == START
    with pytest.raises(ValueError, match=r"launch\.start is empty"):
        launcher.command(launch("enroot")._replace(start=[]), NODES, [ranks()])


def test_in_slurm_a_job_uses_its_nodes_exclusively_and_open_mpis_daemons_start_through_slurm():
    words = launcher.command(launch("slurm"), NODES, [ranks(nodes=[2, 0]), ranks(nodes=[0], per_node=4)])
    job = " ".join(words[: words.index("/mpi/bin/mpirun")])
    assert job == (
        "salloc --partition compute --job-name busbar --immediate=120 --nodes 2 --nodelist a,c --exclusive "
        "--ntasks 8 --overcommit --gres gpu:4 --kill-command"
    )
    assert "--mca plm slurm" in " ".join(words)
    assert "plm_rsh" not in " ".join(words)
    with pytest.raises(ValueError, match=r"launch\.queue is empty"):
        launcher.command(launch("slurm")._replace(queue=""), NODES, [ranks()])


def test_in_containerd_mpirun_of_the_image_follows_the_command_that_starts_the_container():
    words = launcher.command(launch("containerd"), NODES[:1], [ranks()])
    assert words[: len(INSIDE) + 1] == [*INSIDE, "/mpi/bin/mpirun"]
    assert words[len(INSIDE) :] == launcher.command(launch("mpirun"), NODES[:1], [ranks()])
    with pytest.raises(ValueError, match=r"launch\.start is empty"):
        launcher.command(launch("containerd")._replace(start=[]), NODES[:1], [ranks()])


def test_slurm_with_pyxis_starts_the_ranks_in_the_image_while_mpi_gets_its_parameters_as_variables():
    words = launcher.command(launch("pyxis"), NODES[:2], [ranks()])
    assert words[:2] == ["env", "A=b"]
    assert words[7:] == [*TASKS[3:], "env", "NCCL_DEBUG=INFO", "OMPI_MCA_btl=tcp,self", "/bin/echo", "-b", "8"]
    assert "plm_rsh" not in " ".join(words), "Open MPI starts no daemons"
    with pytest.raises(ValueError, match=r"launch\.start has no srun"):
        launcher.command(launch("pyxis")._replace(start=[]), NODES, [ranks()])
    for several in ([ranks(), ranks()], [ranks(nodes=[0])]):
        with pytest.raises(ValueError, match="pyxis starts one program, on all nodes of its job"):
            launcher.command(launch("pyxis"), NODES, several)


def test_a_launch_by_remote_shell_starts_open_mpis_daemons_through_the_program_that_replaces_ssh():
    words = launcher.command(launch("remote_shell"), NODES, [ranks()])
    assert " ".join(words).startswith(
        "/mpi/bin/mpirun --bind-to none --mca btl tcp,self --mca plm_rsh_agent /busbar/in-pod -np 6"
    )
    with pytest.raises(ValueError, match=r"launch\.mca has no plm_rsh_agent"):
        launcher.command(launch("remote_shell")._replace(mca={}), NODES, [ranks()])


def test_an_unknown_launcher_is_refused_by_name():
    with pytest.raises(
        ValueError, match=r"launch\.kind is 'charm'; it must be one of mpirun, enroot, containerd, slurm, remote_shell, pyxis"
    ):
        launcher.command(launch("charm"), NODES, [ranks()])


def test_a_hostfile_has_the_addresses_of_several_nodes_but_localhost_for_a_single_machine():
    assert mpirun.hostfile(NODES[:2], 8) == "10.0.0.1 slots=8\n10.0.0.2 slots=8\n"
    assert mpirun.hostfile(NODES[:1], 8) == "localhost slots=8\n"


# Data between the operator's side and the runner


def asked() -> list[dict]:
    """Return a request to build, one to measure and one to search, as the operator's side writes them."""
    line, fine = document(share=0.5), document()
    # If the looks (brief repeated measurements) are good, a retest may still give a pass, so a retest is requested.
    pairs = zip(line["steps"], fine["steps"], strict=True)
    line["steps"] = [other if other["name"] in LOOK_STEPS else one for one, other in pairs]
    short = judge(json.dumps(line), ASKED)
    where = place()
    source = protocol.Source("2.19.6", "0" * 64, path="x.tar")
    homes = type("Homes", (), {"mpi": ("/mpi",), "cuda": ("/cuda",), "nccl": ("/nccl",)})
    return [
        json.loads(text)
        for text in (
            requests.build(list(where.nodes), ASKED, source, homes, []),
            requests.measure(where, ASKED, []),
            requests.search(where, ASKED, short, 600, []),
        )
    ]


REQUESTS = asked()


def test_requests_that_differ_only_in_the_order_of_variables_have_the_same_run_id():
    names = ("NCCL_IB_TC", "NCCL_ALGO", "NCCL_PXN_DISABLE")
    plans = [ASKED.plan.model_copy(update={"exports": dict.fromkeys(order, "1")}) for order in (names, names[::-1])]
    ids = {json.loads(requests.measure(place(), dataclasses.replace(ASKED, plan=plan), []))["run_id"] for plan in plans}
    assert len(ids) == 1
    assert ids != {json.loads(requests.measure(place(), ASKED, []))["run_id"]}


@pytest.mark.parametrize("nodes", [1, 2])
def test_only_a_request_for_several_nodes_names_rails_and_their_rate_and_interfaces(nodes):
    plan = ASKED.plan.model_copy(update={"fabric": ("fab0",)})
    asked = dataclasses.replace(ASKED, plan=plan, nodes=nodes)
    found = json.loads(requests.measure(place(asked), asked, []))
    rails = ASKED.shape.rdma if nodes > 1 else None
    named = (list(rails.hca), rails.port_gbit_s, ["fab0"]) if rails else ([], 0, [])
    assert (found["hcas"], found["port_gbit_s"], found["fabric"]) == named


def test_the_line_that_the_judge_gets_in_other_tests_fits_the_runners_types():
    assert fits_its_type(document())
    with pytest.raises(UnfitError, match=r"^steps\[0\]\.rows is 'none'; it must be a list"):
        fits_its_type(document() | {"steps": [document()["steps"][0] | {"rows": "none"}]})


def test_the_committed_schema_equals_the_schema_made_from_the_types():
    FITS.check_schema(SCHEMA)
    assert schema.document() == SCHEMA, "run: python -m benchmarks.host.schema > docs/runner.schema.json"


@pytest.mark.parametrize("request_", [*REQUESTS, protocol.data(BUILT)], ids=["build", "measure", "search", "built"])
def test_requests_and_the_line_of_a_build_fit_the_schema(request_):
    FITS.validate(request_)


@pytest.mark.parametrize("request_", REQUESTS, ids=["build", "measure", "search"])
def test_a_request_is_read_back_as_it_was_written(request_):
    assert protocol.data(protocol.request(request_)) == request_


def test_trials_and_a_retest_are_requested_by_a_search_after_the_verdict_short():
    found = protocol.request(REQUESTS[2])
    assert found.trials is not None
    assert found.again is not None
    assert not [step for step in found.again.steps if step.decides]


def leaves(value, path=()):
    """Yield the path of every value in plain data."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield (*path, key)
            yield from leaves(one, (*path, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield (*path, index)
            yield from leaves(one, (*path, index))


@given(st.integers(0, 2), st.randoms(use_true_random=False), st.sampled_from([None, {}, [], "x", -1, True, 1.5]))
def test_a_damaged_request_that_is_no_longer_valid_is_refused_with_a_path(number, chance: random.Random, value):
    damaged = copy.deepcopy(REQUESTS[number])
    *way, last = chance.choice(list(leaves(damaged)))
    at = damaged
    for key in way:
        at = at[key]
    at[last] = value
    try:
        found, refused = protocol.request(damaged), ""
    except UnfitError as refusal:
        found, refused = None, str(refusal)
    if found is None:
        assert re.match(r"[\w.\[\]]+ is ", refused), refused
    else:
        FITS.validate(protocol.data(found))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kind": "dance"}, "kind is 'dance'; it must be one of build, schedule, measure, search"),
        ({"schema": 1}, "schema is 1; it must be 2"),
        ({"gpus": "8"}, "gpus is '8'; it must be of type int"),
        ({"nodes": [{"name": "a"}]}, "nodes[0].address is missing"),
        ({"wishes": 1}, "wishes is unknown; Measure has run_id"),
    ],
)
def test_a_refusal_by_the_runner_begins_with_the_path_of_the_wrong_field(change, sentence):
    with pytest.raises(UnfitError) as refusal:
        protocol.request(REQUESTS[1] | change)
    assert str(refusal.value).startswith(sentence)
