"""The real program on a recording engine: what it registers, and what it never does."""

from __future__ import annotations

import ast
import base64
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pulumi
import pytest
from conftest import HOST_KEY, KEY, Engine, ready_line, run_program
from dev_stack import LINES, dev_asked, files
from measurement_line import document

from cloudinit.steps import MARK
from components import login_machine
from components.acceptance import attempt
from components.oci import login_node
from components.oci.pool import create_timeout
from config.measure import Measure


@pytest.fixture(scope="module")
def dev():
    return run_program(LINES)


def test_the_dev_stack_registers_exactly_the_listed_resources(dev):
    assert sorted((kind, name) for kind, name, _ in dev.resources if not kind.startswith("pulumi:")) == sorted(
        [
            ("busbar:oci:LoginNode", "cluster-login"),
            ("busbar:oci:Cluster", "cluster"),
            ("busbar:oci:Network", "cluster-network"),
            ("busbar:oci:Pool", "cluster-pool-gpu"),
            ("busbar:acceptance:Accept", "acceptance-accept"),
            ("busbar:acceptance:Acceptance", "acceptance"),
            ("busbar:acceptance:Ready", "acceptance-ready"),
            ("busbar:acceptance:Records", "acceptance-records"),
            ("busbar:acceptance:Runner", "acceptance-runner"),
            ("command:local:Command", "cluster-login-announced"),
            ("command:remote:Command", "cluster-login-booted"),
            ("command:local:Command", "acceptance-accept-verdict"),
            ("command:local:Command", "acceptance-ready-contact"),
            ("command:remote:Command", "acceptance-build"),
            ("command:local:Command", "acceptance-measure-nonce"),
            ("command:remote:Command", "acceptance-measure"),
            ("command:remote:Command", "acceptance-search"),
            ("command:remote:CopyToRemote", "acceptance-runner-program"),
            ("command:remote:CopyToRemote", "acceptance-runner-file"),
            ("oci:Core/clusterNetwork:ClusterNetwork", "cluster-pool-gpu-nodes"),
            ("oci:Core/consoleHistory:ConsoleHistory", "cluster-login-console"),
            ("oci:Core/instance:Instance", "cluster-login-instance"),
            ("oci:Core/instanceConfiguration:InstanceConfiguration", "cluster-pool-gpu-configuration"),
            ("oci:Core/internetGateway:InternetGateway", "cluster-network-igw"),
            ("oci:Core/natGateway:NatGateway", "cluster-network-nat"),
            ("oci:Core/routeTable:RouteTable", "cluster-network-private-routes"),
            ("oci:Core/routeTable:RouteTable", "cluster-network-public-routes"),
            ("oci:Core/securityList:SecurityList", "cluster-network-private-rules"),
            ("oci:Core/securityList:SecurityList", "cluster-network-public-rules"),
            ("oci:Core/serviceGateway:ServiceGateway", "cluster-network-sgw"),
            ("oci:Core/subnet:Subnet", "cluster-network-private"),
            ("oci:Core/subnet:Subnet", "cluster-network-public"),
            ("oci:Core/vcn:Vcn", "cluster-network-vcn"),
        ]
    )


def test_a_pool_of_eight_nodes_registers_as_many_resources_as_a_pool_of_two_nodes(dev):
    eight = run_program(LINES | {"acceptance-ready-contact": ready_line(8)}, members=8, oci={"pools": [{"nodes": 8}]})
    assert len(eight.resources) == len(dev.resources)


def test_every_ssh_connection_pins_the_host_key_and_names_no_agent_and_no_private_key(dev):
    commands = [inputs for kind, _, inputs in dev.resources if kind.startswith("command:remote")]
    assert len(commands) == 6
    for inputs in commands:
        connection = inputs["connection"]["value"]  # the key of a secret's value; pulumi_command makes the connection a secret
        for end in (connection, connection.get("proxy") or connection):
            assert end["hostKey"] == HOST_KEY
            assert "agentSocketPath" not in end
            assert "privateKey" not in end


