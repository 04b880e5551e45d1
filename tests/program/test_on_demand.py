"""A cluster on OCI whose nodes Slurm starts: its resources, what is sent to which machine, and the test job's exports."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from dataclasses import replace
from typing import Any

import pulumi
import pytest
import yaml
from conftest import ROOT, Engine, exported, run_program
from dev_stack import LINES, dev_asked
from measurement_line import BUILT, document
from oci_account import OWN, account, asking, network_of
from on_demand_stack import IDENTITY, LOGIN, NONE, OCI, POOL, WAITS, program

from benchmarks.launch.protocol import EntryTest, data, load
from benchmarks.records import requests
from components.acceptance import on_demand as on_demand_stage
from rehearsal.image import internet, signing_keys
from scheduler.elastic.settings import CONFIGURATION


def ran(share: float = 0.98) -> str:
    """Return the line that a job keeps after a measurement that reached `share` of the ceiling."""
    names = ["compute-dy-gpu-1", "compute-dy-gpu-2"]
    line = document(replace(dev_asked(), names=tuple(names)), share=share)
    return json.dumps(
        {"run_id": "x", "job": "7", "nodes": names, "build": data(BUILT), "measure": line, "schema": 1, "kind": "job"}
    )


def after(result: str) -> tuple[Engine, dict[str, Any]]:
    """Return the engine and the program's exports after a job with this result."""
    with pytest.MonkeyPatch.context() as patch:
        found = exported(patch)
        return program(result), found


def given(engine: Engine, name: str) -> dict[str, Any]:
    (one,) = [inputs for _, its, inputs in engine.resources if its == name]
    return dict(one)


@pytest.fixture(scope="module")
def on_demand() -> Engine:
    return program()


def test_an_on_demand_stack_rents_no_machine_with_a_gpu(on_demand):
    kinds = [kind.rpartition(":")[2] for kind, _, _ in on_demand.resources]
    assert kinds.count("InstanceConfiguration") == kinds.count("Instance") == 1, "the only instance is the login node"
    assert "ClusterNetwork" not in kinds


def test_only_the_login_node_may_start_machines_and_only_in_the_stacks_compartment(on_demand):
    group, policy = given(on_demand, "cluster-slurm-rights-group"), given(on_demand, "cluster-slurm-rights-policy")
    assert group["matchingRule"] == "instance.id = 'ocid1.cluster-login-instance.oc1..id'"
    assert group["compartmentId"] == "ocid1.tenancy.oc1..a"
    assert policy["statements"]
    for statement in policy["statements"]:
        assert statement.startswith("Allow dynamic-group busbar-dev-controller to ")
        assert statement.endswith(" in compartment id ocid1.compartment.oc1..rehearsed")


def test_dynamic_nodes_accept_the_keys_of_operator_and_controller_but_no_private_key_is_sent(on_demand):
    launch = given(on_demand, "cluster-pool-gpu-configuration")["instanceDetails"]["launchDetails"]
    keys = launch["metadata"]["ssh_authorized_keys"].splitlines()
    assert [key.split()[0] for key in keys] == ["ssh-ed25519", "ssh-ed25519"]
    assert keys[1].endswith("busbar-controller")
    assert "PRIVATE KEY" not in json.dumps([inputs for _, _, inputs in on_demand.resources], default=str)


def test_nodes_and_the_login_node_install_slurm_after_the_home_folders_are_mounted(on_demand):
    launch = given(on_demand, "cluster-pool-gpu-configuration")["instanceDetails"]["launchDetails"]
    for metadata in (launch["metadata"], given(on_demand, "cluster-login-instance")["metadata"]):
        boot = base64.b64decode(metadata["user_data"]).decode()
        assert boot.index("step=home") < boot.index("step=slurm-user") < boot.index("step=slurm-packages")
        assert "dnf install -y oracle-epel-release-el9" in boot


