"""First contact, run with stand-ins for ssh: every node is tried, missing nodes are named, and existing keys are kept."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from catalogue.detection import Facts
from components import remote_scripts
from components.remote_scripts import node_join, node_look, ssh_way
from components.remote_scripts.ready_line import ready_line

pytestmark = pytest.mark.programs

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
FACTS = {
    "gpu": "NVIDIA H100 80GB HBM3",
    "gpus": 8,
    "hca": [[f"mlx5_{number}", 400, f"ib{number}", True] for number in range(8)],
    "os": "Ubuntu 22.04 LTS",
    "tag": "",
    "mpi": "/usr/mpi/gcc/openmpi-4.1.7a1",
    "front": "eth0",
    "network": "10.0.0.0/16",
}
#: Stand-in for ssh: logs its call and runs the script $ANSWERS/<address>, which has the standard input in $input.
SSH = """#!/bin/bash
echo "$*" >> "$ANSWERS/calls"
for word; do case $word in *@*) last=$word ;; esac; done
input=$(cat); export input words="$*" command="${!#}"
[ -e "$ANSWERS/${last#*@}" ] || { echo "ssh: connect to host ${last#*@} port 22: Connection timed out" >&2; exit 255; }
exec bash "$ANSWERS/${last#*@}"
"""
KEYSCAN = """#!/bin/bash
n=$(cat "$ANSWERS/scans" 2>/dev/null || echo 0); echo $((n + 1)) > "$ANSWERS/scans"
echo "${!#} ssh-ed25519 AAAAKey$n"
"""


#: In a node's script: the path of the known_hosts file that the call uses.
KNOWN = "$(sed -n 's/.*UserKnownHostsFile //p' \"$(head -n 1 <<< \"$words\" | cut -d ' ' -f 2)\")"


@pytest.fixture
def contact(tmp_path, monkeypatch):
    """Run first contact with `nodes` and `ask`, each node answering by its script."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "home/.ssh").mkdir(parents=True)
    for name, text in (("ssh", SSH), ("ssh-keyscan", KEYSCAN)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("ANSWERS", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def run(scripts: dict[str, str], nodes: list[dict[str, str]], **ask: object) -> subprocess.CompletedProcess[str]:
        for address, script in scripts.items():
            (tmp_path / address).write_text(script)
        asked = {"user": "me", "hcas": [], "timeout_s": 2, "first_boot": False, "facts": "the program", **ask}
        program = remote_scripts.read("first_contact").call(nodes=nodes, ask=asked)
        return subprocess.run(
            [sys.executable, "-"], input=program, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
        )

    return run


def answering(**changes: object) -> str:
    """Return a node's script: it prints facts for `python3 -`, a public key for `sh -s`, and nothing for other commands."""
    line = shlex.quote(json.dumps(FACTS | changes))
    return f'case $command in python3*) echo {line} ;; "sh -s") echo "ssh-ed25519 AAAAHead head" ;; esac\n'


def machine(name: str, address: str) -> dict[str, str]:
    return {"name": name, "address": address, "host_key": KEY}


TWO = [machine("a", "10.0.0.1"), machine("b", "10.0.0.2")]


def test_the_line_groups_equal_machines_and_has_the_host_key_of_the_head_node(contact):
    found = contact({"10.0.0.1": answering(), "10.0.0.2": answering()}, TWO)
    assert found.returncode == 0, found.stderr
    line = json.loads(found.stdout)
    assert line["host_key"] == KEY
    assert line["groups"] == [{"facts": FACTS, "nodes": ["a", "b"]}]
    assert Facts.read(line["groups"][0]["facts"]).gpus == 8
    assert line["networks"] == ["10.0.0.0/16"]


def test_two_nodes_get_the_head_nodes_key_while_a_single_node_is_left_unchanged(contact, tmp_path):
    """The head node generates a key; each node authorises that key and learns the other node's host key."""
    assert contact({"10.0.0.1": answering(), "10.0.0.2": answering()}, TWO).returncode == 0
    calls = [line for line in (tmp_path / "calls").read_text().splitlines() if "sh -" in line]
    assert [next(word for word in line.split() if "@" in word) for line in calls if line.endswith("sh -s")] == ["me@10.0.0.1"]
    assert sorted(next(word for word in line.split() if "@" in word) for line in calls if "sh -c" in line) == [
        "me@10.0.0.1",
        "me@10.0.0.2",
    ]
    (tmp_path / "calls").unlink()
    assert contact({"10.0.0.1": answering()}, TWO[:1]).returncode == 0
    assert "sh -" not in (tmp_path / "calls").read_text()


def test_the_calls_to_a_node_share_one_connection_after_the_node_has_booted(contact, tmp_path):
    booted = 'case $command in "sh -s") echo "status: done"; echo \'{"status": "done"}\'; echo ;; esac\n'
    found = contact({"10.0.0.1": booted + answering(), "10.0.0.2": booted + answering()}, TWO, first_boot=True)
    assert found.returncode == 0, found.stderr
    of_head = [line for line in (tmp_path / "calls").read_text().splitlines() if "me@10.0.0.1" in line]
    # The first call asks for the boot state. The others ask for the facts, make the head node's key, and join the nodes.
    sharing = ["-o ControlMaster=auto -o ControlPersist=10 me@" in line for line in of_head]
    assert sharing == [False, True, True, True], of_head


def test_a_program_counts_as_finished_although_a_leftover_process_keeps_the_stderr_of_the_program_open():
    status, out, err = ssh_way.run_here(["sh", "-c", "echo why >&2; sleep 60 >/dev/null & echo $!"], "", 5)
    os.kill(int(out), signal.SIGKILL)
    assert (status, err) == (0, "why\n")


def test_a_call_that_hangs_is_stopped_at_its_timeout(tmp_path):
    hangs = f"echo $$ > {tmp_path}/pid; exec tail -f /dev/null"
    status, out, why = ssh_way.run_here(["sh", "-c", hangs], "", 0.5)
    assert (status, out, why) == (124, "", "no answer within 0 s")
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_one_node_is_reported_as_ready_while_a_silent_node_is_named_with_its_last_output(contact):
    found = contact({"10.0.0.1": answering()}, TWO)
    assert found.returncode == 1
    assert "1 of 2 nodes are not ready: b (10.0.0.2): SSH does not accept logins yet (ssh: connect to host" in found.stderr
    assert "a (10.0.0.1): ready" in found.stderr


def test_34_silent_nodes_do_not_keep_another_node_from_being_reached(contact, tmp_path):
    """At most 32 connections are open at once; with more than 32 nodes, no connection is kept open for later calls."""
    silent = [machine(f"s{number}", f"10.0.1.{number}") for number in range(34)]
    found = contact({"10.0.0.1": answering()}, [*silent, machine("a", "10.0.0.1")], timeout_s=3)
    assert found.returncode == 1
    assert "34 of 35 nodes are not ready" in found.stderr
    assert "a (10.0.0.1): ready" in found.stderr
    assert "ControlMaster" not in (tmp_path / "calls").read_text()


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (
            "echo 'Host key for 10.0.0.2 has changed and you have requested strict checking.' >&2; exit 255",
            "the host key of 10.0.0.2 is not the key in knownHosts",
        ),
        (
            "echo 'me@10.0.0.2: Permission denied (publickey).' >&2; exit 255",
            "me@10.0.0.2: Permission denied (publickey). Does your SSH agent have a key that the machine accepts (ssh-add -l)?",
        ),
        ("echo 'python3: command not found' >&2; exit 127", "'python3 -IS -' failed on the node: python3: command not found"),
        (answering(mpi=None), "it has no Open MPI: no folder like /opt/mpi has bin/mpirun; set hosts.software.mpi"),
        (answering(gpus=7), "it has 7 x NVIDIA H100 80GB HBM3, but shape HGX-H100.8 has 8 x NVIDIA H100 80GB HBM3"),
    ],
)
def test_a_fault_that_waiting_cannot_cure_stops_the_wait_for_that_node_at_once(contact, script, sentence):
    row = ["HGX-H100.8", 8, FACTS["gpu"]]
    found = contact({"10.0.0.1": answering(), "10.0.0.2": script}, TWO, timeout_s=600, mpi=["/opt/mpi"], row=row)
    assert found.returncode == 1
    assert f"1 of 2 nodes are not ready: b (10.0.0.2): {sentence}" in found.stderr


