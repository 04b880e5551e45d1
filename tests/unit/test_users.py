"""Users of a cluster: files for slapd and sssd, refused names and keys, and changes in an LDAP directory in memory."""

from __future__ import annotations

import ast
import base64
import json
import os
import signal
import stat
import string
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from directory_in_memory import FakeDirectory
from hypothesis import given
from hypothesis import strategies as some

from scheduler import programs
from scheduler.elastic import join
from scheduler.users import (
    __main__,
    accepted,
    accounts,
    associations,
    busy,
    cache,
    client,
    client_setup,
    controller_setup,
    directory,
    groups,
    home,
    home_folder,
    ldap,
    ldif,
    local,
    member,
    settings,
    snapshot,
)
from scheduler.users.accounts import Wanted
from scheduler.users.directory import Layout
from scheduler.users.refusal import RefusalError

ROOT = Path(__file__).parents[2]
DEBIAN = Layout("/etc/ldap", "openldap", "/usr/lib/ldap")


def key(kind: str = "ssh-ed25519", inner: str = "", data: bytes = b"\0" * 36) -> str:
    name = (inner or kind).encode()
    return f"{kind} {base64.b64encode(struct.pack('>I', len(name)) + name + data).decode()} someone"


# The files for slapd, sssd and openssl


def test_slapd_conf_lets_only_root_write_and_the_first_access_rule_of_the_database_hides_passwords():
    lines = directory.slapd_conf(DEBIAN).splitlines()
    assert [line for line in lines if "rootdn" in line] == [f'rootdn "{directory.ROOT}"']
    assert not [line for line in lines if "rootpw" in line or "by * write" in line]
    rules = lines[lines.index("database mdb") :]
    rules = [line for line in rules if line.startswith("access")]
    assert rules[0] == "access to attrs=userPassword,shadowLastChange by * none"
    assert rules[1].startswith('access to dn.subtree="dc=local" attrs=entry,')
    assert rules[1].endswith(" by * read")
    assert rules[2] == "access to * by * none"
    assert not {"userPassword", "sshPublicKey", "@posixAccount"} & set(directory.READABLE)


def test_slapd_loads_a_module_for_its_database_only_if_there_is_such_a_module():
    assert "moduleload back_mdb" in directory.slapd_conf(DEBIAN)
    assert "module" not in directory.slapd_conf(DEBIAN._replace(module=False))


def test_slapd_listens_on_the_network_only_with_tls_and_also_on_the_local_socket():
    command = next(line for line in directory.unit(DEBIAN, "10.0.0.2").splitlines() if "ExecStart" in line)
    assert '-h "ldapi:/// ldaps://10.0.0.2:636"' in command
    assert "-u openldap -g openldap -f /etc/ldap/busbar/slapd.conf" in command


def test_sssd_requires_the_controllers_certificate_and_ignores_ids_below_1000():
    lines = client.sssd_conf("10.0.0.2", "# mark").splitlines()
    assert "ldap_uri = ldaps://10.0.0.2" in lines
    assert "ldap_tls_reqcert = demand" in lines
    assert f"ldap_tls_cacert = {client.CERTIFICATE}" in lines
    assert "min_id = 1000" in lines
    assert {"auth_provider = none", "sudo_provider = none"} <= set(lines)


def test_the_controller_is_named_in_the_certificate_that_openssl_makes(tmp_path):
    (tmp_path / "conf").write_text(directory.certificate_request("head", "10.0.0.2"))
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-config", "conf"]
    subprocess.run([*make, "-keyout", "key", "-out", "made"], cwd=tmp_path, check=True, capture_output=True)
    shown = subprocess.run(["openssl", "x509", "-in", "made", "-noout", "-text"], cwd=tmp_path, check=True, capture_output=True)
    assert b"DNS:head, IP Address:10.0.0.2" in shown.stdout
    assert b"CA:TRUE, pathlen:0" in shown.stdout


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("passwd: files\ngroup: files\n", "passwd: files sss\ngroup: files sss\n"),
        ("passwd:  files systemd # mine\ngroup: sss files\n", "passwd:  files systemd sss # mine\ngroup: sss files\n"),
        ("hosts: files dns\n", "hosts: files dns\npasswd: files sss\ngroup: files sss\n"),
        ("#passwd: sss\npasswd: files # sss\ngroup: files sss\n", "#passwd: sss\npasswd: files sss # sss\ngroup: files sss\n"),
    ],
)
def test_sssd_is_added_after_the_existing_sources_of_users_and_groups(before, after):
    assert client_setup.with_sssd(before) == after
    assert client_setup.with_sssd(after) == after