def test_nodes_are_hardened_and_have_the_agent_plugins_that_the_image_needs(dev):
    (configuration,) = dev.of("InstanceConfiguration")
    details = configuration["instanceDetails"]["launchDetails"]
    assert details["instanceOptions"] == {"areLegacyImdsEndpointsDisabled": True}
    assert details["sourceDetails"]["bootVolumeSizeInGbs"] == "256"
    assert details["metadata"]["ssh_authorized_keys"] == KEY
    (login,) = dev.of(":Instance")
    assert login["instanceOptions"] == {"areLegacyImdsEndpointsDisabled": True}
    assert base64.b64decode(details["metadata"]["user_data"]).startswith(b"#cloud-config\n")
    states = {plugin["name"]: plugin["desiredState"] for plugin in details["agentConfig"]["pluginsConfigs"]}
    assert states["Compute HPC RDMA Auto-Configuration"] == "DISABLED"
    (configuration,) = run_program(LINES, oci={"pools": [{"imageFamily": "ol8"}]}).of("InstanceConfiguration")
    details = configuration["instanceDetails"]["launchDetails"]
    states = {plugin["name"]: plugin["desiredState"] for plugin in details["agentConfig"]["pluginsConfigs"]}
    assert states["Compute HPC RDMA Auto-Configuration"] == "ENABLED"


@pytest.fixture
def ending(monkeypatch) -> Callable[..., set[str]]:
    """Return a function that runs a stack and returns the values whose change replaces the stack's cluster network."""
    seen: set[str] = set()

    def note(self, request, register=pulumi.runtime.mocks.MockMonitor.RegisterResource):
        if request.type.endswith(":ClusterNetwork"):
            fixed = {key: str(request.object[key]) for key in ("placementConfiguration", "compartmentId")}
            seen.add(f"{fixed} {request.replacement_trigger}")
        return register(self, request)

    monkeypatch.setattr(pulumi.runtime.mocks.MockMonitor, "RegisterResource", note)

    def run(**changes: Any) -> set[str]:
        seen.clear()
        run_program(LINES, **changes)
        return set(seen)

    return run


def test_every_resource_that_takes_tags_has_the_tags_of_the_stack_file_and_the_name_of_the_cluster():
    engine = run_program(LINES, oci=files() | {"tags": {"team": "research"}})
    untagged = {kind for kind, _, inputs in engine.resources if kind.startswith("oci:") and "freeformTags" not in inputs}
    assert untagged == {"oci:FileStorage/export:Export"}, "an export takes no tags"
    tags = [inputs["freeformTags"] for kind, _, inputs in engine.resources if "freeformTags" in inputs]
    assert all(one.items() >= {"busbar": "busbar", "team": "research"}.items() for one in tags)
    (configuration,) = engine.of("InstanceConfiguration")
    assert configuration["instanceDetails"]["launchDetails"]["freeformTags"] == {"busbar": "busbar", "team": "research"}


def test_a_changed_image_replaces_gpu_machines_but_a_changed_login_node_or_key_or_time_zone_does_not(ending):
    as_it_is = ending()
    assert len(as_it_is) == 1
    other_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJm"
    for keeps in (
        {"login": {"image": "ocid1.image.oc1..other", "imageFamily": "ol9", "ocpus": 2}},
        {"timezone": "UTC"},
        {"tags": {"team": "research"}},
        {"access": {"publicKey": other_key}},
        {"access": {"sshFrom": ["203.0.113.0/24"]}},
    ):
        assert ending(oci=keeps) == as_it_is, keeps
    for ends in ({"image": "ocid1.image.oc1..other"}, {"root": {"size": "512 GB"}}):
        assert ending(oci={"pools": [ends]}) != as_it_is, ends
    assert ending(oci=files()) != ending(oci={"pools": files()["pools"]})


