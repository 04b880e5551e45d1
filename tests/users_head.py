"""Runs a controller with users in the real slapd, and nodes with the real sssd, sshd and slurmd, in namespaces.

The program prints JSON lines.
tests/rehearsed/test_rehearsed_users.py runs `users_head.py FOLDER` in separate namespaces. Only systemd is not real.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from own_folders import OWN_FOLDERS

from scheduler import accounting, programs
from scheduler.cluster import Cluster, Cores, Gpus, Hardware, Node, NodeSet, Queue
from scheduler.elastic import metadata_guard
from scheduler.elastic.controller import KEY
from scheduler.files import files, scripts
from scheduler.slurm_conf import MARK
from scheduler.units import units
from scheduler.users import client

HEAD = "10.255.0.1"
NODES = {"cpu-st-small-1": "10.255.0.11", "cpu-st-small-2": "10.255.0.12"}
HOME = "/home"
PYTHON = [
    "env",
    "-i",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL=C.UTF-8",
    "python3",
    "-IS",
    "-",
]
#: A stand-in for systemctl. Only systemd can read the units of the packages' daemons, so the stand-in contains commands that
#: start these daemons as their units do.
SYSTEMCTL = r"""#!/bin/sh
echo "$*" >> /run/systemctl.log
running() { [ -s "/run/pid-$1" ] && kill -0 "$(cat "/run/pid-$1")" 2> /run/gone; }
stop() {
  running "$1" || return 0
  kill "$(cat "/run/pid-$1")"
  for attempt in $(seq 200); do running "$1" || return 0; sleep 0.05; done
  kill -9 "$(cat "/run/pid-$1")"
}
verb=$1; shift; [ "$1" = --quiet ] && shift; unit=${1%.service}
case $verb in
  is-active) running "$unit" && exit 0; exit 3 ;;
  is-enabled) [ -e "/etc/systemd/system/wants-$unit" ] ;;
  enable)
    [ "$1" = --now ] && exit 0
    mkdir -p /etc/systemd/system
    [ -e "/etc/systemd/system/wants-$unit" ] || touch "/etc/systemd/system/wants-$unit" ;;
  stop) stop "$unit" ;;
  restart)
    stop "$unit"
    case $unit in
      munge) set -- setpriv --reuid munge --regid munge --clear-groups /usr/sbin/munged -F --num-threads 1 ;;
      sssd) set -- /usr/sbin/sssd -i --logger=files ;;
      slapd) install -d -o openldap /run/slapd
        set -- /usr/sbin/slapd -d 0 -h "ldap:/// ldapi:///" -u openldap -g openldap -F /etc/ldap/slapd.d ;;
      busbar-metadata) # a oneshot service; the shell that stays shows that the service is active
        commands=$(sed -n 's/^ExecStart\(Pre=-\|=\)//p' "/etc/systemd/system/$unit.service")
        set -- sh -c "$(printf '%s\n' "$commands" 'exec sleep infinity')" ;;
      mariadb) install -d -o mysql /run/mysqld; set -- /usr/sbin/mariadbd --user=mysql ;;
      *) command=$(sed -n 's/^ExecStart=//p' "/etc/systemd/system/$unit.service"); eval "set -- $command" ;;
    esac
    setsid "$@" > "/var/log/unit-$unit.log" 2>&1 < /dev/null & echo $! > "/run/pid-$unit" ;;
esac
"""
#: Boots a machine for the first time, on its own copy of the system's folders: makes the daemons' folders, removes the munge
#: key, and starts sshd with PAM.
BOOT = rf"""
set -e
hostname "$1"; mount --make-rprivate /
{OWN_FOLDERS}
hosts="$3"
mount -t tmpfs -o mode=755 tmpfs /run
printf '%s' "$hosts" > /run/hosts; mount --bind /run/hosts /etc/hosts
: > /run/resolv; mount --bind /run/resolv /etc/resolv.conf
rm -rf /etc/munge/munge.key /etc/slurm
mkdir -p /run/sshd /run/munge /var/log/slurm /var/lib/slurm; chown munge /run/munge /etc/munge /var/lib/munge /var/log/munge
install -m 755 "$2/systemctl" /usr/local/bin/systemctl
ssh-keygen -q -t ed25519 -N '' -f /run/host-key
exec /usr/sbin/sshd -D -e -f /dev/null -h /run/host-key -o UsePAM=yes -o PidFile=none -o PasswordAuthentication=no \
  -o "SetEnv=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" > /var/log/sshd.log 2>&1
