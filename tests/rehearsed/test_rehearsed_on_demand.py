"""Slurm clusters on OCI and AWS whose nodes start when jobs need them: real Slurm, machines launched over the cloud's own API.

The same tests run on both clouds. They differ in some points. Idle nodes are terminated on OCI; on AWS the nodes still
run when the stack is destroyed. The test job's ranks run directly on the nodes on OCI, and in a container image on AWS.
The tests build on each other: each test continues where the previous test ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote
from typing import Any

import pytest
from rehearsed_slurm import until

from catalogue.aws import STACK
from tools.stack_changes import merged
from tools.stage import SHORT_PLAN, Finished, Stage

pytestmark = [pytest.mark.rehearsal, pytest.mark.on_demand]

#: Clouds with an on-demand stack, and Slurm's line about the stack's nodes before the first job.
CLOUDS = {"oci": "compute*,idle~,4", "aws": "gpu*,idle~,4"}
#: The test job's nodes, which the next job requests by name; otherwise Slurm could start other nodes while the first job ends.
NODES = {"oci": "compute-dy-gpu-[1-2]", "aws": "gpu-dy-p5-[1-2]"}
#: Beginnings of topology.conf's lines for switches whose nodes the cloud has placed.
PLACES = {"oci": "SwitchName=cluster-network_", "aws": "SwitchName=cluster-nn_"}
#: Images of the rehearsed registries, named as Pyxis expects, and a folder that each image contains.
IMAGES = {
    "oci": ("nvcr.io#nvidia/tensorflow:25.02-tf2-py3", "/usr/local/mpi"),
    "aws": (STACK.container.removeprefix("docker://"), "/opt/nccl"),
}


@pytest.fixture(
    scope="module", params=[pytest.param(cloud, marks=pytest.mark.xdist_group(f"{cloud}-on-demand")) for cloud in CLOUDS]
)
def cloud(request) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def built(cloud, tmp_path_factory) -> Iterator[tuple[Stage, Finished]]:
    """The stack with its own stack file and a short plan of measurements, after `up`; and the update's output."""
    stage = Stage(tmp_path_factory.mktemp("on-demand"), f"{cloud}-on-demand")
    yield stage, stage.up(**plan_of(cloud))
    stage.close()


def plan_of(cloud: str, **measure: int) -> dict[str, Any]:
    """Return the changes to the stack file: a short plan, an additional login node, on AWS a shared login home."""
    own = {"storage": {"home": {"shareLoginUser": True}}} if cloud == "aws" else {}
    return merged(SHORT_PLAN, {cloud: {"slurm": {"loginNodes": 1}} | own, "measure": measure})


def ran_test_job(stage: Stage) -> str:
    """Submit the test job and wait for it; return its log."""
    said = stage.on_host(f"cd /home/.busbar/busbar.{stage.stack} && sbatch nccl-test.sh")
    number = re.fullmatch(r"Submitted batch job (\d+)", said.strip())
    assert number, said
    until(stage, "squeue -h -o %T", lambda found: not found.strip(), "the test job ends")
    return stage.on_host(f"cat /home/.busbar/busbar.{stage.stack}/nccl-test-{number[1]}.out")


def test_an_update_of_an_on_demand_stack_rents_no_node_and_says_how_to_measure(built, cloud):
    stage, found = built
    assert found.status == 0, found
    (why,) = stage.outputs()["measured"]["reasons"]
    folder = f"/home/.busbar/busbar.{stage.stack}"
    assert why == f"no test job has run yet; on the login node: cd {folder} && sbatch nccl-test.sh"
    assert why in found.text
    assert stage.on_host("sinfo -h -o %P,%T,%D").split() == [CLOUDS[cloud]]
    assert stage.machines(cloud) == 2, "the controller, and a login node beside it"


def test_the_log_of_a_job_that_starts_its_nodes_has_the_bandwidth(built, cloud):
    stage, _ = built
    log = ran_test_job(stage)
    assert (f"image {STACK.container}: /home/.busbar/images/" in log) == (cloud == "aws"), log
    assert "busbw" in log, log
    assert "the result is kept; the next `pulumi up` exports it" in log


def test_slurm_shows_the_busbw_of_the_entry_test_that_new_nodes_passed(built):
    stage, _ = built
    said = stage.on_host("scontrol --oneliner show nodes")
    told = re.findall(r"Comment=entry test: (\S+) GB/s with (\S+), (\S+) wanted", said)
    assert len(told) == 2, said
    for busbw, partner, wanted in told:
        assert float(busbw) >= float(wanted) > 0
        assert "-dy-" in partner