def test_first_contact_waits_for_a_rail_that_is_down_and_then_names_the_rail(contact):
    down = [*FACTS["hca"][:7], ["mlx5_7", 400, "ib7", False]]
    hcas = [f"mlx5_{number}" for number in range(8)]
    found = contact({"10.0.0.1": answering(), "10.0.0.2": answering(hca=down)}, TWO, hcas=hcas)
    assert found.returncode == 1
    assert "b (10.0.0.2): 1 of 8 rails are not active: mlx5_7" in found.stderr


def test_machines_that_are_not_alike_are_refused_with_their_difference(contact):
    found = contact({"10.0.0.1": answering(), "10.0.0.2": answering(gpus=4)}, TWO)
    assert found.returncode == 1
    assert "the hosts are not alike: b has 4 x NVIDIA H100 80GB HBM3, and a has 8 x NVIDIA H100 80GB HBM3" in found.stderr


def test_the_jump_hosts_key_is_pinned_too_and_the_temporary_known_hosts_file_is_deleted_afterwards(contact, tmp_path):
    jump = {"user": "admin", "address": "203.0.113.9", "host_key": KEY}
    keep = f"cat $(sed -n 's/.*UserKnownHostsFile //p' {tmp_path}/config) > {tmp_path}/kept 2>/dev/null\n"
    copy = f"for word in $(tail -n 1 {tmp_path}/calls); do case $word in */config) cp $word {tmp_path}/config ;; esac; done\n"
    found = contact({"10.0.0.1": copy + keep + answering()}, TWO[:1], jump=jump)
    assert found.returncode == 0, found.stderr
    assert "-J admin@203.0.113.9" in (tmp_path / "calls").read_text()
    assert (tmp_path / "kept").read_text() == f"10.0.0.1 {KEY}\n203.0.113.9 {KEY}\n"
    config = (tmp_path / "config").read_text()
    assert "StrictHostKeyChecking yes" in config
    assert not Path(config.split("UserKnownHostsFile ")[1].split()[0]).exists()


