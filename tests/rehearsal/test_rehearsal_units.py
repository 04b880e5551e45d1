"""Packages and units of a rehearsed host: packages install the real Slurm and munge, and timers start their services."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rehearsed_hosts import Stage, end_world, vcn
from wait_until import wait_until

from rehearsal.host import sites
from rehearsal.image import signing_keys
from rehearsal.net import network

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("units")]

PROGRAMS = "sinfo sbatch munge munged slurmctld slurmd slurmstepd"
CONF = """ClusterName=one
SlurmctldHost=NAME
SlurmUser=slurm
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
NodeName=NAME CPUs=1 RealMemory=100 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP
"""
#: What an administrator does after the packages are installed.
PREPARE = f"""
set -e
head -c 128 /dev/urandom > /etc/munge/munge.key; chown munge: /etc/munge/munge.key; chmod 400 /etc/munge/munge.key
getent passwd slurm > /dev/null || useradd --system --no-create-home slurm
mkdir -p /var/lib/slurm/slurmctld /var/lib/slurm/slurmd /var/log/slurm
chown slurm: /var/lib/slurm/slurmctld
printf 'CgroupPlugin=cgroup/v1\\n' > /etc/slurm/cgroup.conf
sed "s/NAME/$(hostname)/" > /etc/slurm/slurm.conf <<'END'
{CONF}END
systemctl enable munge slurmctld slurmd
systemctl restart munge
systemctl restart slurmctld
systemctl restart slurmd
"""
TIMER = """
cat > /etc/systemd/system/tick.service <<'END'
[Service]
Type=oneshot
Environment=WORD=tick
ExecStart=/bin/sh -c "echo ${WORD} >> /tmp/ticks; exec sleep %s"
TimeoutStartSec=1
END
cat > /etc/systemd/system/tick.timer <<'END'
[Timer]
OnBootSec=1
OnUnitInactiveSec=200ms
[Install]
WantedBy=timers.target
END
systemctl daemon-reload && systemctl enable --now tick.timer
"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("units"))
    try:
        network.apply_vcn(made.world, vcn())
        sites.start(made.world)
        made.boot("oracle", 2, "ol8")
        made.boot("ubuntu", 3, "ubuntu2404")
        made.ready("oracle", "ubuntu")
        yield made
    finally:
        end_world(made.world)


def test_an_image_has_neither_slurm_nor_munge_until_their_packages_are_installed(stage: Stage) -> None:
    for name in ("oracle", "ubuntu"):
        assert stage.inside(name, f"command -v {PROGRAMS}; ls /usr/sbin/*-wlm").stdout == ""
        assert stage.inside(name, "systemctl start munge").returncode == 5
    refused = stage.inside("oracle", "dnf install -y slurm")
    assert (refused.returncode, "No match for argument slurm" in refused.stdout) == (1, True)
    assert stage.inside("oracle", "dnf install -y oracle-epel-release-el9").returncode == 1, (
        "the package is for another release"
    )
    assert stage.inside("oracle", "dnf install -y oracle-epel-release-el8").returncode == 0
    installed = stage.inside("oracle", "dnf install -y slurm slurm-slurmctld slurm-slurmd munge")
    assert installed.returncode == 0, installed.stderr
    assert "Installed: slurm-slurmctld-20.11.9-1.el8" in installed.stdout
    assert stage.inside("ubuntu", "apt-get update -q && apt-get install -y slurmctld slurmd slurm-client munge").returncode == 0
    assert stage.inside("ubuntu", "dpkg-query -Wf '${Version}' slurmctld").stdout.startswith("23.11.4")
    for name in ("oracle", "ubuntu"):
        assert len(stage.inside(name, f"command -v {PROGRAMS}").stdout.split()) == len(PROGRAMS.split())


def test_ubuntu_hosts_use_the_real_apt_get_of_the_rehearsing_machine(stage: Stage) -> None:
    wrong = stage.inside("ubuntu", "apt-get install --frobnicate munge")
    assert (wrong.returncode, "--frobnicate is not understood" in wrong.stderr) == (100, True)
    absent = stage.inside("ubuntu", "apt-get install -y slurm-of-another-release")
    assert (absent.returncode, "Unable to locate package slurm-of-another-release" in absent.stderr) == (100, True)
    signed = "deb [signed-by=/etc/another.asc] http://archive.ubuntu.com/ubuntu noble main"
    by_another = f"cat > /etc/another.asc << END\n{signing_keys.FSX}END\necho '{signed}' > /tmp/list; "
    by_another += (
        "mkdir -p /tmp/lists/partial; apt-get -o Dir::Etc::sourcelist=/tmp/list -o Dir::State::lists=/tmp/lists update"
    )
    refused = stage.inside("ubuntu", by_another)
    assert (refused.returncode, "noble Release' is not signed" in refused.stderr) == (100, True), refused
    quick = "apt-get -o Acquire::Retries=0 -o Acquire::http::Timeout=1 {} update"
    try:
        network.apply_vcn(stage.world, vcn(routes=()))
        assert stage.inside("ubuntu", quick.format("")).returncode == 0, "apt-get succeeds although it fetched nothing"
        assert stage.inside("ubuntu", quick.format("-o APT::Update::Error-Mode=any")).returncode == 100
    finally:
        network.apply_vcn(stage.world, vcn())