def test_first_contact_runs_on_this_machine_through_the_login_node_and_installs_the_operators_key(dev):
    (contact,) = [inputs for _, name, inputs in dev.resources if name == "acceptance-ready-contact"]
    assert "connection" not in contact
    asked = json.loads(ast.literal_eval(contact["stdin"].rpartition("json.loads(")[2].strip().removesuffix("))")))["ask"]
    assert asked["jump"] == {"address": "203.0.113.5", "user": "opc", "host_key": HOST_KEY}
    assert asked["accept"] == KEY


def test_file_systems_add_exactly_their_own_resources(dev):
    def kinds(engine) -> set[tuple[str, str]]:
        return {(kind, name) for kind, name, _ in engine.resources}

    assert kinds(run_program(LINES, oci=files())) - kinds(dev) == {
        ("busbar:oci:Storage", "cluster-storage"),
        ("oci:FileStorage/fileSystem:FileSystem", "cluster-storage-files"),
        ("oci:FileStorage/mountTarget:MountTarget", "cluster-storage-target"),
        ("oci:FileStorage/export:Export", "cluster-storage-export"),
        ("oci:Lustre/fileStorageLustreFileSystem:FileStorageLustreFileSystem", "cluster-storage-lustre"),
    }


def test_nodes_but_not_the_login_node_mount_the_file_systems_in_first_boot():
    engine = run_program(LINES, oci=files())
    (configuration,) = engine.of("InstanceConfiguration")
    boot = base64.b64decode(configuration["instanceDetails"]["launchDetails"]["metadata"]["user_data"]).decode()
    assert "10.0.1.9:/files /fss nfs defaults,noatime,nconnect=16,_netdev 0 0" in boot
    assert "10.0.1.10@tcp:/lustre /lustre lustre defaults,_netdev 0 0" in boot
    (login,) = engine.of(":Instance")
    assert "fstab" not in base64.b64decode(login["metadata"]["user_data"]).decode()
    (export,) = engine.of(":Export")
    assert [option["source"] for option in export["exportOptions"]] == ["10.0.0.0/16"]
    (private,) = [inputs for _, name, inputs in engine.resources if name == "cluster-network-private"]
    assert private["dnsLabel"] == "private"
    assert engine.of("MountTarget")[0]["subnetId"] == "ocid1.cluster-network-private.oc1..id"


def test_file_systems_are_protected_or_retained_and_the_network_of_a_retained_lustre_is_retained_too(protection):
    run_program(LINES, oci=files(home="retain"))
    assert protection["cluster-storage-files"] == (False, True)
    assert protection["cluster-storage-lustre"] == (True, False)
    others = {name for name, said in protection.items() if any(said)} - {"cluster-storage-files", "cluster-storage-lustre"}
    assert not others
    run_program(LINES, oci=files(lustre="retain"))
    assert protection["cluster-storage-lustre"] == protection["cluster-network-vcn"] == (False, True)
    assert protection["cluster-network-public"] == (False, False)


def test_no_security_list_accepts_traffic_from_the_whole_internet(dev):
    for rules in dev.of("SecurityList"):
        for rule in rules["ingressSecurityRules"]:
            assert rule["source"] in {"10.0.0.0/16", "198.51.100.0/24"}


def test_measuring_and_accepting_are_two_resources_and_a_slow_fabric_fails_only_the_second():
    slow = document(dev_asked(), share=0.5)
    engine = run_program(LINES | {"acceptance-measure": json.dumps(slow)})
    (accept,) = [inputs for _, name, inputs in engine.resources if name == "acceptance-accept-verdict"]
    assert accept["create"].startswith("verdict SHORT: all_reduce busbw 0.025 GB/s at 4 MiB, 50.0% of the wire; gate 0.0425 ")
    assert accept["interpreter"] == ["/bin/sh", "-c", "cat >&2; sleep 1; exit 1"]
    assert "all_reduce, out of place, GB/s, rehearsed at 1/4000:" in accept["stdin"]
    (search,) = [inputs for _, name, inputs in engine.resources if name == "acceptance-search"]
    asked = json.loads(search["stdin"])["trials"]
    assert asked["whole_gb_s"] == pytest.approx(0.025)
    assert asked["pair_limit_gb_s"] == pytest.approx(0.05 * 0.85)