def test_one_connection_to_the_jump_host_serves_all_nodes_and_is_closed(contact, tmp_path):
    jump = {"user": "admin", "address": "203.0.113.9", "host_key": KEY}
    holding = 'case $words in *"-O check"*) [ -e $ANSWERS/held ] ;; *) echo $$ > $ANSWERS/held; exec sleep 60 ;; esac\n'
    found = contact({"10.0.0.1": answering(), "10.0.0.2": answering(), "203.0.113.9": holding}, TWO, jump=jump)
    assert found.returncode == 0, found.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert sum("-M -N admin@203.0.113.9" in call for call in calls) == 1
    assert not Path(f"/proc/{(tmp_path / 'held').read_text().strip()}").exists()


def test_a_host_key_that_first_boot_replaces_is_scanned_again(contact, tmp_path):
    """The stand-in for ssh-keyscan returns a new key at each scan; the node accepts only callers that know the third key."""
    script = (
        f'grep -q "AAAAKey2$" {KNOWN} || {{ echo "Host key verification failed." >&2; exit 255; }}\n'
        'echo "status: done"; echo \'{"status": "done"}\'; echo\n'
    )
    nodes = [{"name": "a", "address": "10.0.0.1"}]
    found = contact({"10.0.0.1": script}, nodes, first_boot=True, facts="", timeout_s=20)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["host_key"] == "ssh-ed25519 AAAAKey2"
    assert list((tmp_path / "home/.ssh").iterdir()) == [], "the operator's own files stay as they are"


@pytest.mark.parametrize(("asks", "ends"), [(True, 1), (False, 0)])
def test_first_contact_waits_for_an_unauthenticated_rail_and_names_the_rail_only_if_authentication_is_required(
    contact, asks, ends
):
    """The program that runs on the node marks unauthenticated rails, but only if first contact requires authentication."""
    state = 'echo "status: done"; echo \'{"status": "done"}\'; case "$input" in *\'[ -z "asked" ]\'*) echo mlx5_0 mlx5_1!;; *) '
    script = f"{state}echo mlx5_0 mlx5_1;; esac\n"
    nodes = [{"name": "a", "address": "10.0.0.1"}]
    hcas = ["mlx5_0", "mlx5_1"]
    found = contact({"10.0.0.1": script}, nodes, first_boot=True, facts="", hcas=hcas, authenticated=asks, timeout_s=2)
    assert found.returncode == ends, found.stderr
    said = "a (10.0.0.1): 1 of 2 rails are not authenticated (802.1X; wpa_cli status), so they carry no traffic: mlx5_1"
    assert (said in found.stderr) is asks


JUMP = {"user": "admin", "address": "203.0.113.9", "host_key": KEY}
#: Script of a jump host that refuses to share connections and runs only ssh-keyscan.
PASSING = 'case $words in *-M*|*"-O check"*) exit 255 ;; *ssh-keyscan*) exec ssh-keyscan "${words##* }" ;; esac\n'


