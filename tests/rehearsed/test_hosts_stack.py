"""A whole stack of existing machines: the machines exist before the program runs, and the program creates no machine.

The tests build on each other: each test continues where the previous test ended.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import pytest

from tools.stack_changes import DEFAULT, merged
from tools.stage import ROOT, Finished, Stage, left_of

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("hosts")]

SITES = ROOT / "rehearsal" / "entry" / "sites"
SLURM = {"hosts": {"slurm": {"queue": "gpus"}}}


@pytest.fixture(scope="module")
def stage(tmp_path_factory) -> Iterator[Stage]:
    """Two hosts behind a jump host, before first contact. One of the two hosts has a dead rail."""
    made = Stage(tmp_path_factory.mktemp("hosts"), "hosts", SITES / "hosts.json")
    made.faults({"kind": "rail_dead", "host": 1, "rail": 3})
    found = made.inside("true")
    assert found.status == 0, found
    yield made
    made.close()


@pytest.fixture(scope="module")
def built(stage) -> tuple[Stage, Finished]:
    """The hosts of `stage`, after the rail was repaired and the stack was measured; and the update's output."""
    stage.refault()
    return stage, stage.pass_by()


# What is refused before anything is measured


def test_a_preview_before_first_contact_says_that_the_update_will_detect_the_shape(stage):
    found = stage.preview()
    assert found.status == 0, found
    assert "the shape is detected during the update" in found.text


def test_an_unpinned_host_key_is_refused_at_preview(stage):
    found = stage.preview(hosts={"nodes": {"gpu-a": DEFAULT, "gpu-b": DEFAULT, "gpu-c": "10.20.1.13"}})
    assert found.status != 0
    assert "holds no host key of 10.20.1.13; nothing is trusted on first use, so type 'ssh-keyscan" in found.text


@pytest.mark.parametrize("shape", ["HGX-H200.8", "BM.GPU.H200.8"])
def test_if_the_stack_file_names_a_shape_with_other_gpus_every_host_is_refused_at_once(stage, shape):
    found = stage.up(hosts={"shape": shape})
    assert found.status != 0
    for host in ("gpu-a (10.20.1.11)", "gpu-b (10.20.1.12)"):
        assert f"{host}: it has 8 x NVIDIA A100-SXM4-40GB, but shape {shape} has 8 x NVIDIA H200" in found.text


def test_a_host_key_that_changed_is_refused_at_once(stage):
    known = stage.world / "operator" / "known_hosts"
    first, second, jump = (line.split(" ", 1) for line in known.read_text().splitlines())
    own = stage.folder / "changed"
    own.write_text(f"{first[0]} {first[1]}\n{second[0]} {first[1]}\n{jump[0]} {jump[1]}\n")
    found = stage.up(hosts={"knownHosts": str(own)})
    assert found.status != 0
    assert "gpu-b (10.20.1.12): the host key of 10.20.1.12 is not the key in knownHosts" in found.text


def test_hosts_are_refused_as_different_if_one_host_has_a_dead_rail(stage):
    found = stage.up()
    assert found.status != 0
    assert "the hosts are not alike: gpu-b has" in found.text


def test_a_dead_rail_and_a_missing_host_are_each_named_at_the_timeout(stage):
    known = stage.world / "operator" / "known_hosts"
    key = known.read_text().splitlines()[0].split(" ", 1)[1]
    own = stage.folder / "with-a-missing-one"
    own.write_text(f"{known.read_text()}10.20.1.77 {key}\n")
    hosts = {"nodes": {"gone": "10.20.1.77"}, "shape": "BM.GPU4.8", "knownHosts": str(own)}
    found = stage.up(hosts=hosts, measure={"readyTimeout": "15 s"})
    assert found.status != 0
    assert "2 of 3 nodes are not ready: " in found.text
    assert "gpu-b (10.20.1.12): 1 of 16 rails are not active: mlx5_3" in found.text
    assert "gone (10.20.1.77): SSH does not accept logins yet" in found.text
    assert stage.outputs().get("measured", {}).get("verdict") is None


# Outputs of a measured stack


def test_an_update_of_two_hosts_behind_a_jump_host_ends_in_a_pass_near_the_ceiling(built):
    stage, found = built
    assert found.status == 0, found
    outputs = stage.outputs()
    assert (outputs["measured"]["verdict"], outputs["target"], outputs["expected"]["shape"]) == (
        "pass",
        "hosts",
        "HGX-A100-40GB.8",
    )
    assert outputs["measured"]["busbw_gb_s"] == pytest.approx(0.05, rel=0.15)
    assert [node["name"] for node in outputs["nodes"]] == ["gpu-a", "gpu-b"]