TENSORFLOW = "docker://nvcr.io#nvidia/tensorflow:25.02-tf2-py3"


@pytest.fixture(scope="module")
def contained() -> Engine:
    return program(slurm={"containers": {}}, container={"image": TENSORFLOW})


def test_the_controller_copies_slurms_saved_jobs_into_a_folder_of_this_stack_on_the_home_file_system(on_demand):
    sent = json.loads(given(on_demand, "cluster-slurm-install")["stdin"])
    assert sent["jobs"] == {"home": "/home", "folder": "/home/.busbar-slurm/busbar.dev"}


def test_with_containers_all_machines_build_pyxis_but_only_nodes_get_nvidias_container_tools(contained):
    launch = given(contained, "cluster-pool-gpu-configuration")["instanceDetails"]["launchDetails"]
    for metadata, gpus in ((launch["metadata"], True), (given(contained, "cluster-login-instance")["metadata"], False)):
        boot = base64.b64decode(metadata["user_data"]).decode()
        assert "dnf install -y slurm-devel gcc make pmix" in boot
        assert boot.index("step=slurm-packages") < boot.index("step=enroot") < boot.index("step=pyxis")
        assert ("libnvidia-container-tools" in boot) is gpus
        assert "step=containerd" not in boot
    sent = json.loads(given(contained, "cluster-slurm-install")["stdin"])
    (line,) = [line for line in sent["files"]["plugstack.conf"].splitlines() if not line.startswith("#")]
    assert line == "required /usr/local/lib/slurm/spank_pyxis.so container_scope=job"
    assert f"echo '{line}' > plugstack.conf" in boot, "first boot tests Pyxis with the same line of plugstack.conf"


def test_with_accounting_nodes_reach_the_database_which_runs_only_on_the_controller(on_demand):
    engine = program(
        slurm={"accounting": True, "users": True}, login=LOGIN | {"imageFamily": "ol9"}, pools=[POOL | {"imageFamily": "ol9"}]
    )
    boots = [
        base64.b64decode(metadata["user_data"]).decode()
        for metadata in (
            given(engine, "cluster-login-instance")["metadata"],
            given(engine, "cluster-pool-gpu-configuration")["instanceDetails"]["launchDetails"]["metadata"],
        )
    ]
    assert ["slurm-slurmdbd mariadb-server" in boot for boot in boots] == [True, False]
    sent = json.loads(given(engine, "cluster-slurm-install")["stdin"])
    assert "AccountingStorageHost=" in sent["files"]["slurm.conf"]
    assert sent["accounting"]["cluster"] == sent["users"]["accounting"] == "busbar"
    rules = given(engine, "cluster-network-public-rules")["ingressSecurityRules"]
    ports = [options["min"] for rule in rules for options in [rule.get("tcpOptions")] if options]
    assert 6819 in ports
    without = json.loads(given(on_demand, "cluster-slurm-install")["stdin"])
    assert "accounting" not in without
    assert "AccountingStorage" not in without["files"]["slurm.conf"]


def test_a_pools_custom_actions_are_in_the_first_boot_of_the_pools_nodes_but_not_of_the_login_node():
    action = {"script": "https://example.com/setup.sh", "sha256": "5" * 64, "args": ["--cache", "/scratch"]}
    engine = program(pools=[POOL | {"customActions": {"onNodeConfigured": [action]}}])
    launch = given(engine, "cluster-pool-gpu-configuration")["instanceDetails"]["launchDetails"]
    boot = base64.b64decode(launch["metadata"]["user_data"]).decode()
    assert boot.index("step=slurm-packages") < boot.index("step=on-node-configured\n")
    assert "/var/lib/busbar/actions/on-node-configured --cache /scratch" in boot
    login = base64.b64decode(given(engine, "cluster-login-instance")["metadata"]["user_data"]).decode()
    assert "on-node-configured" not in login


