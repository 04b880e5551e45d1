"""Users of a cluster on a real slapd, sssd, sshd, slurmctld, slurmd, slurmdbd and MariaDB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("users")]

ROOT = Path(__file__).parents[2]
#: A shell script: makes a network and homes that the machines share. Both are gone when the shell exits. The shell also reaps
#: processes.
SCRIPT = r"""
set -e
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/pristine /run/netns; mount --bind / /run/pristine
mount -t tmpfs -o mode=755 tmpfs /home
ip link set lo up
ip link add br0 type bridge; ip address add 10.255.0.254/8 dev br0; ip link set br0 up
set +e
"$@"
exit $?
"""
TIMEOUT_S = 420


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the facts that each part of tests/users_head.py prints, by the part's name."""
    folder = tmp_path_factory.mktemp("users")
    own = [
        "unshare",
        "--mount",
        "--net",
        "--uts",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "bash",
        "-c",
        SCRIPT,
        "bash",
    ]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    words = [*own, sys.executable, str(ROOT / "tests/users_head.py"), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, env=environment)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-4000:]}"
    found: dict[str, dict[str, Any]] = {}
    seen: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        said = json.loads(line)
        if "part" in said:
            found[said["part"]], seen = seen, {}
        else:
            seen |= said
    return found


def test_a_second_set_up_of_users_changes_no_file_and_restarts_no_daemon(facts):
    seen = facts["first_set_up"]
    assert (seen["first"], seen["again"]) == ("", "")
    assert seen["same"]


def test_the_directory_listens_only_with_tls_on_one_address_and_the_database_does_not_listen_on_the_network(facts):
    assert facts["first_set_up"]["listening"] == ["10.255.0.1:636"]


def test_sssd_reports_no_mistake_in_its_configuration(facts):
    assert facts["first_set_up"]["sssd"] == "Issues identified by validators: 0"


def test_a_user_added_on_the_controller_is_the_same_user_on_all_machines(facts):
    seen = facts["a_user_everywhere"]
    assert (seen["said"], seen["err"]) == ("user alice: uid 10001, gid 9876, home /home/alice\n", "")
    assert seen["ids"] == ["uid=10001(alice) gid=9876(privilege) groups=9876(privilege)\n"] * 3
    assert seen["entry"] == "alice:*:10001:9876:Alice 山田:/home/alice:/bin/bash\n"


def test_a_home_is_readable_only_by_its_user_and_has_the_files_of_etc_skel(facts):
    *modes, bashrc = facts["a_user_everywhere"]["home"].splitlines()
    assert modes[:2] == ["700 alice privilege"] * 2
    assert modes[2:5] == ["600 alice privilege", "600 alice privilege", "644 alice privilege"]
    assert {".bashrc", ".profile", ".ssh"} <= {*modes[5:], bashrc}


def test_a_user_logs_in_with_an_ssh_key_to_the_controller_and_to_a_node(facts):
    seen = facts["a_user_everywhere"]
    assert seen["logins"] == [["alice", "head", "/home/alice"], ["alice", "cpu-st-small-1", "/home/alice"]]
    assert seen["stranger"] != 0


def test_on_the_controller_the_kernel_lets_root_but_no_user_connect_to_the_metadata_service(facts):
    by_user, other_port, by_root, _ = facts["a_user_everywhere"]["metadata"]
    assert "/dev/tcp/169.254.169.254/80: Permission denied" in by_user
    assert [("Permission denied" in said, "/dev/tcp/" in said) for said in (other_port, by_root)] == [(False, True)] * 2


def test_a_user_logs_in_from_the_controller_to_a_node_without_a_password(facts):
    assert facts["a_user_everywhere"]["between"] == ["cpu-st-small-1"]


def test_a_user_has_no_sudo_and_cannot_change_the_directory(facts):
    seen = facts["a_user_everywhere"]
    assert all(seen["sudo"])
    assert seen["roots_sudo"] == 0
    assert seen["cluster"] == "cluster: only root may manage users, and alice cannot use sudo without a password\n"
    assert seen["changes"] != 0