def test_slurm_knows_from_the_cloud_that_the_jobs_nodes_are_near_each_other(built, cloud):
    stage, _ = built
    shown = until(stage, "scontrol show topology", lambda found: PLACES[cloud] in found, "the topology has the machines")
    (leaf,) = [line for line in shown.splitlines() if PLACES[cloud] in line and "Level=0" in line]
    assert leaf.endswith(f"Nodes={NODES[cloud]}"), shown


def test_the_next_update_judges_the_job_and_a_further_update_changes_nothing(built, cloud):
    stage, _ = built
    plan = plan_of(cloud)
    found = stage.up(**plan)
    for run in (101, 102):  # if this machine was too busy for a pass, the job's log says so, and the job runs again
        if found.status:
            ran_test_job(stage)
            plan = plan_of(cloud, run=run)
            found = stage.up(**plan)
    assert found.status == 0, found
    measured = stage.outputs()["measured"]
    assert (measured["verdict"], measured["rehearsed"]) == ("pass", True)
    assert measured["busbw_gb_s"] > 0
    assert measured["transport"]["state"] == "pass"
    assert measured["versions"].get("image") == (STACK.container if cloud == "aws" else None)
    assert stage.up(**plan).changes() == []


ALICE = """set -e
ssh-keygen -q -t ed25519 -N '' -f alice
cluster user add alice --name 'Alice Liddell' --ssh-key alice.pub
ssh -q -o StrictHostKeyChecking=no -i alice alice@localhost 'sbatch -N2 --wrap "srun id -nu; pwd"; ! sudo -n true 2> /dev/null'
"""


def test_a_new_user_runs_jobs_on_running_nodes_and_has_no_root_rights(built):
    stage, _ = built
    said = stage.on_host(ALICE)
    number = re.search(r"Submitted batch job (\d+)", said)
    assert number, said
    until(stage, "squeue -h -o %T", lambda found: not found.strip(), "alice's job ends")
    assert stage.on_host(f"sudo cat /home/alice/slurm-{number[1]}.out").split() == ["alice", "alice", "/home/alice"]


SUBMITS = """set -e
pwd
srun -N2 -w {nodes} id -nu
cd ~ && sbatch -N1 -w {node} --wait --output=beside.out --wrap 'id -nu' > /dev/null && cat beside.out
sinfo -h -o %P
! sudo -n true 2> /dev/null
"""


def test_a_user_submits_jobs_on_a_login_node_that_lacks_the_controllers_key(built, cloud):
    stage, _ = built
    (own,) = stage.outputs()["login_nodes"]
    operator = {"oci": "opc", "aws": "ubuntu"}[cloud]
    there = f"{operator}@{own['address']}"
    key = stage.on_host("cat /etc/ssh/ssh_host_ed25519_key.pub", there)
    assert key.startswith(own["host_key"]), "the outputs have the login node's own host key"
    (inside,) = [one["outputs"]["privateIp"] for one in stage.resources() if one["urn"].endswith("::cluster-login-1-instance")]
    asks = SUBMITS.format(nodes=NODES[cloud], node=NODES[cloud].replace("[1-2]", "1"))
    said = stage.on_host(f"ssh -q -o StrictHostKeyChecking=no -i alice alice@{inside} {quote(asks)} 2>&1")
    queue = CLOUDS[cloud].partition(",")[0]
    assert said.split() == ["/home/alice", "alice", "alice", "alice", queue]
    assert stage.on_host("ls /etc/busbar/id_ed25519 2>&1 || true", there).endswith("No such file or directory\n")


CONNECTS = 'python3 -c \'import socket; socket.create_connection(("169.254.169.254", 80), 5); print("open")\' 2>&1 | tail -1'


def test_users_of_the_controller_and_of_a_login_node_cannot_read_the_machines_cloud_credentials_but_root_can(built):
    stage, _ = built
    (inside,) = [one["outputs"]["privateIp"] for one in stage.resources() if one["urn"].endswith("::cluster-login-1-instance")]
    alice = "ssh -q -o StrictHostKeyChecking=no -i alice alice@"
    asks = [f"{alice}localhost {quote(CONNECTS)}", f"{alice}{inside} {quote(CONNECTS)}", f"sudo {CONNECTS}"]
    said = stage.on_host("; ".join(asks))
    assert said.splitlines() == ["PermissionError: [Errno 13] Permission denied"] * 2 + ["open"]