def test_unpinned_host_keys_of_nodes_are_scanned_on_the_jump_host_and_used_on_this_machine(contact, tmp_path):
    node = f'grep -q "^10.0.0.. ssh-ed25519 AAAAKey" {KNOWN} || exit 255\n{answering()}'
    nodes = [{"name": "a", "address": "10.0.0.1"}, {"name": "b", "address": "10.0.0.2"}]
    found = contact({"10.0.0.1": node, "10.0.0.2": node, "203.0.113.9": PASSING}, nodes, jump=JUMP, accept="ssh-ed25519 NEW")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["host_key"].startswith("ssh-ed25519 AAAAKey")
    calls = (tmp_path / "calls").read_text().splitlines()
    assert {call.rpartition(" ")[2] for call in calls if "admin@203.0.113.9 ssh-keyscan" in call} == {"10.0.0.1", "10.0.0.2"}
    assert all("-J admin@203.0.113.9" in call for call in calls if "me@10.0.0" in call)
    assert (tmp_path / "calls").read_text().count("ssh-ed25519 NEW") == 2, "each node is told to accept the operator's key"


def test_a_jump_host_that_rejects_the_operators_key_stops_the_wait_at_once(contact):
    refusing = "echo 'admin@203.0.113.9: Permission denied (publickey).' >&2; exit 255"
    found = contact({"203.0.113.9": refusing}, [{"name": "a", "address": "10.0.0.1"}], jump=JUMP, timeout_s=600)
    assert found.returncode == 1
    assert "Permission denied (publickey). Does your SSH agent have a key that the machine accepts" in found.stderr


@pytest.mark.parametrize(
    ("answer", "learnt", "noted"),
    [
        ((0, "# 10.0.0.2:22 SSH-2.0\n10.0.0.2 ssh-ed25519 AAAANew more\n", ""), "ssh-ed25519 AAAANew", None),
        ((0, "# 10.0.0.2:22 SSH-2.0\n", ""), "", "no answer on TCP port 22"),
        ((1, "10.0.0.2 ssh-ed25519 AAAANew\n", ""), "", "no answer on TCP port 22"),
        ((255, "", "first\nssh: connect to host jump: timed out\n"), "", "the jump host does not answer"),
    ],
)
def test_a_scanned_host_key_replaces_the_old_key_and_a_failed_scan_changes_nothing(
    tmp_path, monkeypatch, answer, learnt, noted
):
    before = "10.0.0.1 ssh-ed25519 AAAAOne\n10.0.0.2 ssh-ed25519 AAAAOld\n10.0.0.20 ssh-ed25519 AAAATwenty\n"
    (tmp_path / "known").write_text(before)
    calls, notes = [], []
    monkeypatch.setattr(node_look, "run_here", lambda *words: calls.append(words) or answer)
    way = ssh_way.Way(["ssh"], ["ssh", "jump"], str(tmp_path / "known"), "me", [], True, "", [], [], "", False, False, 0.0)
    assert node_look.host_key({"name": "b", "address": "10.0.0.2"}, way, notes.append) == learnt
    assert calls == [(["ssh", "jump", "ssh-keyscan", "-T", "5", "-t", "ed25519", "10.0.0.2"], "", 15)]
    assert [note.startswith(str(noted)) for note in notes] == ([True] if noted else [])
    other = [line for line in before.splitlines() if not line.startswith("10.0.0.2 ")]
    after = [*other, "10.0.0.2 ssh-ed25519 AAAANew"] if learnt else before.splitlines()
    assert (tmp_path / "known").read_text().splitlines() == after
    assert [path.name for path in tmp_path.iterdir()] == ["known"]


def test_the_line_of_512_nodes_stays_below_64_kib_however_different_the_nodes_are():
    nodes = [f"gpu-server-in-a-rather-long-named-rack-{number:03}.example.org" for number in range(512)]
    equal = ready_line(KEY, nodes, [FACTS] * 512)
    different = ready_line(KEY, nodes, [FACTS | {"os": f"its own {number}"} for number in range(512)])
    assert len(equal) < 64 << 10
    assert len(different) < 64 << 10
    assert json.loads(equal)["groups"][0]["nodes"] == nodes


def test_nodes_with_equal_facts_are_listed_together_and_at_most_16_different_sets_of_facts_are_listed():
    facts = [FACTS | {"os": f"kind {number % 20}"} for number in range(40)]
    groups = json.loads(ready_line(KEY, [f"n{number}" for number in range(40)], facts))["groups"]
    assert len(groups) == 16
    assert [(one["facts"]["os"], one["nodes"]) for one in groups] == [
        (f"kind {number}", [f"n{number}", f"n{number + 20}"]) for number in range(16)
    ]