def test_a_users_job_runs_as_the_user_and_writes_to_the_shared_home(facts):
    seen = facts["a_job"]
    assert seen["out"] == ["alice", "cpu-st-small-2", "/home/alice"]
    assert seen["shared"] == "cpu-st-small-2\n"


def test_sacct_shows_an_ended_job_with_its_user_and_account_on_the_controller_and_on_a_node(facts):
    assert facts["a_job"]["sacct"] == ["alice|users|COMPLETED|cpu-st-small-2"] * 2


@pytest.mark.parametrize(
    ("what", "sentence"),
    {
        "name": "user Alice: a name has 1 to 32 lower-case letters, digits, - and _, and begins with a letter or _",
        "taken": "user alice: there is a user of that name already, with uid 10001",
        "local": "user slurm: this machine has a local user of that name (/etc/passwd)",
        "uid": "--uid 10001: it is the uid of user alice",
        "root_uid": "--uid 0: an id is from 1000 to 60000; other ids belong to the system (/etc/login.defs)",
        "gid": "--gid 12345: no group has that gid; the groups are 9876 (privilege); `cluster group add` adds a group",
        "shell": "--shell /bin/no-such-shell: there is no such program on this machine; give its whole path",
        "key": "--ssh-key: line 1 is no public key such as `ssh-ed25519 AAAA... name`",
        "private": "--ssh-key: this is a private key, which must stay secret; give the file whose name ends with .pub",
        "home": "user former: /home/former exists and belongs to uid 10077; pass --uid 10077 to return the "
        "folder to its user, or move the folder away",
        "absent": "user bob: there is no such user in the directory",
        "local_absent": "user slurm: there is no such user in the directory; it is a user of this machine only",
        "group_taken": "group privilege: there is a group of that name already",
        "group_gid": "--gid 9876: it is the gid of group privilege",
        "group_in_use": "group privilege: it is the default primary group of new users, so it is kept",
        "group_absent": "group physics: there is no such group in the directory; see `cluster group list`",
    }.items(),
)
def test_every_refusal_of_the_cluster_command_is_one_sentence(facts, what, sentence):
    assert facts["what_is_refused"][what] == [1, f"cluster: {sentence}"]


def test_a_refusal_of_the_cluster_command_changes_nothing(facts):
    seen = facts["what_is_refused"]
    assert seen["same"]
    assert seen["nothing"][0] == 2


def test_the_uid_of_an_existing_home_is_given_only_to_the_homes_former_user(facts):
    seen = facts["what_is_refused"]
    assert seen["next"][1].startswith("user bob: uid 10078, ")
    assert seen["back"][1].startswith("user former: uid 10077, ")
    assert seen["returned"] == []


def test_groups_are_added_listed_and_deleted_and_users_join_and_leave_them(facts):
    seen = facts["groups"]
    assert seen["addchemistry"] == "group chemistry: gid 20001\n"
    assert seen["again"] == "cluster: group physics: alice is a member already\n"
    assert seen["id"] == ["privilege", "physics"]
    assert seen["listed"].splitlines() == [
        "NAME       GID    MEMBERS",
        "privilege  9876   alice,bob,former",
        "physics    20000  alice,bob",
        "chemistry  20001  -",
    ]
    assert seen["users"].splitlines()[1].split(maxsplit=5) == [
        *("alice", "10001", "privilege,physics", "/home/alice", "/bin/bash", "Alice 山田"),
    ]
    assert seen["left"].splitlines() == [
        "NAME       GID    MEMBERS",
        "privilege  9876   alice,bob,former",
        "physics    20000  alice",
    ]


def test_a_machine_that_does_not_log_in_to_the_directory_sees_only_the_names_ids_home_and_shell_of_a_user(facts):
    seen = facts["what_others_may_see"]
    assert set(seen["seen"]) == {"dn", "objectClass", "uid", "cn", "uidNumber", "gidNumber", "homeDirectory", "loginShell"}