def test_without_containers_slurm_loads_no_plugin(on_demand):
    assert "plugstack.conf" not in json.loads(given(on_demand, "cluster-slurm-install")["stdin"])["files"]


def test_the_test_job_runs_in_a_container_whose_image_file_is_kept_on_the_home_file_system(contained):
    job = json.loads(given(contained, "acceptance-job-script")["stdin"])
    image = job["build"]["container"]
    assert (image["uri"], image["shared"], image["runtime"]) == (TENSORFLOW, "/home", "pyxis")
    assert job["measure"]["launch"]["kind"] == "pyxis"


def test_without_slurm_the_login_node_gets_neither_slurm_nor_home_folders_nor_rights():
    engine = run_program(LINES, oci={"storage": {"home": {}}, "pools": [{"imageFamily": "ol8"}]})
    boot = base64.b64decode(given(engine, "cluster-login-instance")["metadata"]["user_data"]).decode()
    assert "slurm" not in boot
    assert "step=home" not in boot
    assert not engine.of("DynamicGroup")


def test_the_controller_gets_slurms_files_and_the_settings_to_launch_nodes(on_demand):
    sent = json.loads(given(on_demand, "cluster-slurm-install")["stdin"])
    conf = sent["files"]["slurm.conf"]
    assert "NodeName=compute-dy-gpu-[1-4] Sockets=2 CoresPerSocket=32 ThreadsPerCore=2" in conf
    assert "PartitionName=compute Nodes=ALL Default=YES" in conf
    assert "SuspendTime=600 ResumeTimeout=1800" in conf
    (one,) = sent["settings"]["sets"].values()
    assert (one["dynamic"], one["spec"]["configuration"]) == (4, "ocid1.cluster-pool-gpu-configuration.oc1..id")
    cloud = sent["settings"]["cloud"]
    assert (cloud["name"], cloud["region"], cloud["tags"]["busbar-stack"]) == ("oci", "us-rehearsed-1", "dev/slurm")
    assert sent["shared"] == "/home/.busbar/busbar.dev"


def test_changed_tags_of_the_user_do_not_hide_running_machines_from_the_controller():
    sent = json.loads(given(program(tags={"team": "research"}), "cluster-slurm-install")["stdin"])
    cloud = sent["settings"]["cloud"]
    assert cloud["tags"] == {"busbar": "busbar", "busbar-stack": "dev/slurm"}
    assert cloud["more_tags"] == {"team": "research"}


def test_nodes_start_in_the_availability_domain_of_the_stack_or_else_in_the_fallback_domains():
    pool = {**OCI["pools"][0], "fallbackDomains": ["AD-2", "AD-3"]}
    engine = program(availabilityDomain="AD-1", pools=[pool])
    (one,) = json.loads(given(engine, "cluster-slurm-install")["stdin"])["settings"]["sets"].values()
    assert one["spec"]["domains"] == ["AD-1", "AD-2", "AD-3"]
    launch = given(engine, "cluster-pool-gpu-configuration")["instanceDetails"]["launchDetails"]
    assert "availabilityDomain" not in launch, "each launch of a cluster network sets the domain itself"


def test_in_existing_subnets_the_home_folders_are_exported_to_the_subnet_of_the_login_node_too(monkeypatch):
    """The login node is in the public subnet, and the mount target in the private subnet."""
    network = network_of()
    every = {"protocol": "all", "source": "10.9.0.0/16", "sourceType": "CIDR_BLOCK", "tcpOptions": [], "udpOptions": []}
    network["getSecurityLists"]["securityLists"][0]["ingressSecurityRules"].append(every)
    run = asking(monkeypatch, LINES | {"cluster-slurm-identity": IDENTITY, "acceptance-job-result": NONE})
    engine, refused = run(account(**network), **OCI, **OWN, preflight=False)
    assert refused == ""
    (export,) = engine.of("filestorage:Export") or engine.of(":Export")
    assert sorted(one["source"] for one in export["exportOptions"]) == ["10.9.0.0/24", "10.9.1.0/24"]
    boot = base64.b64decode(given(engine, "cluster-login-instance")["metadata"]["user_data"]).decode()
    for cidr in ("10.9.0.0/24", "10.9.1.0/24"):  # nodes, and login nodes that submit jobs, connect to the controller
        assert cidr in boot