def test_the_line_of_first_contact_groups_nodes_by_their_facts():
    kept = FACTS | {"front": "eth0", "network": "10.0.0.0/16"}
    assert json.loads(ready_line("key-a", ["a", "b"], [kept, kept | {"front": "eth1"}])) == {
        "schema": 2,
        "kind": "ready",
        "host_key": "key-a",
        "count": 2,
        "groups": [{"facts": kept, "nodes": ["a"]}, {"facts": kept | {"front": "eth1"}, "nodes": ["b"]}],
        "fronts": ["eth0", "eth1"],
        "networks": ["10.0.0.0/16"],
    }
    bare = json.loads(ready_line("key", ["a", "b"], [{}, {}]))
    assert (bare["fronts"], bare["networks"], bare["groups"]) == ([], [], [{"facts": {}, "nodes": ["a", "b"]}])


#: Output of `ip -4 -o address show` on a machine with four interfaces; the default route leaves through bond0.
ADDRESSES = """1: lo    inet 127.0.0.1/8 scope host lo
2: docker0    inet 172.17.0.1/16 scope global docker0
3: bond0    inet 10.9.130.7/20 brd 10.9.143.255 scope global bond0
4: storage0    inet 192.168.7.9/24 scope global storage0
"""


@pytest.mark.parametrize(
    ("address", "route", "front", "network"),
    [
        ("192.168.7.9", "default via 10.9.128.1 dev bond0", "storage0", "192.168.7.0/24"),
        ("10.9.130.7", "default via 10.9.128.1 dev bond0", "bond0", "10.9.128.0/20"),
        ("203.0.113.5", "default via 10.9.128.1 dev bond0", "bond0", "10.9.128.0/20"),  # behind address translation
        ("127.0.0.1", "default via 10.9.128.1 dev bond0", "bond0", "10.9.128.0/20"),
        ("203.0.113.5", "", "docker0", "172.17.0.0/16"),  # no such address and no default route: the first interface except lo
    ],
)
def test_the_front_end_is_the_interface_of_the_address_or_else_of_the_default_route(tmp_path, address, route, front, network):
    program = f'case "$*" in *address*) cat {tmp_path}/addresses ;; *) echo "{route}" ;; esac'
    (tmp_path / "addresses").write_text(ADDRESSES)
    (tmp_path / "ip").write_text(f"#!/bin/sh\n{program}\n")
    (tmp_path / "ip").chmod(0o755)
    text = remote_scripts.read("facts").call(address=address, mpi=[])
    environment = os.environ | {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    found = subprocess.run(
        [sys.executable, "-"], input=text, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    facts = json.loads(found.stdout)
    assert (facts["front"], facts["network"]) == (front, network)


def test_joining_a_node_twice_adds_each_ssh_key_once_and_keeps_existing_lines(tmp_path):
    folder = tmp_path / ".ssh"
    folder.mkdir()
    (folder / "authorized_keys").write_text("# mine\nssh-rsa AAAA me")  # no newline at its end
    (folder / "known_hosts").write_text("zebra ssh-rsa AAAA\n# a remark\nant ssh-rsa AAAA\n")
    script = node_join.JOIN.replace("KEYS", shlex.quote("ssh-ed25519 BBBB busbar-head"))
    for _ in range(2):
        subprocess.run(
            ["sh", "-c", script], input=f"10.0.0.1,a {KEY}\n", text=True, check=True, env=os.environ | {"HOME": str(tmp_path)}
        )
    assert (folder / "authorized_keys").read_text() == "# mine\nssh-rsa AAAA me\nssh-ed25519 BBBB busbar-head\n"
    expected = f"zebra ssh-rsa AAAA\n# a remark\nant ssh-rsa AAAA\n10.0.0.1,a {KEY}\n"
    assert (folder / "known_hosts").read_text() == expected


def test_a_machine_addressed_by_loopback_still_has_a_network():
    program = remote_scripts.read("facts").call(address="127.0.0.1", mpi=["/nowhere/*"])
    found = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, check=True, timeout=60)
    facts = json.loads(found.stdout)
    assert facts["front"]
    assert "/" in facts["network"]
    assert facts["mpi"] is None


def test_the_newest_complete_mpi_is_taken(tmp_path):
    for version, is_whole in (("4.1.6", True), ("4.1.7", True), ("5.0.8", False)):
        (tmp_path / f"openmpi-{version}" / "bin").mkdir(parents=True)
        if is_whole:
            (tmp_path / f"openmpi-{version}" / "bin" / "mpirun").touch()
    program = remote_scripts.read("facts").call(address="127.0.0.1", mpi=["/nowhere/*", f"{tmp_path}/openmpi-*"])
    found = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(found.stdout)["mpi"] == f"{tmp_path}/openmpi-4.1.7"
