"""A Slurm cluster on OCI with two nodes that always run: the update measures them in a job, and slow machines never join.

The tests build on each other: each test continues where the previous test ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from rehearsed_slurm import until

from tools.stack_changes import merged
from tools.stage import SHORT_PLAN, Finished, Stage

pytestmark = [pytest.mark.rehearsal, pytest.mark.on_demand, pytest.mark.xdist_group("always-on")]

PLAN: dict[str, Any] = merged(SHORT_PLAN, {"oci": {"pools": [{"alwaysOn": 2}]}})


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Iterator[tuple[Stage, Finished]]:
    """The stack after `up`, and the update's output.

    If the update fails, for example because the machine that runs the tests was too busy, `up` runs up to two more times.
    """
    stage = Stage(tmp_path_factory.mktemp("always-on"), "oci-on-demand")
    found = stage.up(**PLAN)
    for run in (101, 102):
        if found.status:
            found = stage.up(**merged(PLAN, {"measure": {"run": run}}))
    yield stage, found
    stage.close()


def test_the_update_measures_always_on_nodes_by_a_job_in_the_queue_of_these_nodes(built):
    stage, found = built
    assert found.status == 0, found
    measured = stage.outputs()["measured"]
    assert (measured["verdict"], measured["rehearsed"]) == ("pass", True)
    assert measured["busbw_gb_s"] > 0
    assert stage.machines("oci") == 3, "the login node and two nodes"
    comments = stage.on_host("scontrol --oneliner show nodes")
    assert comments.count("Comment=entry test: ") == 2, comments


def test_machines_with_a_slow_fabric_never_join_and_sinfo_shows_their_busbw_before_they_are_terminated(built):
    stage, _ = built
    # The fault slows machines that start from now on; machines that already run keep their speed.
    stage.faults(*({"kind": "slow_host", "host": index, "factor": 0.3} for index in range(10)))
    words = "sbatch --parsable --nodes=2 --constraint=dynamic --wrap true"
    job = stage.on_host(f"cd /home/.busbar/busbar.{stage.stack} && {words}").strip()
    said = until(stage, "sinfo -h -R -N -o '%200E|%N'", lambda said: "GB/s with" in said, "Slurm shows what was measured")
    found = re.findall(r"entry test: (\S+) GB/s with compute-dy-gpu-[34], (\S+) wanted; slow \w+", said)
    assert len(found) == 2, said
    assert all(float(busbw) < float(wanted) for busbw, wanted in found)
    until(
        stage,
        f"squeue -h -j {job} -o %T",
        lambda said: said.strip() == "PENDING" and stage.machines("oci") == 3,
        "both slow machines end",
    )
    stage.on_host(f"scancel {job}")
    stage.faults()


def test_a_destroy_terminates_nodes_that_always_run(built):
    stage, _ = built
    done = stage.destroy()
    assert done.status == 0, done
    assert stage.machines("oci") == 0
    assert stage.sold("oci") == []