SHARES = """set -e
cd ~/shared && echo hello > note
sbatch -N1 -w {node} --wait --output=log --wrap 'cat ~/shared/note; stat -c %U,%a .' > /dev/null
"""


def test_files_in_the_login_users_shared_folder_are_the_same_on_all_machines(built, cloud):
    stage, _ = built
    (own,) = stage.outputs()["login_nodes"]
    operator = {"oci": "opc", "aws": "ubuntu"}[cloud]
    stage.on_host(SHARES.format(node=NODES[cloud].replace("[1-2]", "1")), f"{operator}@{own['address']}")
    assert stage.on_host("cat ~/shared/log; readlink ~/shared").split() == [
        "hello",
        f"{operator},700",
        f"/home/.shared/{operator}",
    ]


OWN = "touch ~/.ssh/own ~/.busbar/own; echo one > ~/beside; cmp /etc/skel/.bashrc ~/.bashrc"


def test_the_login_user_can_have_one_home_on_all_machines_with_separate_ssh_keys(built, cloud):
    stage, _ = built
    (own,) = stage.outputs()["login_nodes"]
    operator = {"oci": "opc", "aws": "ubuntu"}[cloud]
    stage.on_host(OWN, f"{operator}@{own['address']}")
    found = stage.on_host("cat ~/beside 2>&1 || true; ls ~/.ssh/own ~/.busbar/own 2>&1 || true")
    assert (found.partition("\n")[0] == "one") is (cloud == "aws"), found
    assert found.count("/own': No such file or directory") == 2, found
    node = NODES[cloud].replace("[1-2]", "1")
    assert (stage.on_host(f"srun -w {node} cat ~/beside 2>&1 || true") == "one\n") is (cloud == "aws")


def test_a_setuid_program_among_the_homes_runs_without_root_rights_on_the_controller(built, cloud):
    stage, _ = built
    (own,) = stage.outputs()["login_nodes"]
    operator = {"oci": "opc", "aws": "ubuntu"}[cloud]
    stage.on_host("sudo install -m 4755 /usr/bin/id /home/.shared/id", f"{operator}@{own['address']}")
    assert stage.on_host("stat -c %A,%U /home/.shared/id").strip() == "-rwsr-xr-x,root"
    assert stage.on_host("/home/.shared/id -nu").strip() == operator


def test_a_user_runs_commands_in_an_image_of_a_registry_but_after_the_job_no_container_remains(built, cloud):
    stage, _ = built
    image, folder = IMAGES[cloud]
    run = f"srun -N2 -w {NODES[cloud]}"
    asks = f"{run} --container-image={image} sh -c 'id -nu; ls -d {folder}; ls -d /home/alice'"
    said = stage.on_host(f"ssh -q -o StrictHostKeyChecking=no -i alice alice@localhost {quote(asks)} 2>&1 || true")
    assert sorted(line for line in said.splitlines() if ": " not in line) == [folder, folder, "alice", "alice"], said
    assert "cannot access '/home/alice'" in said, "only what was asked for is mounted"
    assert stage.on_host(f"{run} --container-image={image} ls /usr/local").split().count("cuda") == 2
    assert stage.on_host(f"{run} --quiet enroot list").split() == []


def test_slurms_database_has_the_jobs_with_their_gpus_and_can_be_queried_on_a_node_too(built, cloud):
    stage, _ = built
    asks = "sacct --allusers --allocations --noheader --parsable2 --format=JobName,State,User,Account,AllocTRES%200"
    for command in (asks, f"srun -N1 -w {NODES[cloud].replace('[1-2]', '1')} {asks}"):
        jobs = [row.split("|") for row in stage.on_host(command).splitlines()]
        (test,) = {tuple(row[:3]) for row in jobs if row[0] == "nccl-test"}
        assert test == ("nccl-test", "COMPLETED", {"oci": "opc", "aws": "ubuntu"}[cloud]), jobs
        assert all("gres/gpu=16" in row[4].split(",") for row in jobs if row[0] == "nccl-test"), jobs
        assert {row[3] for row in jobs if row[2] == "alice"} == {"users"}, jobs