def test_the_program_shows_a_passing_verdict_at_the_end_but_leaves_a_failing_verdict_to_the_command_that_fails(monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_, **__: told.append(text))
    run_program(LINES)
    assert len([text for text in told if text.startswith("\nverdict PASS")]) == 1
    told.clear()
    run_program(LINES | {"acceptance-measure": json.dumps(document(dev_asked(), share=0.5))})
    assert not [text for text in told if text.startswith("\nverdict")]


def test_a_fabric_that_is_fast_in_the_retest_is_accepted():
    slow, fine = document(dev_asked(), share=0.5), document(dev_asked())
    searched = json.loads(LINES["acceptance-search"]) | {"again": {"steps": fine["steps"], "evidence": fine["evidence"]}}
    engine = run_program(LINES | {"acceptance-measure": json.dumps(slow), "acceptance-search": json.dumps(searched)})
    (accept,) = [inputs for _, name, inputs in engine.resources if name == "acceptance-accept-verdict"]
    assert accept["create"].startswith("verdict PASS: all_reduce")
    assert accept["interpreter"] == ["/bin/sh", "-c", "cat"]
    (search,) = [inputs for _, name, inputs in engine.resources if name == "acceptance-search"]
    assert "all_reduce" in [step["name"] for step in json.loads(search["stdin"])["again"]["steps"]]


def test_a_fabric_that_passes_is_not_searched(dev):
    (search,) = [inputs for _, name, inputs in dev.resources if name == "acceptance-search"]
    assert json.loads(search["stdin"])["trials"] is None
    assert search["create"] == "cat"


def test_the_run_id_depends_only_on_the_number_of_the_run_and_on_what_can_change_the_result(dev):
    def run_id(engine) -> str:
        (measure,) = [inputs for _, name, inputs in engine.resources if name == "acceptance-measure"]
        return json.loads(measure["stdin"])["run_id"]

    same = run_id(dev)
    assert run_id(run_program(LINES)) == same
    assert run_id(run_program(LINES, oci={"timezone": "UTC"})) == same
    assert run_id(run_program(LINES, oci={"access": {"sshFrom": ["198.51.100.0/25"]}})) == same
    assert run_id(run_program(LINES, measure={"run": 2})) != same
    assert run_id(run_program(LINES, measure={"iterations": 2})) != same
    assert run_id(run_program(LINES, oci={"pools": [{"image": "ocid1.image.oc1..other"}]})) != same


def test_the_runner_and_the_source_of_nccl_tests_are_copied_again_if_the_machines_change(dev):
    def triggers(engine) -> list:
        return [inputs["triggers"] for kind, _, inputs in engine.resources if kind.endswith(":CopyToRemote")]

    three = run_program(LINES | {"acceptance-ready-contact": ready_line(3)}, members=3, oci={"pools": [{"nodes": 3}]})
    assert all(old != new for old, new in zip(triggers(dev), triggers(three), strict=True))


def test_changed_machines_replace_the_commands_that_build_and_measure_and_search_but_a_changed_plan_does_not(dev):
    def triggers(engine) -> dict[str, list]:
        return {
            name: inputs["triggers"]
            for kind, name, inputs in engine.resources
            if kind == "command:remote:Command" and name in {"acceptance-build", "acceptance-measure", "acceptance-search"}
        }

    assert len(triggers(dev)) == 3
    assert triggers(run_program(LINES, measure={"iterations": 2})) == triggers(dev)
    three = triggers(run_program(LINES | {"acceptance-ready-contact": ready_line(3)}, members=3, oci={"pools": [{"nodes": 3}]}))
    assert all(three[name] != triggers(dev)[name] for name in three)


