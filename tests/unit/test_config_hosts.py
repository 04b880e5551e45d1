"""Existing machines: their names, pinned host keys and hardware; every mistake is refused in one sentence."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import replace
from typing import Any

import pulumi
import pytest
from conftest import texts
from early_refusal import begins_with_a_path

from catalogue import GENERIC, SERVERS, SHAPES, Rdma, gpus
from catalogue.detection import OCI_TAG, Facts, Hca, recognise, remark
from config import read
from config.hosts import inventory, known_hosts
from config.hosts.model import Hosts
from config.hosts.rules import RULES
from tools.stack_changes import DEFAULT

BLOB = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
KEY = f"ssh-ed25519 {BLOB}"


@pytest.fixture
def given(tmp_path) -> dict[str, Any]:
    """A stack of two hosts behind a jump host; its known_hosts file has the keys of all three machines."""
    known = tmp_path / "known_hosts"
    known.write_text(f"10.0.0.1,gpu-a {KEY}\n# a remark\n10.0.0.2 {KEY}\n203.0.113.9 {KEY}\n")
    return {
        "nodes": {"gpu-a": "10.0.0.1", "gpu-b": "10.0.0.2"},
        "user": "ubuntu",
        "jump": "admin@203.0.113.9",
        "knownHosts": str(known),
    }


def parsed(values: dict[str, Any]) -> Hosts:
    found = read.parse(texts({"target": "hosts", "hosts": values})).wanted
    assert isinstance(found, Hosts)
    return found


def refused(values: dict[str, Any]) -> list[str]:
    with pytest.raises(pulumi.RunError) as found:
        parsed(values)
    sentences = str(found.value).splitlines()
    assert all(begins_with_a_path(one) for one in sentences), sentences
    return sentences


def test_machines_are_accepted_with_their_pinned_host_keys(given):
    wanted = parsed(given)
    assert [(machine.name, machine.address) for machine in wanted.machines] == [("gpu-a", "10.0.0.1"), ("gpu-b", "10.0.0.2")]
    assert [wanted.host_key(machine.address) for machine in wanted.machines] == [KEY, KEY]
    assert (wanted.jump_user, wanted.jump_address) == ("admin", "203.0.113.9")
    assert wanted.row is None


def test_the_first_machine_by_name_is_the_head_node_whatever_order_the_engine_gives(given):
    many = {f"gpu-{number}": f"10.0.0.{number}" for number in (10, 2, 1, 3)}
    found = Hosts(nodes=many, user="ubuntu").machines
    assert [machine.name for machine in found] == ["gpu-1", "gpu-2", "gpu-3", "gpu-10"]
    assert parsed(given | {"nodes": {"b": "10.0.0.2", "a": "10.0.0.1"}}).machines[0].name == "a"


def test_a_host_name_may_have_253_characters(given):
    name = ".".join(["gpu-a", "x" * 61, "y" * 61, "z" * 61, "w" * 61])
    assert len(name) == 253
    assert Hosts(nodes={"a": name}, user="ubuntu").machines[0].address == name
    (said,) = refused(given | {"nodes": {"a": f"{name}w", "b": "10.0.0.2"}})
    assert said.startswith("hosts.nodes has a: ")


def test_one_machine_without_a_jump_host_is_enough(given):
    wanted = parsed(given | {"nodes": {"one": "10.0.0.1"}, "jump": None, "shape": "HGX-A100-40GB.8"})
    assert len(wanted.machines) == 1
    assert wanted.jump_address is None
    assert wanted.row is not None
    assert wanted.row.nvlink_gbytes_per_s == 300


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"nodes": {}}, "hosts.nodes is empty, and hosts.inventory is not set; name at least one machine in one of them"),
        ({"nodes": ["10.0.0.1"]}, "hosts.nodes is ['10.0.0.1']; it must be a map."),
        ({"nodes": {"a": "10.0.0.1", "b": "10.0.0.1"}}, "hosts.nodes has 10.0.0.1 twice; list every machine once"),
        (
            {"nodes": {"a": "-oProxyCommand=x"}},
            "hosts.nodes has a: -oProxyCommand=x, and '-oProxyCommand=x' is no",
        ),
        ({"nodes": {"a;reboot": "10.0.0.1"}}, "hosts.nodes has a;reboot: 10.0.0.1, and 'a;reboot' is no IPv4 address"),
        ({"nodes": {}, "inventory": "/no/list"}, "hosts.inventory is '/no/list', which cannot be read"),
        ({"nodes": {"c": "10.0.0.3"}}, "hosts.knownHosts is "),
        ({"jump": "admin@203.0.113.8"}, "hosts.knownHosts is "),
        ({"jump": "203.0.113.9"}, "hosts.jump is '203.0.113.9'; it must be user@address"),
        ({"user": DEFAULT}, "hosts.user is not set, and it has no default: Login user on the machines"),
        ({"user": "root; reboot"}, "hosts.user is 'root; reboot'; it must be a login name"),
        ({"network": "10.0.0.1/24"}, "hosts.network is '10.0.0.1/24', which is no IPv4 network"),
        ({"software": {"mpi": ["openmpi"]}}, "hosts.software.mpi is openmpi; it must be a list of absolute paths or globs"),
        ({"shape": "HGX-H100.9"}, "hosts.shape is 'HGX-H100.9', which is not in the catalogue; the nearest are HGX-H100.8"),
        ({"shape": "BM.HPC2.36"}, "hosts.shape is 'BM.HPC2.36', which has no GPU"),
        ({"node": {"a": "10.0.0.1"}}, "hosts.node is not a key of the configuration; did you mean nodes?"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_sentence_that_begins_with_its_path(given, changes, sentence):
    (said,) = refused({key: value for key, value in (given | changes).items() if value is not DEFAULT})
    assert said.startswith(sentence)


def test_every_rule_is_broken_by_a_case(given):
    broken = given | {"nodes": {"default": "10.0.0.1", "b": "10.0.0.1", "c": "10.0.0.9"}, "slurm": {}}
    assert {rule for said in refused(broken) for rule in re.findall(r"\[([a-z-]+)\]$", said)} == set(RULES)


def test_machines_that_are_named_both_in_nodes_and_in_an_inventory_are_refused(given, tmp_path):
    (tmp_path / "list.ini").write_text("gpu-a 10.0.0.1\n")
    (said,) = refused(given | {"inventory": str(tmp_path / "list.ini")})
    assert said.startswith("hosts.nodes is set, and so is hosts.inventory; name the machines in one of them")


def test_the_refusal_of_a_host_whose_key_is_not_pinned_names_the_command_that_reads_the_key(given):
    (said,) = refused(given | {"nodes": {"c": "10.0.0.3"}})
    assert "holds no host key of 10.0.0.3; nothing is trusted on first use, so type 'ssh-keyscan -t ed25519" in said


def test_without_a_known_hosts_file_a_node_is_refused_for_its_missing_host_key(given):
    assert "holds no host key of 10.0.0.1" in refused(given | {"knownHosts": "/nowhere/known_hosts"})[0]


@pytest.mark.parametrize(
    "text",
    [
        "# ours\ngpu-a 10.0.0.1\ngpu-b\t10.0.0.2  # the new one\n\n",
        "[gpus]\ngpu-a ansible_host=10.0.0.1 ansible_user=me\ngpu-b ansible_host=10.0.0.2\n[gpus:vars]\nx=1\n[all]\ngpu-a\n",
    ],
    ids=["plain", "ini"],
)
def test_machines_come_from_inventory_files_in_plain_and_in_ini_format(given, tmp_path, text):
    file = tmp_path / "inventory"
    file.write_text(text)
    wanted = parsed(given | {"nodes": {}, "inventory": str(file)})
    assert [(machine.name, machine.address) for machine in wanted.machines] == [("gpu-a", "10.0.0.1"), ("gpu-b", "10.0.0.2")]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("gpu[01:04]", "line 1, 'gpu[01:04]', is a range"),
        ("a 10.0.0.1 10.0.0.2", "write 'name address'"),
        ("a ansible_host=10.0.0.1 ansible_port=2222", "names port 2222; sshd must listen on 22"),
    ],
)
def test_an_inventory_line_that_cannot_be_used_is_reported_with_its_number(line, sentence):
    with pytest.raises(ValueError, match="line 1") as found:
        inventory.read(line)
    assert sentence in str(found.value)


def hashed(name: str) -> str:
    salt = b"0123456789abcdefghij"
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize(
    ("line", "address", "found"),
    [
        (f"{hashed('10.0.0.1')} {KEY}", "10.0.0.1", True),
        (f"{hashed('10.0.0.1')} {KEY}", "10.0.0.2", False),
        (f"*.example.org,!bad.example.org {KEY}", "a.example.org", True),
        (f"*.example.org,!bad.example.org {KEY}", "bad.example.org", False),
        (f"*.example.org,!*.bad.example.org {KEY}", "a.bad.example.org", False),
        (f"*.example.org,!*.bad.example.org {KEY}", "bad.example.org", True),
        (f"[10.0.0.1]:22 {KEY}", "10.0.0.1", True),
        (f"[10.0.0.1]:2222 {KEY}", "10.0.0.1", False),
        (f"@cert-authority 10.0.0.1 {KEY}", "10.0.0.1", False),
        (f"10.0.0.1 {KEY}\n@revoked * {KEY}", "10.0.0.1", False),
        ("|1|not-base64|x ssh-ed25519 AAAA", "10.0.0.1", False),
    ],
)
def test_host_keys_are_found_in_known_hosts_as_ssh_finds_host_keys(tmp_path, line, address, found):
    file = tmp_path / "known_hosts"
    file.write_text(line + "\n")
    known = known_hosts.read(str(file))
    if found:
        assert known.key(address) == KEY
    else:
        with pytest.raises(ValueError, match="holds no host key"):
            known.key(address)


def test_the_best_kind_of_key_is_pinned_and_a_host_with_only_an_rsa_key_is_refused(tmp_path):
    file = tmp_path / "known_hosts"
    file.write_text("a ssh-rsa AAAAB3\na ecdsa-sha2-nistp256 AAAAE2\n" + f"a {KEY}\nb ssh-rsa AAAAB3\n")
    known = known_hosts.read(str(file))
    assert known.key("a") == KEY
    with pytest.raises(ValueError, match="holds only an ssh-rsa key of b"):
        known.key("b")


RAILS = tuple(Hca(f"mlx5_{number}", 400, f"ib{number}", active=True) for number in range(8))
FRONT = Hca("mlx5_8", 100, "eth0", active=True)
H100 = Facts("NVIDIA H100 80GB HBM3", 8, (*RAILS, FRONT), "eth0", "10.0.0.0/24")


DOWN = tuple(replace(rail, active=False) for rail in RAILS[4:])
SLOW = tuple(replace(rail, rate_gbit_s=200) for rail in RAILS[4:])
STORAGE = tuple(Hca(f"mlx5_{number}", 400, f"ib{number}", active=True) for number in (9, 10))


@pytest.mark.parametrize(
    ("hcas", "doubt"),
    [
        ((*RAILS[:4], *DOWN), "mlx5_4, mlx5_5, mlx5_6, mlx5_7 of the machines are not active"),
        ((*RAILS[:4], *SLOW), "different rates (mlx5_4, mlx5_5, mlx5_6, mlx5_7 at 200 Gbit/s; mlx5_0, mlx5_1, mlx5_2, mlx5_3"),
        ((*RAILS, *STORAGE), "10 RDMA devices that are not the front end's, and 8 GPUs cannot share 10 devices"),
    ],
)
def test_rails_that_cannot_be_detected_are_refused_until_the_user_names_the_rails(hcas, doubt):
    facts = replace(H100, hcas=(*hcas, FRONT))
    with pytest.raises(ValueError, match=re.escape(doubt) + r".*; name the devices that carry the fabric in hosts\.rails"):
        recognise(facts, 4)
    found = recognise(facts, 4, rails=("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"))
    assert (found.rdma.ports, found.rdma.port_gbit_s) == (4, 400)
    assert "8 GPUs share 4 rails" in remark(found)


def test_named_rails_are_kept_as_typed_and_a_malformed_name_is_refused(given):
    assert parsed(given | {"rails": ["mlx5_0", "rdmap79s0"]}).rails == ("mlx5_0", "rdmap79s0")
    (sentence,) = refused(given | {"rails": ["mlx5_0", "eth 0"]})
    assert sentence.startswith("hosts.rails[1]"), sentence


def test_each_named_rail_gets_the_lowest_rate_of_all_named_rails():
    found = recognise(replace(H100, hcas=(*RAILS[:4], *SLOW)), 4, rails=tuple(rail.name for rail in RAILS))
    assert (found.rdma.ports, found.rdma.port_gbit_s) == (8, 200)


@pytest.mark.parametrize(
    ("rails", "there", "why"),
    [
        (("mlx5_0", "mlx5_77", "mlx5_78"), RAILS[:2], "names mlx5_77, mlx5_78, but the machines have mlx5_0, mlx5_1; name"),
        (("mlx5_0",), (), "names mlx5_0, but the machines have none; name"),
        (("mlx5_4",), (*RAILS[:4], *DOWN), "names mlx5_4 without an active port; bring the ports up, or leave these devices"),
    ],
)
def test_named_rails_that_are_missing_or_down_are_refused_by_name(rails, there, why):
    with pytest.raises(ValueError, match=f"^hosts.rails {why}"):
        recognise(replace(H100, hcas=there), 4, rails=rails)


def test_all_devices_except_the_front_end_are_rails_if_these_devices_are_alike():
    found = recognise(replace(H100, hcas=(*RAILS, FRONT)), 4)
    assert not remark(found)
    assert found.rdma == Rdma(8, 400, tuple(f"mlx5_{number}" for number in range(8)), "")
    assert (found.name, found.environment, found.front) == ("HGX-H100.8", GENERIC, "eth0")
    assert found.rdma.node_gbytes_per_s == 400


def test_a_named_server_type_gives_the_same_result_as_a_detected_server_type():
    assert recognise(H100, 4, SERVERS["HGX-H100.8"]) == recognise(H100, 4)


def test_a_cloud_machine_matches_its_catalogue_row_if_all_gpus_and_rails_are_present():
    row = SHAPES["BM.GPU4.8"]
    hcas = (
        *(Hca(name, 100, f"rdma{at}", active=True) for at, name in enumerate(row.rdma.hca)),
        Hca("mlx5_4", 100, "eth0", active=True),
    )
    facts = Facts(row.gpu, 8, hcas, "eth0", "10.0.0.0/24", OCI_TAG)
    assert recognise(facts, 2) == row
    down = tuple(replace(hca, active=False) for hca in hcas)
    assert recognise(replace(facts, hcas=down), 2) == row  # rails that are down still count, and the measurement names them
    without = tuple(hca for hca in hcas[1:] if hca.name != "mlx5_4")
    with pytest.raises(ValueError, match="15 RDMA devices"):
        recognise(replace(facts, hcas=without), 2)
    assert recognise(replace(facts, tag=""), 2).name == "HGX-A100-40GB.8"


def test_machines_that_match_no_catalogue_row_are_described_by_the_facts_that_the_machines_report():
    found = recognise(Facts("NVIDIA L4", 2, (), "ens5", "10.0.0.0/24"), 3)
    assert (found.name, found.gpus, found.rdma, found.nvlink_gbytes_per_s) == ("2 x NVIDIA L4", 2, None, None)
    assert found.environment == GENERIC


def test_one_machine_needs_no_rails():
    assert recognise(replace(H100, hcas=()), 1) == SERVERS["HGX-H100.8"]


def test_gpus_that_differ_from_the_named_shape_or_are_missing_are_refused():
    with pytest.raises(
        ValueError, match=r"shape is HGX-H200\.8, which has 8 x NVIDIA H200, but the hosts have 8 x NVIDIA H100"
    ):
        recognise(H100, 2, SERVERS["HGX-H200.8"])
    with pytest.raises(ValueError, match="shows no GPU on the machines"):
        recognise(replace(H100, gpu="", gpus=0), 2)


@pytest.mark.parametrize(
    ("gpu", "rate"),
    [
        ("NVIDIA A100-SXM4-80GB", 300),
        ("NVIDIA A100 80GB PCIe", None),
        ("NVIDIA H100 80GB HBM3", 450),
        ("NVIDIA H100 NVL", None),
        ("NVIDIA H200", 450),
        ("NVIDIA B200", 900),
        ("NVIDIA B300 SXM6 AC", 900),
        ("NVIDIA L40S", None),
    ],
)
def test_the_nvlink_rate_is_the_rate_of_one_gpu_in_one_direction(gpu, rate):
    assert gpus.nvlink_gbytes_per_s(gpu) == rate


@pytest.mark.parametrize("shape", SERVERS.values(), ids=lambda shape: shape.name)
def test_every_server_type_has_gpus_and_a_source_and_the_generic_environment(shape):
    assert shape.source
    assert shape.gpus
    assert shape.environment == GENERIC


def test_machines_become_a_slurm_cluster_only_if_the_stack_file_has_hosts_slurm(given):
    assert parsed(given).slurm is None
    asked = parsed(given | {"slurm": {}}).slurm
    assert asked is not None
    assert asked.queue == "compute"


@pytest.mark.parametrize(
    ("slurm", "sentence"),
    [
        (
            {"queue": "default"},
            "hosts.slurm.queue is 'default'; default and all have a meaning of their own in Slurm's files and commands",
        ),
        ({"queue": "My Queue"}, "hosts.slurm.queue is 'My Queue'; a queue's name has 1 to 40 lower-case letters, digits"),
        (
            {"queue": "My Queue", "existing": True},
            "hosts.slurm.queue is 'My Queue'; a partition's name is not empty and has no space, comma,",
        ),
        ({"queues": "x"}, "hosts.slurm.queues is not a key of the configuration; did you mean queue?"),
    ],
)
def test_a_queue_name_that_slurm_cannot_use_and_an_unknown_slurm_key_are_refused(given, slurm, sentence):
    (found,) = refused(given | {"slurm": slurm})
    assert found.startswith(sentence)


def test_a_queue_of_an_existing_cluster_may_have_upper_case_letters_and_dots(given):
    asked = parsed(given | {"slurm": {"queue": "GPU.A", "existing": True}}).slurm
    assert asked is not None
    assert asked.queue == "GPU.A"


def test_a_machine_with_a_name_that_is_reserved_by_slurm_is_refused_only_if_hosts_slurm_is_set(given):
    named = given | {"nodes": {"default": "10.0.0.1", "gpu-b": "10.0.0.2"}}
    assert parsed(named).slurm is None
    (found,) = refused(named | {"slurm": {}})
    assert found.startswith("hosts.nodes has a machine named default, but hosts.slurm is set; default and all have a meaning")