# Entries as text


@given(some.lists(some.dictionaries(some.sampled_from(["cn", "uid", "o"]), some.lists(some.text(), min_size=1), min_size=1)))
def test_entries_are_read_back_from_ldif_as_they_were_written(made):
    entries = [{"dn": [f"uid={number},dc=local"], **one} for number, one in enumerate(made)]
    usable = [{name: [value.replace("\0", "") for value in values] for name, values in one.items()} for one in entries]
    assert ldif.entries_of(ldif.text_of(usable)) == usable


@given(some.text())
def test_a_value_in_ldif_stays_on_one_line(value):
    line = ldif.text_of([{"cn": [value]}])
    assert line.count("\n") == 2
    assert line.isascii()


@pytest.mark.parametrize("value", ["a ", " a", ":a", "<a", "a\nb", "a\x00", "Ä"])
def test_a_value_that_other_ldif_parsers_would_change_is_encoded(value):
    assert ldif.text_of([{"cn": [value]}]) == f"cn:: {base64.b64encode(value.encode()).decode()}\n\n"


def test_folded_lines_and_comments_of_ldapsearch_are_parsed():
    text = "# all\ndn: uid=a,dc=lo\n cal\ncn:: w4Q=\n\n\n# end\nsearch: 2\n"
    assert ldif.entries_of(text) == [{"dn": ["uid=a,dc=local"], "cn": ["Ä"]}]


# Names, numbers and keys that are refused

ALLOWED = string.ascii_lowercase + string.digits + "_-"


@given(some.text(alphabet=ALLOWED, max_size=40) | some.text(max_size=40))
def test_an_accepted_name_has_no_special_meaning_in_a_shell_or_a_path_or_a_dn_or_a_passwd_line(name):
    refused = accepted.refused_name(name)
    fits = 0 < len(name) <= 32 and set(name) <= set(ALLOWED) and name[0] in string.ascii_lowercase + "_"
    assert (not refused) == fits


@pytest.mark.parametrize("name", ["a\n", "root\n", "..", "-x", "1a", "Alice", "a.b", "a b", "a,b", "a" * 33, ""])
def test_a_name_that_some_program_would_misread_is_refused(name):
    assert accepted.refused_name(name)


@pytest.mark.parametrize(
    ("number", "fine"), [(0, False), (999, False), (1000, True), (60000, True), (60001, False), (-1, False)]
)
def test_uids_outside_the_range_for_people_are_refused(number, fine):
    assert (not accepted.refused_number(number)) == fine


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("", True),
        ("Ada Lovelace", True),
        ("山田 太郎", True),
        ("a:b", False),
        ("a\nb", False),
        (" a", False),
        ("a" * 101, False),
        ("a,b", False),
    ],
)
def test_a_full_name_with_a_separator_of_passwd_is_refused(text, fine):
    assert (not accepted.refused_full_name(text)) == fine


def test_ed25519_rsa_and_ecdsa_public_keys_are_accepted_and_a_private_key_is_refused(tmp_path):
    for kind in ("ed25519", "rsa", "ecdsa"):
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", tmp_path / kind], check=True)
    text = "".join((tmp_path / f"{kind}.pub").read_text() for kind in ("ed25519", "rsa", "ecdsa")) + "\n# mine\n"
    keys, why = accepted.public_keys(text)
    assert (len(keys), why) == (3, "")
    assert "private key" in accepted.public_keys((tmp_path / "rsa").read_text())[1]