def test_a_changed_idle_time_changes_the_controllers_settings_but_replaces_nothing(on_demand):
    other = program(slurm={"idle": "30 min"})
    mine, its = given(on_demand, "cluster-slurm-install"), given(other, "cluster-slurm-install")
    assert mine["stdin"] != its["stdin"]
    assert mine["triggers"] == its["triggers"]
    assert given(on_demand, "cluster-slurm-sweep") == given(other, "cluster-slurm-sweep")


def test_before_a_destroy_deletes_anything_else_it_terminates_the_machines_that_slurm_started(on_demand):
    sweep = given(on_demand, "cluster-slurm-sweep")
    assert "elastic.pyz sweep" in sweep["delete"]
    assert "triggers" not in sweep, "a trigger could replace this resource, and deleting the old one would end running jobs"


def test_the_resource_that_terminates_slurms_machines_exists_before_slurm_can_start_machines(on_demand):
    names = [name for _, name, _ in on_demand.resources]
    assert names.index("cluster-slurm-sweep") < names.index("cluster-slurm-install")


@pytest.mark.parametrize("configured", [True, False])
def test_a_destroy_terminates_slurms_machines_only_if_the_controller_was_set_up(on_demand, tmp_path, configured):
    settings, asked = tmp_path / "elastic.json", tmp_path / "asked"
    if configured:
        settings.touch()
    shell = given(on_demand, "cluster-slurm-sweep")["delete"].replace("sudo -n ", "").replace(CONFIGURATION, str(settings))
    done = subprocess.run(["sh", "-c", re.sub(r"python3 -IS \S+ sweep", f"touch {asked}", shell)], timeout=10, check=False)
    assert done.returncode == 0
    assert asked.exists() == configured


def test_until_the_first_job_has_run_the_verdict_is_unknown_but_updates_succeed_and_say_so(monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_, **__: told.append(text))
    engine, found = after(NONE)
    assert [text for text in told if WAITS in text]
    measured = found["measured"]
    assert (measured["verdict"], measured["reasons"]) == ("unknown", [WAITS])
    assert measured["refused"] is True
    assert given(engine, "acceptance-accept-verdict")["interpreter"][-1] == "cat"
    assert found["expected"]["nodes"] == 2
    assert found["ssh"] == "ssh opc@203.0.113.5"


def test_until_the_first_job_has_run_nothing_is_added_to_the_history(tmp_path):
    lines = LINES | {"cluster-slurm-identity": IDENTITY, "acceptance-job-result": NONE}
    lines |= dict.fromkeys(("acceptance-records-history", "acceptance-records-keep"), "{}")
    engine = run_program(lines, oci=OCI, records={"history": str(tmp_path)})
    assert given(engine, "acceptance-records-keep")["stdin"] == requests.nothing()


def test_a_job_that_passed_is_exported_like_any_other_measurement():
    measured = after(ran())[1]["measured"]
    assert (measured["verdict"], measured["refused"], measured["pool"]) == ("pass", False, "gpu")
    assert measured["busbw_gb_s"] > 0


def test_a_job_with_the_verdict_short_fails_the_update_and_is_exported():
    engine, found = after(ran(0.4))
    assert found["measured"]["verdict"] == "short"
    assert "exit 1" in given(engine, "acceptance-accept-verdict")["interpreter"][-1]