def test_no_cloud_resource_is_registered_and_the_state_has_no_private_key_and_no_ssh_agent(built):
    stage = built[0]
    kinds = {resource["type"].split(":")[0] for resource in stage.resources()}
    assert kinds == {"pulumi", "command", "busbar"}
    text = json.dumps(stage.resources()) + built[1].text
    for secret in ("PRIVATE KEY", "SSH_AUTH_SOCK", "-agent"):
        assert secret not in text


def test_an_unchanged_update_changes_nothing(built):
    found = built[0].up()
    assert found.status == 0, found
    assert not found.changes(), found


def test_naming_the_detected_shape_in_the_stack_file_changes_no_shape_and_starts_no_measurement(built):
    stage = built[0]
    before = stage.outputs()
    found = stage.up(hosts={"shape": "HGX-A100-40GB.8"})
    assert found.status == 0, found
    after = stage.outputs()
    assert after["expected"]["shape"] == before["expected"]["shape"]
    assert after["measured"]["evidence"] == before["measured"]["evidence"]


def test_first_contact_added_a_key_pair_and_known_hosts_and_only_one_authorized_key(built):
    stage = built[0]
    script = "wc -l < ~/.ssh/authorized_keys; sort ~/.ssh/authorized_keys | uniq -d; ls ~/.ssh"
    config = stage.folder / "ssh_config"
    config.write_text(f"Host *\n  UserKnownHostsFile {stage.world}/operator/known_hosts\n  BatchMode yes\n")
    words = stage.outputs()["ssh"].split()[1:]
    found = stage.inside("ssh", "-F", str(config), *words, script)
    assert found.status == 0, found
    assert found.text.split()[:5] == ["2", "authorized_keys", "id_ed25519", "id_ed25519.pub", "known_hosts"]


# Monitoring from outside

#: Queries an exporter, and prints its answer or why there is none.
ASK = """import urllib.request
try:
    print(urllib.request.urlopen('http://10.20.1.{}:9879/metrics', timeout=5).read().decode())
except OSError as error:
    print('no answer:', error)
"""


def asked(stage: Stage, asker: int, host: int) -> str:
    """Query the exporter on `host` from `asker`, and return what the query prints."""
    config = stage.folder / "ssh_config"
    config.write_text(f"Host *\n  UserKnownHostsFile {stage.world}/operator/known_hosts\n  BatchMode yes\n")
    way = ("-F", str(config), "-J", "ubuntu@203.0.113.200", f"ubuntu@10.20.1.{asker}")
    found = stage.inside("ssh", *way, "python3 -IS -c " + shlex.quote(ASK.format(host)))
    assert found.status == 0, found
    return found.text


def test_enabling_exporters_measures_nothing_and_only_machines_in_read_from_see_the_bytes_of_every_rail(built):
    stage = built[0]
    before, wanted = stage.outputs(), {"exporter": True, "readFrom": ["10.20.1.12/32"]}
    found = stage.up(monitoring=wanted)
    assert found.status == 0, found
    after = stage.outputs()
    assert after["measured"] == before["measured"]
    assert 'targets: ["10.20.1.12:9879"]' in after["monitoring"]
    assert not stage.up(monitoring=wanted).changes(), "an unchanged update changes nothing"
    for host in (11, 12):
        heard = asked(stage, 12, host)
        sent = re.findall(r'busbar_rdma_port_xmit_data_bytes_total\{device="(mlx5_\d+)",port="1"\} (\d+)', heard)
        assert len({name for name, count in sent if int(count) > 0}) == 16, heard
        assert 'busbar_rdma_port_state{device="mlx5_0",port="1"} 4' in heard
    assert "no answer:" in asked(stage, 11, 12), "gpu-a is not in readFrom"


def test_exporters_that_are_disabled_are_removed(built):
    stage = built[0]
    found = stage.up(monitoring={"exporter": False})
    assert found.status == 0, found
    assert stage.outputs().get("monitoring") is None
    assert "no answer:" in asked(stage, 12, 11)


# The same machines as a Slurm cluster