def test_packages_create_the_users_and_files_and_services_of_their_distribution(stage: Stage) -> None:
    known = "getent passwd slurm munge | cut -d: -f1; ls /etc/slurm; ls /etc/munge; systemctl is-active munge"
    assert stage.inside("oracle", known).stdout.split() == ["munge", "cgroup.conf", "slurm.conf", "inactive"]
    assert stage.inside("ubuntu", known).stdout.split() == ["slurm", "munge", "munge.key", "active"]


@pytest.mark.parametrize("name", ["oracle", "ubuntu"])
def test_the_units_of_the_packages_run_a_real_cluster(stage: Stage, name: str) -> None:
    prepared = stage.inside(name, PREPARE)
    assert prepared.returncode == 0, prepared.stderr
    wait_until(lambda: stage.inside(name, "sinfo -h -o %T").stdout.strip() == "idle", f"{name} takes jobs")
    assert stage.inside(name, "srun hostname").stdout.strip() == name
    assert stage.inside(name, "systemctl is-active slurmctld slurmd munge").stdout.split() == ["active"] * 3
    assert stage.inside(name, "ps -o user= -C munged").stdout.strip() == "munge"
    stage.inside(name, "systemctl stop slurmd slurmctld")
    assert stage.inside(name, "pgrep -x 'slurmctld-wlm|slurmd-wlm|slurmctld|slurmd'").stdout == ""


def test_a_timer_starts_its_service_again_each_time_the_service_ends_until_the_timer_is_stopped(stage: Stage) -> None:
    started = stage.inside("oracle", TIMER % "0")
    assert started.returncode == 0, started.stderr
    ticks = lambda: len(stage.inside("oracle", "cat /tmp/ticks").stdout.split())  # noqa: E731
    wait_until(lambda: ticks() >= 3, "the timer elapsed three times")
    assert stage.inside("oracle", "systemctl is-active tick.timer").stdout.strip() == "active"
    assert stage.inside("oracle", "systemctl is-enabled tick.timer").stdout.strip() == "enabled"
    assert stage.inside("oracle", "ls /etc/systemd/system/timers.target.wants").stdout.strip() == "tick.timer"
    stage.inside("oracle", "systemctl stop tick.timer; sleep 0.3")
    seen = ticks()
    assert stage.inside("oracle", "sleep 1; systemctl is-active tick.timer").stdout.strip() == "inactive"
    assert ticks() == seen


def test_a_unit_starts_if_all_its_plain_conditions_and_one_of_its_triggering_conditions_hold(stage: Stage) -> None:
    unit = "/etc/systemd/system/maybe.service"
    for conditions, starts in (
        (["/etc"], True),
        (["!/etc"], False),
        (["/etc", "!/none"], True),
        (["/etc", "/none"], False),
        (["|/none", "|!/none"], True),
        (["|/none", "|!/etc"], False),
        (["/none", "|/etc"], False),
    ):
        lines = "\\n".join(f"ConditionPathExists={one}" for one in conditions)
        text = f"[Unit]\\n{lines}\\n[Service]\\nType=oneshot\\nExecStart=/bin/touch /tmp/started\\n"
        found = stage.inside(
            "oracle", f"rm -f /tmp/started; printf '{text}' > {unit}; systemctl start maybe && ls /tmp/started"
        )
        assert (found.returncode == 0) == starts, (conditions, found)


def test_a_command_of_a_oneshot_service_may_fail_only_if_a_minus_is_before_it(stage: Stage) -> None:
    unit = "/etc/systemd/system/maybe.service"
    for first, starts in (("-/bin/false", True), ("+-/bin/false", True), ("/bin/false", False), ("/bin/echo -", True)):
        text = f"[Service]\\nType=oneshot\\nExecStartPre={first}\\nExecStart=/bin/touch /tmp/started\\n"
        found = stage.inside(
            "oracle", f"rm -f /tmp/started; printf '{text}' > {unit}; systemctl start maybe && ls /tmp/started"
        )
        assert (found.returncode == 0) == starts, (first, found)


def test_a_oneshot_service_that_exceeds_its_time_limit_is_stopped_and_has_failed(stage: Stage) -> None:
    stage.inside("ubuntu", TIMER % "0 # " + "systemctl stop tick.timer")
    slow = stage.inside(
        "ubuntu", "sed -i 's/sleep .*/sleep 60\"/' /etc/systemd/system/tick.service; systemctl start tick.service"
    )
    assert (slow.returncode, "Job for tick.service failed" in slow.stderr) == (1, True)
    assert stage.inside("ubuntu", "pgrep -x sleep").stdout == ""