def test_the_job_script_asks_slurm_for_the_nodes_and_gpus_of_the_plan(on_demand):
    said = given(on_demand, "acceptance-job-script")
    for word in ("--nodes=2", "--partition=compute", "--gres=gpu:8", "--exclusive", "--constraint=gpu"):
        assert f"#SBATCH {word}" in said["create"], word
    job = json.loads(said["stdin"])
    assert (job["nodes"], job["keep"]) == (2, "/home/.busbar/busbar.dev")
    assert job["build"]["source"]["path"].startswith("/home/.busbar/busbar.dev/busbar-nccl-tests-")


def test_a_new_run_number_leaves_the_job_script_unchanged_and_reads_the_newest_result_of_the_job(on_demand):
    again = run_program(
        LINES | {"cluster-slurm-identity": IDENTITY, "acceptance-job-result": NONE}, oci=OCI, measure={"run": 2}
    )
    assert given(again, "acceptance-job-script") == given(on_demand, "acceptance-job-script")
    assert given(again, "acceptance-job-result")["triggers"] != given(on_demand, "acceptance-job-result")["triggers"]


def test_with_users_all_machines_install_ldap_packages_but_only_nodes_reach_the_port_of_the_directory():
    login = {**LOGIN, "image": "ocid1.image.oc1..rehearsed-ol9", "imageFamily": "ol9"}
    engine = program(slurm={"users": True}, login=login)
    boot = base64.b64decode(given(engine, "cluster-login-instance")["metadata"]["user_data"]).decode()
    assert "dnf install -y sssd-ldap openldap-servers openldap-clients" in boot
    launch = given(engine, "cluster-pool-gpu-configuration")["instanceDetails"]["launchDetails"]
    node = base64.b64decode(launch["metadata"]["user_data"]).decode()
    assert "dnf install -y sssd-ldap\n" in node
    assert "openldap-servers" not in node
    sent = json.loads(given(engine, "cluster-slurm-install")["stdin"])["users"]
    assert sent == {"address": "10.0.1.2", "hostname": "busbar-login", "home": "/home", "accounting": ""}
    rules = given(engine, "cluster-network-public-rules")["ingressSecurityRules"]
    opened = {(rule["source"], rule["tcpOptions"]["min"]) for rule in rules if "tcpOptions" in rule}
    assert ("10.0.1.0/24", 636) in opened
    assert not [source for source, port in opened if port != 22 and source != "10.0.1.0/24"]


def test_with_an_entry_test_the_controller_calls_the_program_that_the_update_writes_for_each_pool():
    engine = program(slurm={"entryTest": True, "entryTimeout": "20 min"})
    sent = json.loads(given(engine, "cluster-slurm-install")["stdin"])
    (one,) = sent["settings"]["sets"].values()
    assert (one["entry_script"], one["entry_timeout_s"]) == ("/home/.busbar/busbar.dev/entry-test-gpu.sh", 1200)
    assert "ResumeTimeout=3060\n" in sent["files"]["slurm.conf"], "slurmd starts only after the entry test"
    wrote = given(engine, "acceptance-job-entry-gpu")
    assert "mv /home/.busbar/busbar.dev/entry-test-gpu.sh.new /home/.busbar/busbar.dev/entry-test-gpu.sh" in wrote["create"]
    test = load(EntryTest, json.loads(wrote["stdin"]))
    assert (test.timeout_s, test.build.nodes) == (1140, [])
    assert test.build.source.path.startswith("/home/.busbar/busbar.dev/busbar-nccl-tests-")
    assert test.limits[0].busbw_gb_s > test.limits[-1].busbw_gb_s > 0


def test_without_an_entry_test_the_update_writes_no_script_for_entry_tests(on_demand):
    assert not [name for _, name, _ in on_demand.resources if "-entry-" in name]
    (one,) = json.loads(given(on_demand, "cluster-slurm-install")["stdin"])["settings"]["sets"].values()
    assert one["entry_script"] == ""