@pytest.fixture(scope="module")
def queued(built) -> tuple[Stage, Finished]:
    """The hosts of `built` with Slurm's packages, which their administrator installed, after a measurement in Slurm jobs."""
    stage = built[0]
    install = "sudo apt-get update -q && sudo apt-get install -y -q slurmctld slurmd slurm-client munge"
    stage.on_host(f"{install} && ssh 10.20.1.12 '{install}'")
    return stage, stage.pass_by(**SLURM)


def test_with_slurm_the_plan_runs_in_jobs_and_the_busbw_is_in_the_same_outputs_as_without_slurm(queued):
    stage, found = queued
    assert found.status == 0, found
    measured = stage.outputs()["measured"]
    assert (measured["verdict"], measured["busbw_gb_s"]) == ("pass", pytest.approx(0.05, rel=0.15))
    jobs = stage.on_host("cat /var/log/slurm/jobs.log").splitlines()
    ended = [
        line for line in jobs if "Name=busbar JobState=COMPLETED Partition=gpus" in line and "NodeList=gpu-a,gpu-b" in line
    ]
    assert len(ended) >= len(measured["results"]) > 0
    nodes = stage.on_host("scontrol show nodes")
    assert nodes.count("Gres=gpu:a100:8") == nodes.count("State=IDLE ") == 2


def test_people_can_submit_jobs_with_gpus_to_the_queue_of_the_measurement(queued):
    said = queued[0].on_host("srun -p gpus -N 2 --gres=gpu:a100:8 sh -c 'echo $(hostname) $CUDA_VISIBLE_DEVICES' < /dev/null")
    assert sorted(said.splitlines()) == ["gpu-a 0,1,2,3,4,5,6,7", "gpu-b 0,1,2,3,4,5,6,7"]


def test_the_munge_key_is_the_same_on_all_machines_and_never_appears_in_busbars_state_or_output_or_files(queued):
    stage, found = queued
    read = "sudo base64 -w 0 /etc/munge/munge.key"
    first, second = stage.on_host(f"{read}; echo; ssh 10.20.1.12 '{read}'").split()
    assert first == second
    assert len(first) == 1368, "1024 bytes have 1368 characters in base64"
    assert first not in json.dumps(stage.resources()) + found.text
    assert stage.on_host(f"grep -rlF {first[:64]} ~/.busbar || echo none").strip() == "none"


def test_an_unchanged_update_with_slurm_changes_nothing(queued):
    found = queued[0].up(**queued[0].passed)
    assert found.status == 0, found
    assert not found.changes(), found


def test_the_cluster_can_be_used_as_an_existing_slurm_cluster_and_nothing_is_measured_again(queued):
    stage, before = queued[0], queued[0].outputs()["measured"]
    found = stage.up(**merged(stage.passed, {"hosts": {"slurm": {"existing": True}}}))
    assert found.status == 0, found
    assert {line.split()[0] for line in found.changes()} == {"-"}, found
    assert stage.outputs()["measured"] == before
    assert "gpus" in stage.on_host("sinfo --noheader")


def test_a_drained_node_is_named_with_slurms_own_reason(queued):
    stage = queued[0]
    stage.on_host("sudo scontrol update nodename=gpu-b state=drain reason='cable 7 bends'")
    found = stage.up(hosts={"slurm": {"queue": "gpus", "existing": True}}, measure={"run": 7})
    assert found.status != 0
    assert "gpu-b is drained in Slurm: cable 7 bends (set by root at 20" in found.text


def test_a_destroy_keeps_the_hosts_while_the_option_clear_hosts_removes_everything_that_was_rehearsed(built):
    stage = built[0]
    found = stage.destroy()
    assert found.status == 0, found
    assert [one for one in left_of(stage.world) if one.startswith("/run/netns/")], (
        "a destroy removes no host that the stack did not create"
    )
    found = stage.command("rehearsal/enter", "--clear-hosts", "true")
    assert found.status == 0, found
    assert left_of(stage.world) == []


def test_a_single_server_is_measured_without_steps_between_nodes(tmp_path):
    stage = Stage(tmp_path, "hosts", SITES / "server.json")
    try:
        found = stage.up(hosts={"nodes": {"gpu-a": DEFAULT, "gpu-b": DEFAULT, "server": "203.0.113.210"}, "jump": None})
        assert found.status == 0, found
        outputs = stage.outputs()
        assert (outputs["measured"]["verdict"], outputs["expected"]["shape"]) == ("pass", "HGX-A100-40GB.8")
        assert outputs["measured"]["busbw_gb_s"] > 0
        assert outputs["expected"]["busbw_gb_s"] == pytest.approx(234)
    finally:
        stage.close()