def test_the_directory_cannot_be_changed_over_the_network_and_is_readable_only_with_tls_and_the_servers_certificate(facts):
    seen = facts["what_others_may_see"]
    assert seen["by_password"] == 53  # LDAP code: unwilling to perform
    assert "modifications require authentication" in seen["change"]
    assert "Can't contact LDAP server" in seen["plain"]
    assert seen["without_authority"] != 0


def test_a_node_resolves_users_while_the_directory_is_stopped_and_resolves_new_users_after_its_restart(facts):
    seen = facts["a_restart_of_the_directory"]
    assert seen["known"].startswith("uid=10079(carol)")
    assert seen["still"] == 0
    assert seen["stopped"].startswith("cluster: the directory does not answer: ")


def test_a_user_with_jobs_or_processes_is_not_deleted_and_the_refusal_names_the_jobs_or_processes(facts):
    seen = facts["a_deleted_user"]
    assert seen["with_job"].startswith(f"cluster: user alice: has jobs: {seen['job']} (")
    assert seen["with_process"] == (
        f"cluster: user alice: has processes on this machine: {seen['process']} (sleep); end them first\n"
    )


def test_a_deleted_user_is_unknown_on_all_machines_after_a_minute_and_cannot_log_in(facts):
    seen = facts["a_deleted_user"]
    assert seen["login"] != 0
    assert len(seen["login_there"]) == 2
    assert all(seen["login_there"])
    assert "alice" not in seen["member"]
    assert (seen["association"], seen["bobs"].strip()) == ("", "bob|users")


def test_the_home_of_a_deleted_user_is_kept_unless_it_is_purged(facts):
    seen = facts["a_deleted_user"]
    assert seen["home"] == "700 10001\n"
    assert seen["purged"] == "user bob is deleted; the home is deleted, too\n"
    assert seen["homes"] == [".busbar", ".busbar-slurm", ".busbar-users", "alice", "carol", "former"]


def test_a_new_controller_has_the_users_of_the_old_controller(facts):
    seen = facts["a_new_controller"]
    assert (seen["second"], seen["same"], seen["carol"]) == ("", True, "carol")


def test_a_node_uses_only_a_directory_with_the_certificate_that_the_node_was_given(facts):
    seen = facts["a_new_controller"]
    assert seen["dave_before"] != 0
    assert seen["asked_before"] != 0
    assert (seen["dave_after"], seen["asked_after"]) == ("dave\n", "dn: uid=dave,ou=People,dc=local")


def test_a_node_that_joins_again_restarts_no_daemon(facts):
    before, said, after = facts["a_new_controller"]["joined_again"]
    assert before == after
    assert said == "{}\n"


def test_a_copy_of_the_directory_that_anybody_but_root_could_have_written_is_not_restored(facts):
    seen = facts["unsafe_copies"]
    assert seen["refused"] == (
        "/home/.busbar-users/directory.ldif does not belong to root only, so nothing is saved to it or read from it; "
        "check its content, then let only root own and write it"
    )
    assert [line.split()[0] for line in seen["users"]] == ["former", "carol", "dave"]


def test_nothing_is_written_below_the_mount_point_of_homes_that_are_not_mounted(facts):
    seen = facts["homes_that_are_not_mounted"]
    why = "/home is not mounted or cannot be read, but {} on its file system; mount it first"
    assert seen["command"] == f"cluster: {why.format('the homes are')}"
    assert seen["set_up"] == why.format("the copy of Slurm's jobs is")
    assert not {"eve", ".busbar-slurm", ".busbar-users"} & set(seen["left"].split())


def test_users_can_be_added_on_a_controller_with_the_folders_of_red_hats_packages(facts):
    seen = facts["folders_of_oracle_linux"]
    assert (seen["id"], seen["runs"].strip()) == ("erin\n", "ldap")
    assert seen["data"] == ["ldap", "ldap"]