def always_on(result: str) -> tuple[Engine, dict[str, Any]]:
    """Return the engine and the exports of a cluster with two nodes that always run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(OCI, "pools", [POOL | {"alwaysOn": 2}])
        return after(result)


def test_nodes_that_always_run_are_started_by_the_controller_and_never_suspended_by_slurm():
    engine, _ = always_on(ran())
    sent = json.loads(given(engine, "cluster-slurm-install")["stdin"])
    conf = sent["files"]["slurm.conf"]
    assert "SuspendExcNodes=compute-dy-gpu-[1-2]\n" in conf
    first = r"NodeName=compute-dy-gpu-\[1-2\] .* State=CLOUD Weight=1 Feature=static,"
    assert re.search(first, conf), "jobs first take the nodes that always run"
    assert re.search(r"NodeName=compute-dy-gpu-\[3-4\] .* State=CLOUD Weight=1000 Feature=dynamic,", conf)
    (one,) = sent["settings"]["sets"].values()
    assert one["always_on"] == 2
    assert not engine.of("ClusterNetwork"), "the update itself rents no node"


def test_a_result_of_another_stack_or_of_other_machines_is_never_taken_for_this_stacks_result(on_demand, monkeypatch):
    def reads(engine: Engine) -> str:
        (path,) = re.findall(r"cat (\S+\.json)", given(engine, "acceptance-job-result")["create"])
        return path

    other = program(pools=[POOL | {"image": "ocid1.image.oc1..another"}])
    monkeypatch.setitem(LINES, "acceptance-job-nonce", "another stack's number")
    assert len({reads(on_demand), reads(other), reads(program())}) == 3
    assert reads(program()) == reads(program())


def test_slurm_ends_a_test_job_that_hangs_and_the_runner_is_copied_to_a_new_controller_too(on_demand):
    (minutes,) = re.findall(r"#SBATCH --time=(\d+)", given(on_demand, "acceptance-job-script")["create"])
    assert int(minutes) * 60 == 1800 + 300 + 600, "the limits of measurement and build, and 10 minutes more"
    copied = given(on_demand, "acceptance-job-program")
    assert len(copied["triggers"]) == 2, "the runner's content, and the controller's host key"
    assert copied["triggers"][1].startswith("ssh-ed25519 ")


def test_an_update_runs_its_test_job_on_the_nodes_that_always_run_and_waits_as_long_as_the_job_may_take():
    engine, found = always_on(ran())
    read = given(engine, "acceptance-job-result")["create"]
    assert "sbatch --parsable --constraint='gpu&static' nccl-test.sh" in read
    (limit_s,) = re.findall(r"date \+%s\) \+ (\d+)\)", read)
    assert int(limit_s) > 1800 + 1800, "the limit covers startTimeout, the build and measure.timeout"
    assert subprocess.run(["sh", "-n"], input=read, text=True, check=False).returncode == 0
    assert found["measured"]["verdict"] == "pass"
    assert "#SBATCH --nodes=2" in given(engine, "acceptance-job-script")["create"]


def test_an_update_fails_if_the_test_job_on_nodes_that_always_run_has_no_result():
    engine, found = always_on(NONE)
    assert found["measured"]["verdict"] == "unknown"
    assert "exit 1" in given(engine, "acceptance-accept-verdict")["interpreter"][-1]


def test_without_users_no_ldap_directory_is_installed_and_the_directorys_port_is_closed(on_demand):
    assert "users" not in json.loads(given(on_demand, "cluster-slurm-install")["stdin"])
    rules = given(on_demand, "cluster-network-public-rules")["ingressSecurityRules"]
    assert 636 not in {rule["tcpOptions"]["min"] for rule in rules if "tcpOptions" in rule}


@pytest.mark.parametrize("cloud", ["oci", "aws"])
def test_the_stack_files_have_the_checksum_of_the_archive_that_stands_in_for_pyxis(cloud):
    stack = yaml.safe_load((ROOT / f"Pulumi.{cloud}-on-demand.yaml").read_text())["config"]
    archive = internet.pyxis(ROOT / "rehearsal/image/system/pyxis.c")
    containers = stack[f"busbar:{cloud}"]["slurm"]["containers"]
    assert containers["pyxisSha256"] == hashlib.sha256(archive).hexdigest()
    assert cloud == "aws" or containers["toolkitKey"] == signing_keys.NVIDIA_FINGERPRINT


def test_the_controller_sets_up_other_login_nodes_which_have_no_cloud_rights_and_accept_its_key():
    with pytest.MonkeyPatch.context() as patch:
        found = exported(patch)
        engine = program(slurm={"loginNodes": 2, "users": True})
    first = given(engine, "cluster-login-1-instance")
    assert first["displayName"] == "busbar-login-1"
    operators, own = first["metadata"]["ssh_authorized_keys"].splitlines()
    assert own == "ssh-ed25519 AAAA busbar-controller"
    assert given(engine, "cluster-login-instance")["metadata"]["ssh_authorized_keys"] == operators
    boots = [
        base64.b64decode(given(engine, f"cluster-login{which}-instance")["metadata"]["user_data"]).decode()
        for which in ("", "-1")
    ]
    assert ["slapd" in boot or "openldap-servers" in boot for boot in boots] == [True, False], (
        "only the controller has the directory"
    )
    assert all("10.0.0.0/24" in boot for boot in boots), "the firewall accepts the public subnet"
    (group,) = engine.of("DynamicGroup")
    assert "cluster-login-instance" in group["matchingRule"]
    sent = json.loads(given(engine, "cluster-slurm-install")["stdin"])
    assert sorted(sent["logins"]) == ["login-1", "login-2"]
    open_to = {
        (one["source"], one["tcpOptions"]["min"], one["tcpOptions"]["max"])
        for one in given(engine, "cluster-network-public-rules")["ingressSecurityRules"]
        if "tcpOptions" in one
    }
    assert {("10.0.0.0/24", *ports) for ports in ((22, 22), (6820, 6829), (60001, 63000), (636, 636))} <= open_to
    assert [one["name"] for one in found["login_nodes"]] == ["login-1", "login-2"]
    assert all(set(one) == {"name", "address", "host_key"} for one in found["login_nodes"])


def test_without_other_login_nodes_the_controller_accepts_no_connections_from_the_public_subnet(on_demand):
    assert not [name for _, name, _ in on_demand.resources if name.startswith("cluster-login-1")]
    rules = given(on_demand, "cluster-network-public-rules")["ingressSecurityRules"]
    assert not [one for one in rules if one["source"] == "10.0.0.0/24"]
    more = given(program(slurm={"loginNodes": 1}), "cluster-login-instance")
    assert more["metadata"] == given(on_demand, "cluster-login-instance")["metadata"], (
        "a changed first boot would replace the controller"
    )


SQUEUE = """case $(wc -l < calls) in
1) echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1 ;;
2) echo "7 gpu nccl-test R 2 n1,n2" ;;
*) echo '{"schema": 2}' > run1.json; LAST ;;
esac"""


@pytest.mark.parametrize("last", ["exit 0", 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1'])
def test_an_update_waits_for_the_test_job_while_slurm_does_not_answer_and_until_the_job_has_ended(tmp_path, last):
    programs = {
        "sbatch": "echo 7",
        "squeue": "echo x >> calls; " + SQUEUE.replace("LAST", last),
        "scancel": "echo cancelled",
        "sleep": ":",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    command = on_demand_stage._reads(str(tmp_path), json.dumps({"run_id": "run1"}), "gpu", 600)  # noqa: SLF001
    path = f"{tmp_path}:/usr/bin:/bin"
    ran = subprocess.run(["sh", "-c", command], env={"PATH": path}, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ('{"schema": 2}\n', "")
    assert (tmp_path / "calls").read_text().count("x") == 3