"""


#: Installs the controller as an update does, but with a cloud that has no machines.
INSTALL = """
import sys
sys.path.insert(0, "/run/programs.pyz")
sys.argv[0] = "/run/programs.pyz"
from scheduler.elastic import __main__ as program, cloud
class Empty(cloud.Cloud):
    def listing(self):
        return cloud.Listing([], {})
program._CLOUDS["none"] = lambda given: Empty()
sys.exit(program.main(["install"]))
"""


def tell(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Machine:
    """A machine of the cluster: the controller or a node."""

    made = 0

    def __init__(self, folder: Path, name: str, address: str) -> None:
        Machine.made += 1
        self.name, self.address, self.folder, self.at = name, address, folder, Machine.made
        run("ip", "netns", "add", name)
        run("ip", "link", "add", f"v{self.at}", "master", "br0", "up", "type", "veth", "peer", "name", f"p{self.at}")
        run("ip", "link", "set", f"p{self.at}", "netns", name)
        run("ip", "-n", name, "address", "add", f"{address}/8", "dev", f"p{self.at}")
        run("ip", "-n", name, "link", "set", f"p{self.at}", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        hosts = "127.0.0.1 localhost\n" + "".join(f"{ip} {its}\n" for its, ip in {"head": HEAD, **NODES}.items())
        words = ["nsenter", f"--net=/run/netns/{name}", "unshare", "--mount", "--uts", "bash", "-c", BOOT, "bash", name]
        self.process = subprocess.Popen([*words, str(folder), hosts], stdin=subprocess.DEVNULL, start_new_session=True)
        for _ in range(200):
            if self.sh("ss -Htln sport = :22").stdout.strip():
                return
            time.sleep(0.05)
        sys.exit(f"{name} has no sshd: {self.sh('cat /var/log/sshd.log').stdout}")

    def sh(self, script: str, given: bytes = b"", check: bool = False) -> subprocess.CompletedProcess[str]:  # noqa: FBT002
        """Run a script as root, as on the machine's console."""
        words = [
            "nsenter",
            "-t",
            str(self.process.pid),
            "-m",
            "-u",
            "-n",
            "-r",
            "--wdns=/",
            *PYTHON[:4],
            "HOME=/root",
            "bash",
            "-c",
            script,
        ]
        done = subprocess.run(words, input=given, capture_output=True, timeout=120, check=False)
        out, err = done.stdout.decode(), done.stderr.decode()
        if check and done.returncode:
            sys.exit(f"{self.name}: {script[:200]}\n{out}\n{err[-3000:]}")
        return subprocess.CompletedProcess(words, done.returncode, out, err)

    def cluster(self, *words: str, given: str = "", user: str = "root") -> subprocess.CompletedProcess[str]:
        as_user = ["setpriv", "--reuid", user, "--init-groups", "--reset-env"] if user != "root" else []
        script = " ".join(f"'{word}'" for word in [*as_user, "cluster", *words])
        return self.sh(script, given.encode())

    def login(self, user: str, key: Path, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command over SSH, as the user `user` would."""
        options = [
            "BatchMode=yes",
            "StrictHostKeyChecking=no",
            f"UserKnownHostsFile={self.folder}/known-{self.name}",
            "LogLevel=ERROR",
        ]
        words = [
            "ssh",
            "-i",
            str(key),
            *(word for option in options for word in ("-o", option)),
            f"{user}@{self.address}",
            command,
        ]
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    def end(self) -> None:
        """End every process of the machine, also the daemons, and remove the machine from the network."""
        for pid in run("ip", "netns", "pids", self.name).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        self.process.wait()
        run("ip", "netns", "delete", self.name)


def run(*words: str) -> str:
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


def until(question: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = question()
        if found:
            return found
        time.sleep(0.2)
    sys.exit(f"not within {seconds:.0f} s: {what}")


class World:
    """The controller, its nodes, and the person who administers the cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "systemctl").write_text(SYSTEMCTL)
        for name in ("alice", "stranger"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
        small = Hardware(Cores(1, 1, 1), 100, Gpus("", 0, ""))
        static = [Node(name, name, address) for name, address in NODES.items()]
        queue = Queue("cpu", [NodeSet("small", small, static)], default=True)
        self.slurm = Cluster("busbar", "head", HEAD, [queue], cgroups=False, scripts=True, accounting=True)
        self.nodes: dict[str, Machine] = {}
        self.head = Machine(folder, "head", HEAD)

    def control(self) -> str:
        """Set up the controller as an update does; return why it failed, or an empty text."""
        # On a real controller the package's own slapd runs, because installing the package starts it.
        self.head.sh("systemctl restart slapd", check=True)
        self.head.sh(f"install -d {Path(KEY).parent} && ssh-keygen -q -t ed25519 -N '' -f {KEY}", check=True)
        return self.install()

    def install(self) -> str:
        document = {
            "files": {**files(self.slurm), **scripts()},
            "units": {"slurmctld.service": units(HEAD)["slurmctld.service"], **metadata_guard.units()},
            "settings": {"sets": {}, "cloud": {"name": "none"}, "join": {"user": "root"}, "static": {}},
            "jobs": {"home": HOME, "folder": f"{HOME}/.busbar-slurm/busbar.dev"},
            "shared": f"{HOME}/.busbar",
            "allowed": ["oci.allowReplace", 0],
            "accounting": accounting.document(self.slurm, MARK),
            "users": {"address": HEAD, "hostname": "head", "home": HOME, "accounting": "busbar"},
        }
        self.head.sh("cat > /run/programs.pyz", programs.archive(), check=True)
        return self.head.sh(f"python3 -IS -c {shlex.quote(INSTALL)}", json.dumps(document).encode()).stderr

    def join(self, name: str) -> subprocess.CompletedProcess[str]:
        """Turn a machine into a node, with the files that the controller's own program would send to the machine."""
        machine = self.nodes.get(name) or Machine(self.folder, name, NODES[name])
        self.nodes[name] = machine
        ask = f"import sys; sys.path.insert(0, {programs.ARCHIVE!r}); from scheduler.elastic import join\n"
        ask += f"its = join.setup({name!r}, open('/etc/munge/munge.key', 'rb').read(), {HEAD!r}, {{}})\n"
        ask += f"sys.stdout.buffer.write(join.text(its, {HEAD!r}))"
        text = self.head.sh("exec python3 -IS -", ask.encode(), check=True).stdout
        return machine.sh("exec python3 -IS -", text.encode(), check=True)


def first_set_up(world: World) -> None:
    tell(first=world.control())
    before = world.head.sh(STATE_OF).stdout
    tell(again=world.install(), sssd=world.head.sh("sssctl config-check").stdout.splitlines()[0])
    tell(same=world.head.sh(STATE_OF).stdout == before, before=before)
    tell(
        listening=sorted(
            world.head.sh("ss -Htlnp | sed -n 's/.* \\([0-9.]*:[0-9]*\\) .*(\"slapd\".*/\\1/p; /mariadbd/p'").stdout.split()
        )
    )


#: Prints what a second set-up without changes must not change: files with their times, and the daemons' process ids.
STATE_OF = """
find /etc/sssd /etc/ldap/busbar /etc/busbar /etc/nsswitch.conf /etc/systemd/system /usr/local/bin/cluster \\
  /usr/local/lib/busbar /home/.busbar-users -type f -printf '%p %T@ %m\\n' | sort
for unit in busbar-directory sssd slurmdbd mariadb slurmctld; do echo "$unit $(cat /run/pid-$unit)"; done
"""


def a_user_everywhere(world: World) -> None:
    for name in NODES:
        world.join(name)
    first, second = world.nodes.values()
    key = (world.folder / "alice.pub").read_text()
    said = world.head.cluster("user", "add", "alice", "--name", "Alice 山田", "--ssh-key", "-", given=key)
    tell(said=said.stdout, err=said.stderr)
    tell(ids=[machine.sh("id alice").stdout for machine in (world.head, first, second)])
    tell(entry=first.sh("getent passwd alice").stdout)
    tell(home=world.head.sh("stat -c '%a %U %G' /home/alice /home/alice/.ssh /home/alice/.ssh/*; ls -A /home/alice").stdout)
    alice = world.folder / "alice"
    connect = "bash -c 'exec 3<>/dev/tcp/169.254.169.254/{}'"
    asks = [world.head.login("alice", alice, connect.format(80)), world.head.login("alice", alice, connect.format(53))]
    tell(metadata=[done.stderr for done in (*asks, world.head.sh(connect.format(80)), first.sh("ip rule"))])
    tell(logins=[machine.login("alice", alice, "id -un; hostname; pwd").stdout.split() for machine in (world.head, first)])
    tell(stranger=world.head.login("alice", world.folder / "stranger", "id -un").returncode)
    hop = "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new cpu-st-small-1 hostname"
    tell(between=world.head.login("alice", alice, hop).stdout.split())
    tell(
        sudo=[machine.login("alice", alice, "sudo -n true").returncode for machine in (world.head, first)],
        roots_sudo=first.sh("sudo -n true").returncode,
        cluster=world.head.login("alice", alice, "cluster user list").stderr,
        changes=world.head.login(
            "alice", alice, "ldapdelete -Q -Y EXTERNAL -H ldapi:/// uid=alice,ou=People,dc=local"
        ).returncode,
    )


def a_job(world: World) -> None:
    alice = world.folder / "alice"
    until(lambda: world.head.sh("sinfo -h -o %T").stdout.split() == ["idle"], "both nodes are idle")
    wrap = "id -un; hostname; pwd; srun -N1 sh -c 'hostname > ~/shared'"
    number = world.head.login(
        "alice", alice, f"sbatch --parsable -N1 -w cpu-st-small-2 -o out.%j --wrap={wrap!r}"
    ).stdout.strip()
    until(lambda: not world.head.sh(f"squeue -h -j {number}").stdout.strip(), "alice's job has ended")
    tell(
        out=world.head.sh(f"cat /home/alice/out.{number}").stdout.split(), shared=world.head.sh("cat /home/alice/shared").stdout
    )
    ask = f"sacct -n -X -P -j {number} -o user,account,state,nodelist"
    until(lambda: "COMPLETED" in world.head.sh(ask).stdout, "sacct has the job as completed")
    tell(sacct=[machine.sh(ask).stdout.strip() for machine in (world.head, world.nodes["cpu-st-small-1"])])


def what_is_refused(world: World) -> None:
    def says(*words: str, given: str = "") -> list[Any]:
        done = world.head.cluster(*words, given=given)
        return [done.returncode, done.stderr.strip() + done.stdout.strip()]

    before = world.head.sh("cat /home/.busbar-users/directory.ldif; ls -A /home").stdout
    world.head.sh("install -d -o 10077 -m 700 /home/former")
    tell(
        name=says("user", "add", "Alice"),
        taken=says("user", "add", "alice"),
        local=says("user", "add", "slurm"),
        uid=says("user", "add", "bob", "--uid", "10001"),
        root_uid=says("user", "add", "bob", "--uid", "0"),
        gid=says("user", "add", "bob", "--gid", "12345"),
        shell=says("user", "add", "bob", "--shell", "/bin/no-such-shell"),
        key=says("user", "add", "bob", "--ssh-key", "-", given="ssh-ed25519 AAAA bob"),
        private=says("user", "add", "bob", "--ssh-key", str(world.folder / "alice")),
        home=says("user", "add", "former"),
        absent=says("user", "delete", "bob"),
        local_absent=says("user", "delete", "slurm"),
        group_taken=says("group", "add", "privilege"),
        group_gid=says("group", "add", "physics", "--gid", "9876"),
        group_in_use=says("group", "delete", "privilege"),
        group_absent=says("group", "delete", "physics"),
        nothing=says("user"),
    )
    tell(same=world.head.sh("cat /home/.busbar-users/directory.ldif; ls -A /home | grep -v former").stdout == before)
    # The uid of a user whose home still exists is not given to another user; a user who returns gets the home back.
    tell(next=says("user", "add", "bob"), back=says("user", "add", "former", "--uid", "10077"))
    tell(returned=world.head.sh("ls -A /home/former").stdout.split())


def groups(world: World) -> None:
    first = world.nodes["cpu-st-small-1"]
    for words in (("add", "physics", "--gid", "20000"), ("add", "chemistry"), ("join", "physics", "alice", "bob")):
        tell(**{words[0] + words[1]: world.head.cluster("group", *words).stdout})
    tell(again=world.head.cluster("group", "join", "physics", "alice").stderr)
    first.sh("sss_cache -E")
    tell(id=first.sh("id -Gn alice").stdout.split())
    tell(listed=world.head.cluster("group", "list").stdout, users=world.head.cluster("user", "list").stdout)
    world.head.cluster("group", "leave", "physics", "bob")
    tell(deleted=world.head.cluster("group", "delete", "chemistry").stdout)
    tell(left=world.head.cluster("group", "list").stdout)


def what_others_may_see(world: World) -> None:
    """Query the directory from a node over TLS, without a login; the node must not see a password that somebody stored."""
    first = world.nodes["cpu-st-small-1"]
    dn = "uid=alice,ou=People,dc=local"
    change = (
        f"dn: {dn}\nchangetype: modify\nadd: userPassword\nuserPassword: secret\n-\nadd: description\ndescription: private\n"
    )
    world.head.sh("ldapmodify -Q -Y EXTERNAL -H ldapi:///", change.encode(), check=True)
    ask = f"LDAPTLS_CACERT={client.CERTIFICATE} ldapsearch -x -LLL -H ldaps://{HEAD}"
    tell(seen=sorted(line.partition(":")[0] for line in first.sh(f"{ask} -b {dn}").stdout.split("\n") if line))
    tell(by_password=first.sh(f"{ask} -D {dn} -w secret -b dc=local").returncode)
    add = f"LDAPTLS_CACERT={client.CERTIFICATE} ldapdelete -x -H ldaps://{HEAD} {dn}"
    tell(change=first.sh(add).stderr, plain=first.sh(f"ldapsearch -x -H ldap://{HEAD} -b dc=local").stderr)
    tell(without_authority=first.sh(f"ldapsearch -x -H ldaps://{HEAD} -b dc=local").returncode)
    undo = f"dn: {dn}\nchangetype: modify\ndelete: userPassword\n-\ndelete: description\n"
    world.head.sh("ldapmodify -Q -Y EXTERNAL -H ldapi:///", undo.encode(), check=True)


def a_restart_of_the_directory(world: World) -> None:
    first = world.nodes["cpu-st-small-1"]
    world.head.sh("systemctl restart busbar-directory", check=True)
    until(lambda: world.head.cluster("user", "add", "carol").returncode == 0, "the directory answers after its restart")
    tell(known=until(lambda: first.sh("id carol").stdout, "the node asks the new directory"))
    world.head.sh("systemctl stop busbar-directory", check=True)
    tell(stopped=world.head.cluster("user", "list").stderr, still=first.sh("id alice").returncode)
    world.head.sh("systemctl restart busbar-directory", check=True)
    until(lambda: world.head.cluster("user", "list").returncode == 0, "the directory answers again")


def a_deleted_user(world: World) -> None:
    alice = world.folder / "alice"
    number = world.head.login("alice", alice, "sbatch --parsable -o out.%j --wrap='sleep 600'").stdout.strip()
    tell(job=number, with_job=world.head.cluster("user", "delete", "alice").stderr)
    world.head.sh(f"scancel {number}")
    until(lambda: not world.head.sh(f"squeue -h -j {number}").stdout.strip(), "alice's job is cancelled")
    sleeping = world.head.login("alice", alice, "setsid sleep 600 > out 2>&1 < /dev/null & echo $!").stdout.strip()
    tell(process=sleeping, with_process=world.head.cluster("user", "delete", "alice").stderr)
    world.head.sh(f"kill {sleeping}")
    until(lambda: world.head.cluster("user", "delete", "alice").returncode == 0, "alice can be deleted")
    until(lambda: world.head.sh("id alice").returncode, "the controller forgets alice", 10)
    tell(
        login=world.head.login("alice", alice, "id").returncode,
        home=world.head.sh("stat -c '%a %u' /home/alice").stdout,
        member=world.head.cluster("group", "list").stdout,
        association=world.head.sh("sacctmgr -n -P list associations user=alice format=user").stdout,
        bobs=world.head.sh("sacctmgr -n -P list associations user=bob format=user,account").stdout,
    )
    for node in world.nodes.values():
        until(lambda its=node: its.sh("id alice").returncode, f"{node.name} forgets alice", client.KNOWN_S + 15)
    tell(login_there=[node.login("alice", alice, "id").returncode for node in world.nodes.values()])
    tell(
        purged=world.head.cluster("user", "delete", "bob", "--purge-home").stdout,
        homes=world.head.sh("ls -A /home").stdout.split(),
    )


def a_new_controller(world: World) -> None:
    """Replace the controller but keep the homes; at first, a node trusts only the old controller's certificate."""
    first = world.nodes["cpu-st-small-1"]
    kept = world.head.sh("cat /home/.busbar-users/directory.ldif").stdout
    world.head.end()
    world.head = Machine(world.folder, "head", HEAD)
    tell(second=world.control(), same=world.head.sh("cat /home/.busbar-users/directory.ldif").stdout == kept != "")
    tell(carol=world.head.sh("id -un carol").stdout.strip())
    world.head.cluster("user", "add", "dave")
    # sssd may have been offline when the controller ended, so `look` makes it try again each time (sssd(8), SIGUSR2).
    look = "sss_cache -E; kill -USR2 $(cat /run/pid-sssd); id dave"
    look += "; grep -c 'ldap_install_tls failed' /var/log/sssd/sssd_busbar.log"
    until(lambda: first.sh(look).stdout.strip() not in {"", "0"}, "sssd breaks off the connection to the new controller", 40)
    ask = f"LDAPTLS_CACERT={client.CERTIFICATE} ldapsearch -x -LLL -H ldaps://{HEAD} -b dc=local uid=dave uid"
    tell(dave_before=first.sh("id dave").returncode, asked_before=first.sh(ask).returncode)
    world.join("cpu-st-small-1")
    tell(dave_after=until(lambda: first.sh("id -un dave").stdout, "the node knows the new controller's users"))
    tell(asked_after=first.sh(ask).stdout.splitlines()[0])
    again = first.sh("cat /run/pid-sssd").stdout, world.join("cpu-st-small-1").stdout, first.sh("cat /run/pid-sssd").stdout
    tell(joined_again=again)


def unsafe_copies(world: World) -> None:
    """A new controller takes no users from a copy of the directory that others could have written."""
    world.head.sh(
        "systemctl stop busbar-directory; rm -rf /var/lib/ldap/busbar; chmod 666 /home/.busbar-users/directory.ldif", check=True
    )
    tell(refused=world.install().strip(), carol_then=world.head.cluster("user", "list").stderr.strip())
    world.head.sh("chmod 600 /home/.busbar-users/directory.ldif", check=True)
    tell(taken=world.install(), users=world.head.cluster("user", "list").stdout.splitlines()[1:])


def folders_of_oracle_linux(world: World) -> None:
    """Set up a controller with this machine's OpenLDAP, but with the user and the folders of Red Hat's packages."""
    head = Machine(world.folder, "el", "10.255.0.2")
    head.sh(
        "set -e; mv /etc/ldap /etc/openldap; sed -i /^openldap:/d /etc/passwd; useradd --system ldap; "
        "mkdir -p /mnt/lib64/upper /mnt/lib64/work; "
        "mount -t overlay -o lowerdir=/usr/lib64,upperdir=/mnt/lib64/upper,workdir=/mnt/lib64/work overlay /usr/lib64; "
        "mkdir /usr/lib64/openldap; mount --bind /usr/lib/ldap /usr/lib64/openldap; mount -t tmpfs tmpfs /usr/lib/ldap; "
        "mount -t tmpfs -o mode=755 tmpfs /home",
        check=True,
    )
    document = {"address": "10.255.0.2", "hostname": "el", "home": HOME, "accounting": ""}
    ask = "import sys; sys.path.insert(0, '/run/programs.pyz'); from scheduler.users import controller_setup\n"
    ask += f"controller_setup.set_up({document!r})"
    head.sh("cat > /run/programs.pyz; install -D /run/programs.pyz " + programs.ARCHIVE, programs.archive(), check=True)
    tell(
        said=head.sh("exec python3 -IS -", ask.encode(), check=True).stdout.strip(),
        added=head.cluster("user", "add", "erin").stdout,
    )
    tell(id=head.sh("id -un erin").stdout, runs=head.sh("ps -o user= -p $(cat /run/pid-busbar-directory)").stdout)
    tell(data=head.sh("stat -c %U /var/lib/ldap/busbar/data.mdb /etc/openldap/busbar/key.pem").stdout.split())


def homes_that_are_not_mounted(world: World) -> None:
    world.head.sh("umount --lazy /home", check=True)
    tell(command=world.head.cluster("user", "add", "eve").stderr.strip(), set_up=world.install().strip())
    tell(left=world.head.sh("ls -A /home").stdout)


PARTS = (
    first_set_up,
    a_user_everywhere,
    a_job,
    what_is_refused,
    groups,
    what_others_may_see,
    a_restart_of_the_directory,
    a_deleted_user,
    a_new_controller,
    unsafe_copies,
    folders_of_oracle_linux,
    homes_that_are_not_mounted,
)


def main(folder: str, *parts: str) -> None:
    world = World(Path(folder))
    for part in (one for one in PARTS if not parts or one.__name__ in parts):
        began = time.monotonic()
        part(world)
        tell(part=part.__name__, seconds=round(time.monotonic() - began, 1))


if __name__ == "__main__":
    main(*sys.argv[1:])