@pytest.mark.parametrize(
    "line",
    [
        "ssh-ed25519",
        "ssh-ed25519 AAAA",
        "ssh-ed25519 ....",
        key("ssh-dss"),
        key("ssh-ed25519", "ssh-rsa"),
        key(data=b""),
        f'command="sh" {key()}',
        f"{key()}\r x",
    ],
)
def test_a_line_that_is_no_public_key_is_named_by_its_number(line):
    assert accepted.public_keys(f"{key()}\n{line}")[1] == "line 2 is no public key such as `ssh-ed25519 AAAA... name`"
    assert accepted.public_keys(f"# mine\n\n{key()}\n{line}")[1].startswith("line 4 is no public key")


@given(some.text(max_size=200))
def test_any_text_as_public_keys_is_accepted_or_refused_with_a_sentence(text):
    keys, why = accepted.public_keys(text)
    assert bool(keys) != bool(why)


# Changes


class Cluster:
    """A controller whose files are in a folder; `add` and `delete` do what the command `cluster user` does."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.directory = FakeDirectory(patch)
        self.home = folder / "home"
        self.home.mkdir()
        self.jobs: list[str] = []
        self.processes: list[str] = []
        self.slurm: list[Any] = []
        (folder / "passwd").write_text(
            "root:x:0:0::/root:/bin/sh\nopc:x:1000:1000::/home/opc:/bin/sh\nnobody:x:65534:65534:::\n"
        )
        (folder / "group").write_text("root:x:0:\nopc:x:1000:\nnogroup:x:65534:\n")
        patch.setattr(local, "_PASSWD", str(folder / "passwd"))
        patch.setattr(local, "_GROUP", str(folder / "group"))
        patch.setattr(home.os, "lchown", lambda *_: None)
        patch.setattr(busy, "jobs", lambda _: self.jobs)
        patch.setattr(busy, "processes", lambda _: self.processes)
        patch.setattr(cache, "forget", lambda _: None)
        patch.setattr(associations, "add", lambda cluster, names: self.slurm.append(("add", cluster, names)))
        patch.setattr(associations, "delete", lambda cluster, name: self.slurm.append(("delete", cluster, name)))
        self.owners: dict[str, int] = {}
        patch.setattr(home, "owner", lambda path: self.owners.get(Path(path).name, 10001) if Path(path).exists() else -1)
        patch.setattr(home, "owners", lambda _: self.owners)
        self.settings = settings.Settings(str(self.home), "busbar")

    def add(self, name: str = "alice", **changes: Any) -> directory.User:
        wanted = Wanted(name, None, 9876, "", "/bin/sh", "", own_key=True)
        return accounts.add(wanted._replace(**changes), self.settings)

    def delete(self, name: str = "alice", *, purge: bool = False) -> directory.User:
        return accounts.delete(name, purge, self.settings)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


def refusal(call: Any, *words: Any, **more: Any) -> str:
    with pytest.raises(RefusalError) as ended:
        call(*words, **more)
    return str(ended.value)


def test_the_uids_of_users_begin_at_10001(cluster):
    assert [cluster.add(name).uid for name in ("alice", "bob")] == [10001, 10002]
    assert cluster.add("carol", uid=20000).uid == 20000
    assert cluster.add("dave").uid == 20001
    assert list(accounts.existing()) == ["alice", "bob", "carol", "dave"]


def test_the_uid_of_a_deleted_user_whose_home_stays_is_given_to_no_other_user(cluster):
    cluster.add("alice")
    cluster.owners["alice"] = 10001
    cluster.delete("alice")
    assert cluster.add("bob").uid == 10002
    assert refusal(cluster.add, "carol", uid=10001) == (
        f"--uid 10001: this uid owns {cluster.home}/alice, the home of a former user; choose another uid, or change the "
        "folder's owner first"
    )
    assert not (cluster.home / "carol").exists()
    assert "--uid" in refusal(cluster.add, "alice")
    assert cluster.add("alice", uid=10001).uid == 10001


def test_no_uid_above_the_range_for_people_is_assigned(cluster):
    cluster.add("alice", uid=60000)
    said = "--uid: the largest uid, 60000, is in use, so there is no next uid; choose a free uid"
    assert refusal(cluster.add, "bob") == said
    assert cluster.add("bob", uid=10001).uid == 10001


def test_a_home_is_complete_before_the_user_exists(cluster, monkeypatch, tmp_path):
    (tmp_path / "skel/.config").mkdir(parents=True)
    (tmp_path / "skel/.bashrc").write_text("PS1=x\n")
    (tmp_path / "skel/.link").symlink_to("/etc/shadow")
    monkeypatch.setattr(home, "_SKELETON", str(tmp_path / "skel"))
    made, add, there = cluster.home / "alice", ldap.add, []

    def adds(entries: Any) -> None:
        there.extend(sorted(str(path.relative_to(made)) for path in made.rglob("*")))
        add(entries)

    monkeypatch.setattr(ldap, "add", adds)
    cluster.add("alice", keys=key())
    assert there == sorted(str(path.relative_to(made)) for path in made.rglob("*"))
    assert {".bashrc", ".config", ".link", ".ssh/authorized_keys", ".ssh/id_ed25519"} <= set(there)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert (made / ".bashrc").read_text() == "PS1=x\n"
    assert (made / ".link").is_symlink()
    own = (made / ".ssh/id_ed25519.pub").read_text().strip()
    assert (made / ".ssh/authorized_keys").read_text().splitlines() == [key(), own]
    assert {stat.S_IMODE((made / name).stat().st_mode) for name in (".ssh/authorized_keys", ".ssh/id_ed25519")} == {0o600}
    assert [path.name for path in cluster.home.iterdir()] == ["alice"]


def test_an_ssh_key_of_a_user_is_made_only_on_request(cluster):
    cluster.add("alice", own_key=False)
    assert [path.name for path in (cluster.home / "alice/.ssh").iterdir()] == ["authorized_keys"]


def test_if_a_home_cannot_be_created_neither_a_part_of_the_home_nor_the_user_remains(cluster, monkeypatch):
    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(home.os, "rename", fails)
    assert refusal(cluster.add).endswith("could not be made: No space left on device")
    assert not list(cluster.home.iterdir())
    assert not cluster.directory.calls


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("echo no entropy >&2; exit 1", "ssh-keygen made no key: no entropy"),
        ("exec sleep 9", "could not be made: ssh-keygen did not end within 0.1 s"),
    ],
)
def test_if_ssh_keygen_fails_or_hangs_no_part_of_the_home_remains(cluster, monkeypatch, tmp_path, program, why):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh-keygen").write_text(f"#!/bin/sh\n{program}\n")
    (tmp_path / "bin/ssh-keygen").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setattr(home, "_TIMEOUT_S", 0.1)
    assert refusal(cluster.add).endswith(why)
    assert not list(cluster.home.iterdir())


def test_public_keys_are_added_once_to_a_home_that_existed_already(cluster, monkeypatch):
    for name in ("setgroups", "setgid", "setuid"):
        monkeypatch.setattr(home.os, name, lambda _: None)
    user = directory.User("alice", 1, 1, "", str(cluster.home / "alice"), "/bin/sh")
    (cluster.home / "alice/.ssh").mkdir(parents=True)
    (cluster.home / "alice/.ssh/authorized_keys").write_text("old without an end")
    for _ in range(2):
        home.add_keys(user, [key()])
    assert (cluster.home / "alice/.ssh/authorized_keys").read_text().splitlines() == ["old without an end", key()]


def test_only_with_accounting_are_users_added_to_slurms_database_and_deleted_from_it(cluster):
    cluster.add("alice")
    cluster.delete("alice")
    assert cluster.slurm == [("add", "busbar", ["alice"]), ("delete", "busbar", "alice")]
    cluster.settings = cluster.settings._replace(accounting="")
    cluster.owners["alice"] = 10001
    cluster.add("bob")
    cluster.delete("bob")
    assert len(cluster.slurm) == 2


def test_a_new_home_is_removed_if_the_ldap_directory_refuses_the_user(cluster, monkeypatch):
    def fails(_: Any) -> None:
        raise RefusalError("the directory refused the change: no space")

    monkeypatch.setattr(ldap, "add", fails)
    assert refusal(cluster.add) == "the directory refused the change: no space"
    (cluster.home / "bob").mkdir()
    assert refusal(cluster.add, "bob", uid=10001) == "the directory refused the change: no space"
    assert [path.name for path in cluster.home.iterdir()] == ["bob"]


def test_a_user_is_kept_even_if_slurms_database_refuses_the_user(cluster, monkeypatch):
    def fails(*_: Any) -> None:
        raise RefusalError("sacctmgr add user: refused")

    monkeypatch.setattr(associations, "add", fails)
    assert refusal(cluster.add) == (
        "user alice is added, but not to Slurm's database (the next update adds it): sacctmgr add user: refused"
    )
    assert "alice" in accounts.existing()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "Alice"}, "user Alice: a name has 1 to 32 "),
        ({"name": "opc"}, "user opc: this machine has a local user of that name (/etc/passwd)"),
        ({"name": "bob"}, "user bob: there is a user of that name already, with uid 10001"),
        ({"uid": 10001}, "--uid 10001: it is the uid of user bob"),
        ({"uid": 1000}, "--uid 1000: it is the uid of user opc"),
        ({"uid": 0}, "--uid 0: an id is from 1000 to 60000; "),
        ({"gid": 1000}, "--gid 1000: no group has that gid; the groups are 9876 (privilege); `cluster group add` adds a group"),
        ({"gid": 0}, "--gid 0: an id is from 1000 to 60000; "),
        ({"shell": "sh"}, "--shell sh: there is no such program on this machine; "),
        ({"shell": "/etc/passwd"}, "--shell /etc/passwd: there is no such program on this machine; "),
        ({"full_name": "a:b"}, "--name a:b: a full name has at most 100 characters"),
        ({"keys": "nothing"}, "--ssh-key: line 1 is no public key"),
    ],
)
def test_a_user_who_cannot_be_added_is_refused_in_a_sentence_that_begins_with_the_argument(cluster, changes, sentence):
    cluster.add("bob")
    before = dict(cluster.directory.by_name), sorted(cluster.home.iterdir())
    assert refusal(cluster.add, **changes).startswith(sentence)
    assert (cluster.directory.by_name, sorted(cluster.home.iterdir())) == before


def test_a_user_who_runs_jobs_or_processes_is_not_deleted(cluster):
    cluster.add("alice")
    cluster.jobs = [f"{number} (RUNNING)" for number in range(1, 8)]
    assert refusal(cluster.delete).startswith(
        "user alice: has jobs: 1 (RUNNING), 2 (RUNNING), 3 (RUNNING), 4 (RUNNING), 5 (RUNNING) and 2 more; cancel them"
    )
    cluster.jobs, cluster.processes = [], ["77 (bash)"]
    assert refusal(cluster.delete) == "user alice: has processes on this machine: 77 (bash); end them first"
    assert "alice" in accounts.existing()


def test_a_home_is_purged_only_on_request_and_only_if_it_belongs_to_the_user(cluster):
    cluster.add("alice")
    cluster.owners["alice"] = 7
    assert refusal(cluster.delete, purge=True).endswith("belongs to uid 7, not to alice; nothing was deleted")
    assert "alice" in accounts.existing()
    cluster.owners["alice"] = 10001
    cluster.delete("alice")
    assert (cluster.home / "alice").is_dir()
    cluster.add("alice", uid=10001)
    cluster.delete("alice", purge=True)
    assert not list(cluster.home.iterdir())


def test_a_deleted_user_leaves_every_group(cluster):
    cluster.add("alice")
    for name in ("physics", "chemistry"):
        groups.add(name, None)
        groups.join(name, "alice")
    cluster.delete("alice")
    assert all(not one.members for one in groups.existing().values())
    assert cluster.directory.calls[-3:-1] == ["delete alice physics", "delete alice chemistry"]


@pytest.mark.usefixtures("cluster")
def test_the_gids_of_groups_begin_at_10001():
    assert [groups.add(name, None).gid for name in ("physics", "chemistry")] == [10001, 10002]
    assert groups.add("biology", 30000).gid == 30000
    assert groups.add("botany", None).gid == 30001


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: groups.add("Physics", None), "group Physics: a name has 1 to 32 "),
        (lambda: groups.add("opc", None), "group opc: there is a group of that name on this machine already"),
        (lambda: groups.add("privilege", None), "group privilege: there is a group of that name already"),
        (lambda: groups.add("physics", 9876), "--gid 9876: it is the gid of group privilege"),
        (lambda: groups.add("physics", 0), "--gid 0: an id is from 1000 to 60000; "),
        (lambda: groups.delete("physics", {}), "group physics: there is no such group in the directory; "),
        (lambda: groups.delete("privilege", {}), "group privilege: it is the default primary group of new users"),
        (
            lambda: groups.leave("privilege", "alice"),
            "group privilege: alice is no member; a user's primary group cannot be left",
        ),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_an_impossible_change_of_groups_is_refused(call, sentence):
    assert refusal(call).startswith(sentence)


@pytest.mark.usefixtures("cluster")
def test_the_primary_group_of_a_user_is_not_deleted():
    groups.add("physics", 20000)
    assert refusal(groups.delete, "physics", {"bob": 20000, "alice": 20000, "carol": 9876}) == (
        "group physics: it is the primary group of alice, bob; delete these users first"
    )
    groups.delete("physics", {"carol": 9876})
    assert list(groups.existing()) == ["privilege"]


# The copy of the directory


def test_after_a_change_a_copy_of_the_directory_is_written_that_only_root_can_read(cluster, monkeypatch):
    monkeypatch.setattr(snapshot, "_ROOT", os.getuid())
    path = Path(cluster.settings.snapshot)
    assert snapshot.write(str(path))
    assert not snapshot.write(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    cluster.add("alice", full_name="山田")
    assert snapshot.write(str(path))
    assert snapshot.read(str(path)) == list(cluster.directory.by_name.values())
    assert [one.name for one in path.parent.iterdir()] == ["directory.ldif"]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o640])
@pytest.mark.usefixtures("cluster")
def test_a_copy_of_the_directory_that_others_can_read_or_write_becomes_private_even_if_its_content_is_right(
    tmp_path, monkeypatch, mode
):
    monkeypatch.setattr(snapshot, "_ROOT", os.getuid())
    path = tmp_path / "own" / "directory.ldif"
    assert snapshot.write(str(path))
    path.chmod(mode)
    assert snapshot.write(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept = path.rename(tmp_path / "kept")
    path.symlink_to(kept)
    assert snapshot.write(str(path))
    assert not path.is_symlink()


@pytest.mark.parametrize("mode", [0o620, 0o602])
@pytest.mark.usefixtures("cluster")
def test_a_copy_of_the_directory_that_users_other_than_root_can_write_is_neither_read_nor_written(tmp_path, monkeypatch, mode):
    monkeypatch.setattr(snapshot, "_ROOT", os.getuid())
    path = tmp_path / "own" / "directory.ldif"
    path.parent.mkdir(mode=0o700)
    path.write_text("dn: dc=local\n")
    path.chmod(mode)
    assert "does not belong to root only" in refusal(snapshot.read, str(path))
    assert snapshot.read(str(tmp_path / "none")) == []
    path.chmod(0o600)
    assert snapshot.read(str(path))
    path.parent.chmod(0o777)
    assert "does not belong to root only" in refusal(snapshot.write, str(path))
    monkeypatch.setattr(snapshot, "_ROOT", os.getuid() + 1)
    path.parent.chmod(0o700)
    assert "does not belong to root only" in refusal(snapshot.read, str(path))


def test_an_interrupted_restore_of_users_is_continued_by_the_next_set_up(monkeypatch, tmp_path):
    """Otherwise a new copy, with only the users that are restored already, would replace the complete copy."""
    copy = [{"dn": [f"uid={name}"]} for name in ("alice", "bob")]
    there: list[dict[str, list[str]]] = []

    def add(entries: list[dict[str, list[str]]]) -> None:
        there.append(entries[0])
        if len(entries) > 1:
            raise RefusalError("the directory did not answer within 30 s")

    monkeypatch.setattr(ldap, "entries", lambda: list(there))
    monkeypatch.setattr(ldap, "add", add)
    monkeypatch.setattr(snapshot, "read", lambda _: copy)
    its, mark = settings.Settings(str(tmp_path)), str(tmp_path / "restoring")
    assert "did not answer" in refusal(controller_setup._restore, its, mark)  # noqa: SLF001
    for _ in range(2):
        controller_setup._restore(its, mark)  # noqa: SLF001
    assert there == copy


# The command


def test_a_file_of_keys_that_is_too_long_is_refused_and_not_cut(tmp_path):
    (tmp_path / "keys").write_text("ssh-ed25519 AAAA one\n" * 4000)
    with pytest.raises(RefusalError, match="it is longer than 65536 characters"):
        __main__._keys(str(tmp_path / "keys"))  # noqa: SLF001


@pytest.mark.parametrize(
    "words", [["user"], ["group"], [], ["user", "list"], ["user", "add", "a", "--nossh"], ["group", "join", "g", "a", "b"]]
)
def test_a_complete_command_has_a_function_and_an_incomplete_command_has_none(words):
    parsed = __main__.parser().parse_args(words)
    assert hasattr(parsed, "run") == (len(words) > 1)


def test_a_person_who_cannot_use_sudo_without_a_password_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(__main__.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(__main__.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1))
    monkeypatch.setattr(home, "caller", lambda: "alice")
    assert __main__.main(["user", "list"]) == 1
    assert capsys.readouterr().err == "cluster: only root may manage users, and alice cannot use sudo without a password\n"


def test_a_person_whose_sudo_needs_no_password_need_not_type_sudo(monkeypatch):
    started: list[Any] = []
    monkeypatch.setattr(__main__.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(__main__.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0))
    monkeypatch.setattr(__main__.os, "execvp", lambda *words: started.append(words))
    monkeypatch.setattr(__main__.sys, "argv", ["/usr/local/bin/cluster"])
    __main__.as_root(["user", "list"])
    assert started == [("sudo", ["sudo", "-n", "/usr/local/bin/cluster", "user", "list"])]


def test_on_a_machine_that_is_no_controller_the_error_says_that_the_machine_has_no_users(tmp_path):
    assert refusal(settings.load, str(tmp_path / "users.json")).startswith("this machine has no users of a cluster (")


def test_the_copy_of_the_directory_is_written_even_if_a_command_stops_half_way(tmp_path, monkeypatch, capsys):
    """Otherwise a new controller would restore a user who is deleted, but whose home could not be deleted."""
    saved: list[str] = []
    monkeypatch.setattr(__main__, "as_root", lambda _: None)
    monkeypatch.setattr(__main__, "_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(settings, "load", lambda: settings.Settings(str(tmp_path)))
    monkeypatch.setattr(__main__.snapshot, "write", saved.append)
    for error in (OSError(116, "Stale file handle"), subprocess.TimeoutExpired("sss_cache", 10)):

        def stopped(*_: Any, error: Exception = error) -> Any:
            raise error

        monkeypatch.setattr(__main__.accounts, "delete", stopped)
        assert __main__.main(["user", "delete", "alice", "--purge-home"]) == 1
        assert f"cluster: the command stopped half-way, because {error}" in capsys.readouterr().err
    assert saved == [f"{tmp_path}/.busbar-users/directory.ldif"] * 2


def test_a_command_is_refused_if_the_file_system_of_the_homes_is_not_mounted(tmp_path, monkeypatch):
    home = str(tmp_path)
    why = f"{home} is not mounted or cannot be read, but the homes are on its file system; mount it first"
    assert refusal(home_folder.refuse_unmounted, home, True) == why
    home_folder.refuse_unmounted(home, mounted=False)
    monkeypatch.setattr(home_folder.os.path, "ismount", lambda path: path == home)
    home_folder.refuse_unmounted(home, mounted=True)


def test_a_command_is_refused_if_the_file_system_of_the_homes_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(home_folder, "_ANSWERS_S", 0.05)
    monkeypatch.setattr(home_folder.os, "statvfs", lambda _: signal.pause())
    why = f"the file system at {tmp_path} has not answered for 0.05 s; repair it first"
    assert refusal(home_folder.is_mounted, str(tmp_path)) == why


def test_settings_are_read_back_as_they_were_written(tmp_path):
    its = settings.Settings("/mnt/home", "busbar", mounted=True)
    (tmp_path / "users.json").write_text(settings.text_of(its))
    assert settings.load(str(tmp_path / "users.json")) == its


# Files that are sent


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Put the programs and the certificate where the code expects them on a controller; return their folder."""
    (tmp_path / "elastic.pyz").write_bytes(programs.archive())
    (tmp_path / "certificate").write_text("certificate\n")
    monkeypatch.setattr(member, "ARCHIVE", str(tmp_path / "elastic.pyz"))
    monkeypatch.setattr(client, "CERTIFICATE", str(tmp_path / "certificate"))
    monkeypatch.setattr(settings, "PATH", str(tmp_path / "users.json"))
    return tmp_path