def test_an_update_that_changes_the_settings_of_new_nodes_passes_while_nodes_run_and_the_nodes_stay(built, cloud):
    if cloud == "aws":
        return  # only OCI refuses to delete an instance configuration while a cluster network refers to it
    stage, _ = built
    larger = merged(plan_of(cloud), {cloud: {"pools": [{"root": {"size": "300 GB"}}]}})
    found = stage.up(**larger)
    assert found.status == 0, found
    assert any("cluster-pool-gpu-configuration" in line for line in found.changes()), found
    assert stage.machines(cloud) == 4


def test_a_change_that_would_replace_the_controller_while_a_job_runs_is_refused_in_the_preview_and_in_the_update(built, cloud):
    stage, _ = built
    stage.on_host("cd /home/.busbar && sbatch --nodes=2 --wrap 'sleep 600'")
    until(stage, "squeue -h -o %T", lambda found: found.strip() == "RUNNING", "the job runs")
    plan = merged(plan_of(cloud), {cloud: {"timezone": "Pacific/Auckland"}})
    for found in (stage.preview(**plan), stage.up(**plan)):
        assert found.status != 0, found
        assert f"{cloud}.allowReplace is 0, and 2 running machines would be terminated by this update" in found.text
    assert stage.machines(cloud) == 4
    assert stage.on_host("squeue -h -o %T").strip() == "RUNNING"
    stage.on_host("scancel --user=$USER")


#: Shows the jobs with their states, and then how often each job was started again.
QUEUE = """squeue -h -o '%i %T' | sort -n
for job in $(squeue -h -o %i | sort -n); do scontrol show job $job; done | grep -o 'Restarts=.'
"""


def test_a_new_controller_has_the_jobs_that_waited_and_runs_jobs_again_whose_nodes_the_old_controller_started(built, cloud):
    if cloud == "aws":
        return  # OCI is enough: the programs are the same on both clouds, and the test takes minutes
    stage, _ = built
    submit = "cd /home/.busbar && sbatch --parsable"
    runs = stage.on_host(f"{submit} --nodes=2 --wrap 'sleep 600'").strip()
    until(stage, "squeue -h -o %T", lambda found: found.strip() == "RUNNING", "the job runs")
    waits = stage.on_host(f"{submit} --hold --nodes=1 --wrap 'hostname'").strip()
    plan = merged(plan_of(cloud), {cloud: {"timezone": "Pacific/Auckland", "allowReplace": 2}})
    found = stage.up(**plan)
    assert found.status == 0, found
    again = [f"{runs} RUNNING", f"{waits} PENDING", "Restarts=1", "Restarts=0"]
    until(stage, QUEUE, lambda found: found.splitlines() == again, "the job runs again, and the other job waits")
    stage.on_host("scancel --user=$USER")


def test_idle_nodes_are_terminated(built, cloud):
    if cloud == "aws":
        return  # the test of the destroy needs the running nodes
    stage, _ = built
    assert stage.machines(cloud) == 4, "a node ended before it was idle for a minute"
    until(stage, "sinfo -h -N -o %N,%T", lambda _: stage.machines(cloud) == 2, "the machines of idle nodes end")


def test_without_capacity_no_machine_is_rented_and_the_job_waits_and_sinfo_shows_the_clouds_message(built, cloud):
    if cloud == "aws":
        return  # the next test needs the machines on AWS
    stage, _ = built
    stage.faults({"kind": "capacity", "after": 0})
    stage.on_host("cd /home/.busbar && sbatch --nodes=2 --wrap true")
    until(stage, "sinfo -h -R -o %E", lambda found: "Out of host capacity" in found, "Slurm shows why no node starts")
    until(
        stage,
        "squeue -h -o %T",
        lambda found: found.strip() == "PENDING" and stage.machines(cloud) == 2,
        "the job waits again",
    )
    stage.faults()


def test_a_destroy_terminates_nodes_that_a_job_still_uses(built, cloud):
    stage, _ = built
    if cloud == "aws":
        stage.on_host("cd /home/.busbar && sbatch --nodes=2 --wrap 'sleep 600'")
        until(stage, "squeue -h -o %T", lambda found: found.strip() == "RUNNING", "the job runs")
        assert stage.machines(cloud) == 4
    done = stage.destroy()
    assert done.status == 0, done
    assert stage.machines(cloud) == 0
    assert stage.sold(cloud) == []