def test_every_request_except_an_empty_request_goes_to_the_runner(dev):
    def creates(engine) -> dict[str, str]:
        return {
            name: inputs["create"]
            for _, name, inputs in engine.resources
            if name.startswith("acceptance-") and "create" in inputs
        }

    fine = creates(dev)
    for name in ("acceptance-build", "acceptance-measure"):
        assert re.fullmatch(r"python3 -IS busbar-runner-[0-9a-f]+\.pyz ask", fine[name])
    assert fine["acceptance-search"] == "cat"
    slow = creates(run_program(LINES | {"acceptance-measure": json.dumps(document(dev_asked(), share=0.5))}))
    assert slow["acceptance-search"] == slow["acceptance-measure"]


def test_commands_show_their_progress_but_get_no_previous_output_through_environment_variables(dev):
    commands = {name: inputs for kind, name, inputs in dev.resources if kind.endswith(":Command")}
    shown = {name for name, inputs in commands.items() if inputs.get("logging") == "stderr"}
    assert shown >= {"acceptance-ready-contact", "acceptance-build", "acceptance-measure", "acceptance-search"}
    assert commands["acceptance-accept-verdict"]["logging"] == "none"
    for name in (*shown, "acceptance-accept-verdict"):
        assert commands[name]["addPreviousOutputInEnv"] is False, name


@pytest.mark.parametrize("preview", [False, True])
def test_records_are_kept_by_commands_and_never_by_the_program_itself(tmp_path, preview):
    """A preview runs no Command, so a preview keeps no record of a run and draws no report."""
    (tmp_path / "history").mkdir()
    places = {"history": str(tmp_path / "history"), "report": str(tmp_path / "report")}
    answers = dict.fromkeys(("acceptance-records-history", "acceptance-records-keep"), "{}")
    engine = run_program(LINES | answers, preview=preview, records=places)
    names = {name for kind, name, _ in engine.resources if kind == "command:local:Command"}
    assert names >= set(answers)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_changes_since_the_previous_run_are_shown_and_a_failure_to_keep_records_is_a_warning(monkeypatch, tmp_path):
    told: list[str] = []
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_, **__: told.append(text))
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: warned.append(text))
    (tmp_path / "history").mkdir()
    kept = json.dumps(
        {"schema": 2, "kind": "keep", "changes": ["nccl is 2.28.9 and was 2.27.3"], "warnings": ["history: no space left"]}
    )
    answers = {"acceptance-records-history": "{}", "acceptance-records-keep": kept}
    run_program(LINES | answers, records={"history": str(tmp_path / "history")})
    assert "nccl is 2.28.9 and was 2.27.3" in told
    assert "history: no space left" in warned
    assert not [text for text in warned if "there is no such folder" in text]


def test_a_missing_history_folder_is_a_warning(monkeypatch, tmp_path):
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: warned.append(text))
    answers = dict.fromkeys(("acceptance-records-history", "acceptance-records-keep"), "{}")
    run_program(LINES | answers, records={"history": str(tmp_path / "gone")})
    assert [text for text in warned if f"records.history is {tmp_path}/gone, but there is no such folder" in text]