def test_the_command_named_cluster_runs_from_the_archive_and_needs_no_other_file(archive):
    path = archive / "cluster"
    path.write_bytes(member.command())
    path.chmod(0o755)
    done = subprocess.run([path, "--help"], env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "user|group" in done.stdout


def test_the_program_sent_to_a_node_contains_its_package_and_leaves_no_file(archive):
    (archive / "users.json").write_text("{}")
    seen = member.program("10.0.0.2").replace(b"client_setup.set_up(", b"print(folder, client_setup.__file__, ")
    words = ["python3", "-IS", "-"]
    done = subprocess.run(words, input=seen, capture_output=True, check=True, cwd=archive, env={"PATH": os.environ["PATH"]})
    folder, file, *words = done.stdout.decode().split()
    assert file == f"{folder}/scheduler.pyz/scheduler/users/client_setup.py"
    assert words == ["10.0.0.2", "certificate"]
    assert not Path(folder).exists()


@pytest.mark.usefixtures("archive")
def test_a_controller_without_users_sends_a_node_nothing_about_users():
    its = join.setup("gpu-dy-h100-1", b"key", "10.0.0.2", {})
    assert member.program("10.0.0.2") == b""
    assert join.text(its, "10.0.0.2") == join.setup_program() + f"\n\nmain({json.dumps(its)!r})\n".encode()


def test_a_node_gets_the_users_after_its_first_boot_and_before_its_first_job(archive):
    (archive / "users.json").write_text("{}")
    its = dict(join.setup("gpu-dy-h100-1", b"key", "10.0.0.2", {}), booted="/srv/booted")
    text = join.text(its, "10.0.0.2")
    compile(text, "text", "exec")
    steps = [
        text.index(one) for one in (b"\nawait_first_boot('/srv/booted')\n", b"client_setup.set_up('10.0.0.2'", b"\nmain('")
    ]
    assert steps == sorted(steps)


def test_programs_that_are_sent_to_machines_use_no_syntax_newer_than_python_3_6():
    found = sorted((ROOT / "scheduler").rglob("*.py"))
    assert found
    for path in found:
        tree = ast.parse(path.read_text(), feature_version=(3, 6))
        assert not any(isinstance(node, ast.NamedExpr) for node in ast.walk(tree)), path
        assert not [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.keyword) and node.arg in {"capture_output", "text"} and node.value
        ], path