class UnreadableError(grpc.RpcError):
    """The engine's error for a look-up while the state file is being written."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNKNOWN

    def details(self) -> str:
        return "failed to load checkpoint: EOF"


@pytest.mark.parametrize("failures", [3, 100])
def test_a_state_that_cannot_be_read_for_a_moment_is_read_again_a_limited_number_of_times(monkeypatch, failures):
    asked, answer = [], Engine.call

    def call(self: Engine, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        if args.token.endswith(":readStackOutputs"):
            asked.append(args.args["name"])
            if len(asked) <= failures:
                raise UnreadableError
        return answer(self, args)

    monkeypatch.setattr(Engine, "call", call)
    monkeypatch.setattr(attempt, "_PAUSES_S", (0.0,) * 5)
    if failures > 5:
        with pytest.raises(Exception, match="failed to load checkpoint: EOF"):
            run_program(LINES)
        assert len(asked) == 6
    else:
        assert run_program(LINES).of("remote:Command")
        assert len(asked) == 4


def test_the_runner_is_cached_completely_even_if_an_earlier_update_was_killed_while_writing_the_runner(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def copied() -> Path:
        copies = run_program(LINES).of("remote:CopyToRemote")
        (program,) = {inputs["source"].path for inputs in copies if "pyz" in inputs["remotePath"]}
        return Path(program)

    first = copied()
    whole = first.read_bytes()
    first.write_bytes(whole[:100])
    second = copied()
    assert (second, second.read_bytes()) == (first, whole)
    assert [path.name for path in (tmp_path / "busbar").iterdir()] == [first.name]
    assert (tmp_path / "busbar").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("preflight", [False, True])
def test_a_broken_rule_stops_the_program_before_anything_is_registered(monkeypatch, preflight):
    made, register = [], Engine.new_resource
    monkeypatch.setattr(Engine, "new_resource", lambda self, args: made.append(args.typ) or register(self, args))
    outside = {"preflight": preflight, "network": {"private": "10.1.0.0/24"}}
    with pytest.raises(pulumi.RunError, match=r"oci\.network\.private is 10\.1\.0\.0/24"):
        run_program(LINES, oci=outside)
    assert set(made) <= {"pulumi:pulumi:Stack"}


def test_a_key_that_cannot_sign_stops_the_program_before_anything_is_registered(monkeypatch, tmp_path):
    made, register = [], Engine.new_resource
    monkeypatch.setattr(Engine, "new_resource", lambda self, args: made.append(args.typ) or register(self, args))
    key = tmp_path / "key.pub"
    key.write_text(KEY)
    key.chmod(0o600)
    with pytest.raises(pulumi.RunError, match=rf"^records\.certificate\.key: the signing key {key} is neither PEM nor"):
        run_program(LINES, records={"certificate": {"key": str(key)}})
    assert set(made) <= {"pulumi:pulumi:Stack"}


def test_a_pool_with_missing_nodes_is_an_error_that_says_how_to_clean_up():
    with pytest.raises(pulumi.RunError, match=r"has 1 of 2 nodes running \(\S+ RUNNING\); the running.* destroy the stack"):
        run_program(LINES, members=1)
    with pytest.raises(pulumi.RunError, match=r"pool gpu has 0 of 2 nodes running \(none\); the running nodes are billed"):
        run_program(LINES, members=0)


@pytest.mark.parametrize(("nodes", "minutes"), [(2, 30), (19, 30), (20, 60), (45, 90)])
def test_the_timeout_of_a_cluster_network_is_half_an_hour_and_half_an_hour_more_for_every_twenty_nodes(nodes, minutes):
    assert create_timeout(nodes) == f"{minutes}m"


def test_without_preflight_no_shapes_are_looked_up(dev):
    assert "oci:Core/getShapes:getShapes" not in {token for token, _ in dev.invokes}


def test_pools_in_another_order_keep_their_machines():
    gpu, more = (
        {"nodes": 2, "name": name, "imageFamily": "ol8", "image": f"ocid1.image.oc1..{name}"} for name in ("gpu", "more")
    )
    one, other = (run_program(LINES, oci={"pools": pools}, measure={"pool": "gpu"}) for pools in ([gpu, more], [more, gpu]))

    def machines(engine):
        return sorted(
            (kind, name, str(its)) for kind, name, its in engine.resources if kind.startswith(("oci:", "busbar:oci:"))
        )

    assert machines(one) == machines(other)
    assert sum(kind.endswith(":ClusterNetwork") for kind, _, _ in machines(one)) == 2


@pytest.mark.parametrize(
    "console",
    [
        "no key at all\n",
        f"busbar-host-key: {HOST_KEY}\n",  # the key is shown only once
        f"busbar-host-key: {HOST_KEY}\nbusbar-host-key: {HOST_KEY[:-4]}\nbusbar-host-key: {HOST_KEY[:30]}\n",
        f"busbar-host-key: {HOST_KEY[:-4]}\n" * 3,  # the key is cut each time
        f"busbar-host-key: ssh-rsa {HOST_KEY.split()[1]}\n" * 3,
    ],
)
def test_only_a_host_key_that_the_console_shows_completely_and_twice_is_trusted(console):
    with pytest.raises(pulumi.RunError, match="does not show the same host key twice"):
        login_node._host_key("login", console)  # noqa: SLF001 - the one place where a key is trusted


def test_the_host_key_of_the_latest_boot_is_used():
    first = HOST_KEY.replace("Login", "Early")
    told = [f"busbar-host-key: {key}\n" for key in (first, first, first, HOST_KEY, HOST_KEY, HOST_KEY[:50])]
    assert login_node._host_key("login", "".join(told)) == HOST_KEY  # noqa: SLF001 - the one place where a key is trusted


def test_timeouts_of_lustre_and_cluster_networks_are_at_least_the_timeouts_of_the_vendors_provider(monkeypatch):
    """Timeouts of terraform-provider-oci 8.28.0: two hours for an operation on Lustre, 75 minutes to terminate an instance."""
    given = {}

    def note(self, request, register=pulumi.runtime.mocks.MockMonitor.RegisterResource):
        given[request.type.rpartition(":")[2]] = request.customTimeouts
        return register(self, request)

    monkeypatch.setattr(pulumi.runtime.mocks.MockMonitor, "RegisterResource", note)
    run_program(LINES, oci=files())
    lustre, network = given["FileStorageLustreFileSystem"], given["ClusterNetwork"]
    assert (lustre.create, lustre.update, lustre.delete) == ("120m", "240m", "120m")
    assert (network.create, network.delete) == ("30m", "75m")


@pytest.mark.parametrize(("family", "rails"), [("ol7", ["192.168.0.0/16"]), ("ol9", ["10.224.0.0/12", "192.168.0.0/16"])])
def test_nodes_trust_every_network_that_their_rails_may_have(family, rails):
    (configuration,) = run_program(LINES, oci={"pools": [{"imageFamily": family}]}).of("InstanceConfiguration")
    boot = base64.b64decode(configuration["instanceDetails"]["launchDetails"]["metadata"]["user_data"]).decode()
    assert re.findall(r"--add-source=(\S+)", boot) == ["10.0.1.0/24", *rails]


def test_the_wait_for_nodes_is_long_enough_for_oracles_agent():
    """In the vendor's tutorials, SSH works after 20 minutes and the last rail 15 minutes later; the factor 1.5 is a margin."""
    assert Measure().ready_timeout_s >= 1.5 * (20 + 15) * 60


def test_the_command_that_recreates_a_failed_login_node_quotes_its_complete_urn(tmp_path):
    """A URN has dollar signs, which a shell must not take for variables."""
    mark, urn = tmp_path / "boot.json", "urn:pulumi:dev::busbar::busbar:oci:Cluster$busbar:oci:LoginNode$oci:Core/x:X::a-login"
    mark.write_text('{"status": "failed", "step": "sshd"}\n')
    asked = login_machine.BOOTED.replace("URN", urn).replace(MARK, str(mark)).replace("sudo -n tail", "true")
    for shell in ("dash", "bash"):
        done = subprocess.run([shell, "-c", asked], capture_output=True, text=True, check=False, timeout=20)
        assert done.returncode == 1
        assert "failed in step sshd" in done.stderr
        assert f"pulumi up --replace '{urn}'\n" in done.stderr
